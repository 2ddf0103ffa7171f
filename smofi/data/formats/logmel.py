"""What speech sounds like: the loudness of 40 bands of pitch, 49 times a second, as a small grey image.

Every 20 ms, 30 ms of the clip are weighted by a (symmetric) Hann window and filled up with zeros to 512 samples;

    power  = |rfft(frame)|² / 512
    band   = power @ triangles       equally wide on the mel scale, mel(f) = 2595 log10(1 + f / 700), 60 to 7600 Hz
    value  = log(band + 1e-8)        kept as a byte x: value = -18.5 + x / 255 * 22.5

The floor, 1e-8, is far below the noise of any recording: only true silence, such as the zeros around a short clip,
reaches it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

RATE = 16_000
WINDOW, HOP, FFT = 480, 320, 512
BANDS, LOWEST, HIGHEST = 40, 60.0, 7600.0
FRAMES = (RATE - WINDOW) // HOP + 1
FLOOR = 1e-8
LOW, HIGH = -18.5, 4.0
"""The range of values kept: log(1e-8) = -18.4, and the loudest clips reach about 4."""


SOUND_INPUT: dict[str, Any] = {
    "kind": "sound",
    "rate": RATE,
    "samples": RATE,
    "place": "middle",
    "window": WINDOW,
    "window_shape": "hann, symmetric",
    "hop": HOP,
    "fft": FFT,
    "bands": BANDS,
    "lowest": LOWEST,
    "highest": HIGHEST,
    "mel": "2595 log10(1 + f / 700)",
    "floor": FLOOR,
    "byte_0": LOW,
    "byte_255": HIGH,
    "type": "uint8",
}
"""A reader's `raw_input`: all of the above as facts."""


def frames_in(samples: int) -> int:
    """How many windows fit into this many samples.

    >>> frames_in(RATE)
    49
    """
    return (samples - WINDOW) // HOP + 1


def one_second(clip: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The middle second of a clip, with as much silence on either side as a shorter one needs.

    >>> one_second(np.ones(15_998, np.float32))[[0, 1, -2, -1]].tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    return middle(clip, RATE)


def middle(clip: npt.NDArray[np.float32], samples: int) -> npt.NDArray[np.float32]:
    """The same with this many samples of it.

    >>> middle(np.arange(5, dtype=np.float32), 3).tolist()
    [1.0, 2.0, 3.0]
    """
    if len(clip) >= samples:
        begin = (len(clip) - samples) // 2
        return clip[begin : begin + samples]
    filled = np.zeros(samples, np.float32)
    begin = (samples - len(clip)) // 2
    filled[begin : begin + len(clip)] = clip
    return filled


def log_mel(clips: Tensor) -> Tensor:
    """The logarithm of the power in every band, `[clips, 16000]` to `[clips, 49, 40]`; clips may be of any length.

    >>> tuple(log_mel(torch.zeros(2, RATE)).shape)
    (2, 49, 40)
    """
    frames = clips.unfold(-1, WINDOW, HOP) * torch.hann_window(WINDOW, periodic=False, dtype=clips.dtype)
    spectrum = torch.fft.rfft(frames, FFT)
    power = (spectrum.real.square() + spectrum.imag.square()) / FFT
    bands: Tensor = power @ triangles().to(clips.dtype)
    return (bands + FLOOR).log()


def as_bytes(values: Tensor) -> Tensor:
    """Values as bytes: -18.5 or less becomes 0, 4 or more 255.

    >>> as_bytes(torch.tensor([-100.0, -18.5, 4.0, 100.0])).tolist()
    [0, 0, 255, 255]
    """
    return ((values - LOW) * (255 / (HIGH - LOW))).round().clamp(0, 255).to(torch.uint8)


@functools.lru_cache(maxsize=1)
def triangles() -> Tensor:
    """How much of each frequency belongs to each band, `[257, 40]`: 1 at its middle, 0 at the middles beside it.

    >>> tuple(triangles().shape), float(triangles().max()) <= 1
    ((257, 40), True)
    """
    ends = torch.tensor([LOWEST, HIGHEST], dtype=torch.float64)
    mel_low, mel_high = (2595 * torch.log10(1 + ends / 700)).tolist()
    # f = 700 (10^(mel / 2595) - 1)
    corners = 700 * (10 ** (torch.linspace(mel_low, mel_high, BANDS + 2, dtype=torch.float64) / 2595) - 1)
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    frequency = (torch.arange(FFT // 2 + 1, dtype=torch.float64) * RATE / FFT)[:, None]
    rise, fall = (frequency - left) / (middle - left), (right - frequency) / (right - middle)
    return torch.minimum(rise, fall).clamp(min=0)
