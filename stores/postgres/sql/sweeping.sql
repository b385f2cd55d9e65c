-- beat --
-- Write a process's heartbeat, and announce what it serves. [Ledger.beat]
WITH process AS (
    INSERT INTO turnchain_processes AS p (process_id, slots, queues, signatures, draining)
    VALUES (
        %(process_id)s::text, %(slots)s::integer, %(queues)s::jsonb, %(signatures)s::jsonb,
        %(draining)s::boolean
    )
    ON CONFLICT (process_id) DO UPDATE SET
        slots = excluded.slots, queues = excluded.queues, signatures = excluded.signatures,
        draining = excluded.draining, heartbeat_at = clock_timestamp()
)
-- Not at every beat, and always in one order: all processes announce the same few rows.
INSERT INTO turnchain_orchestrators AS o (name, signature)
SELECT served.key, served.value FROM jsonb_each_text(%(signatures)s::jsonb) AS served
WHERE NOT EXISTS (
    SELECT FROM turnchain_orchestrators AS fresh
    WHERE fresh.name = served.key AND fresh.signature = served.value
        AND fresh.seen_at > clock_timestamp() - interval '1 minute'
)
ORDER BY served.key
ON CONFLICT (name, signature) DO UPDATE SET seen_at = clock_timestamp()

-- forget --
-- Remove a process's heartbeat. [Ledger.forget]
DELETE FROM turnchain_processes WHERE process_id = %(process_id)s::text

-- begin_sweep --
-- Take the sweep if it is due; give owners grace after a restart or a step of the clock.
WITH before AS (
    SELECT swept_at, postmaster_started_at FROM turnchain_sweeps FOR NO KEY UPDATE SKIP LOCKED
),
swept AS (
    UPDATE turnchain_sweeps AS s
    SET swept_at = clock_timestamp(), postmaster_started_at = pg_postmaster_start_time()
    FROM before
    WHERE s.swept_at IS NULL OR s.swept_at > clock_timestamp()
        OR s.swept_at <= clock_timestamp() - %(interval)s::interval
    -- A gap is counted beyond the interval: a lease shorter than that must still expire.
    RETURNING
        before.swept_at > clock_timestamp() AS backward,
        before.swept_at > clock_timestamp()
        OR before.swept_at < clock_timestamp() - %(interval)s::interval - %(lease)s::interval
        OR before.postmaster_started_at <> pg_postmaster_start_time() AS grace
),
-- Whoever is being written right now is alive, or is dealt with next time.
owned AS (
    SELECT t.turn_id FROM turnchain_turns AS t, swept
    WHERE swept.grace AND t.in_flight
    FOR NO KEY UPDATE OF t SKIP LOCKED
),
graced AS (
    UPDATE turnchain_turns AS t SET
        lease_expires_at = CASE
            WHEN t.lease_owner IS NULL THEN NULL
            WHEN t.runner = 'engine' THEN t.lease_expires_at  -- long as it is
            ELSE clock_timestamp() + %(lease)s::interval
        END,
        -- After a step backward, earlier instants lie in the future: do not wait for them.
        ready_at = CASE
            WHEN NOT swept.backward THEN t.ready_at
            WHEN t.parked IS NULL THEN least(t.ready_at, clock_timestamp())
            WHEN t.ready_at IS NOT NULL
                THEN least(t.ready_at, clock_timestamp() + %(lease)s::interval)
        END,
        woken_at = least(t.woken_at, clock_timestamp())
    FROM owned, swept WHERE t.turn_id = owned.turn_id
),
-- A process that has not beaten for a day has not merely been slow.
gone AS (
    DELETE FROM turnchain_processes AS p USING swept
    WHERE p.heartbeat_at < clock_timestamp() - interval '1 day'
)
SELECT grace FROM swept

-- expired --
-- Owned turns whose lease expired, the longest expired first; not those being written now.
SELECT * FROM turnchain_turns
WHERE in_flight AND lease_expires_at <= clock_timestamp()
    AND (NOT %(only_engines)s::boolean OR runner = 'engine')
ORDER BY lease_expires_at, seq LIMIT %(limit)s::integer
FOR NO KEY UPDATE SKIP LOCKED

-- abandoned --
-- Turns without an owner whose engine has given no sign of life for a while.
SELECT * FROM turnchain_turns
WHERE runner = 'engine' AND (in_flight OR status = 'queued') AND lease_owner IS NULL
    AND coalesce(woken_at, accepted_at) <= clock_timestamp() - %(silence)s::interval
ORDER BY seq LIMIT %(limit)s::integer
FOR NO KEY UPDATE SKIP LOCKED

-- heal_queue --
-- Let up the first of each session's queue, should it ever stand behind nobody: a row deleted by
-- hand, for example. What admit walks must never depend on everybody having been careful.
UPDATE turnchain_turns AS t SET behind = false
WHERE t.status = 'queued' AND t.behind AND (
    SELECT earlier.seq FROM turnchain_turns AS earlier
    WHERE earlier.status = 'queued' AND earlier.orchestrator_name || '' = t.orchestrator_name
        AND earlier.session_id = t.session_id
    ORDER BY earlier.seq LIMIT 1
) = t.seq

-- take_over --
-- Take a turn from its owner as it was just read: ready again, one attempt more.
UPDATE turnchain_turns SET
    fence = fence + 1, attempts = attempts + 1, takeovers = takeovers + 1,
    lease_owner = NULL, lease_expires_at = NULL,
    ready_at = clock_timestamp(), wakes = 0, woken_at = clock_timestamp()
WHERE turn_id = %(turn_id)s::uuid AND fence = %(fence)s::bigint
    AND lease_owner = %(lease_owner)s::text
    AND (
        -- A child that is being killed may have kept the turn to another stage since it was read.
        %(died)s::boolean
        OR stage = %(stage)s::text AND lease_expires_at = %(lease_expires_at)s::timestamptz
    )
RETURNING turn_id, stage, fence

-- lock_queue --
-- Before a turn leaves the queue otherwise than by admit: nobody looks at the queue meanwhile.
SELECT FROM turnchain_admission FOR UPDATE

-- let_up --
-- After it: the session's next one comes up.
SELECT turnchain_let_up(ARRAY[%(turn_id)s::uuid])

-- end_turn --
-- End a turn that nobody runs any more, as it was just read.
WITH held AS (
    SELECT turn_id, event_seq FROM turnchain_turns
    WHERE turn_id = %(turn_id)s::uuid AND stage = %(stage)s::text AND fence = %(fence)s::bigint
        AND status = %(status)s::text
        AND lease_owner IS NOT DISTINCT FROM %(lease_owner)s::text
        AND (
            %(died)s::boolean
            OR lease_expires_at IS NOT DISTINCT FROM %(lease_expires_at)s::timestamptz
        )
    FOR NO KEY UPDATE
),
ended AS (
    UPDATE turnchain_turns AS t SET
        status = coalesce(%(final_status)s::text, t.status),
        settled_at = CASE
            WHEN %(final_status)s::text IS NULL THEN t.settled_at ELSE clock_timestamp()
        END,
        cancel_requested_at = CASE
            WHEN %(final_status)s::text = 'cancelled'
                THEN coalesce(t.cancel_requested_at, clock_timestamp())
            ELSE t.cancel_requested_at
        END,
        stage = 'done', event_seq = held.event_seq + 1,
        fence = t.fence + %(lost)s::integer, attempts = t.attempts + %(lost)s::integer,
        lease_owner = NULL, lease_expires_at = NULL, ready_at = NULL, parked = NULL,
        wakes = 0, woken_at = NULL
    FROM held WHERE t.turn_id = held.turn_id
    RETURNING t.*
),
event AS (
    INSERT INTO turnchain_turn_events (turn_id, seq, type, payload)
    SELECT turn_id, event_seq, %(event_type)s::text, %(event_payload)s::jsonb FROM ended
),
outcome AS (
    INSERT INTO turnchain_outcomes (turn_id, status, outcome, settled_at)
    SELECT turn_id, status, %(outcome)s::jsonb, settled_at FROM ended
    WHERE %(final_status)s::text IS NOT NULL
    RETURNING turn_id
),
forgotten_work AS (
    DELETE FROM turnchain_turn_work AS w USING ended WHERE w.turn_id = ended.turn_id
),
-- resume() asks an interrupted turn's request again, with its history.
forgotten_request AS (
    UPDATE turnchain_turn_requests AS r
    SET history = NULL, history_provider = NULL, context = NULL, context_provider = NULL
    FROM ended WHERE r.turn_id = ended.turn_id AND NOT %(keeps_request)s::boolean
)
SELECT
    ended.turn_id,
    (SELECT pg_notify('turnchain_settled', outcome.turn_id::text) FROM outcome) AS told
FROM ended

-- rewake --
-- Ready turns whose message may be lost, and parked ones whose wait is over. [Ledger.rewake]
WITH due AS (
    SELECT turn_id FROM turnchain_turns
    WHERE in_flight AND runner = 'celery' AND lease_owner IS NULL
        AND CASE
            WHEN parked IS NOT NULL THEN ready_at <= clock_timestamp()
            ELSE woken_at IS NULL OR woken_at + least(
                %(first)s::interval * power(2, least(wakes, 20)), %(longest)s::interval
            ) <= clock_timestamp()
        END
    ORDER BY seq LIMIT %(limit)s::integer
    FOR NO KEY UPDATE SKIP LOCKED
),
woken AS (
    UPDATE turnchain_turns AS t SET
        wakes = CASE WHEN t.parked IS NULL THEN t.wakes + 1 ELSE 0 END,
        ready_at = CASE WHEN t.parked IS NULL THEN t.ready_at ELSE clock_timestamp() END,
        parked = NULL, woken_at = clock_timestamp()
    FROM due WHERE t.turn_id = due.turn_id
    RETURNING t.turn_id, t.stage, t.fence, t.seq
)
SELECT turn_id, stage, fence FROM woken ORDER BY seq

-- late --
-- Turns past their deadline that nobody owns and that have no outcome yet.
SELECT * FROM turnchain_turns
WHERE deadline_at <= clock_timestamp() AND settled_at IS NULL AND lease_owner IS NULL
    AND stage NOT IN ('persist', 'compact', 'done')
ORDER BY deadline_at LIMIT %(limit)s::integer
FOR NO KEY UPDATE SKIP LOCKED

-- ask_cancel --
-- Leave the request for a running turn's owner; a parked turn becomes ready, to see it.
UPDATE turnchain_turns SET
    cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()),
    ready_at = CASE WHEN parked IS NULL THEN ready_at ELSE clock_timestamp() END,
    wakes = CASE WHEN parked IS NULL THEN wakes ELSE 0 END,
    -- Due at once: the next sweep publishes it.
    woken_at = CASE
        WHEN parked IS NULL THEN woken_at WHEN runner = 'engine' THEN clock_timestamp()
    END,
    parked = NULL
WHERE turn_id = %(turn_id)s::uuid AND status IN ('running', 'paused')
    AND NOT (stage = 'persist' AND lease_owner IS NOT NULL)
RETURNING turn_id
