"""One thread a pool process that keeps what the process owns alive, and looks after what nobody owns. [DESIGN 6]"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from turnchain.orchestrator_core.contracts import Claim, ProcessRecord
from turnchain.orchestrator_core.errors import TurnchainError
from turnchain.orchestrator_core.ports import Publisher
from turnchain.orchestrator_core.sweep import sweep
from turnchain.tasks.environment import TaskEnvironment
from turnchain.workers.draining import Draining
from turnchain.workers.leases import HeldLeases

log = logging.getLogger("turnchain.workers")

_QUICK = timedelta(milliseconds=100)
"""Between two rounds while draining: the grace is short."""


class Housekeeping:
    """Renews leases, writes the heartbeat row, sweeps when due, hands back at the end.

    Started after the fork. Whatever a round cannot do, the next one does: a store that does not answer must not end it.
    """

    def __init__(
        self,
        env: TaskEnvironment,
        leases: HeldLeases,
        publisher: Publisher,
        draining: Draining,
        process: ProcessRecord,
        interval: timedelta,
    ) -> None:
        self._env = env
        self._leases = leases
        self._publisher = publisher
        self._draining = draining
        self._process = process
        self._interval = interval
        self._stopped = threading.Event()
        self._abandoned = False
        self._thread = threading.Thread(
            target=self._serve, name="turnchain-housekeeping", daemon=True
        )

    def start(self) -> None:
        """Announce the process, admit for its new slots, and go on in the background."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and withdraw the process's slots."""
        self._stopped.set()
        self._thread.join(self._interval.total_seconds())
        self._try("forget", lambda: self._env.core.ledger.forget(self._process.process_id))

    def _serve(self) -> None:
        self._try("heartbeat", self._beat)
        self._try("admit", self._admit)
        while not self._stopped.is_set():
            self._try("renew", self._leases.renew)
            self._try("heartbeat", self._beat)
            self._try("sweep", self._sweep)
            if self._draining.asked:
                self._try("hand back", self._abandon)
                self._stopped.wait(_QUICK.total_seconds())
            else:
                self._draining.wait(self._interval)

    def _beat(self) -> None:
        self._env.core.ledger.beat(
            self._process.model_copy(update={"draining": self._draining.asked})
        )

    def _admit(self) -> None:
        self._publisher.publish(self._env.core.ledger.admit(self._env.core.policy.max_in_flight))

    def _sweep(self) -> None:
        if not self._draining.asked:
            self._publisher.publish(
                sweep(self._env.core.ledger, self._env.core.policy, self._env.sweep) or []
            )

    def _abandon(self) -> None:
        """Hand back what did not stop by itself: its turn must not wait for a call that cannot be cancelled."""
        if self._draining.grace_is_over:
            for claim in self._leases.abandon():
                self._try("hand back", partial(self._hand_back, claim))

    def _hand_back(self, claim: Claim) -> None:
        handed_back = self._env.core.ledger.hand_back(claim)
        self._leases.end(claim)  # only now: what the ledger did not hear, the next round says again
        self._publisher.publish([handed_back] if handed_back else [])

    def _try(self, what: str, act: Callable[[], object]) -> None:
        try:
            act()
        except TurnchainError as error:
            log.warning(
                "housekeeping could not %s",
                what,
                extra={"code": error.code, "error": type(error).__name__},
            )
        except Exception as error:
            # Leases would run out if this thread ended, and with them every turn of the process.
            log.exception("housekeeping failed to %s", what, extra={"error": type(error).__name__})
