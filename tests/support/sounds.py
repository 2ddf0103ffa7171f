"""Recordings for tests, written by hand: any rate, any number of channels, whole or floating-point samples."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SCALES = {8: 2**7, 16: 2**15, 24: 2**23, 32: 2**31}


def tone(frequency: float, rate: int, seconds: float = 1.0, loudness: float = 0.5) -> npt.NDArray[np.float64]:
    time = np.arange(round(rate * seconds)) / rate
    return np.asarray(loudness * np.sin(2 * np.pi * frequency * time))


def wav(
    samples: npt.NDArray[Any], rate: int, bits: int = 16, *, floating: bool = False, extensible: bool = False
) -> bytes:
    """A file of samples in [-1, 1), `[steps]` or `[steps, channels]`."""
    steps = samples[:, None] if samples.ndim == 1 else samples
    channels = steps.shape[1]
    if floating:
        content = steps.astype(f"<f{bits // 8}").tobytes()
    elif bits == 8:
        content = (np.round(steps * 128) + 128).clip(0, 255).astype("u1").tobytes()
    else:
        whole = np.round(steps * SCALES[bits]).clip(-SCALES[bits], SCALES[bits] - 1).astype("<i4")
        wide = whole.reshape(-1, 1).view("u1")
        content = wide[:, : bits // 8].tobytes()
    step = channels * bits // 8
    code = 3 if floating else 1
    form = struct.pack("<HHIIHH", 0xFFFE if extensible else code, channels, rate, rate * step, step, bits)
    if extensible:
        form += struct.pack("<HHIH", 22, bits, 0, code) + b"\0\0\0\0\x10\0\x80\0\0\xaa\x008\x9bq"
    chunks = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(content)) + content
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def write_wav(path: Path, samples: npt.NDArray[Any], rate: int = 16_000, bits: int = 16, **how: bool) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(wav(samples, rate, bits, **how))
    return path
