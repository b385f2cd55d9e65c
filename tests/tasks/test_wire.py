"""Reading a message that anybody may have written: a wake or nothing, and never an exception."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import STAGES, Stage, TurnId, Wake

TURN = "9a3b5a3e-3f5e-4e0c-8a58-6c1b1d1f8f10"

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.uuids().map(str),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
stages: st.SearchStrategy[Any] = st.sampled_from([each.value for each in Stage]) | json_values
turn_ids: st.SearchStrategy[Any] = st.uuids().map(str) | json_values
fences: st.SearchStrategy[Any] = st.integers(-(2**70), 2**70) | json_values


@given(stages, st.tuples(turn_ids, fences) | st.lists(json_values, max_size=5))
@example("load", None)
@example("load", 7)
@example("load", (TURN, float("nan")))
@example("load", (TURN, 1.0))
@example("load", (TURN, "1"))
@example("load", (TURN, True))
@example("load", (TURN, 2**63))
@example("load", (TURN.upper(), 0))
@example("load", ("\u0665" * 8 + TURN[8:], 0))
@example(["load"], (TURN, 0))
@example({}, (TURN, 0))
def test_whatever_a_message_holds_it_is_a_wake_or_nothing(stage: Any, arguments: Any) -> None:
    wake = wire.read_wake(stage, arguments)

    if wake is not None:
        assert (wake.turn_id, wake.fence) == tuple(arguments)
        assert wake.stage == stage
        assert wire.is_turn_id(wake.turn_id)
        assert 0 <= wake.fence < 2**63
        assert type(wake.fence) is int
        assert not isinstance(tuple(arguments)[1], bool)


@given(st.uuids().map(str), st.sampled_from(Stage), st.integers(0, 2**63 - 1))
def test_what_is_sent_is_read_back(turn_id: str, stage: Stage, fence: int) -> None:
    wake = Wake(turn_id=TurnId(turn_id), stage=stage, fence=fence)

    assert wire.read_wake(stage.value, wire.arguments(wake)) == wake


@given(json_values)
def test_only_a_canonical_uuid_is_a_turn_id(value: Any) -> None:
    if wire.is_turn_id(value):
        assert len(value) == 36
        assert value == value.lower()
        assert value.isascii()


@pytest.mark.parametrize(
    "value",
    [
        "",
        TURN.upper(),
        TURN[:-1],
        TURN + "0",
        TURN.replace("-", ""),
        f"{{{TURN}}}",
        f" {TURN}",
        f"{TURN}\n",
        7,
        None,
    ],
)
def test_what_is_nearly_a_turn_id_is_none(value: Any) -> None:
    assert not wire.is_turn_id(value)


def test_names_are_fixed() -> None:
    """Messages in flight survive a deployment that moves a file."""
    assert [wire.task_name(stage) for stage in STAGES] == [
        "turn.load",
        "turn.drift",
        "turn.lock",
        "turn.window",
        "turn.dispatch",
        "turn.persist",
        "turn.compact",
    ]
    assert (wire.TAKEOVER, wire.DRAIN) == ("turn.takeover", "turn.drain")
    assert wire.QUEUES == ("turns", "control", "maintenance")
    wake = Wake(turn_id=TurnId(TURN), stage=Stage.LOCK, fence=3)
    assert wire.task_id(wake, "0a1b") == f"{TURN}:lock:3.0a1b"
