"""On what a run was made: the machine, the versions, the servers' settings."""

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import subprocess
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import psutil
import psycopg

from benchmarks.stand import Stand, redis_client

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("turnchain", "celery", "kombu", "redis", "psycopg", "pydantic")
_SETTINGS = (
    "fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "wal_sync_method", "max_connections",
)  # fmt: skip
_WRITES = 50


def machine(stand: Stand) -> dict[str, str | int | float]:
    """The machine, without its name."""
    return {
        "processor": _processor(),
        "cpus": os.cpu_count() or 1,
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "fdatasync_ms": round(fdatasync_ms(stand.directory), 3),
    }


def versions(stand: Stand) -> dict[str, str]:
    """Of the code, the packages and the servers."""
    with redis_client(stand.redis_url) as client:
        server = client.info("server")
    with psycopg.connect(stand.postgres_url) as connection:
        postgres = connection.info.parameter_status("server_version") or ""
    name = server.get("server_name", "redis")
    return {
        "commit": _commit(),
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
        "postgres_server": postgres,
        "redis_server": f"{name} {server.get(f'{name}_version', server['redis_version'])}",
    }


def postgres_settings(stand: Stand) -> dict[str, str]:
    """Those that a durable commit depends on."""
    with psycopg.connect(stand.postgres_url) as connection:
        rows = connection.execute(
            "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name", ([*_SETTINGS],)
        ).fetchall()
    return dict(rows)


def fdatasync_ms(directory: Path) -> float:
    """The median time of writing 8 kB and having it on disk, where the servers' data is."""
    file = directory / "fdatasync"
    took: list[float] = []
    with file.open("wb", buffering=0) as output:
        for _ in range(_WRITES):
            began = perf_counter()
            output.write(b"x" * 8192)
            os.fdatasync(output.fileno())
            took.append(1000 * (perf_counter() - began))
    file.unlink()
    return statistics.median(took)


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _commit() -> str:
    """Of the checkout; with a plus where files were changed since."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
