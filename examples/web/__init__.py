"""Enqueueing from a web app: ten lines of Django, ten lines of FastAPI."""
