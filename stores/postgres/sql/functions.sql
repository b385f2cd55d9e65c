-- Turnchain's functions, applied behind the tables of schema.sql. Applying this file again changes nothing.
--
-- A function that is changed in what it takes or gives gets another name: workers of the release before call the old one.

-- ------------------------------------------------------------------------------------------ units

-- All that a unit writes is one statement, whatever stores take part: no client can stop between looking at a guard and
-- committing, and leave row locks behind; and a unit costs one round trip. So what has to be refused is raised.

CREATE OR REPLACE FUNCTION turnchain_write_unit(
    held_turn uuid, held_stage text, held_fence bigint, held_owner text,
    events jsonb, progress boolean, next_stage text, keeps boolean, new_work jsonb,
    index_in_session integer, begins_session boolean,
    final_status text, final_outcome jsonb, final_event jsonb, unless_stopped boolean
)
RETURNS void LANGUAGE plpgsql AS $function$
#variable_conflict use_column
DECLARE
    now timestamptz := clock_timestamp();
    before integer;
    moved turnchain_turns;
    settles boolean;
BEGIN
    UPDATE turnchain_turns AS t SET
        event_seq = t.event_seq + coalesce(jsonb_array_length(events), 0)
            -- A turn that has an outcome keeps it, and its terminal event.
            + CASE WHEN final_status IS NOT NULL AND t.settled_at IS NULL THEN 1 ELSE 0 END,
        attempts = CASE WHEN progress THEN 0 ELSE t.attempts END,
        status = CASE WHEN t.settled_at IS NULL THEN coalesce(final_status, t.status) ELSE t.status END,
        settled_at = CASE
            WHEN final_status IS NOT NULL THEN coalesce(t.settled_at, now) ELSE t.settled_at
        END,
        turn_index = coalesce(index_in_session, t.turn_index),
        stage = coalesce(next_stage, t.stage),
        lease_owner = CASE WHEN next_stage IS NULL OR keeps THEN t.lease_owner END,
        lease_expires_at = CASE WHEN next_stage IS NULL OR keeps THEN t.lease_expires_at END,
        ready_at = CASE WHEN next_stage <> 'done' AND NOT keeps THEN now END,
        woken_at = CASE WHEN next_stage <> 'done' AND NOT keeps THEN now END
    WHERE t.turn_id = held_turn AND t.stage = held_stage AND t.fence = held_fence
        AND t.lease_owner = held_owner
    RETURNING * INTO moved;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'TC001', MESSAGE = 'turnchain: the lease is lost';
    END IF;
    IF unless_stopped AND (moved.cancel_requested_at IS NOT NULL OR moved.deadline_at <= now) THEN
        RAISE EXCEPTION USING ERRCODE = 'TC004', MESSAGE = 'turnchain: the turn was asked to stop';
    END IF;
    settles := final_status IS NOT NULL AND moved.settled_at = now;
    IF begins_session THEN
        INSERT INTO turnchain_sessions (orchestrator_name, session_id, tenant, user_id)
        VALUES (moved.orchestrator_name, moved.session_id, moved.tenant, moved.user_id)
        ON CONFLICT DO NOTHING;
        IF NOT FOUND AND EXISTS (
            SELECT FROM turnchain_sessions AS s
            WHERE s.orchestrator_name = moved.orchestrator_name AND s.session_id = moved.session_id
                AND (s.tenant, s.user_id) IS DISTINCT FROM (moved.tenant, moved.user_id)
        ) THEN
            RAISE EXCEPTION USING
                ERRCODE = 'TC003', MESSAGE = 'turnchain: the session belongs to another owner';
        END IF;
    END IF;
    IF events IS NOT NULL THEN
        before := moved.event_seq - jsonb_array_length(events) - settles::integer;
        INSERT INTO turnchain_turn_events (turn_id, seq, type, payload)
        SELECT held_turn, before + e.place, e.event ->> 'type', e.event -> 'payload'
        FROM jsonb_array_elements(events) WITH ORDINALITY AS e (event, place);
    END IF;
    IF settles THEN
        INSERT INTO turnchain_turn_events (turn_id, seq, type, payload)
        VALUES (held_turn, moved.event_seq, final_event ->> 'type', final_event -> 'payload');
        INSERT INTO turnchain_outcomes (turn_id, status, outcome, settled_at)
        VALUES (held_turn, final_status, final_outcome, now);
        IF final_status = 'awaiting-input' THEN
            UPDATE turnchain_sessions AS s
            SET head_turn_index = greatest(s.head_turn_index, moved.turn_index)
            WHERE s.orchestrator_name = moved.orchestrator_name AND s.session_id = moved.session_id;
        END IF;
        PERFORM pg_notify('turnchain_settled', held_turn::text);
    END IF;
    IF moved.stage = 'done' THEN
        DELETE FROM turnchain_turn_work AS w WHERE w.turn_id = held_turn;
        UPDATE turnchain_turn_requests AS r
        SET history = NULL, history_provider = NULL, context = NULL, context_provider = NULL
        WHERE r.turn_id = held_turn AND num_nonnulls(
            r.history, r.history_provider, r.context, r.context_provider
        ) > 0;
    ELSIF new_work IS NOT NULL THEN
        INSERT INTO turnchain_turn_work (turn_id, work) VALUES (held_turn, new_work)
        ON CONFLICT (turn_id) DO UPDATE SET work = excluded.work;
    END IF;
END
$function$;
COMMENT ON FUNCTION turnchain_write_unit IS 'Writes a unit to the ledger under its claim: the turn''s row once, and its siblings.';

CREATE OR REPLACE FUNCTION turnchain_save_run(
    saved_run text, saved_fence bigint, saved_head jsonb, saved_seed jsonb
)
RETURNS void LANGUAGE sql AS $function$
    INSERT INTO turnchain_snapshots (run_id, fence, head, seed)
    VALUES (saved_run, saved_fence, saved_head, saved_seed)
    ON CONFLICT (run_id) DO UPDATE
    SET fence = excluded.fence, head = excluded.head, saved_at = clock_timestamp()
$function$;
COMMENT ON FUNCTION turnchain_save_run IS 'Writes a run''s head; what it started with is written once.';

CREATE OR REPLACE FUNCTION turnchain_save_iteration(
    saved_run text, saved_iteration integer, saved_snapshot jsonb
)
RETURNS void LANGUAGE sql AS $function$
    INSERT INTO turnchain_snapshot_iterations (run_id, iteration, snapshot)
    VALUES (saved_run, saved_iteration, saved_snapshot) ON CONFLICT DO NOTHING
$function$;
COMMENT ON FUNCTION turnchain_save_iteration IS 'Writes a settled iteration, once.';

CREATE OR REPLACE FUNCTION turnchain_delete_run(deleted_run text)
RETURNS void LANGUAGE sql AS $function$
    DELETE FROM turnchain_snapshot_iterations WHERE run_id = deleted_run;
    DELETE FROM turnchain_snapshots WHERE run_id = deleted_run
$function$;
COMMENT ON FUNCTION turnchain_delete_run IS 'Deletes a run and its iterations.';

CREATE OR REPLACE FUNCTION turnchain_append_checkpoint(
    in_orchestrator text, in_session text, at_index integer, state jsonb, last_route jsonb,
    signature text, version text, of_turn uuid, of_run text, under_fence bigint, turn_snapshot jsonb
)
RETURNS void LANGUAGE plpgsql AS $function$
#variable_conflict use_column
BEGIN
    INSERT INTO turnchain_checkpoints (
        orchestrator_name, session_id, turn_index, state, last_route, signature, version,
        turn_id, run_id, fence, turn_snapshot
    )
    VALUES (
        in_orchestrator, in_session, at_index, $4, $5, $6, $7, of_turn, of_run, under_fence, $11
    )
    ON CONFLICT (orchestrator_name, session_id, turn_index) DO NOTHING;
    IF NOT FOUND AND NOT EXISTS (
        SELECT FROM turnchain_checkpoints AS c
        WHERE c.orchestrator_name = in_orchestrator AND c.session_id = in_session
            AND c.turn_index = at_index AND c.turn_id = of_turn
    ) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'TC002', MESSAGE = 'turnchain: another turn settled this index';
    END IF;
END
$function$;
COMMENT ON FUNCTION turnchain_append_checkpoint IS 'Adds a settled turn''s record; the same turn''s again is success.';

-- -------------------------------------------------------------------------------------- admission

-- The next three are functions, because looking must follow locking: each statement in one sees what
-- was committed before the statement began. They are written for the planner settings of our sessions
-- (`set_session`), which keep it to the partial indexes also while the statistics of a young or
-- suddenly full table are wrong; settings of a function's own cost as much as its work.

CREATE OR REPLACE FUNCTION turnchain_let_up(left_turns uuid[])
RETURNS void LANGUAGE plpgsql
AS $function$
BEGIN
    UPDATE turnchain_turns AS t SET behind = false
    FROM turnchain_turns AS gone
    CROSS JOIN LATERAL (
        SELECT q.turn_id FROM turnchain_turns AS q
        WHERE q.status = 'queued' AND q.orchestrator_name || '' = gone.orchestrator_name
            AND q.session_id = gone.session_id
        ORDER BY q.seq LIMIT 1
    ) AS following
    WHERE gone.turn_id = ANY (left_turns) AND t.turn_id = following.turn_id AND t.behind;
END
$function$;
COMMENT ON FUNCTION turnchain_let_up IS 'Lets the next queued turn up in the sessions of turns that have just left the queue. The caller holds turnchain_admission.';

CREATE OR REPLACE FUNCTION turnchain_admit(max_in_flight integer)
RETURNS TABLE (turn_id uuid, stage text, fence bigint)
LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    room bigint;
    looked bigint;
    looked_to bigint;
    later uuid[];
    round_of uuid[];
    all_rounds uuid[] := '{}';
BEGIN
    -- Most calls find an empty queue: they take no lock.
    IF NOT EXISTS (
        SELECT FROM turnchain_turns AS t
        WHERE t.status = 'queued' AND t.runner = 'celery' AND NOT t.behind
        ORDER BY coalesce(t.tenant, '') LIMIT 1
    ) THEN
        RETURN;
    END IF;
    PERFORM FROM turnchain_admission FOR UPDATE;
    room := coalesce(max_in_flight::bigint, (
        SELECT greatest(1, coalesce(sum(p.slots), 0)) FROM turnchain_processes AS p
        WHERE NOT p.draining
            AND p.heartbeat_at > clock_timestamp() - interval '10 seconds'
            AND p.heartbeat_at <= clock_timestamp()
    )) - (
        SELECT count(*) FROM turnchain_turns AS t
        WHERE t.in_flight AND t.runner = 'celery'
            AND (t.lease_owner IS NOT NULL OR t.parked IS NULL OR t.ready_at <= clock_timestamp())
    );
    WHILE room > 0 LOOP
        -- Each arrival is looked at once: of a deep queue only the first stays in the index that
        -- the choice below walks. In portions, for the burst that comes while there is room.
        SELECT
            count(*), max(arrivals.seq),
            array_agg(arrivals.turn_id) FILTER (WHERE arrivals.first_seq < arrivals.seq)
        INTO looked, looked_to, later
        FROM (
            SELECT t.turn_id, t.seq, (
                SELECT earlier.seq FROM turnchain_turns AS earlier
                WHERE earlier.status = 'queued'
                    AND earlier.orchestrator_name || '' = t.orchestrator_name
                    AND earlier.session_id = t.session_id
                ORDER BY earlier.seq LIMIT 1
            ) AS first_seq
            FROM turnchain_turns AS t
            WHERE t.status = 'queued'
                AND t.seq + 0 > (SELECT a.looked_seq FROM turnchain_admission AS a)
            ORDER BY t.seq + 0 LIMIT 200
        ) AS arrivals;
        IF looked > 0 THEN
            UPDATE turnchain_admission SET looked_seq = looked_to;
            UPDATE turnchain_turns AS t SET behind = true WHERE t.turn_id = ANY (later);
        END IF;

        WITH RECURSIVE tenants (tenant) AS (
            (
                SELECT coalesce(t.tenant, '') FROM turnchain_turns AS t
                WHERE t.status = 'queued' AND t.runner = 'celery' AND NOT t.behind
                ORDER BY coalesce(t.tenant, '') LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT coalesce(t.tenant, '') FROM turnchain_turns AS t
                WHERE t.status = 'queued' AND t.runner = 'celery' AND NOT t.behind
                    AND coalesce(t.tenant, '') > tenants.tenant
                ORDER BY coalesce(t.tenant, '') LIMIT 1
            )
            FROM tenants WHERE tenants.tenant IS NOT NULL
        ),
        flying AS (
            SELECT coalesce(t.tenant, '') AS tenant, count(*) AS turns
            FROM turnchain_turns AS t
            WHERE t.in_flight AND t.runner = 'celery' AND (
                t.lease_owner IS NOT NULL OR t.parked IS NULL OR t.ready_at <= clock_timestamp()
            )
            GROUP BY 1
        ),
        eligible AS (
            SELECT
                head.*,
                coalesce(flying.turns, 0) + row_number() OVER (
                    PARTITION BY tenants.tenant ORDER BY head.priority, head.seq
                ) AS tenant_place
            FROM tenants
            LEFT JOIN flying ON flying.tenant = tenants.tenant
            CROSS JOIN LATERAL (
                SELECT t.turn_id, t.priority, t.seq FROM turnchain_turns AS t
                WHERE t.status = 'queued' AND t.runner = 'celery' AND NOT t.behind
                    AND coalesce(t.tenant, '') = tenants.tenant
                    -- Not looked at yet: the next portion's, or the next call's.
                    AND t.seq <= (SELECT a.looked_seq FROM turnchain_admission AS a)
                    -- Scalar subqueries stay probes, one a row walked; an anti join reads all.
                    AND (
                        SELECT earlier.seq FROM turnchain_turns AS earlier
                        WHERE earlier.status = 'queued'
                            AND earlier.orchestrator_name || '' = t.orchestrator_name
                            AND earlier.session_id = t.session_id
                        ORDER BY earlier.seq LIMIT 1
                    ) = t.seq
                    AND (
                        SELECT 1 FROM turnchain_turns AS live
                        WHERE live.status IN ('running', 'paused')
                            AND live.orchestrator_name || '' = t.orchestrator_name
                            AND live.session_id = t.session_id
                        LIMIT 1
                    ) IS NULL
                ORDER BY t.priority, t.seq
                LIMIT room
            ) AS head
        ),
        -- One sort is the same as choosing one by one: a tenant's places grow along its queue.
        chosen AS (
            SELECT eligible.turn_id FROM eligible
            ORDER BY eligible.priority, eligible.tenant_place, eligible.seq
            LIMIT room
        ),
        admitted AS (
            UPDATE turnchain_turns AS t SET
                status = 'running', admitted_at = clock_timestamp(),
                ready_at = clock_timestamp(), wakes = 0, woken_at = clock_timestamp()
            FROM chosen WHERE t.turn_id = chosen.turn_id
            RETURNING t.turn_id
        )
        SELECT coalesce(array_agg(admitted.turn_id), '{}') INTO round_of FROM admitted;
        room := room - cardinality(round_of);
        all_rounds := all_rounds || round_of;
        EXIT WHEN looked < 200;
    END LOOP;
    IF cardinality(all_rounds) > 0 THEN
        PERFORM turnchain_let_up(all_rounds);
        RETURN QUERY
        SELECT t.turn_id, t.stage, t.fence FROM turnchain_turns AS t
        WHERE t.turn_id = ANY (all_rounds) ORDER BY t.priority, t.seq;
    END IF;
END
$function$;
COMMENT ON FUNCTION turnchain_admit IS 'Sets queued turns running while there is room, and returns what to publish.';

CREATE OR REPLACE FUNCTION turnchain_admit_turn(wanted uuid)
RETURNS TABLE (turn_id uuid, stage text, fence bigint)
LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM FROM turnchain_admission FOR UPDATE;
    RETURN QUERY
    UPDATE turnchain_turns AS t SET
        status = 'running', admitted_at = clock_timestamp(), ready_at = clock_timestamp(),
        wakes = 0, woken_at = clock_timestamp()
    WHERE t.turn_id = wanted
        AND (
            SELECT first.turn_id FROM turnchain_turns AS first
            WHERE first.status = 'queued'
                AND first.orchestrator_name || '' = t.orchestrator_name
                AND first.session_id = t.session_id
            ORDER BY first.seq LIMIT 1
        ) = wanted
        AND NOT EXISTS (
            SELECT FROM turnchain_turns AS live
            WHERE live.status IN ('running', 'paused')
                AND live.orchestrator_name || '' = t.orchestrator_name
                AND live.session_id = t.session_id
        )
    RETURNING t.turn_id, t.stage, t.fence;
    IF FOUND THEN
        PERFORM turnchain_let_up(ARRAY[wanted]);
    ELSE
        UPDATE turnchain_turns AS t SET woken_at = clock_timestamp()
        WHERE t.turn_id = wanted AND t.status = 'queued';
    END IF;
END
$function$;
COMMENT ON FUNCTION turnchain_admit_turn IS 'Sets this very turn running if it is its session''s next; else notes that its engine has asked.';
