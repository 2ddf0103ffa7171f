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
import io
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from smofi.data.formats.files import check_room, read_bytes, regular_size, wrong

# --------------------------------------------------------------------------------------------------------------------
# What speech sounds like: the loudness of 40 bands of pitch, 49 times a second, as a small grey image.


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


# --------------------------------------------------------------------------------------------------------------------
# Sound in WAVE files: plain samples of 8, 16, 24 or 32 bits, or floating-point ones; any rate, any number of
# channels.

MOST_BYTES = 16 * 2**20
"""Of a file that is read whole: more than eight minutes of sound at 16,000 samples a second."""

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
"""Formats: whole numbers, floating-point numbers, and one that says further on which of the two it is."""

READABLE = {(PCM, 8): "u1", (PCM, 16): "<i2", (PCM, 24): "u1", (PCM, 32): "<i4", (FLOAT, 32): "<f4", (FLOAT, 64): "<f8"}
RATES = (1_000, 768_000)
MOST_CHANNELS = 256
MOST_CHUNKS = 10_000
WORKING = 16
"""Bytes of memory for a byte of samples, while they are converted."""

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True)
class WavHeader:
    """What a file says about its samples. A step is a sample of every channel; `start` is where the first one is."""

    path: Path
    code: int
    channels: int
    rate: int
    step: int
    bits: int
    start: int
    steps: int

    @property
    def form(self) -> str:
        """To be shown in a message."""
        numbers = f"{self.bits} bits, {self.step} bytes a step"
        return f"format {self.code}, {self.channels} channels, {self.rate:,} Hz, {numbers}"

    def decoded(self, content: bytes) -> Samples:
        """These bytes as samples in [-1, 1), the channels mixed."""
        numbers: npt.NDArray[np.float64]
        if self.bits == 24:
            wide = np.zeros((len(content) // 3, 4), np.uint8)
            wide[:, 1:] = np.frombuffer(content, np.uint8).reshape(-1, 3)
            numbers = wide.view("<i4")[:, 0] / 2.0**31
        else:
            plain = np.frombuffer(content, READABLE[self.code, self.bits])
            numbers = plain.astype(np.float64)
            if self.code == PCM:
                numbers = (numbers - 128) / 128 if self.bits == 8 else numbers / 2.0 ** (self.bits - 1)
        if not np.isfinite(numbers).all():
            wrong(self.path, "finite numbers as samples, but some are not")
        with np.errstate(over="ignore"):
            mixed: Samples = numbers.reshape(-1, self.channels).mean(axis=1).astype(np.float32)
        if not np.isfinite(mixed).all():
            wrong(self.path, "samples that are finite as 32-bit numbers, but some are larger")
        return mixed


def read_wav(path: Path, rate: int) -> Samples:
    """The samples of a mono 16-bit file, in [-1, 1)."""
    return decode_wav(read_bytes(path, MOST_BYTES, "a WAVE file"), path, rate)


def decode_wav(content: bytes, path: Path, rate: int) -> Samples:
    """The samples in these bytes, mono and of 16 bits, in [-1, 1); `path` is what an error calls them.

    >>> form = struct.pack("<HHIIHH", 1, 1, 16_000, 32_000, 2, 16)
    >>> chunks = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I2h", 4, -32768, 16384)
    >>> decode_wav(b"RIFF" + struct.pack("<I", len(chunks)) + chunks, Path("half.wav"), 16_000).tolist()
    [-1.0, 0.5]
    """
    header = _header(io.BytesIO(content), len(content), path)
    if (header.code, header.channels, header.rate, header.step, header.bits) != (PCM, 1, rate, 2, 16):
        expected = f"plain samples (format {PCM}), 1 channel, {rate:,} Hz, 16 bits, 2 bytes a step"
        wrong(path, f"{expected}, but it has {header.form}")
    _check_steps(header, len(content))
    return header.decoded(content[header.start : header.start + 2 * header.steps])


def read_wav_header(path: Path) -> WavHeader:
    """What a file of any rate, with any number of channels, says about its samples, which it has."""
    size = regular_size(path, "a WAVE file")
    try:
        with path.open("rb") as file:
            header = _header(file, size, path)
    except OSError as error:
        wrong(path, f"a WAVE file ({error.strerror or error})")
    if (header.code, header.bits) not in READABLE or header.step != header.channels * header.bits // 8:
        accepted = "samples of 8, 16, 24 or 32 bits, or floating-point ones of 32 or 64"
        wrong(path, f"{accepted}, but it has {header.form}")
    if not RATES[0] <= header.rate <= RATES[1] or header.channels > MOST_CHANNELS:
        rates = f"{RATES[0]:,} to {RATES[1]:,} Hz and at most {MOST_CHANNELS} channels"
        wrong(path, f"{rates}, but it has {header.form}")
    _check_steps(header, size)
    return header


def read_steps(header: WavHeader, begin: int, count: int) -> Samples:
    """The samples of some steps, the channels mixed; nothing else is read."""
    size = count * header.step
    check_room(header.path, WORKING * size, f"{count:,} samples take {WORKING} x {header.step} bytes each")
    try:
        with header.path.open("rb") as file:
            file.seek(header.start + begin * header.step)
            content = file.read(size)
    except OSError as error:
        wrong(header.path, f"a WAVE file ({error.strerror or error})")
    if len(content) != size:
        wrong(header.path, "a recording that does not change while it is read")
    return header.decoded(content)


def _check_steps(header: WavHeader, size: int) -> None:
    """Refuse a file that has no samples, or fewer than it says."""
    if not header.steps:
        wrong(header.path, "at least one sample, but it has none")
    if (present := (size - header.start) // header.step) < header.steps:
        wrong(header.path, f"{header.steps:,} samples, as its header says, but it has {present:,}")


def _header(file: IO[bytes], size: int, path: Path) -> WavHeader:
    """The first 'fmt ' chunk and the beginning of the samples; other chunks are skipped."""
    opening = file.read(12)
    if len(opening) < 12:
        _damaged(path, "it ends too early")
    if opening[:4] != b"RIFF":
        _damaged(path, "file does not start with RIFF id")
    if opening[8:] != b"WAVE":
        _damaged(path, "not a WAVE file")
    form: tuple[int, ...] | None = None
    place = 12
    for _ in range(MOST_CHUNKS):
        file.seek(place)
        if len(chunk := file.read(8)) < 8:
            _damaged(path, "fmt chunk and/or data chunk missing")
        name, length = struct.unpack("<4sI", chunk)
        if name == b"data":
            if form is None:
                _damaged(path, "data chunk before fmt chunk")
            code, channels, rate, _, step, bits = form
            return WavHeader(path, code, channels, rate, step, bits, place + 8, length // step)
        if name == b"fmt " and form is None:
            form = _form(file.read(min(length, 40)), path)
        place += 8 + length + length % 2
        if place > size:
            _damaged(path, "it ends too early")
    _damaged(path, f"no samples in its first {MOST_CHUNKS:,} chunks")


def _form(content: bytes, path: Path) -> tuple[int, ...]:
    """Format, channels, samples a second, bytes a second, bytes a step, bits."""
    if len(content) < 16:
        _damaged(path, "it ends too early")
    form: tuple[int, ...] = struct.unpack_from("<HHIIHH", content)
    if form[0] == EXTENSIBLE and len(content) >= 26:
        form = (*struct.unpack_from("<H", content, 24), *form[1:])
    if not form[1]:
        _damaged(path, "bad # of channels")
    if not form[4]:
        _damaged(path, "no bytes a step")
    return form


def _damaged(path: Path, why: str) -> NoReturn:
    wrong(path, f"a WAVE file of plain samples, but it is not one, or it is damaged ({why})")


# --------------------------------------------------------------------------------------------------------------------
# Sound at another rate: what lies between the samples, and no frequency that the new rate cannot carry.

ZEROS, ROLLOFF, BETA = 64, 0.95, 10.0
"""Of the kernel: zeros of the sinc on either side, where it cuts off, and the shape of its window."""


def reach(rate: int, to: int) -> int:
    """How many samples on either side a sample at the new rate depends on.

    >>> reach(16_000, 16_000), reach(48_000, 16_000)
    (68, 203)
    """
    return math.ceil(ZEROS / (ROLLOFF * min(1.0, to / rate)))


def resampled(samples: npt.NDArray[np.float32], rate: int, to: int) -> npt.NDArray[np.float32]:
    """The same sound at another rate; before and after it is silence.

    >>> len(resampled(np.zeros(44_100, np.float32), 44_100, 16_000))
    16000
    """
    if rate == to:
        return samples
    divisor = math.gcd(rate, to)
    up, down = to // divisor, rate // divisor
    length, side = math.ceil(len(samples) * up / down), reach(rate, to)
    padded = np.zeros(len(samples) + 2 * side + down + 1)
    padded[side : side + len(samples)] = samples
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * side + 1)
    out = np.empty(length, np.float32)
    # every `up` samples, the new ones lie in the same way between the old ones, `down` of these further on
    for phase in range(min(up, length)):
        count = len(range(phase, length, up))
        out[phase::up] = windows[phase * down // up :: down][:count] @ _weights(rate, to, phase)
    return out


@functools.lru_cache(maxsize=1024)  # more than the rates in use have; an odd one may have 16,000 of 50 kB each
def _weights(rate: int, to: int, phase: int) -> npt.NDArray[np.float64]:
    """How much each old sample near a new one counts, for one of the ways in which that can lie between them."""
    divisor = math.gcd(rate, to)
    up, down = to // divisor, rate // divisor
    side, cutoff = reach(rate, to), ROLLOFF * min(1.0, to / rate)
    apart = np.arange(-side, side + 1) - phase * down % up / up
    round_top = torch.from_numpy(BETA * np.sqrt(np.clip(1 - (apart * cutoff / ZEROS) ** 2, 0, None)))
    window = torch.special.i0(round_top).numpy()  # ten times as fast as numpy's
    window[np.abs(apart) * cutoff > ZEROS] = 0
    weights = np.sinc(cutoff * apart) * window
    normalised: npt.NDArray[np.float64] = weights / weights.sum()
    return normalised
