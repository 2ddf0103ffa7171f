"""`smofi.train` and `smofi.prepare`: their signature and help, and from arguments to a run that is checked before any
work starts.
"""

from __future__ import annotations

import copy
import difflib
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, get_type_hints

import torch

from smofi.data.samples import Samples
from smofi.engine.assembly import Resources, RunData, RunLength, assemble, template_of
from smofi.engine.check import check_device, check_plan
from smofi.engine.cohort.setup import Setup
from smofi.engine.cpu.threads import in_threads
from smofi.engine.passes import Passes
from smofi.engine.plan import Planner
from smofi.engine.stopping import Stopping
from smofi.errors import refuse
from smofi.flat import Layout
from smofi.settings import TRAIN_ARGUMENTS
from smofi.training.arguments import HELP, Arguments, as_samples
from smofi.training.planner import make_planner
from smofi.training.session import Result, Session

# --------------------------------------------------------------------------------------------------------------------
# How `smofi.train` and `smofi.prepare` take their arguments one by one: signature, help, and wrong names refused.


Given = ParamSpec("Given")
Made = TypeVar("Made")

OTHER_WORDS = dict.fromkeys(
    ("lr", "learning_rate", "momentum", "weight_decay"), "optimizer=smofi.sgd(lr=0.05, momentum=0.9)"
) | {"epochs": "local_epochs", "verbose": "progress", "fraction": "participation", "split": "cut"}
"""What other libraries call an argument of ours, where the two words are not alike."""


class Bare(str):
    """An annotation that a signature shows as it is written, without quotation marks."""

    __repr__ = str.__str__


def taking(
    make: Callable[Given, Arguments],
) -> Callable[[Callable[[Arguments], Made]], Callable[Given, Made]]:
    """Turns a function of Arguments into one that takes them one by one; `{arguments}` in its docstring lists them."""

    def turn(function: Callable[[Arguments], Made]) -> Callable[Given, Made]:
        name, result = function.__name__, get_type_hints(function)["return"]
        signature = _shown_signature(inspect.signature(make), result.__name__)

        @wraps(function)
        def turned(*args: Given.args, **kwargs: Given.kwargs) -> Made:
            _check_names(name, signature, args, kwargs)
            return function(make(*args, **kwargs))

        shown: Any = turned
        del shown.__wrapped__
        shown.__signature__ = signature
        shown.__annotations__ = {**get_type_hints(make.__init__), "return": result}
        shown.__doc__ = inspect.cleandoc(function.__doc__ or "").replace("{arguments}", describe_arguments())
        return turned

    return turn


def describe_arguments() -> str:
    """A line or two on every argument, for `help(smofi.train)`.

    >>> describe_arguments().splitlines()[1]
    'clients          a pair of tensors (inputs, targets) or a map-style Dataset per client'
    """
    helps = HELP | {name: setting.argument_help for name, setting in TRAIN_ARGUMENTS.items()}
    width = 2 + max(map(len, helps))
    wrapped = partial(textwrap.wrap, width=112 - width)
    return "\n".join(
        f"{name if not number else '':{width}}{line}"
        for name in (one.name for one in fields(Arguments))
        for number, line in enumerate(wrapped(helps[name]))
    )


def _shown_signature(signature: inspect.Signature, result: str) -> inspect.Signature:
    """The same with types as they are written in the code: `get_type_hints` has the types themselves."""
    shown = [one.replace(annotation=Bare(one.annotation)) for one in signature.parameters.values()]
    return signature.replace(parameters=shown, return_annotation=Bare(result))


def _check_names(name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse arguments that do not exist, are missing or too many, as Python does, by the name that was called."""
    known = list(signature.parameters)
    for word in kwargs:
        if word not in known:
            near = _meant(word, known)
            hint = f"did you mean {near}?" if near else f"help(smofi.{name}) lists its arguments"
            raise TypeError(f"{name}() got an unexpected argument {word!r}; {hint}")
    by_place = [one.name for one in signature.parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(args) > len(by_place):
        raise TypeError(
            f"{name}() takes {len(by_place)} arguments without a name ({', '.join(by_place)}), but {len(args)} were "
            "given; name the others, as in rounds=10"
        )
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}(): {error}") from None


def _meant(word: str, known: list[str]) -> str:
    """The argument that this word probably stands for.

    >>> _meant("num_rounds", ["rounds", "seed"]), _meant("batchsize", ["batch_size"]), _meant("x", ["seed"])
    ('rounds', 'batch_size', '')
    """
    if word.lower() in OTHER_WORDS:
        return OTHER_WORDS[word.lower()]
    near = [one for one in known if one in word or word in one] or difflib.get_close_matches(word, known, n=1)
    return near[0] if near and len(word) > 2 else ""


# --------------------------------------------------------------------------------------------------------------------
# From arguments to a run: everything is checked before any work starts.


@taking(Arguments)
def prepare(arguments: Arguments) -> Session:
    """Check everything and return a Session, ready to train: `smofi.train(...)` is `smofi.prepare(...).train()`.

    {arguments}
    """
    return _session(arguments)


@taking(Arguments)
def train(arguments: Arguments) -> Result:
    """Train one model on the data of many clients, split between them and a server.

    {arguments}

    The result has the trained `model`, in eval mode, and the `history`, a `smofi.Record` per round. Ctrl-C ends the run
    after the current round: the result then has what there is, and `interrupted` is True. A second Ctrl-C raises
    KeyboardInterrupt at once.

    >>> x, y = torch.randn(64, 4, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 2
    >>> nn = torch.nn
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 8)), nn.Linear(8, 2))
    >>> result = train(model, [(x[:40], y[:40]), (x[40:], y[40:])], (x, y), rounds=2, participation=1.0, batch_size=8)
    >>> [record.steps for record in result.history]
    [[25, 15], [25, 15]]
    """
    return _session(arguments).train()


def _session(arguments: Arguments) -> Session:
    with in_threads(arguments.threads):
        return _checked(arguments)


def _checked(arguments: Arguments) -> Session:
    device = check_device(arguments.device)
    layout = Layout.of(arguments.model)
    clients = [as_samples(data, f"clients[{i}]", layout.dtype, device) for i, data in enumerate(arguments.clients)]
    test = _held_out("test", arguments.test, layout, device)
    validation = _held_out("validation", arguments.validation, layout, device)
    planner = make_planner(arguments, layout, clients)
    check_plan(planner, arguments.cut)
    _check_compile(arguments, planner)
    model = copy.deepcopy(arguments.model).to(device)
    setup = Setup(
        template_of(model),
        layout,
        arguments.method_value,
        arguments.optimizer_value,
        arguments.loss,
        arguments.wire_value,
        Passes(arguments.cast_on(device), arguments.compile, arguments.server_threads),
    )
    stopping = Stopping(arguments.patience, arguments.target_accuracy)
    run = assemble(
        setup,
        RunData(
            clients,
            test,
            validation,
            arguments.augment_value,
            _client_tests(arguments.client_tests, layout, device),
            tuple(map(str, arguments.client_names or ())),
        ),
        planner,
        RunLength(arguments.rounds, arguments.eval_every, arguments.metrics, stopping, arguments.callback_value),
        Resources(arguments.workers, arguments.executor, arguments.memory_limit, arguments.diagnose),
    )
    return Session(model, layout, run, arguments.threads, arguments.progress)


def _held_out(name: str, data: Any, layout: Layout, device: torch.device) -> Samples | None:
    samples = None if data is None else as_samples(data, name, layout.dtype, device)
    if samples is not None and not len(samples):
        refuse(name, data, "at least one sample, or None")
    return samples


def _client_tests(tests: Sequence[Any] | None, layout: Layout, device: torch.device) -> list[Samples | None] | None:
    if tests is None:
        return None
    return [
        None if data is None else as_samples(data, f"client_tests[{i}]", layout.dtype, device)
        for i, data in enumerate(tests)
    ]


def _check_compile(arguments: Arguments, planner: Planner) -> None:
    u_shaped = any(cut.u_shaped for cut in planner.cuts.options)
    if arguments.compile and (arguments.wire_value or u_shaped or planner.method.where.one_server):
        accepted = "False where a split is executed for real: with a wire, a U shape, sflv2 or mergesfl"
        refuse("compile", arguments.compile, accepted)
