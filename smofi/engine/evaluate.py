"""How good the global model is: loss and metrics on test data and on the clients' own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from smofi.data.samples import Samples, TensorSamples
from smofi.engine.metrics import CLIENT_METRICS, TEST_METRICS, ClientMetric, headings, top1
from smofi.engine.passes import Loss
from smofi.engine.processes.tree import NOTHING
from smofi.engine.processes.workers import OneWorker, Workers
from smofi.errors import check_choice, refuse

Metric = Callable[[Tensor, Tensor], float]
"""metric(outputs, targets): one number for all samples of the test data, the higher the better."""

AT_A_TIME = 500
"""Samples that a model judges at a time."""


@dataclass(frozen=True, eq=False)
class Judges:
    """The samples by which a model is judged, where there are any: for all clients, and those of each client (None for
    one that has none). Clients without test samples of their own are judged by those they train on."""

    test: Samples | None = None
    validation: Samples | None = None
    clients: Sequence[Samples] = ()
    client_tests: Sequence[Samples | None] | None = None
    client_names: Sequence[str] = ()

    @property
    def of_clients(self) -> Sequence[Samples | None]:
        """The samples of each client; None, or an empty entry, for one that has none."""
        return self.clients if self.client_tests is None else self.client_tests


class Evaluator:
    """Loss and metrics of one model, bound to the global weights, on fixed data."""

    gives_loss = True

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        metrics: Sequence[str | Metric],
        data: Judges,
        batch_size: int = AT_A_TIME,
        workers: Workers | None = None,
    ) -> None:
        self.model, self.loss, self.data = model.eval(), loss, data
        self.test, self.validation, self.clients = data.test, data.validation, data.of_clients
        self.batch_size = batch_size
        self.workers: Workers = workers or OneWorker()
        self.names: list[str] = []
        self.no_numbers: set[str] = set()  # functions that give something else
        self.on_test: dict[str, Metric] = {}
        self.on_clients: dict[str, ClientMetric] = {}
        if isinstance(metrics, str) or not isinstance(metrics, Sequence):
            refuse("metrics", metrics, 'a list of names or functions, such as ("top1", "macro_f1")')
        for metric in metrics:
            if callable(metric):
                name = _fresh(getattr(metric, "__name__", "metric"), {*self.on_test, *CLIENT_METRICS})
                self.on_test[name] = metric
            elif (name := check_choice("metrics", metric, (*TEST_METRICS, *CLIENT_METRICS))) in TEST_METRICS:
                self.on_test[name] = TEST_METRICS[name]
            else:
                self.on_clients[name] = CLIENT_METRICS[name]
            self.names.append(name)

    @property
    def headings(self) -> dict[str, str]:
        """What people call each metric that gives a number, the one that is judged first."""
        measured = [name for name in self.names if name in self.on_clients or self.test is not None]
        numbers = [name for name in measured or self.names if name not in self.no_numbers]
        return headings(dict.fromkeys(numbers), on_training=self.data.client_tests is None)

    @property
    def validated(self) -> tuple[str, Metric]:
        """The metric of the validation data: the one that is judged, where it is one of outputs, else the first that
        is, else the accuracy."""
        usable = [
            name for name in (*self.headings, *self.names) if name in self.on_test and name not in self.no_numbers
        ]
        return (usable[0], self.on_test[usable[0]]) if usable else ("top1", top1)

    @cached_property
    def chance(self) -> float | None:
        """What the judged metric is for a model that knows only which class is the most frequent of the test data; None
        where that cannot be told at once."""
        judged = next(iter(self.headings))
        if not isinstance(self.test, TensorSamples) or judged not in TEST_METRICS:
            return None
        labels = self.test.labels
        if labels.dim() != 1 or labels.is_floating_point() or not bool((labels >= 0).all()):
            return None
        counts = labels.bincount()
        always = (counts == counts.max()).float().expand(len(labels), -1)
        return TEST_METRICS[judged](always, labels)

    def by_one_worker(self) -> Evaluator:
        """The same in this process alone."""
        alone = copy.copy(self)
        alone.workers = OneWorker()
        return alone

    @property
    def held_out(self) -> list[Samples]:
        """All samples that an evaluation uses."""
        own = [client for client in self.clients if client] if self.on_clients else []
        return [*(samples for samples in (self.test, self.validation) if samples is not None), *own]

    def validate(self) -> float | None:
        """The metric on the validation split, if there is one."""
        return None if self.validation is None else _plain(self.validated[1](*self.predict(self.validation)))

    def evaluate(self) -> tuple[float | None, dict[str, Any]]:
        """The test loss, None without test data, and the metrics by name."""
        loss: float | None = None
        metrics: dict[str, Any] = {}
        if self.test is not None:
            loss, metrics = self.measure(*self.predict(self.test))
        if self.on_clients:
            accuracies = self._accuracies()
            metrics |= {name: self._named(summarise(accuracies)) for name, summarise in self.on_clients.items()}
        return loss, metrics

    @torch.inference_mode()
    def measure(self, outputs: Tensor, targets: Tensor) -> tuple[float, dict[str, Any]]:
        """The loss and the metrics of these outputs."""
        metrics = {name: _plain(metric(outputs, targets)) for name, metric in self.on_test.items()}
        return float(self.loss(outputs, targets)), metrics

    def look_at(self, measured: dict[str, Any]) -> None:
        """Learn from a first measurement which functions give no single number, and so cannot be judged."""
        self.no_numbers = {name for name, value in measured.items() if not isinstance(value, Real)}

    def _named(self, value: Any) -> Any:
        """Values of all clients by the clients' names, where they have any."""
        names = self.data.client_names
        return dict(zip(names, value, strict=True)) if names and isinstance(value, list) else value

    @torch.inference_mode()
    def predict(self, samples: Samples, most: int | None = None) -> tuple[Tensor, Tensor]:
        """The outputs for all samples, or for the first few, and their targets; each worker takes some."""
        batches = torch.arange(len(samples))[:most].split(self.batch_size)
        if len(batches) < self.workers.size:
            return self._outputs(samples, batches)
        mine = batches[self.workers.rank :: self.workers.size]
        outputs, targets = self._outputs(samples, mine)
        if self.workers.size == 1:
            return outputs, targets
        places, total = torch.cat(mine).to(outputs.device), sum(map(len, batches))
        # every sample belongs to one worker, and is nothing in every other
        return self._of_all(outputs, places, total), self._of_all(targets, places, total)

    def _of_all(self, own: Tensor, places: Tensor, total: int) -> Tensor:
        return self.workers.sum(_nothing(own, total).index_copy_(0, places, own))

    def _outputs(self, samples: Samples, batches: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        results = []
        for indices in batches:
            inputs, targets = samples.batch(indices.to(next(self.model.parameters()).device))
            results.append((self.model(inputs), targets))
        return torch.cat([outputs for outputs, _ in results]), torch.cat([targets for _, targets in results])

    @torch.inference_mode()
    def _accuracies(self) -> list[float | None]:
        """The accuracy on each client's own samples; each worker takes some of the clients."""
        accuracies = torch.full((len(self.clients),), NOTHING, dtype=torch.float64)
        for number in range(self.workers.rank, len(self.clients), self.workers.size):
            client = self.clients[number]
            if client:
                accuracies[number] = top1(*self._outputs(client, torch.arange(len(client)).split(self.batch_size)))
        device = next(self.model.parameters()).device
        values = self.workers.sum(accuracies.to(device)).tolist()
        return [value if client else None for value, client in zip(values, self.clients, strict=True)]


def _plain(value: Any) -> Any:
    """A metric's value, a tensor of one number as that number."""
    return float(value) if isinstance(value, Real) or (isinstance(value, Tensor) and value.numel() == 1) else value


def _nothing(like: Tensor, count: int) -> Tensor:
    """Room for this many samples, of which other workers know the outputs or targets."""
    return like.new_full((count, *like.shape[1:]), NOTHING if like.is_floating_point() else 0)


def _fresh(name: str, taken: Container[str]) -> str:
    """The name, numbered if another metric has it."""
    return next(one for number in count(1) if (one := name if number == 1 else f"{name}_{number}") not in taken)
