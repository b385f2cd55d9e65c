"""Our own Celery app: `celery -A turnchain.workers.app worker -Q turns,control,maintenance`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import billiard.pool
from celery import Celery, signals

from turnchain.orchestrator_core.errors import SettingsError
from turnchain.workers.installing import install
from turnchain.workers.logs import set_up
from turnchain.workers.settings import Settings


def create_app(settings: Settings) -> Celery:
    """A Celery app with our configuration and tasks."""
    app = Celery("turnchain")
    app.config_from_object("turnchain.celeryconfig")

    def set_up_logs(**_: Any) -> None:
        set_up(settings.log_level)

    signals.setup_logging.connect(set_up_logs, weak=False)
    # A prefork child that ends waits up to 30 s for its parent to have read its results, also where the parent dropped
    # the job when it stopped (billiard 4.3): one SIGTERM in five took that long. Ours return nothing worth a wait.
    billiard.pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = 10  # times 0.1 s
    install(app, settings)
    return app


# As Celery does for `-A`, but for as long as the process runs: definitions are imported after it has taken that back.
if str(Path.cwd()) not in sys.path:
    sys.path.append(str(Path.cwd()))

try:
    app = create_app(Settings.from_env(os.environ))
except SettingsError as error:
    # Celery's command line would show a stack of imports around this sentence.
    raise SystemExit(f"turnchain: {error}") from None
