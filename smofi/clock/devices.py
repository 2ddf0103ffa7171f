"""Clients' devices: how fast they compute and send, when they are available, and how their time is kept.

Phones are drawn as they were publicly measured; devices of one's own come from CSV files.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeVar

from smofi.data.rows import rows
from smofi.errors import InputError, check_choice, check_count, check_number, refuse, refuse_unwanted
from smofi.later import np
from smofi.memory import as_text, room
from smofi.seeds import generator
from smofi.spec import build, read_calls

if TYPE_CHECKING:
    import numpy.typing as npt

# --------------------------------------------------------------------------------------------------------------------
# A CSV file with columns of known names, read for a setting that is refused if the file does not fit.

CELL, CHARACTER = 100, 4  # bytes of memory that a cell takes, and a character at most


@dataclass(frozen=True)
class Sheet:
    """The rows of a file, each with the number of its line; `setting` is what the file was given for."""

    setting: str
    name: str
    columns: list[str]
    rows: list[tuple[int, list[str]]]

    @classmethod
    def read(cls, setting: str, name: str, accepted: Sequence[str]) -> Sheet:
        """Read a whole file; refuse one with a column that has none of the accepted names."""
        path = Path(name).expanduser()
        if not os.path.isfile(path):
            refuse(setting, name, "a .csv file that exists")
        kept: list[tuple[int, list[str]]] = []
        taken, left = 0, room()
        for line, row, length in rows(path, lambda done: None):
            taken += CELL * (1 + len(row)) + CHARACTER * length
            if not left.holds(taken):
                limit = f"the {left.words}, but its first {line:,} lines take {as_text(taken)}"
                refuse(setting, name, f"what fits into {limit}")
            kept.append((line, row))
        (_, header), *below = kept
        sheet = cls(setting, name, [column.strip() for column in header], below)
        for column in sheet.columns:
            if column not in accepted or sheet.columns.count(column) > 1:
                sheet.wrong(f"the columns {', '.join(accepted)}, each once at most, but one is {column!r:.100}")
        if not below:
            sheet.wrong("rows below the names of the columns, but there are none")
        for line, row in below:
            if len(row) != len(header):
                sheet.wrong(f"{len(header)} fields in line {line}, as in the first line, but it has {len(row)}")
        return sheet

    def wrong(self, expected: str) -> NoReturn:
        refuse(self.setting, self.name, expected)

    def words(self, column: str) -> list[str]:
        return [row[self.columns.index(column)].strip() for _, row in self.rows]

    def numbers(self, column: str, *, above: float = -math.inf, low: float = -math.inf) -> list[float]:
        """Return a column of finite numbers, all of them over `above` and at least `low`."""
        numbers = []
        for (line, _), word in zip(self.rows, self.words(column), strict=True):
            try:
                number = math.nan if "_" in word else float(word)
            except ValueError:
                number = math.nan
            if not (above < number < math.inf and low <= number):
                limit = f" > {above:g}" if above > -math.inf else f" >= {low:g}" if low > -math.inf else ""
                self.wrong(f"a finite number{limit} in column {column!r} of line {line}, but it is {word!r:.100}")
            numbers.append(number)
        return numbers


# --------------------------------------------------------------------------------------------------------------------
# What phones were measured to be like: quantiles, one for each of the levels.

Floats: TypeAlias = "npt.NDArray[np.float64]"

LEVELS = tuple(range(5, 100, 5))
"""The percentiles of every table. What lies beyond is left out: one phone with 1.8 kbps makes a round last for days."""


def quantile(table: Sequence[float], draws: Floats | float) -> Floats:
    """Return the inverse of a distribution, straight from quantile to quantile, for draws from 0 to 1.

    >>> quantile(LATENCY_MS, np.array([0.0, 0.5, 1.0])).tolist()
    [60.0, 175.0, 572.0]
    """
    # u ~ U(0, 1) -> F^-1(0.05 + 0.9 u)
    return np.asarray(np.interp(draws, np.linspace(0, 1, len(table)), table))


MEASURED_MACS = 4_100_000_000
"""Multiply-accumulates of the network that the latencies were measured with. The source does not state them: that it
is a ResNet-50 at 224 x 224 is our assumption. It scales hours, hardly the ratios between methods."""

LATENCY_MS = (60, 70, 80, 88, 98, 105, 132, 141, 153, 175, 197, 220, 237, 263, 315, 343, 408, 477, 572)
"""AI Benchmark: milliseconds for one sample."""

DOWN_KBPS = (
    8709.0, 29974.9, 36281.9, 37440.4, 39905.4, 40689.8, 41498.5, 41740.7, 41828.8, 42134.3,
    42418.5, 45902.4, 47367.2, 48969.1, 52300.0, 56484.1, 60332.1, 73225.1, 87019.0,
)  # fmt: skip
"""MobiPerf: the mean of each measurement."""

UP_PER_DOWN = (
    0.0991, 0.136, 0.325, 0.56, 0.659, 0.669, 0.687, 0.696, 0.696, 0.707,
    0.707, 0.707, 0.709, 0.728, 0.741, 0.761, 0.79, 0.85, 1.17,
)  # fmt: skip
"""FLASH: a user's mean throughput up, divided by that down."""

READY_SHARE = (
    0.000182, 0.00113, 0.00414, 0.00791, 0.0125, 0.0181, 0.0258, 0.0359, 0.0432, 0.0547,
    0.0675, 0.0806, 0.0962, 0.113, 0.13, 0.158, 0.196, 0.255, 0.322,
)  # fmt: skip
"""FLASH: the share of its trace in which a phone is ready."""

MEAN_GAP = (
    (
        13717, 18343, 24811, 32708, 42418, 43180, 56860, 68959, 85165, 86349,
        102878, 128618, 143902, 172313, 172790, 215989, 259192, 431961, 518178,
    ),
    (
        6250, 8370, 9629, 11155, 12737, 15035, 16932, 19578, 21356, 23072,
        26692, 31002, 35414, 40395, 47627, 62120, 79371, 97316, 143306,
    ),
    (
        3754, 5128, 6593, 7760, 8744, 9976, 10860, 11544, 12906, 14173,
        15360, 16643, 18328, 23530, 28853, 33031, 39993, 51520, 64701,
    ),
)  # fmt: skip
"""FLASH: the mean of a phone's gaps between two ready intervals, in seconds; for each third of the phones, by share."""

READY_PER_MEAN = (
    0.00253, 0.00521, 0.0081, 0.013, 0.0201, 0.0305, 0.0489, 0.0771, 0.117, 0.173,
    0.24, 0.341, 0.466, 0.625, 0.862, 1.2, 1.74, 2.6, 4.63,
)  # fmt: skip
"""FLASH: the length of a ready interval, divided by the mean of its phone; of phones with ten of them or more."""

GAP_PER_MEAN = (
    0.000239, 0.000478, 0.00103, 0.00238, 0.00466, 0.0083, 0.0139, 0.0226, 0.0364, 0.0555,
    0.0882, 0.144, 0.241, 0.42, 0.744, 1.26, 2.06, 3.25, 5.23,
)  # fmt: skip
"""FLASH: the length of a gap, divided by the mean of its phone; also from a trace's last interval around to its
first."""


# --------------------------------------------------------------------------------------------------------------------
# When a device takes part: intervals of a trace that repeats itself.

SHORTEST = 1e-3  # seconds of an interval: it is still one when 30,000 years are added to its ends


@dataclass(frozen=True)
class Presence:
    """Available during these intervals `(from, to)`, in order and apart, of a trace of `period` seconds that
    repeats."""

    intervals: Sequence[tuple[float, float]]
    period: float

    def __post_init__(self) -> None:
        check_number("period", self.period, low=SHORTEST, infinite=True)
        before = -math.inf
        for start, end in self.intervals:
            if not (before < start and 0 <= start <= end - SHORTEST and end <= self.period < math.inf):
                refuse(
                    "intervals",
                    (start, end),
                    f"intervals of {SHORTEST:g} s or more between 0 and a finite period, in order and apart",
                )
            before = end

    @classmethod
    def merged(cls, intervals: Iterable[tuple[float, float]], period: float) -> Presence:
        """Make a presence of intervals in any order: join intervals that overlap or touch, drop any of no length.

        >>> Presence.merged([(7.0, 9.0), (1.0, 3.0), (2.0, 4.0), (5.0, 5.0)], period=10.0).intervals
        [(1.0, 4.0), (7.0, 9.0)]
        """
        merged: list[tuple[float, float]] = []
        for start, end in sorted(intervals):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(merged[-1][1], end)
            elif end > start:
                merged.append((start, end))
        return cls(merged, period)

    def leaves(self, now: float) -> float:
        """Return when it leaves, if it is available at this time; the time itself if it is not.

        >>> Presence([(10.0, 20.0)], period=100.0).leaves(115.0)
        120.0
        """
        if self.period == math.inf:
            return math.inf
        cycle = self._cycle(now)
        at = self._started(now, cycle) - 1
        if at < 0 or now >= self._end(cycle, at):
            return now
        if self.intervals[at][1] == self.period and self.intervals[0][0] == 0.0:  # it stays on, into the next cycle
            return self._end(cycle + 1, 0) if at else math.inf
        return self._end(cycle, at)

    def comes(self, now: float) -> float:
        """Return the earliest time from now on when it is available.

        >>> Presence([(10.0, 20.0)], period=100.0).comes(150.0)
        210.0
        """
        if self.leaves(now) > now:
            return now
        if not self.intervals:
            return math.inf
        cycle = self._cycle(now)
        if (at := self._started(now, cycle)) == len(self.intervals):
            cycle, at = cycle + 1, 0
        return cycle * self.period + self.intervals[at][0]

    # Times are rounded, so all are compared as `cycle * period + time`, and never taken apart again: what `comes` gives
    # is a time when it is available.

    def _cycle(self, now: float) -> int:
        near = math.floor(now / self.period)
        return near - (now < near * self.period) + (now >= (near + 1) * self.period)

    def _started(self, now: float, cycle: int) -> int:
        """Count the cycle's intervals that have started."""
        return bisect_right(self.intervals, now, key=lambda interval: cycle * self.period + interval[0])

    def _end(self, cycle: int, at: int) -> float:
        end = self.intervals[at][1]
        return (cycle + 1) * self.period if end == self.period else cycle * self.period + end


ALWAYS = Presence([], math.inf)


# --------------------------------------------------------------------------------------------------------------------
# When each client's device is available: always, as phones come and go, or as in a file of traces.

COLUMNS = ("device", "trace_start_s", "trace_end_s", "ready_start_s", "ready_end_s")
WEEK = 7 * 24 * 3600.0

T = TypeVar("T")


def presences(availability: str, clients: int, seed: int) -> list[Presence]:
    """Return the availability of each client."""
    if not isinstance(availability, str) or not (availability in ("always", "phones") or availability.endswith(".csv")):
        refuse("availability", availability, "always, phones, or the path of a .csv file")
    if availability == "always":
        return [ALWAYS] * clients
    if availability == "phones":
        return [phone_presence(seed, client) for client in range(clients)]
    return one_each(read_traces(availability), clients, seed, "availability")


def one_each(rows: Sequence[T], clients: int, seed: int, purpose: str) -> list[T]:
    """Return the rows if there is one for each client; else each client draws one, and several may draw the same."""
    if len(rows) == clients:
        return list(rows)
    return [rows[at] for at in generator(seed, purpose).integers(len(rows), size=clients).tolist()]


def phone_presence(seed: int, client: int) -> Presence:
    """Draw when a phone comes and goes, for about a week that then repeats.

    Its share of ready time and its mean gap are drawn first, then intervals and gaps by turns with just these means, in
    whole seconds, starting at any moment.
    """
    draws = generator(seed, "availability", client)
    of_share, of_gap, phase = draws.random(3)
    share = float(quantile(READY_SHARE, of_share))
    level = (LEVELS[0] + (LEVELS[-1] - LEVELS[0]) * of_share) / 100
    gap = float(quantile(MEAN_GAP[int(level * len(MEAN_GAP))], of_gap))
    # share = ready / (ready + gap)
    ready = gap * share / (1 - share)
    turns = math.ceil(WEEK / (ready + gap))
    lengths = np.stack([quantile(READY_PER_MEAN, draws.random(turns)), quantile(GAP_PER_MEAN, draws.random(turns))])
    lengths *= np.array([[ready], [gap]]) / lengths.mean(axis=1, keepdims=True)
    lengths = np.ceil(lengths)
    after = np.cumsum(lengths.sum(axis=0))
    period = float(after[-1])
    starts = (after - lengths.sum(axis=0) + math.floor(phase * period)) % period
    ends = starts + lengths[0]
    whole = zip(starts.tolist(), np.minimum(ends, period).tolist(), strict=True)
    around = ((0.0, end - period) for end in ends.tolist() if end > period)
    return Presence.merged([*whole, *around], period)


def read_traces(name: str) -> list[Presence]:
    """Read the traces of a file in FLASH's layout, in the order in which their devices first occur, each from 0 on."""
    sheet = Sheet.read("availability", name, COLUMNS)
    for column in COLUMNS:
        if column not in sheet.columns:
            sheet.wrong(f"a column {column!r}, but there are {', '.join(sheet.columns)}")
    spans: dict[str, tuple[float, float]] = {}
    ready: dict[str, list[tuple[float, float]]] = {}
    cells = zip(sheet.words("device"), *map(sheet.numbers, COLUMNS[1:]), strict=True)
    for (line, _), (device, begin, end, start, stop) in zip(sheet.rows, cells, strict=True):
        if not begin < end:
            sheet.wrong(f"trace_end_s > trace_start_s in line {line}, but they are {end:g} and {begin:g}")
        if not begin <= start <= stop <= end:
            sheet.wrong(
                "trace_start_s <= ready_start_s <= ready_end_s <= trace_end_s in line "
                f"{line}, but they are {begin:g}, {start:g}, {stop:g} and {end:g}"
            )
        if spans.setdefault(device, (begin, end)) != (begin, end):
            sheet.wrong(f"the same trace_start_s and trace_end_s in all lines of device {device!r:.100}, up to {line}")
        ready.setdefault(device, []).append((start - begin, stop - begin))
    return [Presence.merged(ready[device], end - begin) for device, (begin, end) in spans.items()]


# --------------------------------------------------------------------------------------------------------------------
# Phones, as they are written: phones, or phones(rtt_ms=80) for a server that is further away.

PHONES = "phones"

RTT_MS = 28.0
"""Ookla's Speedtest Global Index, November 2022: the latency of mobile networks worldwide, to a test server nearby. One
figure for all phones, for no distribution is published with it."""


@dataclass(frozen=True)
class Phones:
    """Drawn from public measurements, with a round trip to the server that takes this many milliseconds.

    >>> str(Phones()), str(Phones(rtt_ms=80))
    ('phones', 'phones(rtt_ms=80)')
    """

    rtt_ms: float = RTT_MS

    def __post_init__(self) -> None:
        check_number("rtt_ms", self.rtt_ms, low=0)

    def __str__(self) -> str:
        return PHONES if self.rtt_ms == RTT_MS else f"{PHONES}(rtt_ms={self.rtt_ms:.12g})"


def read_phones(text: object) -> Phones | None:
    """Return the phones that a string stands for, None if it names no phones.

    >>> read_phones("phones"), read_phones("fleet.csv")
    (Phones(rtt_ms=28.0), None)
    >>> read_phones("phones(rtt_ms=-1)")
    Traceback (most recent call last):
    smofi.errors.InputError: devices='phones(rtt_ms=-1)' is not accepted: expected phones, or phones(rtt_ms=N), N >= 0
    """
    if not isinstance(text, str) or not text.strip().startswith(PHONES) or text.endswith(".csv"):
        return None
    try:
        (call,) = read_calls("devices", text, PHONES)
        return build({PHONES: Phones}[call.name], call)
    except (InputError, KeyError, ValueError):
        refuse("devices", text, "phones, or phones(rtt_ms=N), N >= 0")


# --------------------------------------------------------------------------------------------------------------------
# The clients' devices: how fast they compute and send, and when they are available.

BYTES_PER_KBIT = 1000 / 8
MILLISECOND = 1e-3
RTT = "rtt_ms"
SPEEDS = {"ms_per_sample": MILLISECOND, "seconds_per_sample": 1.0}
"""Columns of a file that say how fast a device computes, and their units in seconds."""


@dataclass(frozen=True)
class Device:
    """Seconds for a sample's forward pass through the whole model, bytes a second up and down, when it is available,
    and the seconds of a round trip to the server and back, however little is sent."""

    seconds: float
    up: float
    down: float
    presence: Presence = ALWAYS
    rtt: float = 0.0


def devices_for(
    devices: str | Sequence[Device], availability: str, clients: int, *, seed: int, macs: int, symmetric: bool
) -> list[Device]:
    """Return a device for each client: "phones", for a model of `macs` multiply-accumulates; the devices of a CSV file;
    or the user's own. `symmetric` gives phones one bandwidth for both directions, as the paper does."""
    check_count("clients", clients)
    if kind := read_phones(devices):
        drawn = _phones(clients, seed, check_count("macs", macs), symmetric)
        chosen = [replace(device, rtt=kind.rtt_ms * MILLISECOND) for device in drawn]
    elif isinstance(devices, str):
        chosen = one_each(read_devices(devices), clients, seed, "devices")
    else:
        chosen = _checked(devices, clients)
    if isinstance(availability, str) and availability == "always":
        return chosen
    if any(device.presence != ALWAYS for device in chosen):
        refuse("availability", availability, "always, since these devices already say when they are available")
    times = presences(availability, clients, seed)
    return [replace(device, presence=presence) for device, presence in zip(chosen, times, strict=True)]


def _phones(clients: int, seed: int, macs: int, symmetric: bool) -> list[Device]:
    """Draw phones; a client's depends on the seed and the client, not on how many there are."""
    compute, network, ratio = generator(seed, "devices").random((clients, 3)).T
    # p_j = latency * MACs of the model / MACs of the measured network
    seconds = quantile(LATENCY_MS, compute) * (SPEEDS["ms_per_sample"] * macs / MEASURED_MACS)
    down = quantile(DOWN_KBPS, network) * BYTES_PER_KBIT
    up = down if symmetric else down * quantile(UP_PER_DOWN, ratio)
    return [Device(*numbers) for numbers in zip(seconds.tolist(), up.tolist(), down.tolist(), strict=True)]


def read_devices(name: str) -> list[Device]:
    """Read the devices of a file, a row each."""
    if not name.endswith(".csv"):
        refuse("devices", name, "phones, or the path of a .csv file")
    sheet = Sheet.read("devices", name, ("device", *SPEEDS, "kbps", "up_kbps", "down_kbps", RTT))
    speeds = [column for column in SPEEDS if column in sheet.columns]
    rates = [column for column in ("up_kbps", "down_kbps", "kbps") if column in sheet.columns]
    if len(speeds) != 1:
        sheet.wrong(f"one column of {' and '.join(SPEEDS)}, but there are {', '.join(sheet.columns)}")
    if rates not in (["kbps"], ["up_kbps", "down_kbps"]):
        sheet.wrong(f"a column kbps, or both of up_kbps and down_kbps, but there are {', '.join(sheet.columns)}")
    seconds, up, down = (sheet.numbers(column, above=0) for column in (speeds[0], rates[0], rates[-1]))
    trips = sheet.numbers(RTT, low=0) if RTT in sheet.columns else [0.0] * len(seconds)
    return [
        Device(one * SPEEDS[speeds[0]], rate_up * BYTES_PER_KBIT, rate_down * BYTES_PER_KBIT, rtt=trip * MILLISECOND)
        for one, rate_up, rate_down, trip in zip(seconds, up, down, trips, strict=True)
    ]


def _checked(devices: Sequence[Device], clients: int) -> list[Device]:
    if not isinstance(devices, Sequence) or not all(isinstance(device, Device) for device in devices):
        refuse("devices", devices, "phones, the path of a .csv file, or a list of smofi.Device")
    if len(devices) != clients:
        refuse("devices", f"{len(devices)} devices", f"one for each of the {clients} clients")
    for number, device in enumerate(devices):
        for field in ("seconds", "up", "down"):
            check_number(f"devices[{number}].{field}", getattr(device, field), above=0)
        check_number(f"devices[{number}].rtt", device.rtt, low=0)
        if not isinstance(device.presence, Presence):
            refuse(f"devices[{number}].presence", device.presence, "a smofi.Presence")
    return list(devices)


# --------------------------------------------------------------------------------------------------------------------
# Virtual time, as a user configures it.

CLOCKS = ("none", "paper", "full")


@dataclass(frozen=True)
class Timing:
    """Say how long rounds take on the clients' devices.

    clock             "none"; "paper" charges computation and what crosses the cut; "full" also the clients' weights and
                      round trips
    devices           "phones", drawn from public measurements, or "phones(rtt_ms=80)"; a CSV file; or a list of
                      `smofi.Device`, one per client
    availability      "always"; "phones", drawn from public measurements; or a CSV file of traces
    server_speedup    how many times faster the server computes than the average device
    server_parallel   how many clients the server computes for at the same time; None: all
    step_deadline     seconds after which a step no longer waits for late clients; for smofi and sflv1, which have a
                      server model per client and wait at every step; None: it waits for all

    >>> Timing("paper").server_speedup
    100.0
    """

    clock: str = "none"
    devices: str | Sequence[Device] = "phones"
    availability: str = "always"
    server_speedup: float = 100.0
    server_parallel: int | None = None
    step_deadline: float | None = None

    def __post_init__(self) -> None:
        check_choice("clock", self.clock, CLOCKS)
        check_number("server_speedup", self.server_speedup, above=0)
        if self.server_parallel is not None:
            check_count("server_parallel", self.server_parallel)
        if self.step_deadline is not None:
            check_number("step_deadline", self.step_deadline, above=0)
        if self.clock == "none":
            for field in fields(self)[1:]:
                if (value := getattr(self, field.name)) != field.default:
                    refuse_unwanted(field.name, value, "it needs a clock, paper or full")
