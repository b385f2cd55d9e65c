-- save_run --
-- Write a run's head; what it started with is written once.
SELECT turnchain_save_run(
    %(run_id)s::text, %(fence)s::bigint, %(head)s::jsonb, %(seed)s::jsonb
)

-- save_iteration --
-- Write a settled iteration, once.
SELECT turnchain_save_iteration(%(run_id)s::text, %(iteration)s::integer, %(snapshot)s::jsonb)

-- load_snapshot --
-- A run with its settled iterations, in order.
SELECT
    s.seed || s.head AS head,
    (
        SELECT coalesce(jsonb_agg(i.snapshot ORDER BY i.iteration), '[]')
        FROM turnchain_snapshot_iterations AS i WHERE i.run_id = s.run_id
    ) AS iterations
FROM turnchain_snapshots AS s WHERE s.run_id = %(run_id)s::text

-- delete_run --
-- Delete a run and its iterations.
SELECT turnchain_delete_run(%(run_id)s::text)

-- list_snapshots --
-- Run ids; the prefix is literal.
SELECT run_id FROM turnchain_snapshots WHERE starts_with(run_id, %(prefix)s::text)
ORDER BY run_id
