-- Turnchain's tables for PostgreSQL 14 and newer. Applying this file again changes nothing.
--
-- No foreign keys: a sibling row is only ever written in the transaction that holds its turn, and
-- a key check would lock the turn's row against the very updates that move it.
-- Ids are compared byte by byte (COLLATE "C"): cheaper, and the order that the ports promise.

-- ------------------------------------------------------------------------------------------ turns

CREATE TABLE IF NOT EXISTS turnchain_turns (
    turn_id uuid PRIMARY KEY,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    orchestrator_name text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    tenant text COLLATE "C",
    user_id text COLLATE "C",
    run_id text COLLATE "C" NOT NULL,
    runner text NOT NULL DEFAULT 'celery' CHECK (runner IN ('engine', 'celery')),
    status text NOT NULL DEFAULT 'queued' CHECK (status IN (
        'queued', 'running', 'paused', 'awaiting-input', 'failed', 'cancelled', 'max-iterations',
        'blocked', 'dead', 'quarantined', 'absorbed', 'superseded')),
    stage text NOT NULL DEFAULT 'load' CHECK (stage IN (
        'load', 'drift', 'lock', 'window', 'dispatch', 'persist', 'compact', 'done')),
    fence bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    takeovers integer NOT NULL DEFAULT 0,
    event_seq integer NOT NULL DEFAULT 0,
    lease_owner text,
    lease_expires_at timestamptz,
    ready_at timestamptz,
    parked text,
    wakes integer NOT NULL DEFAULT 0,
    woken_at timestamptz,
    turn_index integer,
    priority integer NOT NULL DEFAULT 0,
    behind boolean NOT NULL DEFAULT false,
    cancel_requested_at timestamptz,
    deadline_at timestamptz,
    idempotency_key text COLLATE "C",
    request_hash text NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    admitted_at timestamptz,
    settled_at timestamptz,
    -- Generated, so that an index can leave out what is over: an index on `stage` itself would
    -- cost every hand-over a new entry in each index of the table (no HOT update).
    in_flight boolean NOT NULL
        GENERATED ALWAYS AS (status <> 'queued' AND stage <> 'done') STORED
) WITH (
    -- A turn is updated about fifteen times in its life: leave room on its page.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);

COMMENT ON TABLE turnchain_turns IS 'One input to one session, until it is done: where it stands and who may move it. Narrow, because every stage updates it.';
COMMENT ON COLUMN turnchain_turns.turn_id IS 'Minted by the producer, so that an accept can be repeated.';
COMMENT ON COLUMN turnchain_turns.seq IS 'Order of acceptance over all sessions.';
COMMENT ON COLUMN turnchain_turns.run_id IS 'The supervisor run; the turn''s own id unless it goes on with an interrupted run.';
COMMENT ON COLUMN turnchain_turns.runner IS 'Who runs the stages: Celery workers, or the engine of one process.';
COMMENT ON COLUMN turnchain_turns.status IS 'What has become of the turn; final from persist on.';
COMMENT ON COLUMN turnchain_turns.stage IS 'Which stage runs next or now; done is behind the last.';
COMMENT ON COLUMN turnchain_turns.fence IS 'Grows whenever the right to run changes hands without the stage advancing; every write carries it.';
COMMENT ON COLUMN turnchain_turns.attempts IS 'Takeovers in a row without progress.';
COMMENT ON COLUMN turnchain_turns.takeovers IS 'Takeovers in all.';
COMMENT ON COLUMN turnchain_turns.event_seq IS 'Number of the turn''s last event.';
COMMENT ON COLUMN turnchain_turns.lease_owner IS 'process/serial of the claim that runs the stage; null while nobody owns the turn.';
COMMENT ON COLUMN turnchain_turns.lease_expires_at IS 'When the owner is taken for dead. Only an owned turn can expire.';
COMMENT ON COLUMN turnchain_turns.ready_at IS 'Since when, or from when on, the turn may be claimed; null while owned, or parked until told.';
COMMENT ON COLUMN turnchain_turns.parked IS 'Why the turn waits without an owner; null otherwise.';
COMMENT ON COLUMN turnchain_turns.wakes IS 'How often the sweep has published the turn since it became ready.';
COMMENT ON COLUMN turnchain_turns.woken_at IS 'When the turn''s message was last due to be published.';
COMMENT ON COLUMN turnchain_turns.turn_index IS 'Place in the session, known from load on.';
COMMENT ON COLUMN turnchain_turns.priority IS 'Lower runs first.';
COMMENT ON COLUMN turnchain_turns.behind IS 'Seen by admit behind a queued turn of its session, and not looked at again until that one is gone. Whoever takes a turn out of queued locks turnchain_admission first and lets the next one up.';
COMMENT ON COLUMN turnchain_turns.deadline_at IS 'Covers waiting and running.';
COMMENT ON COLUMN turnchain_turns.request_hash IS 'Hash of what was asked: tells a repetition from a different request.';
COMMENT ON COLUMN turnchain_turns.in_flight IS 'Admitted and not done.';

-- Expressions like (orchestrator_name || '') and (seq + 0) are here to be matched by one query each.
-- Queued turns are rare in the statistics and many in a burst, and a planner that expects one row
-- takes any index that fits; so only the right one does.

-- At most one running or paused turn a session, whatever the code does.
CREATE UNIQUE INDEX IF NOT EXISTS turnchain_turns_one_live
    ON turnchain_turns ((orchestrator_name || ''), session_id)
    WHERE status IN ('running', 'paused');
CREATE UNIQUE INDEX IF NOT EXISTS turnchain_turns_idempotency
    ON turnchain_turns (orchestrator_name, session_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS turnchain_turns_session
    ON turnchain_turns (orchestrator_name, session_id, seq);
-- What the sweep looks through, and what capacity is counted over.
CREATE INDEX IF NOT EXISTS turnchain_turns_in_flight ON turnchain_turns (seq) WHERE in_flight;
-- Who is first in its session.
CREATE INDEX IF NOT EXISTS turnchain_turns_queue
    ON turnchain_turns ((orchestrator_name || ''), session_id, seq) WHERE status = 'queued';
-- Who came since admit last looked.
CREATE INDEX IF NOT EXISTS turnchain_turns_arrivals
    ON turnchain_turns ((seq + 0)) WHERE status = 'queued';
-- Who is first of its tenant.
CREATE INDEX IF NOT EXISTS turnchain_turns_admission
    ON turnchain_turns (coalesce(tenant, ''), priority, seq)
    WHERE status = 'queued' AND runner = 'celery' AND NOT behind;
-- Whose engine may have gone while they waited.
CREATE INDEX IF NOT EXISTS turnchain_turns_engine
    ON turnchain_turns (seq) WHERE runner = 'engine' AND (in_flight OR status = 'queued');
CREATE INDEX IF NOT EXISTS turnchain_turns_deadline
    ON turnchain_turns (deadline_at) WHERE deadline_at IS NOT NULL AND settled_at IS NULL;
-- What operators list: without these two, each list reads the whole table. They hold what no move
-- changes, so claims and hand-overs stay HOT; a turn's other four writes cost 350 bytes of WAL more.
CREATE INDEX IF NOT EXISTS turnchain_turns_newest ON turnchain_turns (orchestrator_name, seq);
CREATE INDEX IF NOT EXISTS turnchain_turns_unanswered
    ON turnchain_turns (orchestrator_name, status, seq)
    WHERE status NOT IN ('queued', 'running', 'paused', 'awaiting-input');

CREATE TABLE IF NOT EXISTS turnchain_turn_requests (
    turn_id uuid PRIMARY KEY,
    input jsonb NOT NULL,
    state_patch jsonb NOT NULL,
    history jsonb,
    history_provider jsonb,
    context jsonb,
    context_provider jsonb,
    force boolean NOT NULL,
    expected_turn_index integer
);
COMMENT ON TABLE turnchain_turn_requests IS 'What was asked, beside the hot row.';
COMMENT ON COLUMN turnchain_turn_requests.history IS 'Literal messages; request-scoped, null once the turn is done.';
COMMENT ON COLUMN turnchain_turn_requests.history_provider IS 'Name and arguments of what produces them on the worker.';
COMMENT ON COLUMN turnchain_turn_requests.context IS 'Literal context; request-scoped, null once the turn is done.';
COMMENT ON COLUMN turnchain_turn_requests.context_provider IS 'Name and arguments of what produces it on the worker.';

CREATE TABLE IF NOT EXISTS turnchain_turn_work (
    turn_id uuid PRIMARY KEY,
    work jsonb NOT NULL
) WITH (fillfactor = 70);
COMMENT ON TABLE turnchain_turn_work IS 'What the stages have found out so far; deleted when the turn is done.';

CREATE TABLE IF NOT EXISTS turnchain_outcomes (
    turn_id uuid PRIMARY KEY,
    status text NOT NULL,
    outcome jsonb NOT NULL,
    settled_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE turnchain_outcomes IS 'How each turn ended: one row a turn, written once, without the state.';

CREATE TABLE IF NOT EXISTS turnchain_turn_events (
    turn_id uuid,
    seq integer,
    type text NOT NULL,
    payload jsonb NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (turn_id, seq)
);
COMMENT ON TABLE turnchain_turn_events IS 'What happened to each turn, numbered from 1 without gaps.';

CREATE UNIQUE INDEX IF NOT EXISTS turnchain_turn_events_one_terminal
    ON turnchain_turn_events (turn_id) WHERE type IN (
        'orchestrator.turn.awaiting-input', 'orchestrator.turn.failed',
        'orchestrator.turn.cancelled');

-- --------------------------------------------------------------------------------------- sessions

CREATE TABLE IF NOT EXISTS turnchain_sessions (
    orchestrator_name text COLLATE "C",
    session_id text COLLATE "C",
    tenant text COLLATE "C",
    user_id text COLLATE "C",
    head_turn_index integer NOT NULL DEFAULT -1,
    lock_owner text,
    lock_acquired_at timestamptz,
    lock_expires_at timestamptz,
    summarized_through integer,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (orchestrator_name, session_id)
) WITH (fillfactor = 80);
-- What operators list; written once a session.
CREATE INDEX IF NOT EXISTS turnchain_sessions_newest
    ON turnchain_sessions (orchestrator_name, created_at);
COMMENT ON TABLE turnchain_sessions IS 'A conversation that has begun: made when its first load hands over.';
COMMENT ON COLUMN turnchain_sessions.tenant IS 'Whose it is, with user_id; null is a value that only null matches.';
COMMENT ON COLUMN turnchain_sessions.head_turn_index IS 'Index of the last turn that settled well, -1 before any.';
COMMENT ON COLUMN turnchain_sessions.lock_owner IS 'Who compacts the session now.';
COMMENT ON COLUMN turnchain_sessions.summarized_through IS 'Up to which message the history is summarized.';

CREATE TABLE IF NOT EXISTS turnchain_checkpoints (
    orchestrator_name text COLLATE "C",
    session_id text COLLATE "C",
    turn_index integer,
    state jsonb NOT NULL,
    last_route jsonb,
    signature text NOT NULL,
    version text,
    saved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    turn_id uuid NOT NULL UNIQUE,
    run_id text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    turn_snapshot jsonb NOT NULL,
    PRIMARY KEY (orchestrator_name, session_id, turn_index)
);
COMMENT ON TABLE turnchain_checkpoints IS 'One append-only row a settled turn; the lock and summarized_through are joined from the session.';
COMMENT ON COLUMN turnchain_checkpoints.last_route IS 'Text of one intent, array of a fan-out''s.';
COMMENT ON COLUMN turnchain_checkpoints.turn_snapshot IS 'Input, decision, results and state of the turn.';

-- ------------------------------------------------------------------------------------------- runs

CREATE TABLE IF NOT EXISTS turnchain_snapshots (
    run_id text COLLATE "C" PRIMARY KEY,
    fence bigint NOT NULL,
    head jsonb NOT NULL,
    seed jsonb NOT NULL,
    saved_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 70);
COMMENT ON TABLE turnchain_snapshots IS 'Heads of the runs in flight.';
COMMENT ON COLUMN turnchain_snapshots.head IS 'What an iteration changes.';
COMMENT ON COLUMN turnchain_snapshots.seed IS 'Input and first state: large, and written once.';

CREATE TABLE IF NOT EXISTS turnchain_snapshot_iterations (
    run_id text COLLATE "C",
    iteration integer,
    snapshot jsonb NOT NULL,
    PRIMARY KEY (run_id, iteration)
);
COMMENT ON TABLE turnchain_snapshot_iterations IS 'Settled iterations of the runs in flight, never changed.';

CREATE TABLE IF NOT EXISTS turnchain_steps (
    run_id text COLLATE "C",
    effect_key text COLLATE "C",
    turn_id uuid NOT NULL,
    name text NOT NULL,
    status text NOT NULL DEFAULT 'intended' CHECK (status IN ('intended', 'finished')),
    result jsonb,
    intended_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    PRIMARY KEY (run_id, effect_key)
);
COMMENT ON TABLE turnchain_steps IS 'Journal of side effects: intent before, result after.';
COMMENT ON COLUMN turnchain_steps.turn_id IS 'The turn that wrote the intent, for retention.';

-- -------------------------------------------------------------------------------------- processes

CREATE TABLE IF NOT EXISTS turnchain_processes (
    process_id text COLLATE "C" PRIMARY KEY,
    slots integer NOT NULL,
    queues jsonb NOT NULL,
    signatures jsonb NOT NULL,
    draining boolean NOT NULL,
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
COMMENT ON TABLE turnchain_processes IS 'Heartbeats; capacity is the sum of the fresh ones'' slots.';

CREATE TABLE IF NOT EXISTS turnchain_orchestrators (
    name text COLLATE "C",
    signature text COLLATE "C",
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (name, signature)
);
COMMENT ON TABLE turnchain_orchestrators IS 'What live and past processes have announced that they serve.';

CREATE TABLE IF NOT EXISTS turnchain_sweeps (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    swept_at timestamptz,
    postmaster_started_at timestamptz
);
COMMENT ON TABLE turnchain_sweeps IS 'One row: when the last sweep began, and under which start of the server.';
INSERT INTO turnchain_sweeps DEFAULT VALUES ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS turnchain_admission (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    looked_seq bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
COMMENT ON TABLE turnchain_admission IS 'One row, locked by whoever admits, so that two never count the same free slot.';
COMMENT ON COLUMN turnchain_admission.looked_seq IS 'Up to which arrival admit has looked.';
INSERT INTO turnchain_admission DEFAULT VALUES ON CONFLICT DO NOTHING;
