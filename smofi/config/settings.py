"""Every setting of a run, defined once; YAML, flags, the arguments of `smofi.train`, what may change on resume and the
reference page follow. To add one, define it and use it: one that does not reach the run fails a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

from smofi.clock.devices import CLOCKS, Timing
from smofi.config import definition as accept
from smofi.config.definition import (
    Checked,
    definition_of,
    number,
    one_of,
    optional,
    setting,
    several,
    text_for,
    text_or,
)
from smofi.data.augment import Augment, parse_augment
from smofi.data.catalogue import check_data_name
from smofi.engine.cohort.wire import WIRES, check_wire
from smofi.engine.metrics import CLIENT_METRICS, TEST_METRICS
from smofi.errors import check_count, check_flag, check_seed, refuse
from smofi.method import Method
from smofi.models.known import NORM, check_model_name, parse_norm
from smofi.optim import DEFAULT_OPTIMIZER, Optimizer, parse_optimizer

FIRST_RUN = ("fedavg", "fedavgm(momentum=0.3)", "smofi")
FIRST_SEEDS = (0, 1, 2)
PRECISIONS = ("float32", "bf16")
"""Of forward and backward passes; "float32" leaves a model of another type as it is."""

NO_CLOCK = "none of a clock's settings: clients are real, and so is the time they take"
_clock = one_of(CLOCKS)
_augment = text_for("crop(4)+flip", parse_augment)
_optimizer = text_for(DEFAULT_OPTIMIZER, parse_optimizer)


class Settings(Checked):
    """Settings each checked by itself, as flags are before they join a file.

    >>> Settings(patience=5).model_fields_set
    {'patience'}
    """

    # data, and how it is divided among clients
    data: str = setting(
        "digits",
        check_data_name,
        "a data set that `smofi data` lists, or your own: folder:PATH, npz:PATH, csv:PATH, python:module:function",
        page="data",
        served="what samples look like, and the test data: a data set that `smofi data` lists, or your own: "
        "folder:PATH, npz:PATH, csv:PATH, python:module:function",
    )
    label_column: str | None = setting(
        None,
        accept.column,
        "for csv:PATH, the column to predict; by default the one called label, y, class or target",
    )
    client_column: str | None = setting(
        None,
        accept.column,
        "for csv:PATH, the column that says whose sample it is; by default the one called client, site or user",
    )
    data_folder: str | None = setting(
        None,
        accept.folder,
        "folder with the official files of the data set; by default SMOFI_DATA/NAME",
        resumable=True,
        computing=True,
    )
    image_size: int | None = setting(
        None, check_count, "resize images to this height and width; by default they stay as they are"
    )
    max_train: int | None = setting(
        None,
        check_count,
        "use this many training samples at most, the first ones",
        served="use this many training samples at most, the first ones: of the server's data, which is not trained on, "
        "and of clients that join with --part",
    )
    max_test: int | None = setting(None, check_count, "use this many test samples at most, the first ones")
    augment: str | None = setting(
        None,
        _augment,
        "vary training images: crop(4) shifts by up to 4 pixels, flip mirrors half of them, crop(4)+flip does both",
        argument=text_or(_augment, 'a string such as "crop(4)+flip", or None', Augment, NoneType),
    )
    clients: int | None = setting(
        50,
        check_count,
        "number of clients; with natural, by default everyone who owns at least a batch of samples",
        served="how many clients take part; a round waits for that many, or for --min-clients",
    )
    partition: str = setting(
        "dirichlet(0.2)",
        accept.partition,
        "how the data is divided: dirichlet(gamma), iid, shards(k), natural, or file:RUN for that of another run",
        page="partitions",
        served="for clients that join with --part alone, in trials: how the data is divided among them",
    )

    # model, method, optimizer
    model: str = setting(
        "resnet8",
        lambda field, value: check_model_name(value),
        "a model that `smofi models` lists, or your own: python:module:function",
        page="models",
    )
    width: int | None = setting(
        8,
        check_count,
        "width of the model's first block; a model that is named without a width has its own default",
    )
    norm: str | None = setting(
        None,
        text_for(NORM, parse_norm),
        "batch, group, or group(n) with n groups in every layer, for convolutional models; by default the model's own",
    )
    method: tuple[str, ...] = setting(
        FIRST_RUN,
        several("smofi", accept.method),
        "one or more, such as smofi, fedprox(mu=0.01)+smofi or your own python:module:function; several are compared",
        argument=text_or(accept.method, 'a string such as "smofi" or a value such as smofi.methods.smofi()', Method),
        argument_help='"smofi", "fedprox(mu=0.01)+smofi", or a value such as `smofi.methods.smofi(alpha=-1)`',
        page="methods",
    )
    optimizer: str = setting(
        "sgd(lr=0.05, momentum=0.9, weight_decay=0.0005, lr_decay=0.998)",
        _optimizer,
        "sgd(lr, momentum, nesterov, weight_decay, lr_decay), adam(...) or adamw(...); replaces all of a preset's; "
        "lr_decay is the learning rate's factor per round",
        argument=text_or(_optimizer, f"a string or a value such as smofi.{DEFAULT_OPTIMIZER}", Optimizer),
        argument_help="`smofi.sgd`, `smofi.adam` or `smofi.adamw`, or such a call as a string",
    )
    cut: str = setting(
        "1",
        accept.cut,
        'core blocks on the client; "2,1" for the U shape; "0-2" to draw a cut every round; a list for one per client',
        argument=accept.anything,
        argument_help='core blocks on the client; (L, H) for the U shape; "0-3" drawn each round; a list, one per '
        "client",
    )

    # rounds
    rounds: int = setting(20, check_count, "rounds of training", argument=check_count, resumable=True)
    participation: float = setting(
        0.4,
        number(above=0, high=1),
        "share of the clients that take part in a round",
        argument=number(above=0, high=1),
    )
    local_epochs: int = setting(5, accept.epochs, "epochs that a client trains in a round", argument=accept.epochs)
    batch_size: int = setting(
        8, check_count, "samples per step; a client with fewer samples never takes part", argument=check_count
    )
    seed: int = setting(
        0, check_seed, "seed of everything random: partition, model, selection, batches", argument=check_seed
    )
    seeds: tuple[int, ...] | None = setting(
        None,
        accept.read_seeds,
        "several in place of seed, such as 0-2 or 0,3,5: every method is trained with each of them",
        page="watching",
    )
    device: str = setting(
        "cpu", accept.device, "torch device, such as cpu or cuda", argument=accept.anything, computing=True
    )

    # evaluating and stopping
    validation: float = setting(
        0.0,
        number(low=0, below=1),
        "share of the training data held out for validation, drawn by the seed",
        unserved="0: the training data is with the clients",
    )
    patience: int | None = setting(
        None,
        check_count,
        "stop after this many rounds that are no better on the validation data; validation must be more than 0",
        argument=optional(check_count),
        resumable=True,
        unserved="null: nothing can be held out for validation, as the training data is with the clients",
    )
    target_accuracy: float | None = setting(
        None,
        number(above=0, high=1),
        "stop once this accuracy (or judged metric) is reached, such as 0.9, on validation data, else on test data",
        argument=optional(number()),
        resumable=True,
        served="stop once this accuracy (or judged metric) is reached, such as 0.9, where the model is tested",
    )
    eval_every: int = setting(
        1,
        check_count,
        "rounds between evaluations; the last round is always evaluated",
        argument=check_count,
        resumable=True,
    )
    checkpoint_every: int = setting(
        5,
        check_count,
        "rounds between checkpoints",
        resumable=True,
        computing=True,
        served="rounds between checkpoints; whatever its file says, a server saves every round, unless this option "
        "says otherwise",
    )
    metrics: tuple[str, ...] = setting(
        ("top1",),
        several("top1", one_of((*TEST_METRICS, *CLIENT_METRICS))),
        "one or more of top1, macro_f1, per_client and worst_client; the first single number is judged. The last two "
        "are accuracies on clients' own test samples if the data says whose they are, else on training samples",
        argument=accept.anything,
        argument_help="a list of top1, macro_f1, per_client, worst_client, or functions of (outputs, targets), higher "
        "is better; the first number is judged. per_client, worst_client: on client_tests, or else on training data",
        page="watching",
        served="one or more of top1 and macro_f1; the first is judged",
    )
    diagnose: bool = setting(
        False,
        check_flag,
        "record in every round how far clients diverge, how well their momenta agree, and gradient norms",
        argument=check_flag,
        page="watching",
        computing=True,
        unserved="false: it needs the gradients of whole models, which no machine has",
    )

    # how it is computed
    executor: tuple[str, ...] = setting(
        ("auto",),
        accept.executors,
        "one for all methods, or one for each: loop (client by client), vmap (many clients at once), vmap(at_least=N) "
        "(at once while N are still training), or auto (whichever a quick measurement favours)",
        argument=accept.executor,
        resumable=True,
        page="speed",
        computing=True,
        unserved="auto: each client computes for itself",
    )
    threads: int = setting(
        1,
        accept.threads,
        "threads inside each operation; a result's last bits depend on it",
        argument=accept.threads,
        resumable=True,
        computing=True,
    )
    workers: int | None = setting(
        None,
        accept.workers,
        "processes that share the work; by default the largest power of two up to the number of cores, or of GPUs",
        resumable=True,
        page="workers",
        computing=True,
        served="of how many clients the server's passes are computed at a time, in threads; by default what a quick "
        "measurement favours",
    )
    precision: str = setting(
        "float32",
        one_of(PRECISIONS),
        "float32, or bf16 for mixed precision: forward and backward passes in bf16, weights as they are",
        argument=one_of(PRECISIONS),
    )
    compile: bool = setting(
        False,
        check_flag,
        "compile the model with torch.compile: it starts slowly, and steps on GPUs are faster",
        argument=check_flag,
        resumable=True,
        computing=True,
        unserved="false: the model is split",
    )
    server_threads: int = setting(
        1,
        accept.threads,
        "with sflv2 and mergesfl: threads of the single server model's passes; the last bits of a result depend on it",
        argument=accept.threads,
        resumable=True,
        page="workers",
        computing=True,
    )
    memory_limit: str | None = setting(
        None,
        accept.size,
        "memory for all workers on this machine, such as 2GB: a run that needs more is refused",
        argument=optional(accept.size),
        resumable=True,
        page="memory",
        computing=True,
        served="memory of the server, such as 2GB: a run that needs more is refused",
    )
    wire: str | None = setting(
        None,
        check_wire,
        "send numbers across the cut as fp16, bf16 or int8, and train with what arrives; null or fp32: as they are",
        argument=text_or(check_wire, f"{', '.join(WIRES)}, a function, or None", Callable, NoneType),
        argument_help='send numbers across the cut as "fp16", "bf16" or "int8"; or a function of (tensor, "up" or '
        '"down", client) that everything crossing the cut passes through. Either executes the split for real, with '
        "separate autograd graphs on each side",
    )

    # virtual time
    clock: str = setting(
        "none",
        _clock,
        "virtual time on the clients' devices: none, paper (its equations), or full (weights and round trips, too)",
        argument=text_or(_clock, '"none", "paper", "full", or a smofi.Timing', Timing),
        argument_help='virtual time on the clients\' devices: "paper", "full", or a `smofi.Timing` that says more',
        timing=True,
        page="clock",
        unserved="none: clients are real, and so is the time they take",
    )
    devices: str = setting(
        "phones",
        accept.devices,
        "with a clock: phones as publicly measured, phones(rtt_ms=80) if the server is far away, or your own CSV file",
        timing=True,
        resumable=True,
        unserved=NO_CLOCK,
    )
    availability: str = setting(
        "always",
        accept.names_or_csv("always", "phones"),
        "with a clock: always, phones (which come and go as publicly measured), or your own CSV file of traces",
        timing=True,
        resumable=True,
        unserved=NO_CLOCK,
    )
    server_speedup: float = setting(
        100.0,
        number(above=0),
        "with a clock: the server's speed, as a multiple of the mean device's",
        timing=True,
        unserved=NO_CLOCK,
    )
    server_parallel: int | None = setting(
        None,
        check_count,
        "with a clock: how many clients the server computes for at a time; by default all of them",
        timing=True,
        unserved=NO_CLOCK,
    )
    step_deadline: float | None = setting(
        None,
        number(above=0),
        "with a clock: seconds after which a step no longer waits for late clients; by default it waits for all",
        timing=True,
        unserved="null: clients are real, and so is their time; --deadline says how long a step waits for a client",
    )


SETTINGS = {name: definition_of(field) for name, field in Settings.model_fields.items()}
TRAIN_ARGUMENTS = {name: one for name, one in SETTINGS.items() if one.argument}
"""The settings that are arguments of `smofi.train` too."""

RESUMABLE = frozenset(name for name, one in SETTINGS.items() if one.resumable)
"""The settings that may change when a run is resumed; devices' files may move, and must say the same."""

COMPUTING = frozenset(name for name, one in SETTINGS.items() if one.computing)
"""The settings that say how a run is computed and kept: runs that differ in these alone are runs of the same thing."""

UNSERVED = {name: one.unserved for name, one in SETTINGS.items() if one.unserved}
"""What a server accepts for settings that mean nothing where clients are real, and why: its help leaves them out."""

SERVED_HELP = {name: one.served for name, one in SETTINGS.items() if one.served}
SERVED_DEFAULTS = {"checkpoint_every": 1}
"""Defaults of a server, where they are not those of a simulation."""


def check_served(given: Mapping[str, Any]) -> None:
    """Refuse settings that mean nothing where clients are real, unless they have their defaults.

    >>> check_served({"clock": "none", "rounds": 3})
    >>> check_served({"clock": "full"})
    Traceback (most recent call last):
    smofi.errors.InputError: clock='full' is not accepted: expected none: clients are real, and so is the time they take
    """
    alike = {"executor": ("loop",)}  # which folders of served runs had
    for name, accepted in UNSERVED.items():
        value = given.get(name, SETTINGS[name].default)
        if value not in (SETTINGS[name].default, alike.get(name)):
            refuse(name, ", ".join(value) if isinstance(value, tuple) else value, accepted)
