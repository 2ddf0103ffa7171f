"""A served run of real processes on this machine: `smofi serve`, and clients site-0, site-1, ... by `smofi join`.

with Served(nursery, folder, rounds=2) as run:
    run.finish()
run.records()
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
import yaml
from torch import Tensor

import smofi
from smofi.config import Config
from smofi.runs import RunFolder, folders_for
from support.chaos import Nursery, Process, rounds_in, until
from support.network import Proxy
from support.ports import free_port

SOON = 120.0
"""Seconds in which anything here should happen, on a machine that has much else to do."""

SMALL: dict[str, Any] = dict(
    data="digits", model="cnn", width=2, cut="1", clients=4, max_train=160, max_test=60, method="smofi",
    optimizer="sgd(lr=0.05, momentum=0.9, weight_decay=1e-3, lr_decay=0.9)", participation=1.0, local_epochs=1,
    batch_size=8, rounds=2, checkpoint_every=1,
)  # fmt: skip
NUMBERS = ("round", "accuracy", "loss", "train_loss", "selected", "steps", "cut", "learning_rate")
"""What a record says of the numbers, nothing of time."""


class Served:
    """`settings` are those of the run, `serve` and `join` words for both commands. Each client has its part of the data
    unless `join` says otherwise. Nobody is missed by mistake: a client has long to come back."""

    def __init__(
        self,
        nursery: Nursery,
        folder: Path,
        *,
        pki: Path | None = None,
        proxy: Proxy | None = None,
        serve: Sequence[object] = (),
        join: Sequence[object] = ("--allow-labels",),
        environment: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.nursery, self.folder, self.pki = nursery, folder, pki
        self.settings = {**SMALL, **settings}
        self.port, self.page = proxy.target if proxy else free_port(), free_port()
        self.address = f"localhost:{proxy.port if proxy else self.port}"
        self.words, self.joining = [*serve], [*join]
        self.environment = dict(environment or {})
        self.server: Process | None = None
        self.clients: dict[int, Process] = {}
        self.starts = 0

    # ------------------------------------------------------------------------------------------------------ processes

    def __enter__(self) -> Self:
        self.serve()
        for number in range(self.settings["clients"]):
            self.join(number)
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self.server, *self.clients.values()):
            if process:
                process.kill()

    def serve(self, *words: object) -> Process:
        """Start the server, or start it again where it was."""
        self.starts += 1
        if (self.folder / "config.yaml").exists():
            run: list[object] = ["--resume", self.folder]
        else:
            path = self.folder.with_name(f"{self.folder.name}.yaml")
            path.write_text(yaml.safe_dump(self.settings))
            run = [path, "--output", self.folder, "--checkpoint-every", self.settings["checkpoint_every"]]
        secured = ["--certs", self.pki / "server"] if self.pki else ["--insecure"]
        watched = ["--status", f"127.0.0.1:{self.page}", "--display", "jsonl"]
        times = [] if "--away" in (*self.words, *words) else ["--away", "60"]
        asked = ["serve", *run, *secured, "--listen", f"127.0.0.1:{self.port}", *watched, *times, *self.words, *words]
        log = f"{self.folder.name}-server-{self.starts}"
        self.server = self.nursery.smofi(*asked, log=log, **self.environment)
        return self.server

    def join(self, number: int, *words: object, **environment: str) -> Process:
        """Start a client; later words stand for earlier ones."""
        secured = ["--certs", self.pki / f"site-{number}"] if self.pki else ["--insecure", "--name", f"site-{number}"]
        given = [*self.joining, *words]
        given += [] if "--data" in given else ["--data", "digits", "--part", number]
        log = f"{self.folder.name}-site-{number}-{len(list(self.nursery.folder.glob('*.log')))}"
        environment = {**self.environment, **environment}
        self.clients[number] = self.nursery.smofi("join", self.address, *secured, *given, log=log, **environment)
        return self.clients[number]

    def finish(self, code: int = 0) -> Self:
        """Wait for the end of the run, and of every client."""
        assert self.server
        assert self.server.wait(2 * SOON) == code, self.server.text()[-3000:]
        for client in self.clients.values():
            assert client.wait(SOON) == 0, client.text()[-2000:]
        return self

    def said(self, number: int) -> str:
        return self.clients[number].text()

    def wait_for(self, condition: Any, what: str = "it does not happen") -> Any:
        """Wait for something to become true while the server is there."""
        server = self.server
        assert server
        found = until(lambda: condition() or not server.alive, SOON, what)
        assert condition() or found is not True, f"the server has ended: {server.text()[-2000:]}"
        return found

    def status(self) -> dict[str, Any]:
        """What the status page knows, nothing before it is there."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/status.json", timeout=SOON) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return {}

    # ------------------------------------------------------------------------------------------------- what it left

    def folder_of(self, method: str) -> Path:
        """The folder of one of its methods."""
        config, given = self.config(), self.settings["method"]
        known = [*config.method, *([given] if isinstance(given, str) else given)]  # as it is written, or was given
        place = known.index(method) % len(config.method) if method else 0
        return folders_for(self.folder, config.method)[place].path

    def records(self, method: str = "") -> list[dict[str, Any]]:
        return [json.loads(line) for line in rounds_in(self.folder_of(method))]

    def tensors(self, method: str = "") -> dict[str, Tensor]:
        """The weights and statistics of its model."""
        found = RunFolder(self.folder_of(method)).model()
        return {name: tensor for name, tensor in found.items() if tensor.is_floating_point()}

    # ------------------------------------------------------------------------------------------------ the simulation

    def config(self) -> Config:
        return Config(**self.settings)

    def simulated(self, method: str, split: bool = True) -> smofi.Result:
        """The same by a simulation, whose split is executed for real unless the model is to run as a whole."""
        arguments = self.config().arguments()
        if split and arguments["wire"] is None:
            arguments["wire"] = unchanged
        return smofi.train(**arguments, method=method)

    def check_bits(self) -> None:
        """Weights, statistics and records of every method are those of the simulation, to the bit."""
        methods = self.config().method
        for method in methods:
            expected = self.simulated(method)
            records = [vars(one) for one in expected.history]
            mine, theirs = (
                [[one[name] for name in NUMBERS] for one in found] for found in (self.records(method), records)
            )
            assert mine == theirs, method
            found, wanted = self.tensors(method), tensors_of(expected.model)
            assert found.keys() == wanted.keys()
            assert [name for name, one in wanted.items() if not torch.equal(found[name], one)] == [], method


def unchanged(tensor: Tensor, direction: str, client: int) -> Tensor:
    """A wire that changes nothing."""
    return tensor


def tensors_of(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
