"""A server as its user describes it, checked before anything is read or started."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from smofi.config import Config
from smofi.errors import check_choice, check_count, check_number, refuse, refuse_unwanted
from smofi.experiment.resuming import abouts_in
from smofi.net.transport.addresses import is_loopback, parse
from smofi.net.transport.limits import Limits
from smofi.net.transport.times import Times

EVALUATES = ("server", "clients", "none")


@dataclass(frozen=True)
class Serving:
    """A server as its user describes it. `certs` None is plain text, on this machine only. A round needs `min_clients`;
    an answer is waited for `step_deadline` seconds. `allow` lists the clients that may take part, a name a line.
    `evaluate` is by default where a run that goes on was evaluated, or on the server; `limits` are by default what the
    largest message of the run needs."""

    config: Config
    folder: Path
    listen: str = "127.0.0.1:7443"
    certs: Path | None = None
    allow: Path | None = None
    min_clients: int | None = None
    evaluate: str | None = None
    step_deadline: float | None = 900.0
    resume: bool = False
    command: str = ""
    times: Times = field(default_factory=Times)
    limits: Limits | None = None

    @property
    def least(self) -> int:
        """How many clients a round needs: by default all that the configuration speaks of."""
        return self.min_clients if self.min_clients is not None else self.config.clients or 1

    @property
    def evaluates(self) -> str:
        """Where the model is tested."""
        return self.evaluate or "server"


def as_evaluated(serving: Serving) -> Serving:
    """With where the model is tested; a run that goes on is tested where it was, or its curve would mean two things."""
    before = abouts_in(serving.folder)[0].get("evaluate") if serving.resume else None
    if before is not None and serving.evaluate not in (None, before):
        refuse("evaluate", serving.evaluate, f"{before}: the run in {serving.folder} was tested so until now")
    return replace(serving, evaluate=serving.evaluate or before)


def check_serving(serving: Serving) -> None:
    """Refuse what cannot be served: an address, a quorum, a time, a measure that no client takes."""
    host, _ = parse(serving.listen, "listen")
    if serving.certs is None and not is_loopback(host):
        refuse_unwanted("listen", serving.listen, "without certificates, a server listens on 127.0.0.1 only")
    check_choice("evaluate", serving.evaluates, EVALUATES)
    for metric in serving.config.metrics:
        if serving.evaluate == "clients" and metric != "top1":
            refuse("metrics", metric, "top1 with evaluate=clients: they send how many samples are right")
    if serving.evaluate == "none" and serving.config.target_accuracy is not None:
        refuse_unwanted("target_accuracy", serving.config.target_accuracy, "with evaluate=none, none is ever reached")
    if serving.step_deadline is not None:
        check_number("deadline", serving.step_deadline, above=0, infinite=True)
    if serving.min_clients is not None:
        check_count("min_clients", serving.min_clients, high=serving.config.clients)
    if (names := listed(serving.allow)) and serving.least > len(names):
        refuse("min_clients", serving.least, f"at most {len(names)}: {serving.allow} has no more names")


def listed(allow: Path | None) -> tuple[str, ...]:
    """The names of an allow-list, in its order."""
    if allow is None:
        return ()
    try:
        lines = allow.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        refuse("allow", str(allow), f"a file with a name per line, but it cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        refuse("allow", str(allow), "a text file with a name per line, but it is no text in UTF-8")
    names = (line.partition("#")[0].strip() for line in lines)
    return tuple(name for name in names if name)
