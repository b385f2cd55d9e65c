"""`turnchain schema`: the tables, to be applied by your own migration tool or psql."""

from __future__ import annotations

import argparse
from typing import Final

from turnchain.workers.cli import output

SUMMARY: Final = "print the DDL of every table, to be applied by your own migration tool or psql"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None: what it prints is for a database, not for a program to read."""


def run(options: argparse.Namespace) -> int:
    """Print it. Applying what is printed twice is safe."""
    from turnchain.stores.postgres import schema

    output.write(schema())
    return 0
