-- save_head --
-- Write a run's head; what it started with is written once.
INSERT INTO turnchain_snapshots (run_id, fence, head, seed)
VALUES (%(run_id)s::text, %(fence)s::bigint, %(head)s::jsonb, %(seed)s::jsonb)
ON CONFLICT (run_id) DO UPDATE
SET fence = excluded.fence, head = excluded.head, saved_at = clock_timestamp()

-- save_iteration --
-- Write a settled iteration, once.
INSERT INTO turnchain_snapshot_iterations (run_id, iteration, snapshot)
VALUES (%(run_id)s::text, %(iteration)s::integer, %(snapshot)s::jsonb)
ON CONFLICT DO NOTHING

-- load_snapshot --
-- A run with its settled iterations, in order.
SELECT
    s.seed || s.head AS head,
    (
        SELECT coalesce(jsonb_agg(i.snapshot ORDER BY i.iteration), '[]')
        FROM turnchain_snapshot_iterations AS i WHERE i.run_id = s.run_id
    ) AS iterations
FROM turnchain_snapshots AS s WHERE s.run_id = %(run_id)s::text

-- delete_snapshot --
-- Delete a run and its iterations.
WITH iterations AS (
    DELETE FROM turnchain_snapshot_iterations WHERE run_id = %(run_id)s::text
)
DELETE FROM turnchain_snapshots WHERE run_id = %(run_id)s::text

-- list_snapshots --
-- Run ids; the prefix is literal.
SELECT run_id FROM turnchain_snapshots WHERE starts_with(run_id, %(prefix)s::text)
ORDER BY run_id
