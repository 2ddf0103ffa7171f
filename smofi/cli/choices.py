"""Commands that come before a run: plan, advise, config; presets, data, methods, models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from smofi.cli.entry import loading
from smofi.cli.program import (
    HOW_TO_WRITE,
    NONE_GIVEN,
    Flags,
    Picture,
    Scale,
    Source,
    command,
    console,
    doc,
    flag,
    reading,
    resolve,
    resolve_with_clock,
    settings_given,
)
from smofi.config import Config, config_yaml, read_config
from smofi.config.presets import preset_names
from smofi.errors import refuse
from smofi.memory import refusing
from smofi.models.known import MODELS, check_model_name
from smofi.report.asked import check_output
from smofi.report.lists import data_table, listing, method_table, preset_table

if TYPE_CHECKING:
    from smofi.config.federation import Federation
    from smofi.report.clients import Fleet

MEASURED = 2.0
"""Seconds for which the steps of a method are timed."""


@command("smofi plan cifar10 --workers 2", "smofi plan my.yaml --method smofi --seeds 0-2", options=HOW_TO_WRITE)
def plan(source: Source = None, /, *, flags: Flags = NONE_GIVEN, scale: Scale = None) -> int:
    """Check a configuration and say what it will take: clients, steps, memory, time. Nothing is trained or written.

    Memory and time are those of a run with as many workers as `smofi run` would start, or as --workers says; with
    several seeds, the time is that of all their runs, one after the other.
    """
    config = resolve(source, settings_given(flags), scale)
    with loading():
        import torch

        from smofi.experiment.resuming import worker_count
        from smofi.planning import over_seeds, plan_run
        from smofi.report.plan import plan_table
    torch.set_num_threads(config.threads)
    config, federations = divided(config)
    workers, deadline = worker_count(config), MEASURED / len(federations)
    with refusing(f"a run of {config.model} on {config.data}"):
        summaries = [
            over_seeds(
                [
                    plan_run(config.with_seed(seed), method, federation, workers=workers, deadline=deadline)
                    for seed, federation in federations.items()
                ]
            )
            for method in config.method
        ]
    console.print(plan_table(summaries, console.width))
    return 0


@command("smofi advise cifar10 --scale small --output cuts.png", options=HOW_TO_WRITE)
def advise(source: Source = None, /, *, flags: Flags = NONE_GIVEN, scale: Scale = None, output: Picture = None) -> int:
    """Say which cut suits the clients' devices: the time of a round and a client's load at every cut of the model.

    Rounds are planned, by a full clock unless the configuration has another, with each seed; nothing is trained.
    """
    if output is not None:
        check_output(output, "output", "picture", force=True)
    config = resolve_with_clock(source, settings_given(flags), scale)
    with loading():
        from smofi.planning import advise_each
        from smofi.report.plan import advice_picture, advice_table
    config, federations = divided(config)
    with refusing(f"a run of {config.model} on {config.data}"):
        advice = advise_each(config, federations)
    console.print(advice_table(advice, console))
    if output is not None:
        print(f"Picture: {advice_picture(advice).save(output)}")
    return 0


def divided(config: Config) -> tuple[Config, dict[int, Federation]]:
    """Read the data, and divide it with each seed."""
    with loading():
        from smofi.config.federation import gather_each
    with reading(config.data) as progress:
        federations = gather_each(config, progress)
    return config.divided(federations[config.seed]), federations


@command("smofi config cifar10 --scale small > my.yaml", options=HOW_TO_WRITE)
def config(source: Source = None, /, *, flags: Flags = NONE_GIVEN, scale: Scale = None) -> int:
    """Print a configuration in full, as YAML with a comment on every field."""
    print(config_yaml(resolve(source, settings_given(flags), scale)), end="")
    return 0


# --------------------------------------------------------------------------------------------------------------------
# What can be chosen.

DEVICES_SHOWN = 100
UNDIVIDED: dict[str, Any] = {"clients": 1, "partition": "iid"}
"""The settings that show a user's own data undivided, as a client of a served run holds it."""


@command()
def presets() -> int:
    """List the presets: the paper's settings for each of its tasks, and versions of them for a CPU."""
    console.print(preset_table())
    console.print("Start one with: smofi run cifar10 --scale small. See all its settings with: smofi config cifar10")
    return 0


@dataclass(frozen=True)
class Division:
    """The flags that say what is read of a data set, and how it is divided."""

    clients: Annotated[int | None, flag("clients")] = None
    partition: Annotated[str | None, flag("partition")] = None
    batch_size: Annotated[int | None, flag("batch_size")] = None
    seed: Annotated[int | None, flag("seed")] = None
    seeds: Annotated[str | None, doc("several seeds side by side, such as 0-2 or 0,3,5")] = None
    label_column: Annotated[str | None, flag("label_column")] = None
    client_column: Annotated[str | None, flag("client_column")] = None
    data_folder: Annotated[str | None, flag("data_folder")] = None
    image_size: Annotated[int | None, flag("image_size")] = None
    max_train: Annotated[int | None, flag("max_train")] = None
    memory_limit: Annotated[str | None, flag("memory_limit")] = None


AS_IN_PRESET = Division()


@command(
    "smofi data",
    "smofi data cifar10 --fetch",
    'smofi data digits --clients 20 --partition "shards(2)" --output clients.png',
)
def data(
    name: Annotated[str | None, doc("a data set, or your own such as folder:PATH; without one, all are listed")] = None,
    /,
    *,
    division: Annotated[Division, Parameter(name="*")] = AS_IN_PRESET,
    scale: Scale = None,
    output: Picture = None,
    fetch: Annotated[bool, doc("download it from the Hugging Face hub first")] = False,
    devices: Annotated[str | bool | None, doc("the clients' devices as well: phones, or your own CSV file")] = None,
) -> int:
    """Show how a data set would be divided among clients: sizes, class mix, divergence from balance.

    What is not given is as in the preset of that name, if there is one: `smofi data cifar10` is the paper's partition.
    Data of your own, such as folder:scans, is shown as a whole unless you say how to divide it. `smofi data
    --devices` shows what devices clients have; with a data set, how fast they are for the preset's model.
    """
    given: dict[str, Any] = {key: value for key, value in vars(division).items() if value is not None}
    clients, seed, seeds = division.clients, division.seed, division.seeds
    if seeds is not None:
        for other, value in {"--seed": seed, "--output": output, "--devices": devices}.items():
            if value is not None:
                refuse("seeds", seeds, f"no {other} with it")
        if name is None:
            refuse("seeds", seeds, "a data set with it, such as: smofi data digits --seeds 0-2")
    if output is not None:
        check_output(output, "output", "picture", force=True)
    kind = "phones" if devices is True else devices or None
    if name is None:
        if kind is None:
            console.print(data_table())
            return 0
        with loading():
            from smofi.report.clients import Fleet
        _print_devices(Fleet.of(kind, DEVICES_SHOWN if clients is None else clients, seed or 0), output)
        return 0
    if fetch:
        with loading():
            from smofi.data import fetch as fetch_data
        with reading(name) as progress:
            fetch_data(name, progress)
    if ":" in name and not given.keys() & {*UNDIVIDED, "client_column"}:
        given |= UNDIVIDED
    preset = name in preset_names()
    config = read_config(name, given, scale=scale) if preset else Config(data=name, **given)
    if seeds is None or not config.seeds:
        _print_division(config.with_seed(config.seed), kind, preset, output)
        return 0
    with loading():
        from smofi.report.clients import Heterogeneity, seeds_table, title_of
    config, federations = divided(config)
    divisions = {seed: Heterogeneity.of(config.with_seed(seed), own) for seed, own in federations.items()}
    console.print(seeds_table(title_of(config), divisions))
    return 0


def _print_division(config: Config, devices: str | None, preset: bool, output: Path | None) -> None:
    with loading():
        from smofi.report.clients import Fleet, Heterogeneity, heterogeneity_picture, heterogeneity_table
    if devices and config.clients:
        Fleet.of(devices, config.clients, config.seed)  # refused before anything is read
    config, federations = divided(config)
    federation = federations[config.seed]
    division = Heterogeneity.of(config, federation)
    console.print(heterogeneity_table(division, console))
    for line in division.remarks:
        console.print(line, markup=False, highlight=False)
    if output is not None:
        print(f"Picture: {heterogeneity_picture(division).save(output)}")
    if devices:
        console.print()
        fleet = Fleet.of(devices, config.known_clients, config.seed)
        if preset:
            fleet = Fleet.for_model(devices, config, federation.source)
        _print_devices(fleet, output and output.with_stem(f"{output.stem}-devices"))


def _print_devices(fleet: Fleet, output: Path | None) -> None:
    from smofi.report.clients import devices_picture, devices_table

    console.print(devices_table(fleet), highlight=False)
    if output is not None:
        print(f"Picture: {devices_picture(fleet).save(output)}")


@command()
def methods() -> int:
    """List the methods, how they are written and what they do. Join several with +."""
    console.print(method_table())
    return 0


@command("smofi models", "smofi models resnet18 --input-shape 3,64,64")
def models(
    name: Annotated[str | None, doc("a model, or python:module:function, to see all its cuts")] = None,
    /,
    *,
    input_shape: Annotated[str | None, doc("shape of a sample, such as 3,64,64")] = None,
    classes: Annotated[int | None, doc("number of classes, or of characters")] = None,
    width: Annotated[int | None, flag("width")] = None,
    norm: Annotated[str | None, flag("norm")] = None,
    cuts: Annotated[bool, doc("show every cut of every model")] = False,
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
