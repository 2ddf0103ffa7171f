"""`smofi serve`: a run folder, a listener, and the runs of a configuration, one after the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from smofi.config import Config
from smofi.config.federation import Federation, read_source
from smofi.cut import Cuts, parse_cut
from smofi.data.decoded import ReadProgress, silent
from smofi.data.partitions.saved import UNUSED
from smofi.engine.assembly import RunData, RunLength, _evaluator, _stopping
from smofi.engine.check import check_device
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
from smofi.errors import check_path
from smofi.experiment.keeping import RunKeeper
from smofi.experiment.opening import FolderRun, describe_new
from smofi.experiment.resuming import go_on
from smofi.flat import shell
from smofi.net.logs import log
from smofi.net.status import Board
from smofi.net.transport.limits import Limits
from smofi.net.transport.listener import Listener
from smofi.net.transport.times import Times
from smofi.plural import plural
from smofi.runs import RunFolder, check_free, folders_for, folders_in
from smofi.serving.checks import check_serving, listed
from smofi.serving.hub import Hub, Stopped
from smofi.serving.limits import largest_message, limits_for
from smofi.serving.offer import Offer
from smofi.serving.roster import Roster
from smofi.serving.run import Elsewhere, FederatedEvaluator, PresentPlanner, ServedRun
from smofi.serving.setups import check_servable, layout_hash, setup_of, task_of
from smofi.training import Result, Session

logger = logging.getLogger("smofi.serving")


@dataclass(frozen=True)
class Serving:
    """A server as its user describes it. `certs` None is plain text, on this machine only. A round needs `min_clients`;
    an answer is waited for `step_deadline` seconds. `allow` lists the clients that may take part, a name a line.
    `limits` are by default what the largest message of the run needs."""

    config: Config
    folder: Path
    listen: str = "127.0.0.1:7443"
    certs: Path | None = None
    allow: Path | None = None
    min_clients: int | None = None
    evaluate: str = "server"
    step_deadline: float | None = 900.0
    resume: bool = False
    command: str = ""
    times: Times = field(default_factory=Times)
    limits: Limits | None = None

    @property
    def least(self) -> int:
        """How many clients a round needs: by default all that the configuration speaks of."""
        return self.min_clients if self.min_clients is not None else self.config.clients or 1


class Server:
    """A listener and the runs of a configuration. `board` shows what happens."""

    def __init__(self, serving: Serving, board: Board | None = None, progress: ReadProgress = silent) -> None:
        self.serving, self.board = serving, board or Board()
        config = serving.config
        check_servable(config)
        check_serving(serving)
        self.config = config.with_absolute_paths()
        self.path = check_path("path", serving.folder)
        self.device = check_device(config.device)
        if not serving.resume:
            self._check_free()
        self.source = read_source(self.config, progress)
        # what cannot be served is refused before anything is started
        largest = max(self._largest(self.config.model_copy(update={"method": (method,)})) for method in config.method)
        self.limits = serving.limits or limits_for(largest)
        roster = Roster.read(self.path) if serving.resume else Roster()
        roster.order = listed(serving.allow)
        self.listener = self._listener()
        self.hub = Hub(self.listener, roster, self.board)
        self.hub.changed = partial(roster.save, self.path)
        self.runs: list[FolderRun] = []
        self.pools: list[Executor] = []
        self.port = 0

    # Before

    def _check_free(self) -> None:
        below = [folder.path for folder in self._folders() if folder.path != self.path]
        check_free(self.path, below)

    def _folders(self) -> list[RunFolder]:
        return folders_for(self.path, self.config.method, self.config.each_seed)

    def _listener(self) -> Listener:
        serving = self.serving
        if serving.certs is None:
            return Listener(serving.listen, None, None, self.limits, serving.times)
        from smofi.net.certs import Gate, Identity, server_credentials
        from smofi.serving.admission import Admission

        identity = Identity.load(serving.certs, "server")
        warn = partial(self.board.event, level="warning")
        admission = Admission(Gate.of(identity, allowed=serving.allow, warn=warn))
        return Listener(serving.listen, server_credentials(identity), admission, self.limits, serving.times)

    def _largest(self, config: Config) -> int:
        setup, _ = self._setup(config)
        judged_there = self.serving.evaluate == "clients"
        return largest_message(setup, config, self._task(setup), self._clients(0), judged_there)

    def _task(self, setup: Setup) -> Task:
        return task_of(self.source.kind, self.source.input_shape, self.source.classes, setup.layout)

    def _clients(self, known: int) -> int:
        """How many clients there may be, as far as that can be said."""
        return max(known, self.config.clients or 0, self.serving.least)

    # Sessions

    def _setup(self, config: Config) -> tuple[Setup, nn.Sequential]:
        model = config.build_model(self.source)
        return setup_of(config, model, self.device), model

    def open(self, callback: Callback | None) -> list[FolderRun]:
        """A session per seed and method, each with its folder; resumed ones go on from the last round saved."""
        serving, config, runs = self.serving, self.config, list[FolderRun]()
        folders = folders_in(self.path) if serving.resume else self._folders()
        try:
            for (seed, method), folder in zip(
                ((seed, method) for seed in config.each_seed for method in config.method), folders, strict=True
            ):
                own = config.with_seed(seed).model_copy(update={"method": (method,)})
                keeper = RunKeeper(folder.path, config.checkpoint_every)
                runs.append(FolderRun(method, seed, self._session(own, callback), keeper))
            self._keep(runs)
        except BaseException:
            for one in runs:
                one.close()
            raise
        self.runs = runs
        return runs

    def _keep(self, runs: Sequence[FolderRun]) -> None:
        federations = {seed: self._federation() for seed in self.config.each_seed}
        if self.serving.resume:
            go_on(self.path, runs, self.config, federations)
            return
        self._check_free()  # another process may have begun meanwhile
        self.hub.roster.save(self.path)  # first: with its configuration, the folder has a served run
        describe_new(self.path, runs, self.config, federations, self.source.fingerprint(), self.serving.command)

    def _federation(self) -> Federation:
        """The server's own data: nothing of it is trained on."""
        source = self.source
        unused = np.full(len(source.train), UNUSED, dtype=np.int32)
        return Federation(source, unused, [], [], source.test[: self.config.max_test], None)

    def _session(self, config: Config, callback: Callback | None) -> Session:
        setup, model = self._setup(config)
        state = GlobalState.of(setup.template, setup.layout, setup.method, setup.optimizer, self.device)
        roster, source, task = self.hub.roster, self.source, self._task(setup)
        optimizer, clients = setup.optimizer, self._clients(len(roster.names))
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
            hub=self.hub,
            least=self.serving.least,
        )
        deployment = Deployment(
            setup,
            state,
            Elsewhere(source),
            execution=Execution(why="each client computes for itself"),
            links=self.hub,
            task=task,
            patience=self.serving.step_deadline,
            pool=self._pool(config, state, Crossing(setup, cuts.options[0], task), clients),
        )
        test = source.test[: config.max_test].to(setup.layout.dtype, self.device)
        if self.serving.evaluate == "clients":
            judged = shell(setup.template)
            setup.layout.bind(judged, state.weights.__getitem__, state.statistics.__getitem__)
            evaluator: Any = FederatedEvaluator(setup, judged, self.hub, self.serving.step_deadline)
        else:
            data = RunData([], test if self.serving.evaluate == "server" else None)
            evaluator = _evaluator(setup, state, data, config.metrics, OneWorker())
        length = RunLength(config.rounds, config.eval_every)
        stopping = _stopping(Stopping(config.patience, config.target_accuracy), evaluator)
        run = ServedRun(
            deployment, planner, evaluator, stopping, length.rounds, callback, length.eval_every, RemoteCohort
        )
        run.hub = self.hub
        return Session(model, setup.layout, run, config.threads)

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

    # Training

    def train(self, begins: Callable[[FolderRun], object] = id) -> Iterator[tuple[FolderRun, Result]]:
        """Wait for clients, then train what is left of every run; yields each with its result. `begins` is called with
        a run before that."""
        for one in self.runs:
            begins(one)
            run = one.session.run
            config = self.config.with_seed(one.seed).model_copy(update={"method": (one.name,)})
            setup = run.simulation.setup
            clients = self._clients(len(self.hub.roster.names))
            offer = Offer.of(config, self.source, layout_hash(setup.layout), self.serving.evaluate, clients)
            self.hub.fits = partial(self._fits, run.planner.cuts)
            self.hub.begin(offer, setup.wire if isinstance(setup.wire, Compression) else None)
            try:
                self._gather()
            except Stopped:
                return
            yield one, one.train()

    def _fits(self, cuts: Cuts, name: str) -> str | None:
        """Why a client that comes late cannot take part, if it cannot."""
        roster, listed = self.hub.roster, len(cuts.options)
        known = {*roster.names, *roster.waiting}
        if not cuts.per_client or name in known or len(known) < listed:
            return None
        return f"the setting cut lists the cuts of {plural(listed, 'client')}, and all of them have come already"

    def _gather(self) -> None:
        """The first clients: they are numbered when enough of them are there."""
        roster, least = self.hub.roster, self.serving.least
        if roster.closed:
            return

        def missing() -> str | None:
            here = len(roster.waiting)
            return None if here >= least else f"{here} of the {least} clients that a round needs have joined"

        self.hub.wait_for(missing)
        roster.close()
        roster.save(self.path)


@contextmanager
def served(
    serving: Serving,
    board: Board | None = None,
    callback: Callback | None = None,
    progress: ReadProgress = silent,
) -> Iterator[Server]:
    """A server that listens, and stops when this ends."""
    server = Server(serving, board, progress)
    server.port = server.listener.start()
    reason = "the server has stopped"
    try:
        server.open(callback)
        yield server
        if all(one.session.run.over and not one.session.run.cut_short for one in server.runs):
            reason = "the run is finished"
            server.hub.end(reason)
    finally:
        for one in server.runs:
            one.close()
        for pool in server.pools:
            pool.shutdown()
        server.listener.stop(reason)
