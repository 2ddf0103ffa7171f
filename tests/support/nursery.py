"""Forks servers and clients on request, so that they start in a moment: everything is imported, and gRPC is not in use.

A request is a line of JSON on standard input, such as {"do": "join", "log": "...", "address": "localhost:7443", ...},
answered by a line on standard output. All that was started ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.fx.experimental.symbolic_shapes  # by torch, in the first backward pass: two seconds of work

import smofi
from smofi.config import Config
from smofi.net.transport.times import Times
from smofi.serving.checks import Serving
from smofi.serving.client import Client, Joining
from smofi.serving.own_data import OwnData
from smofi.serving.server import served


def say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()


def join(request: dict[str, Any]) -> None:
    """A client, until the run is over."""
    given = {"client_name": None, "allow_labels": True, "own": {}} | request
    certs = Path(given["certs"]) if given.get("certs") else None
    data = OwnData(given["data"], given.get("folder"), given.get("part"), given.get("label_column"))
    accepts = given["allow_labels"], given["own"]
    joining = Joining(given["address"], data, certs, given["client_name"], *accepts, times=Times(*given["times"]))
    say(Client(joining, say).run())


def serve(request: dict[str, Any]) -> None:
    """A server, until its runs are over."""
    config = Config(**request["config"])
    options = {"resume": request["resume"], "times": Times(*request["times"]), **request["options"]}
    with served(Serving(config, Path(request["folder"]), request["listen"], **options)) as server:
        for run, result in server.train():
            say(f"{run.name} {len(result.history)}")


def forked(work: Callable[[dict[str, Any]], None], request: dict[str, Any]) -> int:
    """The process of something that is started; it prints to the file `log`."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        output = os.open(request.pop("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = sys.stderr = os.fdopen(output, "w", buffering=1)
        sys.path[:0] = request.pop("paths", [])
        torch.set_num_threads(1)
        work(request)
        code = 0
    except smofi.SmofiError as error:
        say(str(error))
        code = 2
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def exit_code(process: int, known: int | None) -> int | None:
    """None while it runs."""
    if known is None:
        done, status = os.waitpid(process, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if done else None
    return known


def main() -> None:
    smofi.data.load("digits", max_train=10)  # what it takes is imported
    children: dict[int, int | None] = {}
    for line in sys.stdin:
        request = json.loads(line)
        do = request.pop("do")
        if do == "ended":
            answer = children[request["process"]] = exit_code(request["process"], children[request["process"]])
        else:
            answer = forked(join if do == "join" else serve, request)
            children[answer] = None
        say(json.dumps(answer))
    for process, code in children.items():
        if code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    main()
