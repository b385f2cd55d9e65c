"""The promise whole: dialogues through workers that are killed all the time. [DESIGN 1]

TURNCHAIN_TEST_DIALOGUES names a file of real dialogues; without it, made-up ones are played.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from turnchain.examples.booking.__main__ import main
from turnchain.examples.booking.bot import SERVICES

DIALOGUES = 150


@pytest.mark.long
@pytest.mark.acceptance
@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.parametrize("chain_mode", ["staged", "inline"])
def test_no_turn_is_lost_doubled_or_wrong_while_workers_die(
    chain_mode: str,
    pool: str,
    postgres_url: str,
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """One of two workers every 5 s, one child every 2 s; the player's exit code is the verdict."""
    given = os.environ.get("TURNCHAIN_TEST_DIALOGUES")
    file = Path(given) if given else _made_up(tmp_path / "dialogues.jsonl")
    monkeypatch.setenv("TURNCHAIN_POSTGRES_URL", postgres_url)
    monkeypatch.setenv("TURNCHAIN_BROKER_URL", redis_url)

    code = main(["--dialogues", str(file), "--pool", pool, "--chain-mode", chain_mode, "--kill"])

    out = capfd.readouterr().out
    assert code == 0, out
    assert "everything held" in out


def _made_up(file: Path) -> Path:
    """Dialogues with slots that change, two services a turn at times, and calls in a third of the turns."""
    chance = random.Random(11)
    with file.open("w", encoding="utf-8") as lines:
        for number in range(DIALOGUES):
            lines.write(json.dumps(_dialogue(chance, number)) + "\n")
    return file


def _dialogue(chance: random.Random, number: int) -> dict[str, Any]:
    services = [f"{service}_{chance.randint(1, 3)}" for service in chance.sample(SERVICES, 2)]
    turns = [_turn(chance, services, index) for index in range(chance.randint(1, 12))]
    return {"dialogue_id": f"made-up-{number}", "services": services, "turns": turns}


def _turn(chance: random.Random, services: list[str], index: int) -> dict[str, Any]:
    spoken_of = services if chance.random() < 0.1 else [chance.choice(services)]
    frames = [
        {
            "service": service,
            "intent": "Book",
            "requested": [],
            "slots": {f"slot{chance.randint(0, 5)}": [f"value {index} ☂"]},
        }
        for service in spoken_of
    ]
    called = spoken_of if chance.random() < 0.33 else []
    calls = [
        {
            "service": service,
            "method": "Book",
            "parameters": {"n": str(index)},
            "results": [{"id": str(index)}],
        }
        for service in called
    ]
    return {
        "user": f"message {index}",
        "frames": frames,
        "calls": calls,
        "system": f"answer {index}",
    }
