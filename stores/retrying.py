"""The one policy for store errors that are over in a moment.

Whether a verb may be repeated is its driver's decision, because an error can hide a success: the
answer to a COMMIT may be lost. Repeated are

- reads, renewals, heartbeats: the second answer is as good;
- `accept` on an own connection (idempotent by turn id), `request_cancel`, `admit`, `rewake`,
  `begin_sweep`, `take_over`: what the first call did and could not report is published by a later
  sweep;
- `claim`, which tells the server that it asks again: an owner's name is used for one claim only;
- `finish_step`: the first result stays.

Not repeated are a unit with its writes, `park` and `hand_back` (the repetition would find the
lease gone and could not tell its own success from a loss), `begin_step` (it would find its own
intent and call it in doubt) and `admit_turn`. There the stage is abandoned, and the row, whichever
way it stands, is the sweep's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential


@cache
def repeating(is_passing: Callable[[BaseException], bool]) -> Retrying:
    """Three tries within about a second, for errors that a driver calls passing."""
    return Retrying(
        retry=retry_if_exception(is_passing),
        stop=stop_after_attempt(3),
        wait=wait_random_exponential(multiplier=0.1, max=0.5),
        reraise=True,
    )
