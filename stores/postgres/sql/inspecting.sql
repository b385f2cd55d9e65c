-- keep_to_indexes --
-- For this transaction: also while the statistics of a young or suddenly full table are wrong.
SELECT
    set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true),
    set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true),
    set_config('enable_sort', 'off', true),
    -- "no session given, or this one" is an index condition only where the plan knows what was given.
    set_config('plan_cache_mode', 'force_custom_plan', true)

-- list_names --
-- Orchestrators that have turns: one probe a name, of which there are few.
WITH RECURSIVE names (name) AS (
    (SELECT t.orchestrator_name FROM turnchain_turns AS t ORDER BY 1 LIMIT 1)
    UNION ALL
    SELECT (
        SELECT t.orchestrator_name FROM turnchain_turns AS t
        WHERE t.orchestrator_name > names.name ORDER BY 1 LIMIT 1
    )
    FROM names WHERE names.name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL

-- list_turns --
-- The last accepted turns of these orchestrators, or of a session of theirs. [Inspection.turns]
SELECT page.* FROM unnest(%(names)s::text[]) AS asked (name)
-- Name by name, since each one's turns lie in order.
CROSS JOIN LATERAL (
    SELECT t.* FROM turnchain_turns AS t
    WHERE t.orchestrator_name = asked.name AND t.seq < %(before)s::bigint
        AND (%(session_id)s::text IS NULL OR t.session_id = %(session_id)s::text)
        AND (%(status)s::text IS NULL OR t.status = %(status)s::text)
    ORDER BY t.seq DESC LIMIT %(limit)s::bigint
) AS page
ORDER BY page.seq DESC LIMIT %(limit)s::bigint

-- list_queued --
-- The last accepted queued turns.
SELECT t.* FROM turnchain_turns AS t
WHERE t.status = 'queued' AND t.seq + 0 < %(before)s::bigint
    AND t.orchestrator_name = ANY (%(names)s::text[])
ORDER BY t.seq + 0 DESC LIMIT %(limit)s::bigint

-- list_live --
-- The last accepted running, or paused, turns.
SELECT t.* FROM turnchain_turns AS t
WHERE t.in_flight AND t.status = %(status)s::text AND t.seq < %(before)s::bigint
    AND t.orchestrator_name = ANY (%(names)s::text[])
ORDER BY t.seq DESC LIMIT %(limit)s::bigint

-- list_unanswered --
-- The last accepted turns that ended in this way, other than with an answer.
SELECT page.* FROM unnest(%(names)s::text[]) AS asked (name)
CROSS JOIN LATERAL (
    SELECT t.* FROM turnchain_turns AS t
    WHERE t.orchestrator_name = asked.name AND t.status = %(status)s::text
        AND t.seq < %(before)s::bigint
        AND t.status NOT IN ('queued', 'running', 'paused', 'awaiting-input')
    ORDER BY t.seq DESC LIMIT %(limit)s::bigint
) AS page
ORDER BY page.seq DESC LIMIT %(limit)s::bigint

-- list_stuck --
-- The last accepted turns that nobody will go on with. [standing.is_stuck]
WITH RECURSIVE fresh AS MATERIALIZED (
    SELECT p.process_id, p.slots, p.queues, p.signatures, NOT p.draining AS stays
    FROM turnchain_processes AS p
    WHERE p.heartbeat_at > clock_timestamp() - interval '10 seconds'
        AND p.heartbeat_at <= clock_timestamp()
),
left_alone AS MATERIALIZED (
    SELECT t.* FROM turnchain_turns AS t
    WHERE t.in_flight AND (t.status <> 'paused' OR t.lease_owner IS NOT NULL)
        -- Nobody has it in hand.
        AND NOT CASE
            WHEN t.lease_owner IS NULL THEN
                t.runner = 'engine' AND coalesce(t.woken_at, t.accepted_at)
                > clock_timestamp() - %(silence)s::interval
            ELSE t.lease_expires_at > clock_timestamp() AND (t.runner = 'engine' OR EXISTS (
                SELECT FROM fresh
                WHERE fresh.process_id = substring(t.lease_owner FROM '^(.*)/')
            ))
        END
        -- Nobody can take it.
        AND NOT EXISTS (
            SELECT FROM fresh WHERE fresh.stays AND (
                t.runner = 'engine'
                OR t.deadline_at <= clock_timestamp() AND t.settled_at IS NULL
                AND t.lease_owner IS NULL AND t.stage NOT IN ('persist', 'compact')
                OR fresh.slots > 0 AND fresh.queues ? (%(stage_queues)s::jsonb ->> t.stage) AND (
                    t.cancel_requested_at IS NOT NULL AND t.settled_at IS NULL
                    OR fresh.signatures ? t.orchestrator_name
                )
            )
        )
),
-- The queue is walked only for orchestrators that nobody serves: a deep one is a healthy one.
waiting (name) AS (
    (
        SELECT t.orchestrator_name || '' FROM turnchain_turns AS t
        WHERE t.status = 'queued' ORDER BY 1 LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT t.orchestrator_name || '' FROM turnchain_turns AS t
        WHERE t.status = 'queued' AND t.orchestrator_name || '' > waiting.name
        ORDER BY 1 LIMIT 1
    )
    FROM waiting WHERE waiting.name IS NOT NULL
),
unserved AS MATERIALIZED (
    SELECT array_agg(waiting.name) AS names FROM waiting
    WHERE waiting.name = ANY (%(names)s::text[]) AND NOT EXISTS (
        SELECT FROM fresh
        WHERE fresh.stays AND fresh.slots > 0 AND fresh.signatures ? waiting.name
            AND fresh.queues ? (%(stage_queues)s::jsonb ->> 'load')
    )
),
not_started AS (
    SELECT t.* FROM turnchain_turns AS t
    WHERE (SELECT names FROM unserved) IS NOT NULL
        AND t.status = 'queued' AND t.seq + 0 < %(before)s::bigint
        AND t.orchestrator_name = ANY ((SELECT names FROM unserved)::text[])
        AND (%(session_id)s::text IS NULL OR t.session_id = %(session_id)s::text)
        -- What only has to be ended is any sweep's.
        AND EXISTS (
            SELECT FROM turnchain_turns AS first
            WHERE first.turn_id IN (t.turn_id, (
                SELECT earlier.turn_id FROM turnchain_turns AS earlier
                WHERE earlier.status = 'queued'
                    AND earlier.orchestrator_name || '' = t.orchestrator_name
                    AND earlier.session_id = t.session_id
                ORDER BY earlier.seq LIMIT 1
            ))
            AND CASE
                WHEN EXISTS (SELECT FROM fresh WHERE fresh.stays) THEN
                    first.runner = 'celery'
                    AND coalesce(first.deadline_at > clock_timestamp(), true)
                ELSE
                    first.runner = 'celery' OR coalesce(first.woken_at, first.accepted_at)
                    <= clock_timestamp() - %(silence)s::interval
            END
        )
    ORDER BY t.seq + 0 DESC LIMIT %(limit)s::bigint
),
behind AS (
    SELECT page.* FROM left_alone
    CROSS JOIN LATERAL (
        SELECT t.* FROM turnchain_turns AS t
        WHERE t.status = 'queued' AND t.orchestrator_name || '' = left_alone.orchestrator_name
            AND t.session_id = left_alone.session_id AND t.seq < %(before)s::bigint
        ORDER BY t.seq DESC LIMIT %(limit)s::bigint
    ) AS page
    WHERE left_alone.status IN ('running', 'paused')
),
stuck AS (
    SELECT * FROM left_alone UNION SELECT * FROM behind UNION SELECT * FROM not_started
)
SELECT * FROM stuck
WHERE seq < %(before)s::bigint AND orchestrator_name = ANY (%(names)s::text[])
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s::text)
    AND (%(status)s::text IS NULL OR status = %(status)s::text)
ORDER BY seq DESC LIMIT %(limit)s::bigint

-- list_sessions --
-- The last begun sessions of these orchestrators, each with its last turn. [Inspection.sessions]
SELECT
    page.*,
    (
        SELECT to_jsonb(t) FROM turnchain_turns AS t
        WHERE t.orchestrator_name = page.orchestrator_name AND t.session_id = page.session_id
        ORDER BY t.seq DESC LIMIT 1
    ) AS last_turn,
    (
        SELECT count(*) FROM (
            SELECT FROM turnchain_turns AS t
            WHERE t.status = 'queued' AND t.orchestrator_name || '' = page.orchestrator_name
                AND t.session_id = page.session_id
            LIMIT %(count_limit)s::bigint
        ) AS waiting
    ) AS queued
FROM (
    SELECT begun.* FROM unnest(%(names)s::text[]) AS asked (name)
    CROSS JOIN LATERAL (
        (
            SELECT s.* FROM turnchain_sessions AS s
            WHERE %(session_id)s::text IS NULL AND s.orchestrator_name = asked.name
                AND s.created_at < coalesce(%(before)s::timestamptz, 'infinity')
            ORDER BY s.created_at DESC FETCH FIRST (%(limit)s::bigint) ROWS WITH TIES
        )
        UNION ALL
        SELECT s.* FROM turnchain_sessions AS s
        WHERE s.orchestrator_name = asked.name AND s.session_id = %(session_id)s::text
            AND s.created_at < coalesce(%(before)s::timestamptz, 'infinity')
    ) AS begun
    -- A page ends between two instants, so that the next one can begin at one.
    ORDER BY begun.created_at DESC FETCH FIRST (%(limit)s::bigint) ROWS WITH TIES
) AS page
ORDER BY page.created_at DESC, page.orchestrator_name, page.session_id

-- now --
-- The server's clock.
SELECT clock_timestamp() AS now

-- facts --
-- A turn and, if it is queued, the one that it waits for; with what their next moves depend on.
WITH asked AS (
    SELECT * FROM turnchain_turns WHERE turn_id = %(turn_id)s::uuid
),
before AS (
    SELECT first.* FROM asked
    CROSS JOIN LATERAL (
        SELECT live.* FROM turnchain_turns AS live
        WHERE live.status IN ('running', 'paused')
            AND live.orchestrator_name || '' = asked.orchestrator_name
            AND live.session_id = asked.session_id
        UNION ALL
        (
            SELECT earlier.* FROM turnchain_turns AS earlier
            WHERE earlier.status = 'queued'
                AND earlier.orchestrator_name || '' = asked.orchestrator_name
                AND earlier.session_id = asked.session_id AND earlier.seq < asked.seq
            ORDER BY earlier.seq LIMIT 1
        )
    ) AS first
    WHERE asked.status = 'queued'
    ORDER BY first.status = 'queued' LIMIT 1
),
around AS MATERIALIZED (
    SELECT
        clock_timestamp() AS now,
        (SELECT swept_at FROM turnchain_sweeps) AS swept_at,
        (SELECT max(heartbeat_at) FROM turnchain_processes) AS last_heartbeat_at,
        (
            SELECT coalesce(jsonb_agg(to_jsonb(p) ORDER BY p.process_id), '[]')
            FROM turnchain_processes AS p
            WHERE p.heartbeat_at > clock_timestamp() - interval '10 seconds'
                AND p.heartbeat_at <= clock_timestamp()
        ) AS processes,
        (
            SELECT count(*) FROM turnchain_turns AS t
            WHERE t.in_flight AND t.runner = 'celery' AND (
                t.lease_owner IS NOT NULL OR t.parked IS NULL OR t.ready_at <= clock_timestamp()
            )
        ) AS flying
)
SELECT
    t.*, around.*,
    last.type AS last_event, last.at AS last_event_at,
    (
        SELECT count(*) FROM turnchain_snapshot_iterations AS i WHERE i.run_id = t.run_id
    ) AS iterations,
    (
        SELECT count(*) FROM turnchain_steps AS s
        WHERE s.run_id = t.run_id AND s.status = 'intended'
    ) AS open_steps,
    (
        SELECT o.outcome #>> '{error,code}' FROM turnchain_outcomes AS o
        WHERE o.turn_id = t.turn_id
    ) AS error_code,
    (
        SELECT count(*) FROM (
            SELECT FROM turnchain_turns AS q
            WHERE t.status = 'queued' AND q.status = 'queued'
                AND q.orchestrator_name || '' = t.orchestrator_name
                AND q.session_id = t.session_id AND q.seq < t.seq
            LIMIT %(count_limit)s::bigint
        ) AS ahead
    ) AS queued_before,
    (
        SELECT count(*) FROM (
            SELECT FROM turnchain_turns AS q
            WHERE t.status = 'queued' AND NOT EXISTS (SELECT FROM before)
                AND q.status = 'queued' AND q.runner = 'celery' AND NOT q.behind
                AND coalesce(q.tenant, '') = coalesce(t.tenant, '')
                AND (q.priority, q.seq) < (t.priority, t.seq)
                AND (
                    SELECT earlier.seq FROM turnchain_turns AS earlier
                    WHERE earlier.status = 'queued'
                        AND earlier.orchestrator_name || '' = q.orchestrator_name
                        AND earlier.session_id = q.session_id
                    ORDER BY earlier.seq LIMIT 1
                ) = q.seq
                AND (
                    SELECT 1 FROM turnchain_turns AS live
                    WHERE live.status IN ('running', 'paused')
                        AND live.orchestrator_name || '' = q.orchestrator_name
                        AND live.session_id = q.session_id
                    LIMIT 1
                ) IS NULL
            LIMIT %(count_limit)s::bigint
        ) AS first
    ) AS preferred
FROM (
    SELECT 0 AS place, asked.* FROM asked UNION ALL SELECT 1 AS place, before.* FROM before
) AS t
CROSS JOIN around
LEFT JOIN turnchain_turn_events AS last ON last.turn_id = t.turn_id AND last.seq = t.event_seq
ORDER BY t.place
