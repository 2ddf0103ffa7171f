"""Results as files that are kept with the project: a CSV with a row per run, and the settings they all share as YAML.

docs/results/fashion-mnist.csv    settings that differ, method, seed, version, and values round by round
docs/results/fashion-mnist.yaml   settings that are the same in all these runs
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from smofi.config import Config, sentence_of
from smofi.config.lasting import as_begun, written_out
from smofi.config.writing import value_as_yaml
from smofi.errors import InputError, check_seed
from smofi.files import write_atomically
from smofi.plain_yaml import parse_settings, read_text
from smofi.report.history import History
from smofi.reproduce.results import Recorded, Results
from smofi.settings import SETTINGS
from smofi.sweep.cells import WITHOUT_EFFECT, Cell

KEPT = tuple(name for name in SETTINGS if name not in WITHOUT_EFFECT - {"rounds"})
"""The settings that decide the numbers."""
OWN = ("version", "seconds", "accuracy", "virtual_seconds")
"""Of a run: the version of smofi, seconds that its rounds took, and after every round accuracy and virtual time."""
SEED, NOT_EVALUATED = "seed", "-"
FILES = "CSV files that smofi reproduce --collect makes"


def collect(folder: Path, runs: Iterable[Recorded]) -> list[Path]:
    """Add runs to the files of a folder, a file for each data set; a run that is there already is replaced."""
    if not (added := Results(runs).runs):
        return []
    known = read_results(folder).runs if folder.exists() else {}
    together = known | added
    by_data: dict[str, list[Recorded]] = {}
    for run in together.values():
        by_data.setdefault(Path(run.config.data.rpartition(":")[2]).stem, []).append(run)
    folder.mkdir(parents=True, exist_ok=True)
    return [path for data, runs in sorted(by_data.items()) for path in _write(folder / f"{data}.csv", runs)]


def _write(path: Path, runs: Sequence[Recorded]) -> list[Path]:
    settings = [
        {name: value_as_yaml(name, getattr(run.config, name)) for name in KEPT}
        | {"partition": written_out(run.config)["partition"]}
        for run in runs
    ]
    differ = [name for name in KEPT if len({one[name] for one in settings}) > 1 or name in ("method", "seed")]
    rows = [[*(one[name] for name in differ), *_own(run)] for one, run in zip(settings, runs, strict=True)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[*differ, *OWN], *sorted(rows)])
    common = "".join(f"{name}: {settings[0][name]}\n" for name in KEPT if name not in differ)
    for file, content in ((path, text.getvalue()), (path.with_suffix(".yaml"), common)):
        write_atomically(file, content.encode())
    return [path, path.with_suffix(".yaml")]


def _own(run: Recorded) -> list[str]:
    history = run.history
    hours = " ".join(f"{3600 * hour:.6g}" for hour in history.hours)
    return [run.version, f"{history.total_seconds:.0f}", " ".join(map(_value, history.values)), hours]


def _value(value: float | None) -> str:
    """An accuracy, exact for test sets of up to a million samples in round numbers.

    >>> _value(0.1715), _value(0.5), _value(None)
    ('0.1715', '0.5', '-')
    """
    return NOT_EVALUATED if value is None else f"{value:.6g}"


def read_results(folder: Path) -> Results:
    """All runs in the files of a folder."""
    if not folder.is_dir():
        wrong = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {wrong}: expected a folder with {FILES}")
    return Results(run for path in sorted(folder.glob("*.csv")) for run in _read(path))


def known_results(folder: Path | None) -> Results:
    """The same of a folder that is expected to have some; none without a folder."""
    if folder is None:
        return Results()
    if not (found := read_results(folder)).runs:
        raise InputError(f"{folder} has no results: expected a folder with {FILES}")
    return found


def _read(path: Path) -> list[Recorded]:
    """The runs of a file; none if it is another kind of file."""
    rows = list(csv.DictReader(io.StringIO(read_text(path))))
    if not rows or not set(OWN) <= set(rows[0]):
        return []
    shared = path.with_suffix(".yaml")
    common = parse_settings(read_text(shared), str(shared))
    configs: dict[str, Config] = {}  # of runs that differ in the seed alone: to check all anew would take seconds
    return [_recorded(common, row, configs, f"{path}, line {number}") for number, row in enumerate(rows, start=2)]


def _recorded(common: Mapping[str, Any], row: Mapping[str, str], configs: dict[str, Config], where: str) -> Recorded:
    given = "".join(f"{name}: {text}\n" for name, text in row.items() if name not in (*OWN, SEED))
    try:
        if given not in configs:
            settings = {**common, **parse_settings(given, where)}
            # Files from before the balance rule say dirichlet(0.2), and mean it without.
            meant = as_begun({name: value for name, value in settings.items() if name == "partition"})
            configs[given] = Config(**settings | meant)
        config = configs[given].model_copy(update={SEED: check_seed(SEED, int(row[SEED]))})
        values = [None if text == NOT_EVALUATED else float(text) for text in row["accuracy"].split()]
        hours = [float(text) / 3600 for text in row["virtual_seconds"].split()]
        seconds = [float(row["seconds"] or 0)]
    except ValidationError as error:
        raise InputError(f"{where}: {sentence_of(error)}") from None
    except (ValueError, KeyError) as error:
        raise InputError(f"{where}: {error}") from None
    history = History(Cell(config).method, values, seconds, hours, config.seed)
    return Recorded(config, history, row["version"])
