"""Become a program that dies with the process that started it.

Run by path and with the interpreter alone, so that the caller needs no code between fork and exec
(`preexec_fn` is not safe in a process with threads):

    python -I -S launch.py PARENT SIGNAL USER GROUP PROGRAM ARGUMENT...

USER and GROUP are numbers, or -1 to stay who we are.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main(arguments: list[str]) -> None:
    """Drop privileges, tie our life to the parent's where the system can (Linux), and exec."""
    parent, signal, user, group = (int(argument) for argument in arguments[:4])
    program = arguments[4:]
    if user >= 0:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    if sys.platform == "linux":
        # After setuid, which clears it; exec keeps it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the process that asked for this one has already gone")
    os.execv(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
