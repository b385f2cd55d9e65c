"""`turnchain settings`: every setting there is, what it is set to and by whom."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, cast

from turnchain.orchestrator_core.contracts import JSONObject
from turnchain.orchestrator_core.errors import scrub
from turnchain.workers.cli import output, reading
from turnchain.workers.settings import PREFIX, Settings, without_secrets

SUMMARY: Final = "show every setting, where its value comes from, and what it means"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    reading.add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print all of them, wrong ones included.

    Raises:
        SettingsError: a setting is missing or wrong; all were shown before.
    """
    shown = [_setting(name, os.environ) for name in Settings.model_fields]
    if options.json:
        output.write_json(shown)
    else:
        columns = ("variable", "value", "source", "meaning")
        rows = [[str(each[column] or "-") for column in columns] for each in shown]
        output.write_table([column.upper() for column in columns], rows, ("VALUE", "MEANING"))
    Settings.from_env(os.environ)
    return 0


def _setting(name: str, environ: Mapping[str, str]) -> JSONObject:
    """One setting, its value as the environment would have it, without secrets."""
    field, variable = Settings.model_fields[name], PREFIX + name.upper()
    given = environ.get(variable)
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    value = _written(default) if given is None else given
    if value is not None:
        value = without_secrets(value) if name.endswith("_url") else scrub(value)
    return {
        "name": name,
        "variable": variable,
        "value": value,
        "source": "default" if given is None else "environment",
        "meaning": (field.description or "").replace("`", ""),
    }


def _written(value: Any) -> str | None:
    """A default as one would write it into the environment; None for nothing."""
    if value is None or value in ((), {}):
        return None
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}"
    if isinstance(value, tuple):
        return ",".join(cast("tuple[str, ...]", value))
    return str(value)
