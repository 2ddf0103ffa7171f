"""Sound as a small grey image: the loudness of 40 bands of pitch, 49 times a second.

Every 20 ms, 30 ms of the clip are weighted by a (symmetric) Hann window and filled up with zeros to 512 samples;

    power  = |rfft(frame)|² / 512
    band   = power @ triangles       equally wide on the mel scale, mel(f) = 2595 log10(1 + f / 700), 60 to 7600 Hz
    value  = log(band + 1e-8)        kept as a byte x: value = -18.5 + x / 255 * 22.5

The floor, 1e-8, is far below the noise of any recording: only true silence, such as the zeros around a short clip,
reaches it.
"""

from __future__ import annotations

import functools
import io
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from smofi.data.decoded import Array, ReadProgress, silent
from smofi.data.outside import read_bytes, wrong

Clip = TypeVar("Clip")
Samples: TypeAlias = npt.NDArray[np.float32]

RATE = 16_000
WINDOW, HOP, FFT = 480, 320, 512
BANDS, LOWEST, HIGHEST = 40, 60.0, 7600.0
FRAMES = (RATE - WINDOW) // HOP + 1
FLOOR = 1e-8
AT_ONCE = 32
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
    """Count the windows that fit into this many samples."""
    return (samples - WINDOW) // HOP + 1


def middle(clip: Samples, samples: int = RATE) -> Samples:
    """Take the middle of a clip, this long, with as much silence on either side as a shorter one needs."""
    if len(clip) >= samples:
        begin = (len(clip) - samples) // 2
        return clip[begin : begin + samples]
    filled = np.zeros(samples, np.float32)
    begin = (samples - len(clip)) // 2
    filled[begin : begin + len(clip)] = clip
    return filled


def images_of(
    clips: Sequence[Clip], read: Callable[[Clip], Samples], length: int, progress: ReadProgress = silent
) -> Array:
    """Return the log-mel image of every clip, `[clips, frames, 40, 1]`; `read` gives the samples of one."""
    images = np.empty((len(clips), frames_in(length), BANDS, 1), np.uint8)
    for begin in range(0, len(clips), AT_ONCE):
        some = torch.from_numpy(np.stack([middle(read(clip), length) for clip in clips[begin : begin + AT_ONCE]]))
        # in double precision, so that rounding to bytes comes out the same everywhere
        images[begin : begin + len(some), :, :, 0] = as_bytes(log_mel(some.double())).numpy()
        progress(begin + len(some), len(clips))
    return images


def log_mel(clips: Tensor) -> Tensor:
    """Return the logarithm of the power in every band, `[clips, samples]` to `[clips, frames, 40]`."""
    frames = clips.unfold(-1, WINDOW, HOP) * torch.hann_window(WINDOW, periodic=False, dtype=clips.dtype)
    spectrum = torch.fft.rfft(frames, FFT)
    power = (spectrum.real.square() + spectrum.imag.square()) / FFT
    bands: Tensor = power @ triangles().to(clips.dtype)
    return (bands + FLOOR).log()


def as_bytes(values: Tensor) -> Tensor:
    """Return values as bytes: -18.5 or less becomes 0, 4 or more 255."""
    return ((values - LOW) * (255 / (HIGH - LOW))).round().clamp(0, 255).to(torch.uint8)


@functools.lru_cache(maxsize=1)
def triangles() -> Tensor:
    """Return how much of each frequency is in each band, `[257, 40]`: 1 at its middle, 0 at the middles beside it."""
    ends = torch.tensor([LOWEST, HIGHEST], dtype=torch.float64)
    mel_low, mel_high = (2595 * torch.log10(1 + ends / 700)).tolist()
    # f = 700 (10^(mel / 2595) - 1)
    corners = 700 * (10 ** (torch.linspace(mel_low, mel_high, BANDS + 2, dtype=torch.float64) / 2595) - 1)
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    frequency = (torch.arange(FFT // 2 + 1, dtype=torch.float64) * RATE / FFT)[:, None]
    rise, fall = (frequency - left) / (middle - left), (right - frequency) / (right - middle)
    return torch.minimum(rise, fall).clamp(min=0)


# --------------------------------------------------------------------------------------------------------------------
# WAVE files, read by scipy: whole numbers of any size or floating-point ones, any rate, any number of channels.

MOST_OF_CLIP, MOST_OF_RECORDING = 2**24, 2**30
"""Bytes of a file: more than eight minutes at 16,000 samples a second, and nine hours."""

RATES = (1_000, 768_000)


def decode_wav(content: bytes, path: Path) -> tuple[int, Array]:
    """Return the rate of a WAVE file and its samples as they are stored, `[steps]` or `[steps, channels]`.

    `path` is what an error calls the file.
    """
    from scipy.io import wavfile  # takes long to load

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about chunks that have no samples
            warnings.filterwarnings("error", "Reached EOF", wavfile.WavFileWarning)
            rate, samples = wavfile.read(io.BytesIO(content))
    except MemoryError:
        raise
    except Exception as error:  # a damaged file makes it fail in every way there is
        wrong(path, f"a WAVE file of plain samples, but it is not one, or it is damaged ({str(error)[:100]})")
    if not samples.size:
        wrong(path, "at least one sample, but it has none")
    return rate, samples


def as_floats(samples: Array, path: Path) -> Samples:
    """Return samples as they are stored as numbers in [-1, 1), the channels mixed."""
    numbers = samples.astype(np.float64)
    if samples.dtype.kind == "u":
        numbers = (numbers - 128) / 128
    elif samples.dtype.kind == "i":
        numbers = numbers / 2.0 ** (8 * samples.dtype.itemsize - 1)
    with np.errstate(all="ignore"):  # what comes of it is looked at
        mixed: Samples = numbers.reshape(len(numbers), -1).mean(axis=1).astype(np.float32)
    if not np.isfinite(mixed).all():
        wrong(path, "finite numbers as samples, but some are not, or too large for 32 bits")
    return mixed


def decode_clip(content: bytes, path: Path) -> Samples:
    """Return the samples of a mono file of 16 bits and 16,000 Hz, in [-1, 1)."""
    rate, samples = decode_wav(content, path)
    if (rate, samples.ndim, samples.dtype.name) != (RATE, 1, "int16"):
        found = f"{rate:,} Hz, shape {list(samples.shape)} and type {samples.dtype}"
        wrong(path, f"samples at {RATE:,} Hz, of one channel and 16 bits, but it has {found}")
    return as_floats(samples, path)


def read_recording(path: Path) -> tuple[int, Array]:
    """Return the rate of a file and its samples as they are stored, `[steps]` or `[steps, channels]`."""
    rate, samples = decode_wav(read_bytes(path, MOST_OF_RECORDING, "a WAVE file"), path)
    divisor = math.gcd(rate, RATE)
    if not RATES[0] <= rate <= RATES[1] or rate // divisor > MOST_PHASES:
        wrong(path, f"a rate of {RATES[0]:,} to {RATES[1]:,} Hz in a simple ratio to {RATE:,}, but it has {rate:,} Hz")
    return rate, samples


# --------------------------------------------------------------------------------------------------------------------
# Sound at another rate: what lies between the samples, and no frequency that the new rate cannot carry.

ZEROS, ROLLOFF, BETA = 64, 0.95, 10.0
"""Of the kernel: zeros of the sinc on either side, where it cuts off, and the shape of its window."""

MOST_PHASES = 2**16
"""Of the ratio of two rates: with a longer one, the kernel would take more than 70 MB."""


def reach(rate: int, to: int = RATE) -> int:
    """Return how many samples on either side a sample at the new rate depends on."""
    return math.ceil(ZEROS / (ROLLOFF * min(1.0, to / rate)))


def resampled(samples: Samples, rate: int, to: int = RATE) -> Samples:
    """Return the same sound at another rate; before and after it is silence."""
    if rate == to:
        return samples
    from scipy.signal import resample_poly  # takes long to load

    divisor = math.gcd(rate, to)
    up, down = to // divisor, rate // divisor
    return np.asarray(resample_poly(samples.astype(np.float64), up, down, window=_kernel(up, down)), np.float32)


@functools.lru_cache(maxsize=4)  # recordings of one rate all need the same one
def _kernel(up: int, down: int) -> npt.NDArray[np.float64]:
    """Return a windowed sinc, `up` numbers for each old sample, whose weights for a new sample add up to 1."""
    from scipy.special import i0

    # as far as the old samples go that a new one depends on
    cutoff = ROLLOFF * min(1.0, up / down)
    apart = np.arange(-math.ceil(ZEROS / cutoff) * up, math.ceil(ZEROS / cutoff) * up + 1) / up
    inside = np.clip(1 - (apart * cutoff / ZEROS) ** 2, 0, None)
    # sinc(c t) i0(beta sqrt(1 - (c t / zeros)²))
    kernel: npt.NDArray[np.float64] = np.sinc(cutoff * apart) * i0(BETA * np.sqrt(inside))
    kernel[np.abs(apart) * cutoff > ZEROS] = 0
    for phase in range(up):
        kernel[phase::up] /= kernel[phase::up].sum() * up  # resample_poly multiplies by `up`
    return kernel
