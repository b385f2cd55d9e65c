-- get --
-- A turn's row.
SELECT * FROM turnchain_turns WHERE turn_id = %(turn_id)s::uuid

-- settled --
-- Those of the turns that have an outcome.
SELECT t.*, o.outcome FROM turnchain_outcomes AS o JOIN turnchain_turns AS t USING (turn_id)
WHERE o.turn_id = ANY (%(turn_ids)s::uuid[])

-- events --
-- A turn's events from a place on.
SELECT turn_id, seq, type, payload, at FROM turnchain_turn_events
WHERE turn_id = %(turn_id)s::uuid AND seq > %(after)s::bigint
ORDER BY seq LIMIT %(limit)s::bigint

-- last_settled --
-- A session's last settled turn, with what was asked and how it ended.
SELECT
    t.*, r.input, r.state_patch, r.history, r.history_provider, r.context, r.context_provider,
    r.force, r.expected_turn_index, o.outcome
FROM turnchain_turns AS t
JOIN turnchain_turn_requests AS r USING (turn_id)
JOIN turnchain_outcomes AS o USING (turn_id)
WHERE t.orchestrator_name = %(orchestrator_name)s::text AND t.session_id = %(session_id)s::text
    AND t.settled_at IS NOT NULL
ORDER BY t.settled_at DESC, t.seq DESC LIMIT 1

-- lock_wait --
-- How long a session's compaction lock is held at most.
SELECT lock_expires_at - clock_timestamp() AS left FROM turnchain_sessions
WHERE orchestrator_name = %(orchestrator_name)s::text AND session_id = %(session_id)s::text
    AND lock_expires_at > clock_timestamp()

-- listen --
-- Hear of settled turns.
LISTEN turnchain_settled
