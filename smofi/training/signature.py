"""How `smofi.train` and `smofi.prepare` take their arguments one by one: signature, help, and wrong names refused."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import fields
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, get_type_hints

from smofi.settings import TRAIN_ARGUMENTS
from smofi.training.arguments import HELP, Arguments

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
