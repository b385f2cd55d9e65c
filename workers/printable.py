"""Text of others on a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with escapes for what would not show, or would make a terminal do something."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )
