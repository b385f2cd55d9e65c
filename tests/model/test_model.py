"""Any interleaving, any crash, any message lost or doubled: nothing accepted is lost, nothing is done twice."""

from __future__ import annotations

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import TurnMachine
from tests.model.settings import LONG, QUICK


def test_the_protocol_keeps_its_promises() -> None:
    run_state_machine_as_test(TurnMachine, settings=QUICK)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_protocol_keeps_its_promises_for_long() -> None:
    run_state_machine_as_test(TurnMachine, settings=LONG)
