"""How an intent's return becomes state."""

from __future__ import annotations

from typing import Any

import pytest

from turnchain.orchestrator_core.supervisor.merge import merged


def test_the_patch_wins_key_by_key() -> None:
    """[O 3.8.2] Shallow: what is under a key is replaced whole."""
    state = {"a": 1, "nested": {"x": 1, "y": 2}}

    assert merged(state, {"nested": {"x": 9}, "b": 2}) == {"a": 1, "nested": {"x": 9}, "b": 2}


def test_nothing_is_deleted_by_a_patch() -> None:
    assert merged({"a": 1}, {"a": None}) == {"a": None}
    assert merged({"a": 1}, {}) == {"a": 1}


@pytest.mark.parametrize("key", ["__proto__", "__class__", "constructor", "prototype", "____"])
def test_keys_that_pass_for_attributes_are_dropped_alone(key: str) -> None:
    """[O 3.8.3, O 16.3 60] The rest of the slice still merges."""
    assert merged({}, {key: "x", "answer": 42}) == {"answer": 42}


@pytest.mark.parametrize("key", ["_private", "__half", "half__", "proto", "a__b"])
def test_other_keys_with_underscores_are_kept(key: str) -> None:
    assert merged({}, {key: 1}) == {key: 1}


def test_neither_side_is_changed() -> None:
    state: dict[str, Any] = {"a": 1}
    patch: dict[str, Any] = {"a": 2}

    merged(state, patch)["a"] = 3

    assert (state, patch) == ({"a": 1}, {"a": 2})
