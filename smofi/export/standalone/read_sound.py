"""WAVE files as images: the loudness of some bands of pitch, many times a second, on a logarithmic scale, as bytes."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

ENDINGS = (".wav", ".wave")
TAKES = "It takes WAVE files of plain samples; preprocessing.json says whether their rate and channels may differ."

TYPES = {(1, 8): "u1", (1, 16): "<i2", (1, 24): "u1", (1, 32): "<i4", (3, 32): "<f4", (3, 64): "<f8"}
"""By format, 1 for whole numbers and 3 for floating-point ones, and bits: how samples are stored."""

LOWEST_RATE, HIGHEST_RATE = 1_000, 768_000


@dataclass(frozen=True)
class Recording:
    """Hold what a file has: samples in [-1, 1), the channels mixed."""

    samples: Any
    code: int
    bits: int
    channels: int
    rate: int


def read(paths: Iterable[str], facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield an image [times, bands, 1] per file."""
    triangles = _triangles(facts)
    for path in paths:
        clip = _clip(_recording(path), facts, path)
        scaled = (_log_mel(clip, facts, triangles) - facts["byte_0"]) * (255 / (facts["byte_255"] - facts["byte_0"]))
        yield path, scaled.round().clip(0, 255).astype(np.uint8)[..., None]


def _recording(path: str) -> Recording:
    with open(path, "rb") as file:
        content = file.read()
    form: tuple[int, ...] = ()
    place = 12
    while content[:4] == b"RIFF" and content[8:12] == b"WAVE" and place + 8 <= len(content):
        name, length = struct.unpack_from("<4sI", content, place)
        body = content[place + 8 : place + 8 + length]
        if name == b"fmt " and not form and len(body) >= 16:
            form = struct.unpack_from("<HHIIHH", body)
            if form[0] == 0xFFFE and len(body) >= 26:  # which says further on what it is
                form = (*struct.unpack_from("<H", body, 24), *form[1:])
        if name == b"data" and form:
            code, channels, rate, _, step, bits = form
            if (code, bits) not in TYPES or not channels or step != channels * bits // 8:
                raise ValueError(
                    f"{path}: expected samples of 8 to 32 bits or floats, but it has format {code}, {bits} bits"
                )
            if not LOWEST_RATE <= rate <= HIGHEST_RATE:
                raise ValueError(f"{path}: expected {LOWEST_RATE:,} to {HIGHEST_RATE:,} Hz, but it has {rate:,}")
            if len(body) < max(length, step):
                raise ValueError(f"{path}: expected {length // step:,} samples, but it has {len(body) // step:,}")
            with np.errstate(all="ignore"):  # what comes of it is looked at
                numbers = _numbers(body[: length // step * step], code, bits).reshape(-1, channels)
                samples = numbers.mean(axis=1).astype(np.float32)
            if not np.isfinite(samples).all():
                raise ValueError(f"{path}: expected finite numbers as samples, but some are not")
            return Recording(samples, code, bits, channels, rate)
        place += 8 + length + length % 2
    raise ValueError(f"{path}: expected a WAVE file of plain samples, but it is not one, or it is damaged")


def _numbers(body: bytes, code: int, bits: int) -> Any:
    """Return the samples of all channels, in [-1, 1)."""
    if bits == 24:
        wide = np.zeros((len(body) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(body, np.uint8).reshape(-1, 3)
        return wide.view("<i4")[:, 0] / 2.0**31
    numbers = np.frombuffer(body, TYPES[code, bits]).astype(np.float64)
    if code == 3:
        return numbers
    return (numbers - 128) / 128 if bits == 8 else numbers / 2.0 ** (bits - 1)


def _clip(recording: Recording, facts: dict[str, Any], path: str) -> Any:
    """Cut as many samples as the model takes, at the rate that it takes: the middle of the recording."""
    rate, samples, kernel = recording.rate, recording.samples, facts.get("resample")
    if kernel is None:
        found = (recording.code, recording.channels, recording.bits, rate)
        if found != (1, 1, 16, facts["rate"]):
            raise ValueError(
                f"{path}: expected 1 channel, 16 bits and {facts['rate']} Hz, but it has "
                f"{recording.channels}, {recording.bits} and {rate}"
            )
    elif rate != facts["rate"]:
        beside = 2 * _reach(rate, facts["rate"], kernel)
        needed = math.ceil(facts["samples"] * rate / facts["rate"]) + beside
        samples = _resampled(_middle(samples, min(len(samples), needed)), rate, facts["rate"], kernel)
    return _middle(samples, facts["samples"]).astype(np.float64)


def _middle(clip: Any, size: int) -> Any:
    """Return the middle of a clip, with as much silence on either side as a shorter one needs."""
    if len(clip) >= size:
        begin = (len(clip) - size) // 2
        return clip[begin : begin + size]
    begin = (size - len(clip)) // 2
    return np.pad(clip, (begin, size - len(clip) - begin))


def _reach(rate: int, to: int, kernel: dict[str, Any]) -> int:
    """Count the samples on either side that a sample at the new rate depends on."""
    zeros, rolloff = float(kernel["zeros"]), float(kernel["rolloff"])
    return math.ceil(zeros / (rolloff * min(1.0, to / rate)))


def _resampled(samples: Any, rate: int, to: int, kernel: dict[str, Any]) -> Any:
    """Bring a sound to another rate: a sinc in a Kaiser window, which lets pass what the new rate can carry."""
    up, down = to // math.gcd(rate, to), rate // math.gcd(rate, to)
    length, side = math.ceil(len(samples) * up / down), _reach(rate, to, kernel)
    cutoff = kernel["rolloff"] * min(1.0, to / rate)
    padded = np.zeros(len(samples) + 2 * side + down + 1)
    padded[side : side + len(samples)] = samples
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * side + 1)
    out = np.empty(length, np.float32)
    for phase in range(min(up, length)):
        count = len(range(phase, length, up))
        weights = _weights(phase * down % up / up, side, cutoff, kernel["zeros"], kernel["beta"])
        out[phase::up] = windows[phase * down // up :: down][:count] @ weights
    return out


@functools.lru_cache(maxsize=1024)  # recordings of one rate all need the same ones
def _weights(between: float, side: int, cutoff: float, zeros: float, beta: float) -> Any:
    """Weigh each old sample near a new one, if the new one lies so far behind the middle one of them."""
    apart = np.arange(-side, side + 1) - between
    inside = np.clip(1 - (apart * cutoff / zeros) ** 2, 0, None)
    weights = np.sinc(cutoff * apart) * np.where(np.abs(apart) * cutoff > zeros, 0, np.i0(beta * np.sqrt(inside)))
    return weights / weights.sum()


def _log_mel(clip: Any, facts: dict[str, Any], triangles: Any) -> Any:
    frames = np.lib.stride_tricks.sliding_window_view(clip, facts["window"])[:: facts["hop"]]
    spectrum = np.fft.rfft(frames * np.hanning(facts["window"]), facts["fft"])
    power = (spectrum.real**2 + spectrum.imag**2) / facts["fft"]
    return np.log(power @ triangles + facts["floor"])


def _triangles(facts: dict[str, Any]) -> Any:
    """Return how much of each frequency belongs to each band: 1 at its middle, 0 at the middles beside it."""
    low, high = (2595 * np.log10(1 + facts[name] / 700) for name in ("lowest", "highest"))
    corners = 700 * (10 ** (np.linspace(low, high, facts["bands"] + 2) / 2595) - 1)
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    frequency = (np.arange(facts["fft"] // 2 + 1) * facts["rate"] / facts["fft"])[:, None]
    rise, fall = (frequency - left) / (middle - left), (right - frequency) / (right - middle)
    return np.minimum(rise, fall).clip(min=0)
