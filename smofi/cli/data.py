"""The command that shows data sets and how they are divided: data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from smofi.cli.arguments import Picture, Scale, flag
from smofi.cli.program import console
from smofi.cli.streams import loading
from smofi.config import Config, presets, read_config
from smofi.errors import refuse
from smofi.report.asked import check_picture
from smofi.report.lists import data_table

if TYPE_CHECKING:
    from smofi.report.clients import Fleet

CLIENTS = 100
"""How many devices are shown where no number is given."""

UNDIVIDED: dict[str, Any] = {"clients": 1, "partition": "iid"}
"""How data of one's own is shown where nothing says how to divide it: as a client of a served run has it."""


def data(
    name: Annotated[
        str | None, Parameter(help="a data set, or your own such as folder:PATH; without one, all are listed")
    ] = None,
    /,
    *,
    clients: Annotated[int | None, flag("clients")] = None,
    partition: Annotated[str | None, flag("partition")] = None,
    batch_size: Annotated[int | None, flag("batch_size")] = None,
    seed: Annotated[int | None, flag("seed")] = None,
    seeds: Annotated[str | None, Parameter(help="several seeds side by side, such as 0-2 or 0,3,5")] = None,
    label_column: Annotated[str | None, flag("label_column")] = None,
    client_column: Annotated[str | None, flag("client_column")] = None,
    data_folder: Annotated[str | None, flag("data_folder")] = None,
    image_size: Annotated[int | None, flag("image_size")] = None,
    max_train: Annotated[int | None, flag("max_train")] = None,
    memory_limit: Annotated[str | None, flag("memory_limit")] = None,
    scale: Scale = None,
    output: Picture = None,
    fetch: Annotated[bool, Parameter(help="download it from the Hugging Face hub first", negative=())] = False,
    devices: Annotated[
        str | bool | None, Parameter(help="the clients' devices as well: phones, or your own CSV file", negative=())
    ] = None,
) -> int:
    """Show how a data set would be divided among clients: sizes, class mix, divergence from balance.

    What is not given is as in the preset of that name, if there is one: `smofi data cifar10` is the paper's partition.
    Data of your own, such as folder:scans, is shown as a whole unless you say how to divide it. `smofi data
    --devices` shows what devices clients have; with a data set, how fast they are for the preset's model.
    """
    if seeds is not None:
        _check_seeds(seeds, name, {"--seed": seed, "--output": output, "--devices": devices})
    if output is not None:
        check_picture(output, "output")
    kind = "phones" if devices is True else devices or None
    if name is None:
        return _list(kind, CLIENTS if clients is None else clients, seed or 0, output)
    if fetch:
        _fetch(name)
    options: dict[str, Any] = {
        "clients": clients,
        "partition": partition,
        "batch_size": batch_size,
        "seed": seed,
        "seeds": seeds,
        "label_column": label_column,
        "client_column": client_column,
        "data_folder": data_folder,
        "image_size": image_size,
        "max_train": max_train,
        "memory_limit": memory_limit,
    }
    given = _with_division(name, options)
    preset = name in {preset.name for preset in presets()}
    config = read_config(name, given, scale=scale) if preset else Config(data=name, **given)
    if config.seeds and seeds is not None:
        _print_seeds(config)
    else:
        _print_division(config.with_seed(config.seed), kind, preset, output)
    return 0


def _with_division(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options that are given; data of one's own is not divided unless one of them says how."""
    given = {key: value for key, value in options.items() if value is not None}
    own = ":" in name and not given.keys() & {*UNDIVIDED, "client_column"}
    return given | UNDIVIDED if own else given


def _list(devices: str | None, clients: int, seed: int, output: Path | None) -> int:
    """All data sets, or devices without one."""
    if devices is None:
        console.print(data_table())
    else:
        with loading():
            from smofi.report.clients import Fleet
        _print_devices(Fleet.of(devices, clients, seed), output)
    return 0


def _check_seeds(seeds: str, name: str | None, others: Mapping[str, object]) -> None:
    for other, value in others.items():
        if value is not None:
            refuse("seeds", seeds, f"no {other} with it")
    if name is None:
        refuse("seeds", seeds, "a data set with it, such as: smofi data digits --seeds 0-2")


def _fetch(name: str) -> None:
    with loading():
        from smofi.cli.reading import reading
        from smofi.data import fetch
    with reading(name) as progress:
        fetch(name, progress)


def _print_seeds(config: Config) -> None:
    """How the data is divided with each seed."""
    with loading():
        from smofi.cli.reading import reading
        from smofi.config.federation import gather_each
        from smofi.report.clients import Heterogeneity, seeds_table, title_of
    with reading(config.data) as progress:
        federations = gather_each(config, progress)
    config = config.divided(federations[config.seed])
    divisions = {seed: Heterogeneity.of(config.with_seed(seed), own) for seed, own in federations.items()}
    console.print(seeds_table(title_of(config), divisions))


def _print_division(config: Config, devices: str | None, preset: bool, output: Path | None) -> None:
    """How the data is divided, and the clients' devices if wanted, for the model of a preset."""
    with loading():
        from smofi.cli.reading import reading
        from smofi.config.federation import gather
        from smofi.report.clients import Fleet, Heterogeneity, heterogeneity_table, save_heterogeneity
    if devices and config.clients:
        Fleet.of(devices, config.clients, config.seed)  # refused before anything is read
    with reading(config.data) as progress:
        federation = gather(config, progress)
    config = config.divided(federation)
    division = Heterogeneity.of(config, federation)
    console.print(heterogeneity_table(division))
    for line in division.remarks:
        console.print(line, markup=False, highlight=False)
    if output is not None:
        print(f"Picture: {save_heterogeneity(output, division)}")
    if devices:
        console.print()
        plain = Fleet.of(devices, config.known_clients, config.seed)
        _print_devices(
            Fleet.for_model(devices, config, federation.source) if preset else plain,
            output and output.with_stem(f"{output.stem}-devices"),
        )


def _print_devices(fleet: Fleet, output: Path | None) -> None:
    from smofi.report.clients import devices_table, save_devices

    console.print(devices_table(fleet), highlight=False)
    if output is not None:
        print(f"Picture: {save_devices(output, fleet)}")
