"""WAVE files as images: the loudness of some bands of pitch, many times a second, on a logarithmic scale, as bytes."""

from __future__ import annotations

import wave
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

ENDINGS = (".wav",)
TAKES = "It takes WAVE files: one channel, plain samples of 16 bits."


def read(paths: Iterable[str], facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """An image [times, bands, 1] per file."""
    triangles = _triangles(facts)
    for path in paths:
        loud = _log_mel(_middle(_samples(path, facts["rate"]), facts["samples"]).astype(np.float64), facts, triangles)
        scaled = (loud - facts["byte_0"]) * (255 / (facts["byte_255"] - facts["byte_0"]))
        yield path, scaled.round().clip(0, 255).astype(np.uint8)[..., None]


def _samples(path: str, rate: int) -> Any:
    """The samples in [-1, 1)."""
    try:
        with wave.open(path, "rb") as file:
            found = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
            content = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise ValueError(f"{path}: expected a WAVE file of plain samples ({error or 'it ends too early'})") from error
    if found != (1, 16, rate):
        raise ValueError(
            f"{path}: expected 1 channel, 16 bits and {rate} Hz, but it has {found[0]}, {found[1]} and {found[2]}"
        )
    if not content:
        raise ValueError(f"{path}: expected at least one sample, but it has none")
    return np.frombuffer(content, "<i2").astype(np.float32) / np.float32(2**15)


def _middle(clip: Any, size: int) -> Any:
    """The middle of a clip, with as much silence on either side as a shorter one needs."""
    if len(clip) >= size:
        begin = (len(clip) - size) // 2
        return clip[begin : begin + size]
    begin = (size - len(clip)) // 2
    return np.pad(clip, (begin, size - len(clip) - begin))


def _log_mel(clip: Any, facts: dict[str, Any], triangles: Any) -> Any:
    frames = np.lib.stride_tricks.sliding_window_view(clip, facts["window"])[:: facts["hop"]]
    spectrum = np.fft.rfft(frames * np.hanning(facts["window"]), facts["fft"])
    power = (spectrum.real**2 + spectrum.imag**2) / facts["fft"]
    return np.log(power @ triangles + facts["floor"])


def _triangles(facts: dict[str, Any]) -> Any:
    """How much of each frequency belongs to each band: 1 at its middle, 0 at the middles beside it."""
    low, high = (2595 * np.log10(1 + facts[name] / 700) for name in ("lowest", "highest"))
    corners = 700 * (10 ** (np.linspace(low, high, facts["bands"] + 2) / 2595) - 1)
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    frequency = (np.arange(facts["fft"] // 2 + 1) * facts["rate"] / facts["fft"])[:, None]
    rise, fall = (frequency - left) / (middle - left), (right - frequency) / (right - middle)
    return np.minimum(rise, fall).clip(min=0)
