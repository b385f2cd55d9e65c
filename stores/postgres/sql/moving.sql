-- admit --
-- Set queued turns running while there is room. [Ledger.admit]
SELECT turn_id, stage, fence FROM turnchain_admit(%(max_in_flight)s::integer)

-- admit_turn --
-- Set this very turn running. [Ledger.admit_turn]
SELECT turn_id, stage, fence FROM turnchain_admit_turn(%(turn_id)s::uuid)

-- claim --
-- Take the right to run the stage, and read what the stage needs. [Ledger.claim]
WITH claimed AS (
    UPDATE turnchain_turns SET
        lease_owner = %(lease_owner)s::text,
        lease_expires_at = clock_timestamp() + %(lease)s::interval,
        ready_at = NULL, parked = NULL, wakes = 0, woken_at = NULL
    WHERE turn_id = %(turn_id)s::uuid AND stage = %(stage)s::text AND fence = %(fence)s::bigint
        AND status <> 'queued' AND stage <> 'done'
        AND (
            lease_owner IS NULL AND (parked IS NULL OR ready_at <= clock_timestamp())
            -- Asked again because the first answer was lost: an owner's name is used once.
            OR %(again)s::boolean AND lease_owner = %(lease_owner)s::text
        )
    RETURNING *
)
SELECT
    claimed.*, coalesce(claimed.deadline_at <= clock_timestamp(), false) AS late,
    r.input, r.state_patch, r.history, r.history_provider, r.context,
    r.context_provider, r.force, r.expected_turn_index, w.work
FROM claimed
JOIN turnchain_turn_requests AS r USING (turn_id)
LEFT JOIN turnchain_turn_work AS w USING (turn_id)

-- stands --
-- Where a turn stands that was not claimed.
SELECT
    turn_id, stage, fence, lease_owner,
    in_flight AND lease_owner IS NULL
    AND (parked IS NULL OR ready_at <= clock_timestamp()) AS ready
FROM turnchain_turns WHERE turn_id = %(turn_id)s::uuid

-- write_unit --
-- All that a unit writes to the ledger. [Ledger.unit]
SELECT turnchain_write_unit(
    %(turn_id)s::uuid, %(stage)s::text, %(fence)s::bigint, %(lease_owner)s::text,
    %(events)s::jsonb, %(progress)s::boolean, %(next_stage)s::text, %(keeps)s::boolean,
    %(work)s::jsonb, %(turn_index)s::integer, %(begins_session)s::boolean,
    %(status)s::text, %(outcome)s::jsonb, %(terminal)s::jsonb, %(unless_stopped)s::boolean
)

-- park --
-- Give the turn up until an instant, or until told. [Ledger.park]
WITH parked AS (
    UPDATE turnchain_turns SET
        stage = %(next_stage)s::text, fence = fence + 1, lease_owner = NULL,
        lease_expires_at = NULL, parked = %(reason)s::text,
        ready_at = clock_timestamp() + %(wait)s::interval, wakes = 0,
        -- An engine's sign of life; nobody wakes a parked turn by it.
        woken_at = CASE WHEN runner = 'engine' THEN clock_timestamp() END
    WHERE turn_id = %(turn_id)s::uuid AND stage = %(stage)s::text AND fence = %(fence)s::bigint
        AND lease_owner = %(lease_owner)s::text
    RETURNING turn_id
),
work AS (
    INSERT INTO turnchain_turn_work (turn_id, work)
    SELECT turn_id, %(work)s::jsonb FROM parked
    ON CONFLICT (turn_id) DO UPDATE SET work = excluded.work
)
SELECT turn_id FROM parked

-- hand_back --
-- Give the turn up for another process. [Ledger.hand_back]
UPDATE turnchain_turns SET
    fence = fence + 1, lease_owner = NULL, lease_expires_at = NULL,
    ready_at = clock_timestamp(), wakes = 0, woken_at = clock_timestamp()
WHERE turn_id = %(turn_id)s::uuid AND fence = %(fence)s::bigint
    AND lease_owner = %(lease_owner)s::text
RETURNING turn_id, stage, fence

-- renew --
-- Renew the leases of all that a process owns. [Ledger.renew]
UPDATE turnchain_turns AS t
SET lease_expires_at = clock_timestamp() + %(lease)s::interval
FROM unnest(
    %(turn_ids)s::uuid[], %(fences)s::bigint[], %(lease_owners)s::text[]
) AS c (turn_id, fence, lease_owner)
WHERE t.turn_id = c.turn_id AND t.fence = c.fence AND t.lease_owner = c.lease_owner
RETURNING
    t.lease_owner,
    t.cancel_requested_at IS NOT NULL AS cancel_requested,
    coalesce(t.deadline_at <= clock_timestamp(), false) AS deadline_passed

-- begin_step --
-- Write a step's intent unless one is there. [Ledger.begin_step]
WITH held AS (
    -- Shared: the branches of a fan-out write their intents side by side; takeovers wait.
    SELECT turn_id FROM turnchain_turns
    WHERE turn_id = %(turn_id)s::uuid AND stage = %(stage)s::text AND fence = %(fence)s::bigint
        AND lease_owner = %(lease_owner)s::text
    FOR SHARE
),
created AS (
    INSERT INTO turnchain_steps (run_id, effect_key, turn_id, name)
    SELECT %(run_id)s::text, %(effect_key)s::text, turn_id, %(name)s::text FROM held
    ON CONFLICT DO NOTHING
    RETURNING name, status, result, true AS created
)
SELECT created.* FROM created
UNION ALL
SELECT s.name, s.status, s.result, false FROM turnchain_steps AS s, held
WHERE s.run_id = %(run_id)s::text AND s.effect_key = %(effect_key)s::text

-- finish_step --
-- Write a step's result, the first one only, and reset the attempts. [Ledger.finish_step]
WITH held AS (
    UPDATE turnchain_turns SET attempts = 0
    WHERE turn_id = %(turn_id)s::uuid AND stage = %(stage)s::text AND fence = %(fence)s::bigint
        AND lease_owner = %(lease_owner)s::text
    RETURNING turn_id
),
finished AS (
    UPDATE turnchain_steps AS s
    SET status = 'finished', result = %(result)s::jsonb, finished_at = clock_timestamp()
    FROM held
    WHERE s.run_id = %(run_id)s::text AND s.effect_key = %(effect_key)s::text
        AND s.status = 'intended'
)
SELECT turn_id FROM held
