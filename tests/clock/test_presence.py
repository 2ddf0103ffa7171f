"""When a device is there: against a scan of every moment, and in spite of rounding."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smofi.clock.devices import (
    WEEK,
    Presence,
    presences,
    read_traces,
)
from smofi.errors import InputError

HEADER = "device,trace_start_s,trace_end_s,ready_start_s,ready_end_s\n"


@st.composite
def on_a_grid(draw: st.DrawFn) -> Presence:
    """A trace of whole seconds, any of which it may be there."""
    there = draw(st.lists(st.booleans(), min_size=1, max_size=12))
    return Presence.merged([(float(at), at + 1.0) for at, present in enumerate(there) if present], float(len(there)))


@st.composite
def anywhere(draw: st.DrawFn) -> Presence:
    """A trace whose ends are not whole, nor the sums of anything."""
    period = draw(st.floats(2, 1e6))
    ends = sorted(draw(st.sets(st.integers(0, 999), max_size=8)))
    times = [min(period, end * period / 999) for end in ends]
    return Presence(list(zip(times[::2], times[1::2], strict=False)), period)


def scan(presence: Presence, now: float, wanted: bool) -> float:
    """The first quarter of a second from now on when it is there, or not there; every one is looked at."""
    for quarter in range(math.floor(4 * presence.period) + 1):
        time = now + quarter / 4
        if any(start <= time % presence.period < end for start, end in presence.intervals) == wanted:
            return time
    return math.inf


@given(presence=on_a_grid(), quarters=st.integers(0, 200))
def test_leaves_and_comes_are_what_a_scan_finds(presence: Presence, quarters: int) -> None:
    now = quarters / 4
    assert presence.leaves(now) == scan(presence, now, wanted=False)
    assert presence.comes(now) == scan(presence, now, wanted=True)


@given(presence=anywhere(), now=st.floats(0, 1e10))
def test_it_is_there_when_it_comes_and_gone_when_it_leaves(presence: Presence, now: float) -> None:
    comes = presence.comes(now)
    assert comes >= now
    assert (comes == math.inf) == (not presence.intervals)
    assert comes - now <= presence.period * (1 + 1e-9) + 1e-5 or comes == math.inf
    if comes < math.inf:
        leaves = presence.leaves(comes)
        assert leaves > comes
        assert leaves == math.inf or presence.leaves(leaves) == leaves


@given(period=st.floats(0.01, 1e6), cycle=st.integers(0, 10**6), off=st.sampled_from([-math.inf, 0.0, math.inf]))
def test_who_is_there_all_the_time_stays_at_every_seam(period: float, cycle: int, off: float) -> None:
    seam = cycle * period
    now = max(0.0, math.nextafter(seam, off) if off else seam)
    assert Presence([(0.0, period)], period).leaves(now) == math.inf
    half = Presence([(0.0, period / 4), (period / 2, period)], period)
    stays = half.leaves(now)
    assert stays - seam == pytest.approx(period / 4, abs=1e-4 * period + 1e-5)


@pytest.mark.parametrize(
    ("intervals", "period"),
    [
        ([(2.0, 1.0)], 10.0),
        ([(-1.0, 1.0)], 10.0),
        ([(1.0, 11.0)], 10.0),
        ([(1.0, 3.0), (3.0, 4.0)], 10.0),
        ([(math.nan, 2.0)], 10.0),
        ([(1.0, math.nan)], 10.0),
        ([(1.0, 2.0)], math.inf),
        ([(1.0, 1.0001)], 10.0),
    ],
)
def test_what_is_no_trace_is_refused(intervals: list[tuple[float, float]], period: float) -> None:
    with pytest.raises(InputError, match=r"intervals=.* expected intervals of 0.001 s or more .* in order and apart"):
        Presence(intervals, period)


# ------------------------------------------------------------------------------------------------------------- phones


def test_phones_come_and_go_as_measured() -> None:
    phones = presences("phones", 1000, seed=0)
    assert phones[:5] == presences("phones", 5, seed=0) != presences("phones", 5, seed=1)
    shares = [sum(end - start for start, end in phone.intervals) / phone.period for phone in phones]
    assert np.median(shares) == pytest.approx(0.0547, rel=0.15)
    # what the table says of the 25th and 75th of its percentiles from 5 to 95: the 27.5th and the 72.5th
    assert np.percentile(shares, 25) == pytest.approx((0.0125 + 0.0181) / 2, rel=0.2)
    assert np.percentile(shares, 75) == pytest.approx((0.113 + 0.130) / 2, rel=0.2)
    gaps = [phone.period * (1 - own) / len(phone.intervals) for phone, own in zip(phones, shares, strict=True)]
    assert np.median(gaps) == pytest.approx(28_000, rel=0.15)
    lengths = [phone.period * own / len(phone.intervals) for phone, own in zip(phones, shares, strict=True)]
    assert np.median(lengths) == pytest.approx(1500, rel=0.15)
    for phone in phones:
        assert phone.period >= WEEK
        assert all(end == int(end) for interval in phone.intervals for end in interval)


# --------------------------------------------------------------------------------------------------------------- files


def traces(folder: Path, *lines: str, header: str = HEADER) -> str:
    path = folder / "traces.csv"
    path.write_text(header + "".join(f"{line}\n" for line in lines))
    return str(path)


def test_a_file_of_traces(tmp_path: Path) -> None:
    name = traces(
        tmp_path,
        "b,1000,1100,1010,1020",
        "a,50,250,60,60",
        "b,1000,1100,1090,1100",
        "b,1000,1100,1015,1030",
        "a,50,250,100.5,150",
    )
    assert read_traces(name) == [
        Presence([(10.0, 30.0), (90.0, 100.0)], 100.0),
        Presence([(50.5, 100.0)], 200.0),
    ]
    assert presences(name, 2, seed=0) == read_traces(name)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("a,0,10,1,soon", "a finite number in column 'ready_end_s' of line 2, but it is 'soon'"),
        ("a,0,inf,1,2", "a finite number in column 'trace_end_s' of line 2, but it is 'inf'"),
        ("a,10,10,10,10", "trace_end_s > trace_start_s in line 2, but they are 10 and 10"),
        ("a,0,10,5,4", "<= trace_end_s in line 2, but they are 0, 5, 4 and 10"),
        ("a,0,10,1,2\na,0,11,3,4", "the same trace_start_s and trace_end_s in all lines of device 'a', up to 3"),
        ("a,0,10,1", "5 fields in line 2, as in the first line, but it has 4"),
    ],
)
def test_malformed_traces_are_refused(line: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^availability='.*traces.csv' is not accepted: .*{re.escape(sentence)}$"):
        presences(traces(tmp_path, line), 2, seed=0)
    with pytest.raises(InputError, match=r"expected a column 'device', but there are trace_start_s, trace_end_s$"):
        presences(traces(tmp_path, "1,2", header="trace_start_s,trace_end_s\n"), 2, seed=0)
    with pytest.raises(InputError, match=r"availability='often' .* expected always, phones, or the path of a \.csv"):
        presences("often", 2, seed=0)
