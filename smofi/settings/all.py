"""All settings of a run, and what they mean where clients are real. To add one, define it and use it: one that does not
reach the run fails a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

from smofi.clock.devices import CLOCKS, Timing
from smofi.data.augment import Augment, parse_augment
from smofi.data.catalogue import check_data_name
from smofi.engine.cohort.wire import WIRES, check_wire
from smofi.engine.metrics import CLIENT_METRICS, TEST_METRICS
from smofi.errors import refuse
from smofi.method import Method
from smofi.models.catalogue import check_model_name
from smofi.models.norm import EXAMPLE as NORM
from smofi.models.norm import parse_norm
from smofi.optim import DEFAULT_OPTIMIZER, Optimizer, parse_optimizer
from smofi.settings import definition as checks
from smofi.settings.definition import (
    Argument,
    Check,
    Checked,
    count,
    definitions,
    flag,
    names_or_csv,
    number,
    one_of,
    optional,
    setting,
    several,
    several_seeds,
    text_for,
    text_or,
)

# --------------------------------------------------------------------------------------------------------------------
# The settings of the data: what it is, and how it is divided among clients.


_augment, _column = text_for("crop(4)+flip", parse_augment), optional(checks.column)


class DataSettings(Checked):
    """The first of all settings."""

    data: str = setting(
        "digits",
        Check(check_data_name),
        "a data set that `smofi data` lists, or your own: folder:PATH, npz:PATH, csv:PATH, python:module:function",
        page="data",
    )
    label_column: str | None = setting(
        None, _column, "for csv:PATH, the column to predict; by default the one called label, y, class or target"
    )
    client_column: str | None = setting(
        None,
        _column,
        "for csv:PATH, the column that says whose sample it is; by default the one called client, site or user",
    )
    data_folder: str | None = setting(
        None,
        optional(checks.folder),
        "folder with the official files of the data set; by default SMOFI_DATA/NAME",
        resumable=True,
        computing=True,
    )
    image_size: int | None = setting(
        None, optional(count), "resize images to this height and width; by default they stay as they are"
    )
    max_train: int | None = setting(None, optional(count), "use this many training samples at most, the first ones")
    max_test: int | None = setting(None, optional(count), "use this many test samples at most, the first ones")
    augment: str | None = setting(
        None,
        optional(_augment),
        "vary training images: crop(4) shifts by up to 4 pixels, flip mirrors half of them, crop(4)+flip does both",
        argument=Argument(check=text_or(_augment, 'a string such as "crop(4)+flip", or None', Augment, NoneType)),
    )
    clients: int | None = setting(
        50, optional(count), "number of clients; with natural, by default everyone who owns at least a batch of samples"
    )
    partition: str = setting(
        "dirichlet(0.2)",
        Check(checks.partition),
        "how the data is divided: dirichlet(gamma), iid, shards(k), natural, or file:RUN for that of another run",
        page="partitions",
    )


# --------------------------------------------------------------------------------------------------------------------
# All settings of a run, with those of its data. To add one, define it and use it: one that does not reach the run
# fails a test.

FIRST_RUN = ("fedavg", "fedavgm(momentum=0.3)", "smofi")
FIRST_SEEDS = (0, 1, 2)
FIRST_OPTIMIZER = "sgd(lr=0.05, momentum=0.9, weight_decay=0.0005, lr_decay=0.998)"
PRECISIONS = ("float32", "bf16")
"""Of forward and backward passes; "float32" leaves a model of another type as it is."""

_clock, _wire, _optimizer = one_of(CLOCKS), Check(check_wire), text_for(DEFAULT_OPTIMIZER, parse_optimizer)


class Settings(DataSettings):
    """Settings each checked by itself, as flags are before they join a file.

    >>> Settings(patience=5).model_fields_set
    {'patience'}
    """

    # model, method, optimizer
    model: str = setting(
        "resnet8",
        Check(lambda field, value: check_model_name(value)),
        "a model that `smofi models` lists, or your own: python:module:function",
        page="models",
    )
    width: int | None = setting(
        8,
        optional(count),
        "width of the model's first block; a model that is named without a width has its own default",
    )
    norm: str | None = setting(
        None,
        optional(text_for(NORM, parse_norm)),
        "batch, group, or group(n) with n groups in every layer, for convolutional models; by default the model's own",
    )
    method: tuple[str, ...] = setting(
        FIRST_RUN,
        several("smofi", checks.method),
        "one or more, such as smofi, fedprox(mu=0.01)+smofi or your own python:module:function; several are compared",
        argument=Argument(
            "smofi",
            text_or(checks.method, 'a string such as "smofi" or a value such as smofi.methods.smofi()', Method),
            '"smofi", "fedprox(mu=0.01)+smofi", or a value such as `smofi.methods.smofi(alpha=-1)`',
        ),
        page="methods",
    )
    optimizer: str = setting(
        FIRST_OPTIMIZER,
        _optimizer,
        "sgd(lr, momentum, nesterov, weight_decay, lr_decay), adam(...) or adamw(...); replaces all of a preset's; "
        "lr_decay is the learning rate's factor per round",
        argument=Argument(
            DEFAULT_OPTIMIZER,
            text_or(_optimizer, f"a string or a value such as smofi.{DEFAULT_OPTIMIZER}", Optimizer),
            help="`smofi.sgd`, `smofi.adam` or `smofi.adamw`, or such a call as a string",
        ),
    )
    cut: str = setting(
        "1",
        Check(checks.cut),
        'core blocks on the client; "2,1" for the U shape; "0-2" to draw a cut every round; a list for one per client',
        argument=Argument(
            1,
            checks.checked_later,
            'core blocks on the client; (L, H) for the U shape; "0-3" drawn each round; a list, one per client',
        ),
    )

    # rounds
    rounds: int = setting(20, count, "rounds of training", argument=Argument(50), resumable=True)
    participation: float = setting(
        0.4, number(above=0, high=1), "share of the clients that take part in a round", argument=Argument(0.2)
    )
    local_epochs: int = setting(5, checks.epochs, "epochs that a client trains in a round", argument=Argument())
    batch_size: int = setting(
        8, count, "samples per step; a client with fewer samples never takes part", argument=Argument(32)
    )
    seed: int = setting(
        0,
        checks.seed,
        "seed of everything random: partition, model, selection, batches",
        argument=Argument(help="seed of everything random: selection, batches, cuts that are drawn"),
    )
    seeds: tuple[int, ...] | None = setting(
        None,
        optional(several_seeds),
        "several in place of seed, such as 0-2 or 0,3,5: every method is trained with each of them",
        page="watching",
    )
    device: str = setting(
        "cpu",
        Check(checks.device),
        "torch device, such as cpu or cuda",
        argument=Argument(check=checks.checked_later),
        computing=True,
    )

    # evaluating and stopping
    validation: float = setting(
        0.0, number(low=0, below=1), "share of the training data held out for validation, drawn by the seed"
    )
    patience: int | None = setting(
        None,
        optional(count),
        "stop after this many rounds that are no better on the validation data; validation must be more than 0",
        argument=Argument(),
        resumable=True,
    )
    target_accuracy: float | None = setting(
        None,
        optional(number(above=0, high=1)),
        "stop once this accuracy (or judged metric) is reached, such as 0.9, on validation data, else on test data",
        argument=Argument(check=optional(number())),
        resumable=True,
    )
    eval_every: int = setting(
        1,
        count,
        "rounds between evaluations; the last round is always evaluated",
        argument=Argument(),
        resumable=True,
    )
    checkpoint_every: int = setting(5, count, "rounds between checkpoints", resumable=True, computing=True)
    metrics: tuple[str, ...] = setting(
        ("top1",),
        several("top1", one_of((*TEST_METRICS, *CLIENT_METRICS))),
        "one or more of top1, macro_f1, per_client and worst_client; the first single number is judged. The last two "
        "are accuracies on clients' own test samples if the data says whose they are, else on training samples",
        argument=Argument(
            check=checks.checked_later,
            help="a list of top1, macro_f1, per_client, worst_client, or functions of (outputs, targets), higher is "
            "better; the first number is judged. per_client, worst_client: on client_tests, or else on training data",
        ),
        page="watching",
    )
    diagnose: bool = setting(
        False,
        flag,
        "record in every round how far clients diverge, how well their momenta agree, and gradient norms",
        argument=Argument(),
        page="watching",
        computing=True,
    )

    # how it is computed
    executor: tuple[str, ...] = setting(
        ("auto",),
        checks.one_or_each(checks.executor),
        "one for all methods, or one for each: loop (client by client), vmap (many clients at once), vmap(at_least=N) "
        "(at once while N are still training), or auto (whichever a quick measurement favours)",
        argument=Argument("loop", checks.executor),
        resumable=True,
        page="speed",
        computing=True,
    )
    threads: int = setting(
        1,
        checks.threads,
        "threads inside each operation; a result's last bits depend on it",
        argument=Argument(),
        resumable=True,
        computing=True,
    )
    workers: int | None = setting(
        None,
        optional(checks.workers),
        "processes that share the work; by default the largest power of two up to the number of cores, or of GPUs",
        resumable=True,
        page="workers",
        computing=True,
    )
    precision: str = setting(
        "float32",
        one_of(PRECISIONS),
        "float32, or bf16 for mixed precision: forward and backward passes in bf16, weights as they are",
        argument=Argument(),
    )
    compile: bool = setting(
        False,
        flag,
        "compile the model with torch.compile: it starts slowly, and steps on GPUs are faster",
        argument=Argument(),
        resumable=True,
        computing=True,
    )
    server_threads: int = setting(
        1,
        checks.threads,
        "with sflv2 and mergesfl: threads of the single server model's passes; the last bits of a result depend on it",
        argument=Argument(),
        resumable=True,
        page="workers",
        computing=True,
    )
    memory_limit: str | None = setting(
        None,
        optional(checks.size),
        "memory for all workers on this machine, such as 2GB: a run that needs more is refused",
        argument=Argument(),
        resumable=True,
        page="memory",
        computing=True,
    )
    wire: str | None = setting(
        None,
        optional(_wire),
        "send numbers across the cut as fp16, bf16 or int8, and train with what arrives; null or fp32: as they are",
        argument=Argument(
            check=text_or(_wire, f"{', '.join(WIRES)}, a function, or None", Callable, NoneType),
            help='send numbers across the cut as "fp16", "bf16" or "int8"; or a function of (tensor, "up" or '
            '"down", client) that everything crossing the cut passes through. Either executes the split for real, with '
            "separate autograd graphs on each side",
        ),
    )

    # virtual time
    clock: str = setting(
        "none",
        _clock,
        "virtual time on the clients' devices: none, paper (its equations), or full (weights and round trips, too)",
        argument=Argument(
            check=text_or(_clock, '"none", "paper", "full", or a smofi.Timing', Timing),
            help='virtual time on the clients\' devices: "paper", "full", or a `smofi.Timing` that says more',
        ),
        timing=True,
        page="clock",
    )
    devices: str = setting(
        "phones",
        Check(checks.devices),
        "with a clock: phones as publicly measured, phones(rtt_ms=80) if the server is far away, or your own CSV file",
        timing=True,
        resumable=True,
    )
    availability: str = setting(
        "always",
        names_or_csv("always", "phones"),
        "with a clock: always, phones (which come and go as publicly measured), or your own CSV file of traces",
        timing=True,
        resumable=True,
    )
    server_speedup: float = setting(
        100.0,
        number(above=0),
        "with a clock: the server's speed, as a multiple of the mean device's",
        timing=True,
    )
    server_parallel: int | None = setting(
        None,
        optional(count),
        "with a clock: how many clients the server computes for at a time; by default all of them",
        timing=True,
    )
    step_deadline: float | None = setting(
        None,
        optional(number(above=0)),
        "with a clock: seconds after which a step no longer waits for late clients; by default it waits for all",
        timing=True,
    )


SETTINGS = definitions(Settings)
TRAIN_ARGUMENTS = {name: one for name, one in SETTINGS.items() if one.argument}
"""The settings that are arguments of `smofi.train` too."""

RESUMABLE = frozenset(name for name, one in SETTINGS.items() if one.resumable)
"""The settings that may change when a run is resumed; devices' files may move, and must say the same."""

COMPUTING = frozenset(name for name, one in SETTINGS.items() if one.computing)
"""The settings that say how a run is computed and kept: runs that differ in these alone are runs of the same thing."""


# --------------------------------------------------------------------------------------------------------------------
# Settings where clients are real: some mean nothing there, which `smofi serve` refuses and its help leaves out; of
# others, its help says what they mean there.

NO_CLOCK = "none of a clock's settings: clients are real, and so is the time they take"

UNSERVED = {name: NO_CLOCK for name, one in SETTINGS.items() if one.timing} | {
    "clock": "none: clients are real, and so is the time they take",
    "step_deadline": "null: clients are real, and so is their time; --deadline says how long a step waits for a client",
    "validation": "0: the training data is with the clients",
    "patience": "null: nothing can be held out for validation, as the training data is with the clients",
    "diagnose": "false: it needs the gradients of whole models, which no machine has",
    "compile": "false: the model is split",
    "executor": "auto: each client computes for itself",
}
"""What a server accepts for such a setting, and why, by name."""

ALIKE = {"executor": ("loop",)}
"""Values that mean the same as the default: folders of served runs had them."""

SERVED_HELP = {
    "data": "what samples look like, and the test data: a data set that `smofi data` lists, or your own: folder:PATH, "
    "npz:PATH, csv:PATH, python:module:function",
    "max_train": "use this many training samples at most, the first ones: of the server's data, which is not trained "
    "on, and of clients that join with --part",
    "clients": "how many clients take part; a round waits for that many, or for --min-clients",
    "partition": "for clients that join with --part alone, in trials: how the data is divided among them",
    "target_accuracy": "stop once this accuracy (or judged metric) is reached, such as 0.9, where the model is tested",
    "metrics": "one or more of top1 and macro_f1; the first is judged",
    "workers": "of how many clients the server's passes are computed at a time, in threads; by default what a quick "
    "measurement favours",
    "memory_limit": "memory of the server, such as 2GB: a run that needs more is refused",
    "checkpoint_every": "rounds between checkpoints; whatever its file says, a server saves every round, unless this "
    "option says otherwise",
}
"""What a setting means to a server, where that is not what it means to a simulation."""

SERVED_DEFAULTS = {"checkpoint_every": 1}
"""Defaults of a server, where they are not those of a simulation."""


def check_served(given: Mapping[str, Any]) -> None:
    """Refuse settings that mean nothing where clients are real, unless they have their defaults.

    >>> check_served({"clock": "none", "rounds": 3})
    >>> check_served({"clock": "full"})
    Traceback (most recent call last):
    smofi.errors.InputError: clock='full' is not accepted: expected none: clients are real, and so is the time they take
    """
    for name, accepted in UNSERVED.items():
        value = given.get(name, SETTINGS[name].default)
        if value not in (SETTINGS[name].default, ALIKE.get(name)):
            refuse(name, ", ".join(value) if isinstance(value, tuple) else value, accepted)
