"""What became of every turn, by SQL that anybody can run again."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from time import monotonic
from typing import Any

import psycopg

LOST = """
SELECT coalesce(sum(greatest(expected.turns - settled.turns, 0)), 0) FROM booking_expected AS expected
CROSS JOIN LATERAL (
    SELECT count(*) AS turns FROM turnchain_turns AS turn
    WHERE turn.orchestrator_name = 'booking' AND turn.session_id = expected.session_id
        AND turn.status NOT IN ('queued', 'running', 'paused')
) AS settled
"""
UNFINISHED = "SELECT count(*) FROM turnchain_turns WHERE stage <> 'done'"
DOUBLED = """
SELECT (SELECT count(*) FROM (SELECT FROM turnchain_checkpoints GROUP BY turn_id HAVING count(*) > 1) AS checkpoints)
     + (SELECT count(*) FROM (SELECT FROM turnchain_turn_events
                              WHERE type IN ('orchestrator.turn.awaiting-input', 'orchestrator.turn.failed',
                                             'orchestrator.turn.cancelled')
                              GROUP BY turn_id HAVING count(*) > 1) AS finals)
     + (SELECT count(*) FROM (SELECT FROM booking_effects GROUP BY effect_key HAVING count(*) > 1) AS effects)
     + (SELECT count(*) FROM (SELECT FROM turnchain_turns AS turn JOIN booking_expected AS expected USING (session_id)
                              GROUP BY session_id, expected.turns HAVING count(*) > expected.turns) AS sessions)
"""
WRONG = """
SELECT count(*) FROM booking_expected AS expected
LEFT JOIN LATERAL (
    SELECT state FROM turnchain_checkpoints AS checkpoint
    WHERE checkpoint.orchestrator_name = 'booking' AND checkpoint.session_id = expected.session_id
    ORDER BY turn_index DESC LIMIT 1
) AS latest ON true
WHERE latest.state IS DISTINCT FROM expected.state
"""
UNHAPPY = "SELECT count(*) FROM turnchain_turns WHERE status <> 'awaiting-input'"
RERUN = "SELECT count(*) - count(DISTINCT (run_id, iteration)) FROM booking_runs"
TAKEOVERS = "SELECT coalesce(sum(takeovers), 0) FROM turnchain_turns"
TURNS = "SELECT count(*) FROM turnchain_turns"
SESSIONS = "SELECT count(*) FROM turnchain_sessions"
EFFECTS = "SELECT count(*) FROM booking_effects"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The counts; good means that nothing is lost, doubled or wrong."""

    turns: int
    sessions: int
    effects: int
    takeovers: int
    rerun: int
    lost: int
    doubled: int
    wrong: int
    unhappy: int

    @property
    def is_good(self) -> bool:
        """Whether every promise held."""
        return not (self.lost or self.doubled or self.wrong or self.unhappy)


def wait_until_done(url: str, seconds: float) -> None:
    """Wait until no turn has a stage left: the answers are out before `compact` has run."""
    deadline = monotonic() + seconds
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(UNFINISHED).fetchone() != (0,) and monotonic() < deadline:
            threading.Event().wait(0.1)


def judge(url: str) -> Verdict:
    """Ask the database."""
    with psycopg.connect(url) as connection:

        def ask(query: Any) -> int:
            row = connection.execute(query).fetchone()
            return int(row[0]) if row else 0

        return Verdict(
            turns=ask(TURNS),
            sessions=ask(SESSIONS),
            effects=ask(EFFECTS),
            takeovers=ask(TAKEOVERS),
            rerun=ask(RERUN),
            lost=ask(LOST),
            doubled=ask(DOUBLED),
            wrong=ask(WRONG),
            unhappy=ask(UNHAPPY),
        )
