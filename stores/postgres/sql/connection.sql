-- set_session --
-- What every session of ours has. No transaction may outlive a client that stopped.
SELECT
    set_config('TimeZone', 'UTC', false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('idle_in_transaction_session_timeout', '10s', false),
    set_config('statement_timeout', '30s', false),
    set_config('lock_timeout', %(lock_timeout_ms)s::integer::text, false),
    set_config('jit', 'off', false),
    set_config('synchronous_commit', %(synchronous_commit)s::text, false)

-- begin --
-- Open a unit that has more than one statement.
BEGIN

-- commit --
-- End it.
COMMIT
