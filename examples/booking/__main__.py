"""The storm's command line."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

import turnchain
from turnchain.examples.booking import verdict
from turnchain.examples.booking.dialogues import SAMPLE, Dialogue, repeated
from turnchain.examples.booking.fleet import Worker
from turnchain.examples.booking.killer import Killer
from turnchain.examples.booking.play import Answered, median_and_p95, play, playable, prepare
from turnchain.orchestrator_core.errors import TurnchainError
from turnchain.stores.postgres import schema
from turnchain.workers.embedded import embedded_servers

SETTLE_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if nothing was lost, doubled or wrong; 1 if something was; 2 if the run could not be made; 130: interrupted."""
    options = _parser().parse_args(arguments)
    # As Ctrl-C does: an orderly end stops the workers and the servers, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        dialogues = repeated(playable(options.dialogues, options.limit), options.repeat)
        with ExitStack() as stack:
            return _run(options, dialogues, stack)
    except KeyboardInterrupt:
        return 130
    except (ValueError, OSError, RuntimeError, TurnchainError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _run(options: argparse.Namespace, dialogues: Sequence[Dialogue], stack: ExitStack) -> int:
    server_url, broker_url = _servers(stack)
    url = stack.enter_context(_database(server_url))
    prefix = f"booking-{secrets.token_hex(4)}:"
    prepare(url, dialogues)
    logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="booking-")))
    environ = {
        **os.environ,
        "TURNCHAIN_POSTGRES_URL": url,
        "TURNCHAIN_BROKER_URL": broker_url,
        "TURNCHAIN_KEY_PREFIX": prefix,
        "TURNCHAIN_ORCHESTRATORS": "turnchain.examples.booking.bot:booking",
        "TURNCHAIN_CHAIN_MODE": options.chain_mode,
        "TURNCHAIN_LOG_LEVEL": "INFO",
    }
    workers = [
        Worker(f"w{number}", environ, logs / f"w{number}.log", options.pool, options.concurrency)
        for number in range(1, options.workers + 1)
    ]
    for worker in workers:
        worker.start()
        stack.callback(worker.terminate)
    for worker in workers:
        worker.wait_until_ready()
    client = turnchain.connect(
        url, broker=broker_url, orchestrators=["booking"], key_prefix=prefix, pool_size=8
    )
    killer = Killer(workers)
    if options.kill:
        killer.start()
    turns = sum(len(dialogue.turns) for dialogue in dialogues)
    began = monotonic()
    try:
        answers = asyncio.run(play(client, dialogues, options.sessions, _progress(turns)))
    finally:
        if options.kill:
            killer.stop()
    return _report(url, answers, monotonic() - began, killer)


def _servers(stack: ExitStack) -> tuple[str, str]:
    """The servers that the environment names, else throwaway ones."""
    postgres, broker = (
        os.environ.get("TURNCHAIN_POSTGRES_URL"),
        os.environ.get("TURNCHAIN_BROKER_URL"),
    )
    if postgres and broker:
        return postgres, broker
    embedded = stack.enter_context(embedded_servers())
    return postgres or embedded.postgres.url, broker or embedded.valkey.url


@contextmanager
def _database(server_url: str) -> Generator[str]:
    """A database of this run's own on that server, with the schema; dropped at the end."""
    name = f"booking_{secrets.token_hex(4)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    url = urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
    try:
        with psycopg.connect(url) as connection:
            connection.execute(schema().encode())
        yield url
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )


def _progress(turns: int):
    shown = {"at": 0.0}

    def told(answered: int) -> None:
        now = monotonic()
        if answered == turns or now - shown["at"] > (0.2 if sys.stderr.isatty() else 10):
            shown["at"] = now
            end = "\r" if sys.stderr.isatty() and answered < turns else "\n"
            sys.stderr.write(f"{answered:>6} of {turns} turns answered{end}")
            sys.stderr.flush()

    return told


def _report(url: str, answers: Sequence[Answered], seconds: float, killer: Killer) -> int:
    verdict.wait_until_done(url, SETTLE_SECONDS)
    found = verdict.judge(url)
    out = sys.stdout.write
    out("\nHow each count was made:\n")
    for name in ("LOST", "DOUBLED", "WRONG", "RERUN"):
        out(
            f"\n-- {name.lower()}{getattr(verdict, name) if name != 'RERUN' else chr(10) + verdict.RERUN + chr(10)}"
        )
    median, p95 = median_and_p95(answers)
    rows = [
        ("turns", found.turns),
        ("turns a second", f"{found.turns / seconds:.1f}"),
        ("p50 / p95 seconds", f"{median:.2f} / {p95:.2f}"),
        ("effects recorded", found.effects),
        ("workers / children killed", f"{killer.killed['workers']} / {killer.killed['children']}"),
        ("takeovers", found.takeovers),
        ("iterations run again", found.rerun),
        ("not awaiting input", found.unhappy),
        ("lost", found.lost),
        ("doubled", found.doubled),
        ("wrong", found.wrong),
    ]
    out("\n" + "".join(f"{name:<28}{value!s:>16}\n" for name, value in rows))
    out("\neverything held\n" if found.is_good else "\nNOT everything held\n")
    return 0 if found.is_good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.booking",
        description="Play task dialogues through real workers, and compare every state.",
    )
    parser.add_argument(
        "--dialogues", type=Path, default=SAMPLE, help="a file of dialogues (default: the sample)"
    )
    parser.add_argument("--workers", type=_positive, default=2)
    parser.add_argument(
        "--concurrency", type=_positive, default=2, help="stages that one worker runs at once"
    )
    parser.add_argument("--pool", choices=("prefork", "threads"), default="prefork")
    parser.add_argument(
        "--chain-mode",
        choices=("staged", "inline"),
        default="staged",
        help="each stage a message, or called in place (default: staged)",
    )
    parser.add_argument("--sessions", type=_positive, default=48, help="dialogues played at once")
    parser.add_argument(
        "--limit", type=_positive, default=None, help="only the first so many dialogues"
    )
    parser.add_argument("--repeat", type=_positive, default=1, help="play every dialogue so often")
    parser.add_argument(
        "--kill", action="store_true", help="SIGKILL a child every 2 s and a worker every 5 s"
    )
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


if __name__ == "__main__":
    sys.exit(main())
