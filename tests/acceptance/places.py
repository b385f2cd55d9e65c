"""Where a turn that is called in place can be cut: one turn in each of six places, all on one worker. [ADR 0016]"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import datetime

from tests.acceptance.database import wait_for
from tests.acceptance.harness import Floor
from turnchain import Provider, Turn

KEPT = (
    "SELECT FROM turnchain_checkpoints WHERE session_id = %s AND turn_index = 0 FOR NO KEY UPDATE"
)
"""What compact deletes when the session's second turn is settled, since one is kept."""
ROW = "SELECT FROM turnchain_turns WHERE turn_id = %s FOR NO KEY UPDATE"
COMPACTS = "DELETE FROM turnchain_checkpoints"
WRITES = "turnchain_write_unit"

PLACES = {
    "load": ("history-load", "history", 0),
    "call": ("work-call-1", "work", 1),
    "end": ("end-end", "end", 2),
    "outcome": ("end-outcome", "end", 2),
    "window": ("window", "window", 0),
}
"""Session, named after the place, with its door and the visit that tells that the turn has come there: the provider of
its history, its second iteration, the last decision behind that, once more to send the outcome to a lock from there,
and the slicer, last because its door does not know whose slices are cut. The sixth place is compact."""


@dataclass(slots=True)
class SixPlaces:
    """The turns by place."""

    floor: Floor
    locks: contextlib.ExitStack
    turns: dict[str, Turn] = field(default_factory=dict[str, Turn])

    def send_outcome(self) -> None:
        """Have the transaction of the outcome wait for its turn's row.

        Late, since housekeeping renews all of a process's turns in one statement, which waits for that row, too.
        """
        database = self.floor.database
        self.locks.enter_context(database.held(ROW, self.turns["outcome"].turn_id))
        self.floor.open_door("end-outcome")
        wait_for(lambda: database.somebody_waits(WRITES), 10, "the outcome")

    def release(self) -> datetime:
        """Let the server carry out what it was told before the worker went away; the instant when that is done."""
        self.locks.close()
        outcome = self.turns["outcome"]
        wait_for(lambda: self.floor.database.stands(outcome, stage="compact"), 5, "the commit")
        return self.floor.database.now()

    def open_doors(self) -> None:
        """Let whoever comes to a door pass."""
        for door, _, _ in PLACES.values():
            self.floor.open_door(door)


@contextlib.contextmanager
def six_places(floor: Floor) -> Generator[SixPlaces]:
    """Bring one turn to each place."""
    database = floor.database
    floor.assert_settled_once(floor.enqueue("compact"), "compact")
    with contextlib.ExitStack() as locks:
        places = SixPlaces(floor, locks)
        locks.enter_context(database.held(KEPT, "compact"))
        places.turns["compact"] = _two_iterations(floor, "compact")
        wait_for(lambda: database.somebody_waits(COMPACTS), 10, "compact")
        for place, (door, what, iteration) in PLACES.items():
            floor.close_door(door)
            turn = places.turns[place] = _two_iterations(floor, place)
            session = "" if what == "window" else place
            wait_for(lambda: database.visit(turn, session, what, iteration), 10, place)  # noqa: B023
            if what == "work":
                database.wait_until_finished(turn, f"{iteration}:work:before")
        yield places


def _two_iterations(floor: Floor, session: str) -> Turn:
    return floor.enqueue(session, ["work", "work"], history=Provider(name="history"))
