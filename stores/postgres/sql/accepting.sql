-- look --
-- All that accept must know beforehand, as one JSON text: any driver can read that. No lock.
SELECT json_build_object(
    'same_turn', (
        SELECT row_to_json(t) FROM turnchain_turns AS t WHERE t.turn_id = %(turn_id)s::uuid
    ),
    'same_key', (
        SELECT row_to_json(t) FROM turnchain_turns AS t
        WHERE t.orchestrator_name = %(orchestrator_name)s::text
            AND t.session_id = %(session_id)s::text
            AND t.idempotency_key = %(idempotency_key)s::text
    ),
    -- The session's row decides whose it is; before there is one, its first turn does.
    'owner', coalesce(
        (
            SELECT json_build_object('tenant', s.tenant, 'user_id', s.user_id)
            FROM turnchain_sessions AS s
            WHERE s.orchestrator_name = %(orchestrator_name)s::text
                AND s.session_id = %(session_id)s::text
        ),
        (
            SELECT json_build_object('tenant', t.tenant, 'user_id', t.user_id)
            FROM turnchain_turns AS t
            WHERE t.orchestrator_name = %(orchestrator_name)s::text
                AND t.session_id = %(session_id)s::text
            ORDER BY t.seq LIMIT 1
        )
    ),
    -- Those that are not settled stand before this turn, and may each take an index.
    'next_index', CASE WHEN %(expected_turn_index)s::integer IS NOT NULL THEN
        1 + coalesce((
            SELECT s.head_turn_index FROM turnchain_sessions AS s
            WHERE s.orchestrator_name = %(orchestrator_name)s::text
                AND s.session_id = %(session_id)s::text
        ), -1) + (
            SELECT count(*) FROM turnchain_turns AS t
            WHERE t.orchestrator_name || '' = %(orchestrator_name)s::text
                AND t.session_id = %(session_id)s::text AND t.status = 'queued'
        ) + (
            SELECT count(*) FROM turnchain_turns AS t
            WHERE t.orchestrator_name || '' = %(orchestrator_name)s::text
                AND t.session_id = %(session_id)s::text AND t.status IN ('running', 'paused')
        )
    END,
    'announced', CASE WHEN %(asks_announced)s::boolean THEN (
        SELECT json_agg(DISTINCT o.name) FROM turnchain_orchestrators AS o
    ) END
)::text

-- accept --
-- The one INSERT that makes a turn; no row if `look` has to say why not. Waits for nothing else.
WITH turn AS (
    INSERT INTO turnchain_turns (
        turn_id, orchestrator_name, session_id, tenant, user_id, run_id, runner, priority,
        deadline_at, idempotency_key, request_hash
    )
    SELECT
        %(turn_id)s::uuid, %(orchestrator_name)s::text, %(session_id)s::text, %(tenant)s::text,
        %(user_id)s::text, %(run_id)s::text, %(runner)s::text, %(priority)s::integer,
        %(deadline)s::timestamptz, %(idempotency_key)s::text, %(request_hash)s::text
    WHERE coalesce(
        (
            SELECT (s.tenant, s.user_id) IS NOT DISTINCT FROM (%(tenant)s::text, %(user_id)s::text)
            FROM turnchain_sessions AS s
            WHERE s.orchestrator_name = %(orchestrator_name)s::text
                AND s.session_id = %(session_id)s::text
        ),
        (
            SELECT (t.tenant, t.user_id) IS NOT DISTINCT FROM (%(tenant)s::text, %(user_id)s::text)
            FROM turnchain_turns AS t
            WHERE t.orchestrator_name = %(orchestrator_name)s::text
                AND t.session_id = %(session_id)s::text
            ORDER BY t.seq LIMIT 1
        ),
        true
    )
    AND (
        NOT %(asks_announced)s::boolean
        OR EXISTS (
            SELECT FROM turnchain_orchestrators AS o WHERE o.name = %(orchestrator_name)s::text
        )
        OR NOT EXISTS (SELECT FROM turnchain_orchestrators)
    )
    -- A unique violation would end the caller's whole transaction.
    ON CONFLICT DO NOTHING
    RETURNING *
),
request AS (
    INSERT INTO turnchain_turn_requests (
        turn_id, input, state_patch, history, history_provider, context, context_provider,
        force, expected_turn_index
    )
    SELECT
        turn_id, %(input)s::jsonb, %(state)s::jsonb, %(history)s::jsonb,
        %(history_provider)s::jsonb, %(context)s::jsonb, %(context_provider)s::jsonb,
        %(force)s::boolean, %(expected_turn_index)s::integer
    FROM turn
)
SELECT row_to_json(turn)::text FROM turn
