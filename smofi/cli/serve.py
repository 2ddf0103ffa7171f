"""The command that serves a run to clients on other machines: serve."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from smofi.cli.arguments import Scale, ServedFlags, ServedSettings, Source, resolve, settings_given
from smofi.cli.claiming import claimed_folder
from smofi.cli.deployment_flags import SERVER, TIMES, WATCHING, ServerFlags, TimeFlags, WatchingFlags
from smofi.cli.program import COMMAND_LINE, console
from smofi.cli.streams import loading, remark
from smofi.config import Config, stored_config
from smofi.config.settings import check_served
from smofi.engine.processes.endings import Interrupted, handled, in_turn
from smofi.errors import InputError
from smofi.plural import plural
from smofi.serving import saving_every_round

if TYPE_CHECKING:
    from smofi.engine.events import Event
    from smofi.serving.checks import Serving
    from smofi.serving.server import Server


def serve(
    source: Source = None,
    /,
    *,
    flags: ServedFlags = ServedSettings(),  # noqa: B008  # frozen, like the others
    scale: Scale = None,
    server: Annotated[ServerFlags, Parameter(name="*", group=SERVER)] = ServerFlags(),  # noqa: B008
    watching: Annotated[WatchingFlags, Parameter(name="*", group=WATCHING)] = WatchingFlags(),  # noqa: B008
    times: Annotated[TimeFlags, Parameter(name="*", group=TIMES)] = TimeFlags(),  # noqa: B008
) -> int:
    """Train with clients on other machines, each of which runs `smofi join`. Their samples stay with them.

    Settings are those of `smofi run` that make sense with real clients. The server's `data` says what samples look
    like, and has the test data. It waits until enough clients are there, trains, saves every round, and stops. Ctrl-C
    and SIGTERM let it finish the round. After a crash, `smofi serve --resume DIR` goes on from the last round saved,
    and clients come back by themselves.
    """
    given = settings_given(flags)
    check_served(given)  # first: that a setting needs another one would be no help where that one is refused too
    server.check()
    times.check()
    if server.resume is None:
        config = resolve(source, given, scale)
    elif source is not None or server.output is not None or scale is not None:
        raise InputError("--resume is not accepted with a file, --scale or --output: the run's folder has its settings")
    else:
        config = stored_config(server.resume, given, served=True)
    config = saving_every_round(config, given, remark, resumed=server.resume is not None)
    with loading():
        from smofi.net.transport.times import Times
        from smofi.serving.checks import Serving

    named = server.resume or server.output
    with nullcontext(named) if named else claimed_folder(config.data) as folder:
        serving = Serving(
            config,
            folder,
            server.address,
            server.certs,
            server.allow,
            server.min_clients,
            server.evaluate,
            times.deadline,
            server.resume is not None,
            shlex.join(["smofi", *COMMAND_LINE]),
            Times(patience=times.away, keepalive=times.keepalive, connect=times.connect),
        )
        return _Serve(serving, watching).run()


def _resuming(serving: Serving, server: Server) -> str:
    """The command that goes on with a run, with the options that it needs and that no folder keeps."""
    words = ["smofi", "serve", "--resume", str(server.path)]
    words += ["--certs", str(serving.certs)] if serving.certs else ["--insecure"]
    words += ["--listen", f"{serving.listen.rpartition(':')[0]}:{server.port}"]
    words += ["--allow", str(serving.allow)] if serving.allow else []
    words += ["--min-clients", str(serving.min_clients)] if serving.min_clients is not None else []
    return shlex.join(words)


class _Serve:
    """The server with everything around it: display, status page, logs, signals."""

    def __init__(self, serving: Serving, watching: WatchingFlags) -> None:
        from smofi.net.status import Board
        from smofi.report.live import Live

        config = serving.config
        self.serving, self.watching = serving, watching
        self.live = Live(console, list(config.method), config.rounds, watching.display, seeds=config.each_seed)
        self.board = Board()
        self.server: Server | None = None
        self.current: Any = None

    def run(self) -> int:
        """Serve until all runs are done. Exit code 1 for a run that diverged, 128 + n after signal n."""
        from smofi.cli.reading import reading
        from smofi.serving.server import served

        started = time.perf_counter()
        with ExitStack() as stack:
            if self.watching.log_format:
                from smofi.net.logs import configure_logs

                configure_logs(self.watching.log_format)
            if self.watching.status:
                self._watch(stack)
            with reading(self.serving.config.data) as progress:
                server = self.server = stack.enter_context(served(self.serving, self.board, self._event, progress))
            return self._train(server, started, stack)

    def _watch(self, stack: ExitStack) -> None:
        from smofi.net.status import StatusServer

        page = StatusServer(self.board, self.watching.status or "")
        url = page.start()
        stack.callback(page.stop)
        self.live.say(f"Status: {url}")

    def _event(self, event: Event) -> None:
        self.live(event)
        self.board.callback(event)

    def _train(self, server: Server, started: float, stack: ExitStack) -> int:
        from smofi.cli.results import print_results
        from smofi.report import History

        config, results = self.serving.config, {}
        judged = server.runs[0].judged
        for number, one in enumerate(server.runs):
            self.live.recall(number, History.of(one.name, one.session.run.history, one.seed, **judged))
        self._say_where(server, config)
        server.hub.say = self.live.say
        with self._finishing_the_round() as caught:
            with self.live:
                for one, result in server.train(lambda run: setattr(self, "current", run)):
                    results[one.seed, one.name] = result
                    if caught:
                        break
            stack.close()
        if self.live.mode != "jsonl":
            print_results(config, server.path, results, judged, time.perf_counter() - started, self.live.mode)
        if caught and not server.finished:
            remark(f"Interrupted; go on with: {_resuming(self.serving, server)}, and other options as before")
            return 128 + caught[0]
        return 1 if any(result.diverged for result in results.values()) else 0

    def _say_where(self, server: Server, config: Config) -> None:
        host = self.serving.listen.rpartition(":")[0]
        secured = "with certificates" if self.serving.certs else "in plain text"
        self.live.say(
            f"Listening at {host}:{server.port} {secured}; waiting for {plural(self.serving.least, 'client')}. "
            f"{config.model} cut at {config.cut}, {plural(config.rounds, 'round')}, in {server.path}"
        )

    @contextmanager
    def _finishing_the_round(self) -> Iterator[list[int]]:
        """Ctrl-C and SIGTERM end a run after the current round; a second one ends it at once."""
        caught: list[int] = []

        def stop(number: int, frame: FrameType | None) -> None:
            caught.append(number)
            if self.server:
                self.server.hub.stopping = True
            if self.current:
                self.current.session.run.interrupt()

        def quit(number: int, frame: FrameType | None) -> None:
            raise Interrupted(number)

        with handled(in_turn(stop, quit)):
            yield caught
