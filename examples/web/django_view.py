# Django brings no types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
"""A Django view under ATOMIC_REQUESTS: the turn commits or vanishes with the request's own writes.

The site's settings name TURNCHAIN_POSTGRES_URL, CELERY_BROKER_URL and TURNCHAIN_KEY_PREFIX.
"""

from __future__ import annotations

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, JsonResponse

import turnchain

client = turnchain.connect(
    settings.TURNCHAIN_POSTGRES_URL,
    broker=settings.CELERY_BROKER_URL,
    key_prefix=settings.TURNCHAIN_KEY_PREFIX,
)


def ask(request: HttpRequest, session_id: str) -> JsonResponse:
    """Note the question and enqueue its turn, both or neither; a worker is woken at the commit."""
    message = request.POST["message"]
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO questions (message) VALUES (%s)", [message])
    turn = client.enqueue("echo", message, session_id=session_id, history=[], connection=connection)
    return JsonResponse({"turn_id": turn.turn_id}, status=202)
