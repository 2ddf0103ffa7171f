"""Commands that list and show what can be chosen: presets, data, methods, models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from smofi.cli.entry import loading
from smofi.cli.flags import Picture, Scale, doc, flag
from smofi.cli.plan import divided
from smofi.cli.program import command, console, reading
from smofi.config import Config, read_config
from smofi.config.presets import preset_names
from smofi.errors import refuse
from smofi.models.known import MODELS, check_model_name
from smofi.report.asked import check_picture
from smofi.report.lists import data_table, listing, method_table, preset_table

if TYPE_CHECKING:
    from smofi.report.clients import Fleet

DEVICES_SHOWN = 100
UNDIVIDED: dict[str, Any] = {"clients": 1, "partition": "iid"}
"""How data of one's own is shown where nothing says how to divide it: as a client of a served run has it."""


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
        check_picture(output, "output")
    kind = "phones" if devices is True else devices or None
    if name is None:
        if kind is None:
            console.print(data_table())
        else:
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
    if config.seeds and seeds is not None:
        _print_seeds(config)
    else:
        _print_division(config.with_seed(config.seed), kind, preset, output)
    return 0


def _print_seeds(config: Config) -> None:
    """Show how the data is divided with each seed."""
    with loading():
        from smofi.report.clients import Heterogeneity, seeds_table, title_of
    config, federations = divided(config)
    divisions = {seed: Heterogeneity.of(config.with_seed(seed), own) for seed, own in federations.items()}
    console.print(seeds_table(title_of(config), divisions))


def _print_division(config: Config, devices: str | None, preset: bool, output: Path | None) -> None:
    """Show how the data is divided, and the clients' devices if wanted, for the model of a preset."""
    with loading():
        from smofi.report.clients import Fleet, Heterogeneity, heterogeneity_table, save_heterogeneity
    if devices and config.clients:
        Fleet.of(devices, config.clients, config.seed)  # refused before anything is read
    config, federations = divided(config)
    federation = federations[config.seed]
    division = Heterogeneity.of(config, federation)
    console.print(heterogeneity_table(division))
    for line in division.remarks:
        console.print(line, markup=False, highlight=False)
    if output is not None:
        print(f"Picture: {save_heterogeneity(output, division)}")
    if devices:
        console.print()
        fleet = Fleet.of(devices, config.known_clients, config.seed)
        if preset:
            fleet = Fleet.for_model(devices, config, federation.source)
        _print_devices(fleet, output and output.with_stem(f"{output.stem}-devices"))


def _print_devices(fleet: Fleet, output: Path | None) -> None:
    from smofi.report.clients import devices_table, save_devices

    console.print(devices_table(fleet), highlight=False)
    if output is not None:
        print(f"Picture: {save_devices(output, fleet)}")


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
