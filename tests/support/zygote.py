"""A process that has loaded everything and forks itself into `smofi` commands: each is there in milliseconds.

It reads a JSON line for each command and writes one when a command has started or ended; support.chaos speaks with it.
It is not imported by the tests: it forks, and must have one thread only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
from typing import Any

PATIENT = "SMOFI_TESTS_PATIENT"
"""A server with this in its environment keeps nobody out who offends or comes too fast: so it can be sent much."""

KILLED_WITH_PARENT, NETWORK = 1, 0x40000000
"""For prctl and setns, as Linux numbers them."""


def load() -> None:
    """What commands would load one by one."""
    import grpc.aio  # noqa: F401
    import torch
    import torch.fx.experimental.symbolic_shapes  # by torch, in the first backward pass: two seconds of work

    from smofi import data
    from smofi.cli import commands
    from smofi.net import certs, logs, status  # noqa: F401
    from smofi.report import clients, live  # noqa: F401
    from smofi.serving import client, server  # noqa: F401

    torch.set_num_threads(1)
    data.load("digits")
    assert commands


def run(command: dict[str, Any]) -> int:
    """In the new process: run the command, and return its exit code."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(KILLED_WITH_PARENT, signal.SIGKILL)
    if command["namespace"]:
        place = os.open(f"/run/netns/{command['namespace']}", os.O_RDONLY)
        if libc.setns(place, NETWORK):
            raise OSError(ctypes.get_errno(), "setns")
        os.close(place)
    os.chdir(command["folder"])
    log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(command["environment"])
    sys.path[:0] = filter(None, command["environment"].get("SMOFI_TESTS_PATH", "").split(os.pathsep))
    if PATIENT in command["environment"]:
        from smofi.net.transport import door, offences

        offences.MOST, door.RATE, door.AT_ONCE, door.STRANGERS = 10**9, 1e9, 1e9, 8
    sys.argv = ["smofi", *command["words"]]
    from smofi.cli import main

    return main()


def fork(command: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        code = run(command)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode())
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def say(**what: int) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


def main() -> None:
    load()
    say(ready=os.getpid())
    waiting = b""
    while True:
        if select.select([0], [], [], 0.05)[0]:
            found = os.read(0, 2**16)
            if not found:
                break
            *lines, waiting = (waiting + found).split(b"\n")
            for line in lines:
                command = json.loads(line)
                say(started=fork(command), number=command["number"])
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                say(ended=ended[0], code=os.waitstatus_to_exitcode(ended[1]))


if __name__ == "__main__":
    main()
