"""A Django site with the example's view, and one that fails after it: `python -m tests.producer.django_site STORY`.

Django is set up once a process, so each story is one: it prints what the test wants to know, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

PATIENCE = 10.0


def configure() -> None:
    given = conninfo_to_dict(os.environ["TURNCHAIN_POSTGRES_URL"])
    settings.configure(
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        SECRET_KEY="a test's own",
        LOGGING_CONFIG=None,
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": given["dbname"],
                "USER": given.get("user", ""),
                "PASSWORD": given.get("password", ""),
                "HOST": given.get("host", ""),
                "PORT": given.get("port", ""),
                "ATOMIC_REQUESTS": True,
            }
        },
        TURNCHAIN_POSTGRES_URL=os.environ["TURNCHAIN_POSTGRES_URL"],
        CELERY_BROKER_URL=os.environ["TURNCHAIN_BROKER_URL"],
        TURNCHAIN_KEY_PREFIX=os.environ["TURNCHAIN_KEY_PREFIX"],
    )
    django.setup()


def ask_and_fail(request: Any, session_id: str) -> Any:
    """What a view does that enqueues and then finds a mistake."""
    from turnchain.examples.web import django_view

    django_view.ask(request, session_id)
    raise LookupError("after the turn was enqueued")


def counts() -> dict[str, int]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT count(*) FROM questions), (SELECT count(*) FROM turnchain_turns), "
            "(SELECT count(*) FROM turnchain_turn_requests)"
        )
        questions, turns, requests = cursor.fetchone()
    return {"questions": questions, "turns": turns, "requests": requests}


def counts_only(client: Any) -> dict[str, int]:
    return counts()


def answering(client: Any) -> dict[str, Any]:
    """The view succeeds: the turn is answered, with nothing but the commit to wake a worker."""
    from turnchain.examples.web import django_view

    response = client.post("/ask/s1", {"message": "hello"})
    turn = django_view.client.turn(response.json()["turn_id"])
    result = turn.result(timeout=PATIENCE)
    return {"status": response.status_code, "answer": result.data, **counts()}


def failing(client: Any) -> dict[str, Any]:
    """The view fails behind the enqueue: neither its own row nor the turn is there."""
    response = client.post("/fail/s1", {"message": "hello"})
    return {"status": response.status_code, **counts()}


def refused(client: Any) -> dict[str, Any]:
    """The turn is refused: the view fails with a typed error, and leaves nothing."""
    from turnchain.orchestrator_core.errors import InvalidInputError

    client.raise_request_exception = True
    raised: list[str] = []
    try:
        client.post("/ask/" + "x" * 201, {"message": "hello"})
    except InvalidInputError as error:
        raised.append(str(error))
    return {"raised": raised, **counts()}


def main(story: str) -> None:
    configure()
    from django.db import connection
    from django.test import Client

    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS questions (message text NOT NULL)")
    told = globals()[story](Client(raise_request_exception=False))
    sys.stdout.write(json.dumps(told))


def _urls() -> list[Any]:
    from django.urls import path

    from turnchain.examples.web import django_view

    return [
        path("ask/<str:session_id>", django_view.ask),
        path("fail/<str:session_id>", ask_and_fail),
    ]


class _Lazy(list[Any]):
    """URL patterns that import the view once Django is set up."""

    def __iter__(self) -> Any:
        return iter(_urls())


urlpatterns = _Lazy()

if __name__ == "__main__":
    main(sys.argv[1])
