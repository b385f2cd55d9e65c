"""What the demo says of the kill, the takeovers and the counts; ids and names, never what a person wrote."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from turnchain.examples.booking.cut import Cut, Takeover
from turnchain.examples.booking.play import Answered, median_and_p95
from turnchain.examples.booking.verdict import Verdict

HELD = "Everything held: one answer to every turn, and the right state in every session."
BROKEN = "NOT everything held: see the counts above."


def of_kill(cut: Cut, lease: timedelta) -> list[str]:
    """Who was killed, and in the middle of what."""
    return [
        f"SIGKILL to {cut.worker} (pid {cut.process_id}) in the middle of {counted(len(cut.turns), 'turn')}:",
        *(
            f"  {each.turn_id} of session {each.session_id!r}, {counted(each.kept, 'iteration')} saved"
            for each in cut.turns
        ),
        *(
            [f"  and {counted(len(cut.others), 'turn')} more, not inside an iteration"]
            if cut.others
            else []
        ),
        f"  Nobody renews their leases now: they end within {lease.total_seconds():g} s. The others go on.",
    ]


def of_takeover(cut: Cut, takeover: Takeover) -> list[str]:
    """Who went on with a turn, after how long, and what that cost."""
    kept = counted(takeover.kept, "iteration")
    return [
        f"{takeover.worker} (pid {takeover.process_id}) took over {takeover.turn.turn_id}",
        f"  from {cut.worker} (pid {cut.process_id}) {takeover.seconds:.1f} s after the kill: "
        f"{kept} kept, {takeover.rerun} run again",
    ]


def rows(
    found: Verdict, cut: Cut | None, answers: Sequence[Answered], seconds: float
) -> list[tuple[str, str]]:
    """The table at the end. What must be 0 and is not on the issue's list is shown only when it is not."""
    waited = {each.session_id for each in (*cut.turns, *cut.others)} if cut else set[str]()
    others = [each for each in answers if each.session_id not in waited]
    return [
        ("turns", str(found.turns)),
        ("sessions", str(found.sessions)),
        ("takeovers", str(found.takeovers)),
        *([("iterations kept", str(sum(each.kept for each in cut.takeovers)))] if cut else []),
        ("iterations run again", str(found.rerun)),
        ("lost", str(found.lost)),
        ("doubled", str(found.doubled)),
        ("wrong", str(found.wrong)),
        *([("not answered", str(found.unhappy))] if found.unhappy else []),
        ("turns a second", f"{found.turns / seconds:.1f}"),
        ("p50 / p95", _median_and_p95(answers)),
        *([("  of the other sessions", _median_and_p95(others))] if waited and others else []),
    ]


def _median_and_p95(answers: Sequence[Answered]) -> str:
    median, p95 = median_and_p95(answers)
    return f"{median:.2f} / {p95:.2f} s"


def counted(number: int, noun: str) -> str:
    """`1 turn`, `2 turns`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
