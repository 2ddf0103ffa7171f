"""`smofi serve`: a run folder, a listener, and the runs of a configuration, one after the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np

from smofi.config import Config
from smofi.config.federation import Federation, read_source
from smofi.data.decoded import ReadProgress, silent
from smofi.data.partitions import UNUSED
from smofi.engine.check import check_device
from smofi.engine.cohort.wire import Compression
from smofi.engine.events import Callback
from smofi.engine.plan import Planner
from smofi.errors import check_path
from smofi.experiment.opening import FolderRun, RunKeeper, describe_new
from smofi.experiment.resuming import abouts_in, go_on
from smofi.net.journal import ended, journal
from smofi.net.logs import log
from smofi.net.status import Board
from smofi.net.transport.listener import Listener
from smofi.plural import plural
from smofi.runs import RunFolder, check_free, folders_for, folders_in, names_and_samples
from smofi.serving.assembly import Assembly
from smofi.serving.checks import Serving, as_evaluated, check_serving, listed
from smofi.serving.hub import Hub, Stopped
from smofi.serving.limits import MOST_STEPS, limits_for
from smofi.serving.memory import check_memory
from smofi.serving.offer import Offer
from smofi.serving.roster import Roster
from smofi.serving.run import short_of
from smofi.serving.setups import check_servable, layout_hash
from smofi.training import Result

logger = logging.getLogger("smofi.serving")


class Server:
    """A listener and the runs of a configuration. `board` shows what happens."""

    def __init__(self, serving: Serving, board: Board | None = None, progress: ReadProgress = silent) -> None:
        serving = as_evaluated(serving)
        self.serving, self.board = serving, board or Board()
        config = serving.config
        check_servable(config)
        check_serving(serving)
        self.config = config.with_absolute_paths()
        self.path = check_path("path", serving.folder)
        if not serving.resume:
            self._check_free()
        self.source = read_source(self.config, progress)
        self.assembly = Assembly(serving, self.source, check_device(config.device))
        # what cannot be served is refused before anything is started
        roster = Roster.read(self.path) if serving.resume else Roster()
        needs = [self.assembly.needs(one, len(roster.names)) for one in self._each_method()]
        self.limits = serving.limits or limits_for(max(one.largest for one in needs))
        check_memory(config.memory_limit, needs, len(config.each_seed), self.assembly.device)
        roster.order = listed(serving.allow)
        self.listener = self._listener()
        self.hub = Hub(self.listener, roster, self.board)
        self.hub.changed = partial(roster.save, self.path)
        self.runs: list[FolderRun] = []
        self.port = 0

    # Before

    def _check_free(self) -> None:
        below = [folder.path for folder in self._folders() if folder.path != self.path]
        check_free(self.path, below)

    def _folders(self) -> list[RunFolder]:
        return folders_for(self.path, self.config.method, self.config.each_seed)

    def _each_method(self) -> Iterator[Config]:
        return (self.config.model_copy(update={"method": (method,)}) for method in self.config.method)

    def _listener(self) -> Listener:
        serving = self.serving
        if serving.certs is None:
            return Listener(serving.listen, None, None, self.limits, serving.times)
        from smofi.net.certs import Gate, Identity, server_credentials
        from smofi.serving.admission import Admission

        identity = Identity.load(serving.certs, "server")
        admission = Admission(Gate.of(identity, allowed=serving.allow, warn=self._warn))
        return Listener(serving.listen, server_credentials(identity), admission, self.limits, serving.times)

    def _warn(self, sentence: str) -> None:
        self.board.event(sentence, level="warning")
        log(logger, "warning", level="warning", reason=sentence)

    # Sessions

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
                session = self.assembly.session(own, self.hub, journal(seed, callback))
                runs.append(FolderRun(method, seed, session, keeper, served=True))
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
            go_on(self.path, runs, abouts_in(self.path), self.config, federations)
            return
        self._check_free()  # another process may have begun meanwhile
        self.hub.roster.save(self.path)  # first: with its configuration, the folder has a served run
        known = self.source.fingerprint(), self.serving.command
        describe_new(self.path, runs, self.config, federations, *known, evaluate=self.serving.evaluates)

    def _federation(self) -> Federation:
        """The server's own data: nothing of it is trained on."""
        source = self.source
        unused = np.full(len(source.train), UNUSED, dtype=np.int32)
        return Federation(source, unused, [], [], source.test[: self.config.max_test], None)

    # Training

    def train(self, begins: Callable[[FolderRun], object] = id) -> Iterator[tuple[FolderRun, Result]]:
        """Wait for clients, then train what is left of every run; yields each with its result. `begins` is called with
        a run before that."""
        for one in self.runs:
            begins(one)
            run = one.session.run
            if run.over:  # before the server was started again: no client is asked to take part
                yield one, one.train()
                continue
            config = self.config.with_seed(one.seed).model_copy(update={"method": (one.name,)})
            setup = run.simulation.setup
            clients = self.assembly.clients(len(self.hub.roster.names))
            told = layout_hash(setup.layout), self.serving.evaluates, clients, self.serving.times
            left = sum(not other.session.run.over for other in self.runs)
            offer = replace(Offer.of(config, self.source, *told), runs=left)
            self.hub.fits = partial(self._fits, run.planner)
            self.hub.classes = self.source.classes if setup.method.select else 0
            self.hub.begin(offer, setup.wire if isinstance(setup.wire, Compression) else None)
            try:
                self._gather()
            except Stopped as stopped:
                ended(one.name, one.seed, len(run.history), str(stopped), diverged=False, cut_short=True)
                return
            result = one.train()
            run.simulation.give_back()
            known = len(run.history), run.stopped
            ended(one.name, one.seed, *known, diverged=run.diverged, cut_short=run.cut_short)
            yield one, result

    def _fits(self, planner: Planner, name: str, samples: int) -> str | None:
        """Why a client with this number of samples cannot take part, if it cannot."""
        roster, cuts, settings = self.hub.roster, planner.cuts, planner.settings
        if samples < settings.batch_size:  # in a round it would take no step, and others would wait for more clients
            own = plural(samples, "training sample")
            return f"it has {own}, fewer than a batch of {settings.batch_size}, and so could never take part"
        steps = planner.method.steps or settings.local_epochs * (samples // settings.batch_size)
        if steps > MOST_STEPS:
            return f"its {samples:,} samples are {steps:,} steps a round, and at most {MOST_STEPS:,} are accepted"
        known, listed = {*roster.names, *roster.waiting}, len(cuts.options)
        if not cuts.per_client or name in known or len(known) < listed:
            return None
        return f"the setting cut lists the cuts of {plural(listed, 'client')}, and all of them have come already"

    @property
    def rounds(self) -> int:
        """How many rounds are done, of all runs together."""
        return sum(len(one.session.run.history) for one in self.runs)

    @property
    def finished(self) -> bool:
        """Whether all runs are over, none of them cut short."""
        return all(one.session.run.over and not one.session.run.cut_short for one in self.runs)

    def _gather(self) -> None:
        """The first clients: they are numbered when enough of them are there."""
        roster, least = self.hub.roster, self.serving.least
        if roster.closed:
            return

        def missing() -> str | None:
            here = len(roster.waiting)
            return None if here >= least else short_of(here, least)

        self.hub.wait_for(missing)
        roster.close()
        roster.save(self.path)
        self.hub.say(f"Clients: {names_and_samples(roster.participants)}")


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
    host, secured = serving.listen.rpartition(":")[0], serving.certs is not None
    log(logger, "listening", address=f"{host}:{server.port}", certificates=secured, folder=str(server.path))
    reason = "the server has stopped"
    try:
        server.open(callback)
        before = server.rounds
        yield server
        if server.finished:
            reason = "the run is finished"
            # if it was so before, the server may have been killed before it could say it
            awaited = server.hub.roster.names if server.rounds == before else ()
            server.hub.end(reason, serving.times.patience, awaited)
    finally:
        for one in server.runs:
            one.close()
        server.assembly.close()
        server.listener.stop(reason)
