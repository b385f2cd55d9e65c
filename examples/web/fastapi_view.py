"""A FastAPI view that enqueues a turn and waits for its answer, without a thread per waiting request."""

from __future__ import annotations

import os
from typing import Annotated, Any

from fastapi import Body, FastAPI

import turnchain

app = FastAPI()
client = turnchain.connect(
    os.environ["TURNCHAIN_POSTGRES_URL"],
    broker=os.environ["TURNCHAIN_BROKER_URL"],
    key_prefix=os.environ.get("TURNCHAIN_KEY_PREFIX", "turnchain:"),
)


@app.post("/sessions/{session_id}")
async def ask(session_id: str, message: Annotated[str, Body(embed=True)]) -> dict[str, Any]:
    """Ask, and say what came of it."""
    turn = await client.aenqueue("echo", message, session_id=session_id, history=[])
    result = await turn.aresult(timeout=30)
    return {"turn_id": turn.turn_id, "status": result.status, "answer": result.data}
