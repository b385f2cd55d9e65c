"""The fingerprint by which drift is judged. [O 6.3]"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from turnchain.orchestrator_core.definition import Intent, Orchestrator, as_intent

SCHEME = "s1"


def signature_of(definition: Orchestrator) -> str:
    """`s1:` and 16 hex digits of SHA-256 over the canonical JSON of what routes a turn.

    Changes with: name, intents (keys, descriptions, kinds, agent names), presence of `evaluate`, `initial_agent`,
    `max_iterations` (left out differs from 10), `iterate`, and the kind of each window. Does not change with: version,
    state, bodies of callables, `next`, window sizes, `keep_snapshots`, `on_drift`, providers. [O 6.3.5, O 6.3.6]
    Sorted by code point, so that two hosts with different locales agree. [O 6.3.7]
    """
    window = definition.history_window
    canonical: dict[str, Any] = {
        "n": definition.name,
        "a": [_entry(key, as_intent(value)) for key, value in sorted(definition.intents.items())],
        "r": None,
        "rc": 1,
        "e": int(definition.evaluate is not None),
        "i": definition.initial_agent,
        "m": definition.max_iterations,
        "it": int(definition.iterate),
        "hw": {"router": _kind(window.router), "agents": _kind(window.agents)},
    }
    text = json.dumps(canonical, ensure_ascii=False, separators=(",", ":"))
    return f"{SCHEME}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _entry(key: str, intent: Intent) -> dict[str, Any]:
    unit = {"t": "agent", "n": intent.agent.name} if intent.agent else {"t": "callback"}
    described = {"d": intent.description} if intent.description or intent.agent else {}
    return {"k": key, **described, "u": unit}


def _kind(window: object) -> str:
    return "callback" if callable(window) else "number"
