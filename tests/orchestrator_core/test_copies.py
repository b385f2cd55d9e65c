"""What callables may change without anybody else seeing it. [O 15.4 G38]"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnchain.orchestrator_core.contracts import Message
from turnchain.orchestrator_core.copies import Copies, json_copy

MESSAGES = tuple(Message(role="user", content={"said": [n]}) for n in range(4))

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


def test_a_member_is_a_copy_and_always_the_same_one() -> None:
    copies = Copies(MESSAGES)

    copies[1].content["said"].append("spoiled")

    assert MESSAGES[1].content == {"said": [1]}
    assert copies[1].content == {"said": [1, "spoiled"]}
    assert copies[-3] is copies[1]
    assert Copies(MESSAGES)[1].content == {"said": [1]}


def test_it_is_a_sequence_like_the_tuple_it_stands_for() -> None:
    copies = Copies(MESSAGES)

    assert len(copies) == 4
    assert list(copies) == list(MESSAGES)
    assert copies[1:3] == MESSAGES[1:3]
    assert copies[::-1] == MESSAGES[::-1]
    assert copies == MESSAGES
    assert copies != MESSAGES[:3]
    assert repr(copies) == repr(MESSAGES)
    assert not Copies[Message](())
    with pytest.raises(IndexError):
        copies[4]


def test_nothing_is_copied_that_nobody_looks_at() -> None:
    copies = Copies(MESSAGES)

    assert copies[2].role == "user"

    assert set(copies._copies) == {2}


@given(values)
def test_a_json_copy_is_what_a_deep_copy_is(value: Any) -> None:
    made = json_copy(value)

    assert made == value
    assert _containers(made).isdisjoint(_containers(value))
    assert _containers(copy.deepcopy(value)).isdisjoint(_containers(value))


def _containers(value: Any) -> set[int]:
    """Identities of everything that can be changed in there."""
    if not isinstance(value, dict | list):
        return set()
    inner = value.values() if isinstance(value, dict) else value
    return {id(value)}.union(*(_containers(item) for item in inner))
