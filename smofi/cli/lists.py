"""Commands that list what can be chosen: methods, models, presets."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from smofi.cli.arguments import flag
from smofi.cli.program import console
from smofi.cli.streams import loading
from smofi.errors import refuse
from smofi.models.catalogue import MODELS, check_model_name
from smofi.report.lists import listing, method_table, preset_table


def methods() -> int:
    """List the methods, how they are written and what they do. Join several with +."""
    console.print(method_table())
    return 0


def models(
    name: Annotated[str | None, Parameter(help="a model, or python:module:function, to see all its cuts")] = None,
    /,
    *,
    input_shape: Annotated[str | None, Parameter(help="shape of a sample, such as 3,64,64")] = None,
    classes: Annotated[int | None, Parameter(help="number of classes, or of characters")] = None,
    width: Annotated[int | None, flag("width")] = None,
    norm: Annotated[str | None, flag("norm")] = None,
    cuts: Annotated[bool, Parameter(help="show every cut of every model", negative=())] = False,
) -> int:
    """List the models, what they cost, and what a cut leaves with the client: `smofi models resnet18`."""
    options: dict[str, Any] = {"input_shape": input_shape, "classes": classes, "width": width, "norm": norm}
    given = {key: value for key, value in options.items() if value is not None}
    if name is None and given:
        refuse(*next(iter(given.items())), "the name of a model too, for example: smofi models resnet18")
    if name is not None:
        check_model_name(name)
    with loading():
        from smofi.report.lists import cuts_table, models_table, outline
    outlines = [outline(one, **given) for one in ([name] if name else MODELS)]
    if name or cuts:
        for one in outlines:
            console.print(cuts_table(one))
    else:
        console.print(listing("model", ((one.name, one.description) for one in outlines), "what it is"))
        console.print()
        console.print(models_table(outlines))
    return 0


def presets() -> int:
    """List the presets: the paper's settings for each of its tasks, and versions of them for a CPU."""
    console.print(preset_table())
    console.print("Start one with: smofi run cifar10 --scale small. See all its settings with: smofi config cifar10")
    return 0
