"""smofi: split federated learning that works on heterogeneous data.

A run       train, prepare: the arguments of a run; Session, Result, Record: what they return
            blocks: any module as a model that can be cut, from a Piece a block; CutSpec: the ways to write a cut
            sgd, adam, adamw: the local Optimizer; Loss, Metric, Wire, Augment: your own in place of ours
            Workers, ForkedWorkers, joined: the processes that share a run
            serve, join: a run with clients on other machines, and a client of such a run
A method    compose, Method, and what fills its slots: Pull, Decay, Limit, Fuse, Outer, Placement, BatchSizes, Select
            Turnout, Draw, Tick, Schedule: the ticks of a round; Candidates: the clients to select from
A callback  Callback, Event: RunStarted, RoundStarted, TickDone, RoundDone, Warned, RunEnded
A clock     Timing, Device, Presence
Errors      SmofiError: InputError, CompositionError, ClientError; TrainingWarning, CacheWarning, DataWarning
Packages    data, methods, models

Public are these names; the names in `__all__` of the packages `smofi.config`, `smofi.data`, `smofi.experiment`,
`smofi.export`, `smofi.methods`, `smofi.models` and `smofi.track`; and the `smofi` command. Everything else is internal:
it may change without notice.

>>> import smofi
>>> smofi.compose(smofi.methods.fedprox(mu=0.01), smofi.methods.smofi()).name
'fedprox(mu=0.01)+smofi'
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from smofi.api import *  # noqa: F403
else:
    # torch takes seconds to load: the command has to answer to Ctrl-C before, and to --version without it

    def __getattr__(name: str) -> Any:
        """Load all public names when one is first asked for."""
        if name == "__all__" or not name.startswith("_"):
            import importlib

            api = importlib.import_module("smofi.api")
            if name in ("__all__", *getattr(api, "__all__", ())):  # none while it is being loaded
                globals().update({"__all__": api.__all__, **{one: getattr(api, one) for one in api.__all__}})
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
