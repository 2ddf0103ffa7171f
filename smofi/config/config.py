"""What a run is: all settings, checked together, and what they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import model_validator
from typing_extensions import Self

from smofi.clock.devices import Timing
from smofi.config.definition import read_seeds, seeds_text
from smofi.config.settings import COMPUTING, FIRST_SEEDS, SETTINGS, TRAIN_ARGUMENTS, Settings
from smofi.data.catalogue import check_columns
from smofi.data.partitions import NATURAL
from smofi.data.partitions import PREFIX as SAVED
from smofi.engine.metrics import CLIENT_METRICS
from smofi.errors import InputError, refuse, refuse_unwanted, shown
from smofi.memory import limited
from smofi.models.known import MODELS, options_of, takes

if TYPE_CHECKING:
    from torch import nn

    from smofi.config.federation import Federation
    from smofi.data import Source
    from smofi.data.partitions import Owners

COPIES = 4
"""Of a model's weights, which any run takes: the initial model, the global one, a client's and its gradients."""


class Config(Settings):
    """The settings of a run, checked together too; the defaults are the first run, on embedded data.

    >>> Config(rounds=5).rounds
    5
    """

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        """Fill in what follows from what is given: one seed or several, a model's own width, no clients."""
        if not isinstance(given, dict):
            return given
        none = (None, "null", "none")
        if given.keys() <= COMPUTING:  # the first run, as long as nothing is given that changes what it learns
            given = {**given, "seeds": FIRST_SEEDS}
        if given.get("seeds") not in none:
            seeds = read_seeds("seeds", given["seeds"])
            if given.get("seed") not in (*none, seeds[0], str(seeds[0])):
                refuse("seeds", seeds_text(seeds), f"seed or seeds, not both, and seed is {shown(given['seed'])}")
            given = {**given, "seed": seeds[0], "seeds": seeds if len(seeds) > 1 else None}
        told = str(given.get("partition")).strip().startswith((NATURAL, SAVED))  # how many clients there are
        absent = {name for name in ("seed", "seeds", "clients") if given.get(name) in none}
        filled = {"width": None} if "model" in given else {}  # a model's own width, not the first run's
        if told and "clients" in absent:
            filled["clients"] = None
        return filled | {name: value for name, value in given.items() if name not in absent}

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        for option in ("width", "norm"):
            value = getattr(self, option)
            if value is not None and option not in options_of(self.model):
                refuse_unwanted(option, value, f"model {self.model} has no such option")
        held_out = self.validation or self.partition.startswith(SAVED)  # whose file says what is held out
        if self.patience is not None and not held_out:
            refuse("patience", self.patience, "validation to be more than 0 as well, such as 0.1")
        if len(self.executor) not in (1, len(self.method)):
            accepted = f"one for all methods, or one for each of the {len(self.method)}"
            refuse("executor", list(self.executor), accepted)
        _ = self.timing
        check_columns(self.data, self.label_column, self.client_column)
        if self.cut.startswith("[") and (given := self.cut.count(",") + 1) != (self.clients or given):
            refuse("cut", self.cut, f"one cut for each of the {self.clients} clients, but it has {given}")
        return self

    @property
    def timing(self) -> Timing:
        """Return the settings of virtual time."""
        return Timing(**{name: getattr(self, name) for name, setting in SETTINGS.items() if setting.timing})

    @property
    def each_seed(self) -> tuple[int, ...]:
        """Return all seeds, of which there may be one."""
        return self.seeds or (self.seed,)

    def with_seed(self, seed: int) -> Self:
        """Return the configuration with this seed alone."""
        return self.model_copy(update={"seed": seed, "seeds": None})

    def divided(self, federation: Federation) -> Self:
        """Return the configuration with the number of clients that its data was divided among."""
        return self.model_validate(self.model_dump() | {"clients": len(federation.clients)})

    @property
    def known_clients(self) -> int:
        """Return the number of clients, where it is known: given, or found by `divided`."""
        assert self.clients is not None, "data that has not been divided yet"
        return self.clients

    @property
    def per_round(self) -> int:
        """Count the clients that take part in a round, if as many have a batch of samples."""
        return max(1, round(self.participation * self.known_clients))

    def with_absolute_paths(self) -> Self:
        """Return the configuration as it is understood from any working folder."""

        def absolute(path: str) -> str:
            return str(Path(path).expanduser().absolute())

        scheme, colon, path = self.data.partition(":")
        data = f"{scheme}:{absolute(path)}" if colon and scheme != "python" else self.data
        files = {name: getattr(self, name) for name in ("devices", "availability")}
        files = {name: absolute(file) if file.endswith(".csv") else file for name, file in files.items()}
        return self.model_copy(
            update={"data": data, "data_folder": self.data_folder and absolute(self.data_folder), **files}
        )

    def executor_of(self, method: str) -> str:
        return self.executor[self.method.index(method) if len(self.executor) > 1 else 0]

    def arguments(self, federation: Federation | None = None, method: str | None = None) -> dict[str, Any]:
        """Return what the settings stand for as arguments of `smofi.train`, but the method: data loaded, model built.

        `method` tells for which of several it is, by default for the first: they may have executors of their own.
        """
        from smofi.config.federation import gather

        gathered = federation or gather(self)
        return {
            **{name: getattr(self, name) for name in TRAIN_ARGUMENTS if name != "method"},
            "executor": self.executor_of(method or self.method[0]),
            "model": self.build_model(gathered.source),
            "clients": gathered.clients,
            "test": gathered.test,
            "validation": gathered.validation,
            "clock": self.timing,
            "client_tests": gathered.client_tests() if CLIENT_METRICS.keys() & set(self.metrics) else None,
            "client_names": gathered.client_names or None,
        }

    def owners(self) -> Owners:
        """Return the client of each training sample, -1 where held out for validation, -2 where not used.

        >>> sorted(set(Config(clients=4, validation=0.1).owners().tolist()))
        [-1, 0, 1, 2, 3]
        """
        from smofi.config.federation import gather

        return gather(self).owners

    def build_model(self, source: Source) -> nn.Sequential:
        """Build the initial model, a function of the seed."""
        from smofi.models.building import build

        if (needed := takes(self.model)) not in (None, source.kind):
            fitting = [name for name in MODELS if takes(name) == source.kind]
            refuse("model", self.model, f"a model for {source.kind}s, as in {self.data}: one of {', '.join(fitting)}")
        try:
            with limited(self.memory_limit):
                return build(
                    self.model,
                    seed=self.seed,
                    input_shape=source.input_shape,
                    classes=source.classes,
                    width=self.width,
                    norm=self.norm,
                    copies=COPIES,
                )
        except InputError as error:
            size = " (--image-size changes it)" if needed == "image" and "input_shape" in str(error) else ""
            if str(error).startswith(("model=", "norm=")):
                raise
            raise InputError(f"model={self.model!r} does not fit data={self.data!r}: {error}{size}") from error
