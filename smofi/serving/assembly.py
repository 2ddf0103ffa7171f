"""A served run, put together: its model, the plan of its rounds, the clients' rows, and who judges the model."""

from __future__ import annotations

import logging
from concurrent.futures import Executor
from typing import Any

import torch
from torch import nn

from smofi.clock.clock import AS_COMPUTED, SentBytes, StepCosts
from smofi.config import Config
from smofi.cut import parse_cut
from smofi.data import Source
from smofi.engine.assembly import RunData, RunLength, _evaluator, _stopping
from smofi.engine.cohort.execution import Execution
from smofi.engine.cohort.setup import Setup
from smofi.engine.cohort.wire import Compression
from smofi.engine.cpu.threads import in_threads
from smofi.engine.events import Callback
from smofi.engine.plan import RoundSettings
from smofi.engine.processes.workers import OneWorker
from smofi.engine.remote.cohort import Deployment, RemoteCohort
from smofi.engine.remote.crossing import Crossing, Task
from smofi.engine.remote.pool import choose_pool
from smofi.engine.state import GlobalState
from smofi.engine.stopping import Stopping
from smofi.flat import shell
from smofi.models.costing import costs
from smofi.net.logs import log
from smofi.serving.checks import Serving
from smofi.serving.hub import Hub
from smofi.serving.limits import largest_message
from smofi.serving.memory import ServedMemory
from smofi.serving.run import Elsewhere, FederatedEvaluator, PresentPlanner, ServedRun
from smofi.serving.setups import TEXT, setup_of, task_of
from smofi.training import Session

logger = logging.getLogger("smofi.serving")


class Assembly:
    """Puts the runs of a server together, given its own data."""

    def __init__(self, serving: Serving, source: Source, device: torch.device) -> None:
        self.serving, self.source, self.device = serving, source, device
        self.pools: list[Executor] = []

    def setup(self, config: Config) -> tuple[Setup, nn.Sequential]:
        """What is fixed for a run, and its model."""
        model = config.build_model(self.source)
        return setup_of(config, model, self.device), model

    def needs(self, config: Config, known: int) -> ServedMemory:
        """The memory that the rounds of this run take."""
        setup, _ = self.setup(config)
        there, here = (self.serving.evaluates == one for one in ("clients", "server"))
        judged = len(self.source.test[: config.max_test]) if here else 0
        task, clients = self._task(setup), self.clients(known)
        largest = largest_message(setup, config, task, clients, there)
        return ServedMemory(setup, config, task, clients, largest, judged, there)

    def clients(self, known: int) -> int:
        """How many clients there may be, as far as that can be said."""
        return max(known, self.serving.config.clients or 0, self.serving.least)

    def _task(self, setup: Setup) -> Task:
        return task_of(self.source.kind, self.source.input_shape, self.source.classes, setup.layout)

    def session(self, config: Config, hub: Hub, callback: Callback | None) -> Session:
        """The run of one method and one seed, ready to be trained."""
        setup, model = self.setup(config)
        state = GlobalState.of(setup.template, setup.layout, setup.method, setup.optimizer, self.device)
        roster, source, task = hub.roster, self.source, self._task(setup)
        optimizer, clients = setup.optimizer, self.clients(len(roster.names))
        cuts = parse_cut(config.cut, setup.layout, clients)
        planner = PresentPlanner(
            sizes=roster.sizes,
            cuts=cuts,
            method=setup.method,
            settings=RoundSettings(
                config.seed,
                config.participation,
                config.local_epochs,
                config.batch_size,
                optimizer.lr,
                optimizer.lr_decay,
            ),
            hub=hub,
            least=self.serving.least,
            **self._selecting(setup, model, hub) if setup.method.select else {},
        )
        deployment = Deployment(
            setup,
            state,
            Elsewhere(source),
            execution=Execution(why="each client computes for itself"),
            links=hub,
            task=task,
            patience=self.serving.step_deadline,
            pool=self._pool(config, state, Crossing(setup, cuts.options[0], task), clients),
            weights_later=not config.model.startswith("python:"),
        )
        test = source.test[: config.max_test].to(setup.layout.dtype, self.device)
        if self.serving.evaluates == "clients":
            judged = shell(setup.template)
            setup.layout.bind(judged, state.weights.__getitem__, state.statistics.__getitem__)
            evaluator: Any = FederatedEvaluator(setup, judged, hub, self.serving.step_deadline)
        else:
            data = RunData([], test if self.serving.evaluates == "server" else None)
            evaluator = _evaluator(setup, state, data, config.metrics, OneWorker())
        length = RunLength(config.rounds, config.eval_every)
        stopping = _stopping(Stopping(config.patience, config.target_accuracy), evaluator)
        run = ServedRun(
            deployment, planner, evaluator, stopping, length.rounds, callback, length.eval_every, RemoteCohort
        )
        run.hub = hub
        return Session(model, setup.layout, run, config.threads)

    def _selecting(self, setup: Setup, model: nn.Sequential, hub: Hub) -> dict[str, Any]:
        """What a method selects clients by: their classes, and the bytes that cross a cut."""
        source, wire = self.source, setup.wire
        counted = costs(model, source.input_shape, tokens=source.kind == TEXT, cast=setup.cast)
        sent = SentBytes(wire.width, wire.overhead) if isinstance(wire, Compression) else AS_COMPUTED
        return {
            "class_counts": hub.roster.class_counts,
            "sample_bytes": lambda cut: StepCosts.of(counted, cut, sent).activation,
        }

    def _pool(self, config: Config, state: GlobalState, crossing: Crossing, clients: int) -> Executor | None:
        """Threads for the passes of several clients at a time, where that is faster."""
        useful, pixels = max(1, round(config.participation * clients)), self.source.train.pixels
        with in_threads(config.threads):
            pool, why = choose_pool(config.workers, useful, state, crossing, config.batch_size, pixels)
        how_many = "several" if pool else "one"
        log(logger, "passes", at_a_time=how_many, why=why)
        if pool:
            self.pools.append(pool)
        return pool

    def close(self) -> None:
        """No pass is computed any more."""
        for pool in self.pools:
            pool.shutdown()
