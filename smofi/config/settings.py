"""What a run is: every setting with its type, its default and a line about it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from torch import nn
from typing_extensions import Self

from smofi import models
from smofi.clock import Timing
from smofi.config.checks import CHECKS
from smofi.config.federation import Federation, gather
from smofi.config.plain_yaml import as_yaml, parse_settings, read_settings
from smofi.config.presets import preset_names, preset_text
from smofi.data import Source
from smofi.data.partitions.saved import PREFIX as SAVED
from smofi.data.partitions.saved import Owners
from smofi.errors import InputError, SmofiError, refuse
from smofi.optim import parse_optimizer

FIRST_RUN = ("fedavg", "fedavgm(momentum=0.3)", "smofi")
RESUMABLE = frozenset(
    {"rounds", "eval_every", "checkpoint_every", "patience", "target_accuracy", "data_folder"}
    | {"executor", "compile", "memory_limit", "devices", "availability"}
)
"""The settings that may change when a run is resumed; devices' files may move, and must say the same."""

LONGEST_SENTENCE = 600


class Settings(BaseModel):
    """Settings each checked by itself, as flags are before they join a file.

    >>> Settings(patience=5).model_fields_set
    {'patience'}
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str = Field("digits", description="data set; `smofi data` lists them, and the ways to name your own")
    data_folder: str | None = Field(None, description="folder with its official files; null to look in SMOFI_DATA")
    image_size: int | None = Field(None, description="bring images to this height and width; null to leave them")
    max_train: int | None = Field(None, description="train on the first so many samples only; null for all")
    max_test: int | None = Field(None, description="test on the first so many samples only; null for all")
    augment: str | None = Field(None, description='vary training images: "crop(4)+flip"; null for no')
    clients: int = Field(50, description="number of clients the data is divided among")
    partition: str = Field(
        "dirichlet(0.2)", description="how: dirichlet(gamma), iid, shards(k), natural, or file:RUN to take a run's"
    )
    model: str = Field("resnet8", description="model; `smofi models` lists them")
    width: int | None = Field(8, description="width of the model's first block; null for the model's own")
    norm: str | None = Field(None, description="batch or group; null for the model's own")
    method: tuple[str, ...] = Field(
        FIRST_RUN, description='as smofi or "fedprox(mu=0.01)+smofi"; several are compared side by side'
    )
    optimizer: str = Field("sgd(lr=0.05, momentum=0.9)", description="local optimizer: sgd, adam or adamw")
    cut: str = Field("1", description='core blocks on the client; "L,H" U shape; "0-2" drawn; "[0,1,...]" per client')
    rounds: int = Field(30, description="rounds of training")
    participation: float = Field(0.2, description="share of the clients that take part in a round")
    local_epochs: int = Field(5, description="epochs a client trains per round")
    batch_size: int = Field(8, description="samples per step")
    seed: int = Field(0, description="seed of everything random")
    device: str = Field("cpu", description="torch device, as cpu or cuda")
    validation: float = Field(0.0, description="share of the training data held out for validation")
    patience: int | None = Field(None, description="stop after so many rounds without a better validation accuracy")
    target_accuracy: float | None = Field(
        None, description="stop at this accuracy, as 0.9, on the validation split or else the test data"
    )
    eval_every: int = Field(1, description="rounds from one evaluation to the next; the last has one in any case")
    checkpoint_every: int = Field(5, description="rounds from one checkpoint to the next")
    metrics: tuple[str, ...] = Field(("top1",), description="of top1, macro_f1, per_client and worst_client")
    diagnose: bool = Field(False, description="record every round why a method helps: divergence, alignment, norms")
    executor: str = Field("auto", description="loop: client by client; vmap: many at once; auto: what is faster here")
    precision: str = Field("float32", description="of forward and backward passes: float32, or bf16 for mixed")
    compile: bool = Field(False, description="compile the model with torch.compile: a slow start, faster steps")
    memory_limit: str | None = Field(None, description="for all workers here, as 2GB: fewer clients at once, or refuse")
    wire: str | None = Field(None, description="numbers that cross the cut: float16, bf16 or int8; null as they are")
    clock: str = Field("none", description="virtual time on clients' devices: paper (its equations), full, or none")
    devices: str = Field("phones", description="with a clock: phones, as publicly measured, or a CSV file of your own")
    availability: str = Field("always", description="with a clock: always, phones (come and go), or a CSV of traces")
    server_speedup: float = Field(100.0, description="with a clock: times as fast as the mean device is the server")
    server_parallel: int | None = Field(None, description="with a clock: clients it works for at a time; null for all")
    step_deadline: float | None = Field(
        None, description="with a clock: seconds after which a step goes on without the late"
    )

    @field_validator("*", mode="before")
    @classmethod
    def _check_field(cls, value: Any, info: ValidationInfo) -> Any:
        assert info.field_name
        return CHECKS[info.field_name](info.field_name, value)


class Config(Settings):
    """The settings of a run, that also go together; the defaults are the first run, on embedded data.

    >>> Config(rounds=5).rounds
    5
    """

    @model_validator(mode="before")
    @classmethod
    def _own_width(cls, given: Any) -> Any:
        """Whoever names a model and no width gets the model's own, not the first run's."""
        return {"width": None, **given} if isinstance(given, dict) and "model" in given else given

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        for option in ("width", "norm"):
            value = getattr(self, option)
            if value is not None and option not in models.options_of(self.model):
                refuse(option, value, f"nothing (null in YAML), for model {self.model} has no such option")
        held_out = self.validation or self.partition.startswith(SAVED)  # which says itself what is held out
        if self.patience is not None and not held_out:
            refuse("patience", self.patience, "a validation share > 0 with it, as validation=0.1")
        if self.target_accuracy is not None and not held_out and "top1" not in self.metrics:
            refuse(
                "target_accuracy", self.target_accuracy, "top1 among the metrics, or a validation share > 0, with it"
            )
        _ = self.timing
        if self.cut.startswith("[") and (given := self.cut.count(",") + 1) != self.clients:
            refuse("cut", self.cut, f"one cut for each of the {self.clients} clients, and it has {given}")
        return self

    @property
    def timing(self) -> Timing:
        """What virtual time the run keeps."""
        return Timing(**{field.name: getattr(self, field.name) for field in fields(Timing)})

    def with_absolute_paths(self) -> Self:
        """The same, understood from any working folder."""
        scheme, colon, path = self.data.partition(":")
        data = f"{scheme}:{Path(path).expanduser().absolute()}" if colon and scheme != "python" else self.data
        folder = self.data_folder and str(Path(self.data_folder).expanduser().absolute())
        files = {name: _absolute_csv(getattr(self, name)) for name in ("devices", "availability")}
        return self.model_copy(update={"data": data, "data_folder": folder, **files})

    def arguments(self, federation: Federation | None = None) -> dict[str, Any]:
        """What these settings stand for as arguments of `smofi.train`, all but the method: data loaded, model built."""
        found = federation or gather(self)
        same = ["cut", "rounds", "participation", "local_epochs", "batch_size", "seed", "device", "augment"]
        same += ["patience", "target_accuracy", "eval_every", "metrics", "diagnose"]
        same += ["executor", "precision", "compile", "memory_limit", "wire"]
        return {
            "model": self.build_model(found.source),
            "clients": found.clients,
            "test": found.test,
            "validation": found.validation,
            "optimizer": parse_optimizer(self.optimizer),
            "clock": self.timing,
            **{name: getattr(self, name) for name in same},
        }

    def owners(self) -> Owners:
        """The client of each training sample, -1 for those held out for validation, -2 for those nobody uses.

        >>> sorted(set(Config(clients=4, validation=0.1).owners().tolist()))
        [-1, 0, 1, 2, 3]
        """
        return gather(self).owners

    def build_model(self, source: Source) -> nn.Sequential:
        """The initial model, a function of the seed."""
        if (needed := models.takes(self.model)) not in (None, source.kind):
            fitting = [name for name in models.MODELS if models.takes(name) == source.kind]
            refuse("model", self.model, f"a model for {source.kind}s such as {self.data} has, as {', '.join(fitting)}")
        try:
            return models.build(
                self.model,
                seed=self.seed,
                input_shape=source.input_shape,
                classes=source.classes,
                width=self.width,
                norm=self.norm,
            )
        except InputError as error:
            size = " (--image-size changes it)" if needed == "image" and "input_shape" in str(error) else ""
            raise InputError(f"model={self.model!r} does not fit data={self.data!r}: {error}{size}") from error


def read_config(source: str | Path, overrides: Mapping[str, Any] | None = None, *, scale: str | None = None) -> Config:
    """The configuration in a YAML file or of a preset; the overrides, as given on the command line, win.

    `scale` is that of a preset: "full", or "small" for a version of it that suits a CPU.

    >>> read_config("digits", {"rounds": 5}) == Config(rounds=5)
    True
    """
    overrides = overrides or {}
    if isinstance(source, str) and source in preset_names():
        name, given = f"preset {source}", parse_settings(preset_text(source, scale), f"preset {source}")
    else:
        _refuse_missing(Path(source))
        if scale is not None:
            refuse("scale", scale, f"the name of a preset with it: {', '.join(preset_names())}")
        name, given = str(source), read_settings(Path(source))
    try:
        return Config(**{**given, **overrides})
    except ValidationError as error:
        field = _field_of(error)
        # What holds for several settings together is the file's fault only if it fails without the overrides too.
        guilty = field not in overrides if field else _sentence_for(given) == sentence_of(error)
        raise InputError(f"{name}: {sentence_of(error)}" if guilty else sentence_of(error)) from None


def config_yaml(config: Config) -> str:
    """The whole configuration as YAML, a comment above each setting; `read_config` reads it back.

    >>> print(config_yaml(Config()).splitlines()[1])
    data: digits
    """
    lines = []
    for name, field in Config.model_fields.items():
        value = getattr(config, name)
        if isinstance(value, tuple):
            value = list(value) if len(value) > 1 else value[0]
        if name == "cut" and value.isdecimal() and str(int(value)) == value:
            value = int(value)
        lines.append(f"# {field.description}\n{name}: {as_yaml(value)}\n")
    return "\n".join(lines)


def changed_fields(old: Config, new: Config) -> list[str]:
    """A sentence for every setting that differs and may not, when a run is resumed.

    >>> changed_fields(Config(), Config(rounds=50, seed=1))
    ['seed=1 is not accepted: the run was started with seed=0, and a resumed run cannot change it']
    """
    return [
        f"{name}={_plain(getattr(new, name))!r} is not accepted: the run was started with "
        f"{name}={_plain(getattr(old, name))!r}, and a resumed run cannot change it"
        for name in Config.model_fields
        if name not in RESUMABLE and getattr(old, name) != getattr(new, name)
        if not (name == "data" and _moved(old.data, new.data))
    ]


def sentence_of(error: ValidationError) -> str:
    """The first thing that is wrong with a configuration, as a sentence.

    >>> try: Config(round=5)
    ... except ValidationError as error: print(sentence_of(error))
    round=5 is not accepted: there is no such setting, did you mean 'rounds'?
    """
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    field, value = ".".join(map(str, first["loc"])), first["input"]
    if isinstance(cause, SmofiError):
        text = str(cause)
    elif first["type"] == "extra_forbidden":
        text = f"{field}={value!r} is not accepted: there is no such setting{_near(field)}"
    else:
        text = f"{field}={value!r} is not accepted: {cause or first['msg'][:1].lower() + first['msg'][1:]}"
    half = LONGEST_SENTENCE // 2
    return text if len(text) <= LONGEST_SENTENCE else f"{text[:half]} ... {text[-half:]}"


def _absolute_csv(name: str) -> str:
    """A file's full path; names of another kind as they are."""
    return str(Path(name).expanduser().absolute()) if name.endswith(".csv") else name


def _moved(old: str, new: str) -> bool:
    """Whether both name data of one's own in the same form: where it lies may change, what it is may not."""
    return ":" in old and old.partition(":")[0] == new.partition(":")[0] != "python"


def _near(field: str) -> str:
    near = difflib.get_close_matches(field, Config.model_fields, n=1)
    return f", did you mean {near[0]!r}?" if near else "; the settings are " + ", ".join(Config.model_fields)


def _field_of(error: ValidationError) -> str | None:
    where = error.errors(include_url=False)[0]["loc"]
    return str(where[0]) if where else None


def _sentence_for(given: Mapping[str, Any]) -> str | None:
    try:
        Config(**given)
    except ValidationError as error:
        return sentence_of(error)
    return None


def _refuse_missing(path: Path) -> None:
    try:
        missing = not path.exists()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if missing:
        names = preset_names()
        near = difflib.get_close_matches(str(path), names, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise InputError(f"{path} does not exist: expected a YAML file, or a preset: {', '.join(names)}{hint}")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
