"""Processes: the Celery app, settings, wiring, housekeeping, embedded servers, the CLI."""
