from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from turnchain.workers.stack.probes import flower_answers, workers_that_answer


class Flower(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthcheck" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def port() -> Generator[int]:
    """Of a server in this process that answers as Flower does."""
    with HTTPServer(("127.0.0.1", 0), Flower) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_flower_answers_when_it_serves_pages(port: int) -> None:
    assert flower_answers(os.getpid(), port)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_somebody_elses_flower_is_not_taken_for_ours(port: int) -> None:
    assert not flower_answers(os.getppid(), port)


def test_who_does_not_listen_does_not_answer() -> None:
    assert not flower_answers(os.getpid(), 1)
    assert not flower_answers(None, 1)
    assert not flower_answers(os.getpid(), None)


def test_workers_that_are_not_there_do_not_answer(redis_url: str, key_prefix: str) -> None:
    assert workers_that_answer(redis_url, key_prefix, {"worker1"}) == set()


def test_a_broker_that_is_not_there_is_nobodys_answer() -> None:
    assert workers_that_answer("redis://127.0.0.1:1/0", "", {"worker1"}) == set()
