"""Numbers, names and paths as they are written, by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from smofi.report import names, numbers
from smofi.report.figures import legend_columns, marked, parameter_of
from smofi.report.page import as_json, command_shown, kept_places, last_name, setting_shown, without_folders
from smofi.report.results import History, Scale
from smofi.report.table import latex_text

SPELLED: list[tuple[Callable[..., Any], list[tuple[Any, Any]]]] = [
    (numbers.percent, [(0.8123, "81.2%"), (None, "-")]),
    (numbers.fine_percent, [(0.2750, "27.5%"), (0.0031, "0.31%")]),
    (numbers.three_digits, [(0.01234, "0.0123"), (1.5, "1.5"), (1234.5, "1234")]),
    (numbers.four_digits, [(0.012345, "0.01235"), (41.0, "41"), (None, "-")]),
    (numbers.figure, [(12345.6, "12,346"), (12.345, "12.3"), (0.17, "0.170"), (0, "0")]),
    (numbers.count, [(763_520, "763.5k"), (555_422_720, "555.4M"), (1_159_402_496, "1.16G")]),
    (numbers.megabytes, [(512, "0.5 kB"), (2_540_000, "2.5 MB"), (3_000_000_000, "3.0 GB")]),
    (numbers.mebibytes, [(300 * 2**20, "300 MiB"), (5 * 2**30, "5.0 GiB"), (3000, "3 KiB")]),
    (numbers.hours_minutes_seconds, [(75, "1:15"), (3675, "1:01:15"), (None, "-")]),
    (numbers.duration, [(0.0123, "12 ms"), (75.2, "75 s"), (3725, "1 h 02 min"), (200_000, "2 d 08 h")]),
    (lambda longest: numbers.time_unit(longest).name, [(90_000.0, "hours"), (1800.0, "minutes"), (1.0, "seconds")]),
    (names.parts_of, [("fedprox(mu=1e+20)+smofi", ["fedprox(mu=1e+20)", "smofi"])]),
    (names.plugins_of, [("fedprox(mu=0.1)+smofi", ["smofi"]), ("fedprox(mu=0.1)", []), ("slowmo", ["slowmo"])]),
    (names.short, [("folder:/far/leaves", "folder:leaves"), ("python:my.data:load", "python:my.data:load")]),
    (
        lambda given: list(names.titles(given).values()),
        [
            (["smofi(alpha=-1, global_momentum=0.3)", "smofi(global_momentum=0.3)"], ["SMoFi (alpha=-1)", "SMoFi"]),
            (["fedavg", "fedprox(mu=0.01)+smofi"], ["FedAvg", "FedProx + SMoFi"]),
        ],
    ),
    (
        names.rows_by_base,
        [
            (
                ["fednar+smofi", "smofi(alpha=-1)", "smofi(alpha=-10)", "fednar", "fedavg"],
                [("fedavg", ["fedavg", "smofi(alpha=-10)", "smofi(alpha=-1)"]), ("fednar", ["fednar", "fednar+smofi"])],
            )
        ],
    ),
    (lambda name: names.label(name, "A + B"), [("fedprox(mu=0.1)+smofi", "+ B"), ("sflv2", "A + B")]),
    (lambda name: parameter_of(name, "alpha"), [("fednar+smofi(alpha=-1)", ("-1", "fednar+smofi")), ("fedavg", None)]),
    (lambda found: legend_columns(found, 3.35), [(["FedAvg", "SMoFi"], 2), (["a method with a long name"] * 4, 1)]),
    (lambda values: marked(values, 1, 2), [([0.5] * 80, [5, 15, 25, 35, 45, 55, 65, 75])]),
    (lambda values: Scale.of([History("a", values, metrics={"gain": "gain"})]).share, [([-0.5, 2.0], False)]),
    (lambda values: kept_places(values, most=4), [([1, 2], [0, 1]), ([5, 1, 2, 9, 3, 4, 0, 7], [0, 1, 3, 6, 7])]),
    (without_folders, [("csv:/far/a.csv cannot be read", "csv:a.csv cannot be read"), ("'/my own/a b'", "'a b'")]),
    (last_name, [("csv:/far away/a b.csv", "csv:a b.csv"), ("--output=../x/", "--output=x"), ("smofi", "smofi")]),
    (command_shown, [("smofi run '/far away/a.yaml' --output=/far/a", "smofi run a.yaml --output=a")]),
    (setting_shown, [(("fedavg", "smofi"), "fedavg, smofi"), (None, "none"), ("file:/far/a", "file:a"), (True, "yes")]),
    (as_json, [({"name": "</script><!--"}, '{"name":"\\u003c/script\\u003e\\u003c!--"}')]),
    (latex_text, [("50% of a_b", r"50\% of a\_b"), ("-1.50 [-2, +1]", "$-$1.50 [$-$2, +1]"), ("5e-4", "5e-4")]),
]


@pytest.mark.parametrize(("spell", "cases"), SPELLED)
def test_words(spell: Callable[..., Any], cases: list[tuple[Any, Any]]) -> None:
    assert [spell(given) for given, _ in cases] == [expected for _, expected in cases]
