-- append_checkpoint --
-- Add a settled turn's record; the same turn's again is success. [CheckpointStore.append]
SELECT turnchain_append_checkpoint(
    %(orchestrator_name)s::text, %(session_id)s::text, %(turn_index)s::integer,
    %(state)s::jsonb, %(last_route)s::jsonb, %(signature)s::text, %(version)s::text,
    %(turn_id)s::uuid, %(run_id)s::text, %(fence)s::bigint, %(turn_snapshot)s::jsonb
)

-- load_checkpoint --
-- The record with the highest index, with what the session says today.
SELECT c.*, s.summarized_through, s.lock_acquired_at, s.lock_expires_at
FROM turnchain_checkpoints AS c
LEFT JOIN turnchain_sessions AS s USING (orchestrator_name, session_id)
WHERE c.orchestrator_name = %(orchestrator_name)s::text AND c.session_id = %(session_id)s::text
ORDER BY c.turn_index DESC LIMIT 1

-- load_checkpoints --
-- The records of a range, oldest first.
SELECT c.*, s.summarized_through, s.lock_acquired_at, s.lock_expires_at
FROM turnchain_checkpoints AS c
LEFT JOIN turnchain_sessions AS s USING (orchestrator_name, session_id)
WHERE c.orchestrator_name = %(orchestrator_name)s::text AND c.session_id = %(session_id)s::text
    AND c.turn_index BETWEEN %(first)s::integer AND %(last)s::integer
ORDER BY c.turn_index

-- list_checkpoints --
-- Sessions that have records; the prefix is literal.
SELECT DISTINCT session_id FROM turnchain_checkpoints
WHERE orchestrator_name = %(orchestrator_name)s::text
    AND starts_with(session_id, %(prefix)s::text)
ORDER BY session_id

-- prune_checkpoints --
-- Delete the records below an index, never the last one.
DELETE FROM turnchain_checkpoints
WHERE orchestrator_name = %(orchestrator_name)s::text AND session_id = %(session_id)s::text
    AND turn_index < least(%(keep_before)s::integer, (
        SELECT max(head.turn_index) FROM turnchain_checkpoints AS head
        WHERE head.orchestrator_name = %(orchestrator_name)s::text
            AND head.session_id = %(session_id)s::text
    ))

-- delete_checkpoints --
-- Delete all records of a session.
DELETE FROM turnchain_checkpoints
WHERE orchestrator_name = %(orchestrator_name)s::text AND session_id = %(session_id)s::text
