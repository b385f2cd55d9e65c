"""The Django view of the examples, under ATOMIC_REQUESTS, with a worker behind it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.producer.conftest import ROOT, Shop

pytestmark = pytest.mark.acceptance

# Far apart, so that only Django's on_commit can have woken a worker.
SETTINGS = {"TURNCHAIN_SWEEP_INTERVAL": "600"}


def tell(shop: Shop, story: str) -> dict[str, Any]:
    """What came of a story in a Django process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.producer.django_site", story],
        env={
            **os.environ,
            "TURNCHAIN_POSTGRES_URL": shop.url,
            "TURNCHAIN_BROKER_URL": shop.broker_url,
            "TURNCHAIN_KEY_PREFIX": shop.key_prefix,
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def before(shop: Shop) -> dict[str, Any]:
    """The counts before: the stories of a module share its database."""
    return tell(shop, "counts_only")


def test_a_view_that_succeeds_enqueues_and_wakes_a_worker_at_its_commit(
    shop: Shop, before: dict[str, Any]
) -> None:
    told = tell(shop, "answering")

    assert told["status"] == 202
    assert told["answer"]["heard"] == "hello"
    assert told["questions"] == before["questions"] + 1
    assert told["turns"] == before["turns"] + 1


def test_a_view_that_fails_leaves_neither_its_row_nor_the_turn(
    shop: Shop, before: dict[str, Any]
) -> None:
    told = tell(shop, "failing")

    assert told.pop("status") == 500
    assert told == before


def test_a_view_whose_turn_is_refused_fails_with_the_reason_and_leaves_nothing(
    shop: Shop, before: dict[str, Any]
) -> None:
    told = tell(shop, "refused")

    assert told.pop("raised") == [
        "session_id has 201 characters, and at most 200 are taken: use an id, not content"
    ]
    assert told == before
