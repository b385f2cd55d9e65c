"""How an intent's return becomes state. [O 3.8]"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnchain.orchestrator_core.contracts import JSONObject

_DENIED = frozenset({"constructor", "prototype"})


def merged(state: Mapping[str, Any], patch: Mapping[str, Any]) -> JSONObject:
    """`state` with `patch` over it, key by key at the top level; the patch wins, nothing is deleted. [O 3.8.2]

    Keys that a later reader might take for an attribute (`__class__`, `constructor` …) are dropped. [O 3.8.3]
    """
    return {**state, **{key: value for key, value in patch.items() if not _is_denied(key)}}


def _is_denied(key: str) -> bool:
    return key in _DENIED or (key.startswith("__") and key.endswith("__"))
