"""The operator's commands: `turnchain schema`, or `python -m turnchain.workers schema`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from turnchain.stores.postgres import schema


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="turnchain")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "schema",
        help="print the DDL of every table, to be applied by your own migration tool or psql",
    )
    parser.parse_args(arguments)
    sys.stdout.write(schema())
    return 0


if __name__ == "__main__":
    sys.exit(main())
