"""The clients' devices: how fast they compute and send, and when they are available."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from smofi.clock.availability import one_each, presences
from smofi.clock.phones import read_phones
from smofi.clock.presence import ALWAYS, Presence
from smofi.clock.sheet import Sheet
from smofi.clock.tables import DOWN_KBPS, LATENCY_MS, MEASURED_MACS, UP_PER_DOWN
from smofi.errors import check_count, check_number, refuse
from smofi.seeds import generator

BYTES_PER_KBIT = 1000 / 8
MILLISECOND = 1e-3
SPEEDS = {"ms_per_sample": MILLISECOND, "seconds_per_sample": 1.0}
"""Columns of a file that say how fast a device computes, and their units in seconds."""

RTT = "rtt_ms"


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
    """One device for each client: "phones", for a model of `macs` multiply-accumulates; those of a CSV file; or the
    user's own. `symmetric` gives phones one bandwidth for both directions, as the paper does.

    >>> device, = devices_for("phones", "always", 1, seed=0, macs=555_422_720, symmetric=True)
    >>> device.up == device.down
    True
    """
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
    """A client's phone depends on the seed and the client, not on how many there are."""
    compute, network, ratio = generator(seed, "devices").random((clients, 3)).T
    # p_j = latency * MACs of the model / MACs of the measured network
    seconds = LATENCY_MS.at(compute) * (SPEEDS["ms_per_sample"] * macs / MEASURED_MACS)
    down = DOWN_KBPS.at(network) * BYTES_PER_KBIT
    up = down if symmetric else down * UP_PER_DOWN.at(ratio)
    return [Device(*numbers) for numbers in zip(seconds.tolist(), up.tolist(), down.tolist(), strict=True)]


def read_devices(name: str) -> list[Device]:
    """The devices of a file, a row each."""
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
