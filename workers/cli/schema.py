"""`turnchain schema`: the tables, to be applied by your own migration tool or psql."""

from __future__ import annotations

import argparse
import sys
from typing import Final

SUMMARY: Final = "print the DDL of every table, to be applied by your own migration tool or psql"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None yet."""


def run(options: argparse.Namespace) -> int:
    """Print it. Applying what is printed twice is safe."""
    from turnchain.stores.postgres import schema

    sys.stdout.write(schema())
    return 0
