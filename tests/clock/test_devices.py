"""The clients' devices: drawn from tables, read from a file, or given."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smofi.clock import Device
from smofi.clock.devices import (
    ALWAYS,
    DOWN_KBPS,
    LATENCY_MS,
    LEVELS,
    MEASURED_MACS,
    UP_PER_DOWN,
    Presence,
    devices_for,
)
from smofi.errors import InputError

FAR = {"phones": 0.028, "phones(rtt_ms=80)": 0.08, "phones(0)": 0.0}


def phones(clients: int, seed: int = 0, macs: int = MEASURED_MACS, symmetric: bool = False) -> list[Device]:
    return devices_for("phones", "always", clients, seed=seed, macs=macs, symmetric=symmetric)


def from_file(name: str, clients: int, seed: int = 0) -> list[Device]:
    return devices_for(name, "always", clients, seed=seed, macs=1, symmetric=False)


def written(folder: Path, text: str) -> str:
    path = folder / "fleet.csv"
    path.write_text(text)
    return str(path)


# -------------------------------------------------------------------------------------------------------------- phones


def test_phones_are_spread_as_the_tables_say() -> None:
    drawn = phones(20_000)
    kbps = 1000 / 8
    for values, table in (
        ([1000 * device.seconds for device in drawn], LATENCY_MS),
        ([device.down / kbps for device in drawn], DOWN_KBPS),
        ([device.up / device.down for device in drawn], UP_PER_DOWN),
    ):
        for level in (25, 50, 75):
            # of u in [0.05, 0.95], (0.25 - 0.05) / 0.9 are below 0.25, and so on
            expected = table[LEVELS.index(level)]
            assert np.percentile(values, 100 * (level - 5) / 90) == pytest.approx(expected, rel=0.03)
        assert min(values) >= table[0] * (1 - 1e-9)
        assert max(values) <= table[-1] * (1 + 1e-9)


def test_phones_depend_on_seed_and_client_only_and_their_speed_on_the_model() -> None:
    assert phones(7) == phones(1000)[:7] != phones(7, seed=1)
    large, small, symmetric = phones(5), phones(5, macs=MEASURED_MACS // 4), phones(5, symmetric=True)
    for one, other, same in zip(large, small, symmetric, strict=True):
        assert other.seconds == pytest.approx(one.seconds / 4, rel=1e-12)
        assert (one.up, one.down) == (other.up, other.down)
        assert same == replace(one, up=one.down)


def test_phones_have_the_round_trip_that_is_published_or_given() -> None:
    drawn = {name: devices_for(name, "always", 3, seed=0, macs=1, symmetric=False) for name in FAR}
    assert {name: {device.rtt for device in found} for name, found in drawn.items()} == {
        name: {trip} for name, trip in FAR.items()
    }
    near, *others = ([replace(device, rtt=0.0) for device in found] for found in drawn.values())
    assert all(found == near for found in others), "nothing else of them changes"


@pytest.mark.parametrize(
    "wrong", ["phones(rtt_ms=-1)", "phones(80, 3)", "phones(rtt=80)", "phones+phones", "phones(inf)"]
)
def test_phones_that_are_none_are_refused(wrong: str) -> None:
    with pytest.raises(
        InputError, match=re.escape(f"devices={wrong!r} is not accepted: expected phones, or phones(rtt")
    ):
        from_file(wrong, 2)


# --------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        (
            "device,ms_per_sample,up_kbps,down_kbps\nold,200,800,8000\nnew, 50 ,4e3,16000\n",
            [Device(0.2, 100_000, 1_000_000), Device(0.05, 500_000, 2_000_000)],
        ),
        ("kbps;seconds_per_sample\n8;0.25\n", [Device(0.25, 1000.0, 1000.0)]),
        ("ms_per_sample,kbps,rtt_ms\n250,8,35\n250,8,0\n", [Device(0.25, 1e3, 1e3, rtt=0.035), Device(0.25, 1e3, 1e3)]),
    ],
)
def test_a_file_with_a_row_for_each_client(text: str, devices: list[Device], tmp_path: Path) -> None:
    assert from_file(written(tmp_path, text), len(devices)) == devices


@pytest.mark.parametrize("rows", [3, 40])
def test_fewer_or_more_rows_than_clients_are_drawn_by_seed(rows: int, tmp_path: Path) -> None:
    name = written(tmp_path, "seconds_per_sample,kbps\n" + "".join(f"{row + 1},8\n" for row in range(rows)))
    drawn = [device.seconds for device in from_file(name, 20)]
    assert set(drawn) <= set(range(1, rows + 1))
    assert len(set(drawn)) > 2
    assert [device.seconds for device in from_file(name, 7)] == drawn[:7]
    assert [device.seconds for device in from_file(name, 20, seed=1)] != drawn


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ms_per_sample,kbps,rtt_ms\n250,8,-1\n", "a finite number >= 0 in column 'rtt_ms' of line 2, but it is '-1'"),
        ("ms_per_sample,kbps\n1,2\n0,2\n", "a finite number > 0 in column 'ms_per_sample' of line 3, but it is '0'"),
        ("ms_per_sample,kbps\n1,inf\n", "a finite number > 0 in column 'kbps' of line 2, but it is 'inf'"),
        ("ms_per_sample,kbps\n1,1_0\n", "a finite number > 0 in column 'kbps' of line 2, but it is '1_0'"),
        ("ms_per_sample,kbps\n1\n", "2 fields in line 2, as in the first line, but it has 1"),
        ("ms_per_sample,kbps\n", "rows below the names of the columns, but there are none"),
        ("device,kbps\na,1\n", "one column of ms_per_sample and seconds_per_sample, but there are device, kbps"),
        (
            "ms_per_sample,up_kbps\n1,1\n",
            "a column kbps, or both of up_kbps and down_kbps, but there are ms_per_sample, up_kbps",
        ),
        (
            "ms_per_sample,mbps\n1,1\n",
            "the columns device, ms_per_sample, seconds_per_sample, kbps, up_kbps, down_kbps, rtt_ms, each once at "
            "most, but one is 'mbps'",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused(text: str, sentence: str, tmp_path: Path) -> None:
    name = written(tmp_path, text)
    with pytest.raises(InputError, match=f"^{re.escape(f'devices={name!r} is not accepted: expected {sentence}')}$"):
        from_file(name, 2)


# ------------------------------------------------------------------------------------------------------------ one's own


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        ([Device(1, 2, 3)], r"devices='1 devices' .* expected one for each of the 2 clients"),
        ([Device(1, 2, 3), (1, 2, 3)], r"expected phones, the path of a \.csv file, or a list of smofi\.Device"),
        (5, r"devices=5 .* expected phones, the path of a \.csv file, or a list of smofi\.Device"),
        ("phnes", r"^devices='phnes' .* expected phones, or the path of a \.csv file$"),
        ("nowhere.csv", r"^devices='nowhere\.csv' .* expected a \.csv file that exists$"),
        ([Device(1, 2, 3), Device(0, 2, 3)], r"devices\[1\]\.seconds=0 is not accepted: expected a number > 0"),
        ([Device(1, 2, math.nan), Device(1, 2, 3)], r"devices\[0\]\.down=nan is not accepted"),
        ([Device(1, 2, 3, rtt=-1), Device(1, 2, 3)], r"devices\[0\]\.rtt=-1 is not accepted: expected a number >= 0"),
    ],
)
def test_what_are_no_devices_is_refused(own: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        devices_for(own, "always", 2, seed=0, macs=1, symmetric=False)


def test_availability_comes_on_top() -> None:
    own = [Device(1.0, 2.0, 3.0), Device(4.0, 5.0, 6.0, Presence([(0.0, 1.0)], 2.0))]
    assert devices_for(own, "always", 2, seed=0, macs=1, symmetric=True) == own
    (device,) = devices_for(own[:1], "phones", 1, seed=0, macs=1, symmetric=False)
    assert (device.seconds, device.up, device.down) == (1.0, 2.0, 3.0)
    assert device.presence.intervals
    assert all(one.presence is ALWAYS for one in phones(3))
    with pytest.raises(InputError, match=r"availability='phones' .* these devices already say when they are available"):
        devices_for([device], "phones", 1, seed=0, macs=1, symmetric=False)
