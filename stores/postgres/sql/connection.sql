-- set_session --
-- What every session of ours has. No transaction may outlive a client that stopped.
SELECT
    set_config('TimeZone', 'UTC', false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('idle_in_transaction_session_timeout', '10s', false),
    set_config('statement_timeout', '30s', false),
    set_config('lock_timeout', %(lock_timeout_ms)s::integer::text, false),
    set_config('jit', 'off', false),
    set_config('synchronous_commit', %(synchronous_commit)s::text, false),
    set_config('default_transaction_read_only', %(read_only)s::boolean::text, false),
    -- What moves turns looks rows up by key. Planned once, and by index also while the statistics of a young or suddenly
    -- full table are wrong. What an operator asks has filters, and is planned by what they are.
    set_config(
        'plan_cache_mode',
        CASE WHEN %(read_only)s::boolean THEN 'auto' ELSE 'force_generic_plan' END, false
    ),
    set_config('enable_seqscan', %(read_only)s::boolean::text, false),
    set_config('enable_bitmapscan', %(read_only)s::boolean::text, false),
    set_config('enable_hashjoin', %(read_only)s::boolean::text, false),
    set_config('enable_mergejoin', %(read_only)s::boolean::text, false),
    set_config('enable_material', %(read_only)s::boolean::text, false),
    set_config('enable_sort', %(read_only)s::boolean::text, false)

-- lacking --
-- Which of these functions are not there.
SELECT name FROM unnest(%(names)s::text[]) AS wanted (name)
WHERE NOT EXISTS (
    SELECT FROM pg_proc AS p WHERE p.proname = wanted.name AND pg_function_is_visible(p.oid)
)

-- begin --
-- Open a unit that has more than one statement.
BEGIN

-- commit --
-- End it.
COMMIT
