"""The user's own recordings, as log-mel images: any rate, any number of channels, any length.

All are brought to 16,000 samples a second, to one channel, and to one length: the median of those to train on, at most
ten seconds. Of a longer recording it is the middle, and a shorter one has silence on either side.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
import torch

from smofi.data.decoded import Array, ReadProgress
from smofi.data.formats.files import check_room
from smofi.data.formats.logmel import BANDS, RATE, SOUND_INPUT, WINDOW, as_bytes, frames_in, log_mel, middle
from smofi.data.formats.resample import BETA, ROLLOFF, ZEROS, reach, resampled
from smofi.data.formats.wav import Samples, WavHeader, read_steps, read_wav_header

LONGEST = 10 * RATE
AT_ONCE = 32
WORKING = 64
"""Bytes of memory for a sample, while its recording becomes an image."""


def decode_recordings(
    paths: list[Path], training: int, folder: Path, progress: ReadProgress
) -> tuple[Array, dict[str, Any], str]:
    """All recordings, `[recordings, frames, 40, 1]`, what was done to them, and a remark on it.

    The first ones, `training` of them, are those to train on.
    """
    headers = []
    for number, path in enumerate(paths, start=1):
        headers.append(read_wav_header(path))
        _tell(progress, number, len(paths), before=0)
    lengths = [math.ceil(header.steps * RATE / header.rate) for header in headers]
    length = min(max(median_low(lengths[:training]), WINDOW), LONGEST)
    frames = frames_in(length)
    check_room(
        folder,
        len(paths) * frames * BANDS + AT_ONCE * WORKING * length,
        f"its recordings take {len(paths):,} x {frames:,} x {BANDS} bytes + {AT_ONCE} x {WORKING} x {length:,} while "
        "they are decoded",
    )
    images = np.empty((len(paths), frames, BANDS, 1), np.uint8)
    for begin in range(0, len(paths), AT_ONCE):
        clips = np.stack([clip(header, length) for header in headers[begin : begin + AT_ONCE]])
        # in double precision, so that rounding to bytes comes out the same everywhere
        images[begin : begin + len(clips), :, :, 0] = as_bytes(log_mel(torch.from_numpy(clips).double())).numpy()
        for number in range(begin + 1, begin + len(clips) + 1):
            _tell(progress, number, len(paths), before=len(paths))
    resample = {"kernel": "sinc, Kaiser window", "zeros": ZEROS, "rolloff": ROLLOFF, "beta": BETA}
    raw_input = {**SOUND_INPUT, "samples": length, "channels": "mean", "resample": resample}
    return images, raw_input, _remark(headers, lengths, length)


def clip(header: WavHeader, length: int) -> Samples:
    """The middle of a recording, this long at 16,000 samples a second; only what it takes is read."""
    steps = math.ceil(length * header.rate / RATE) + (2 * reach(header.rate, RATE) if header.rate != RATE else 0)
    count = min(header.steps, steps)
    samples = read_steps(header, (header.steps - count) // 2, count)
    return middle(resampled(samples, header.rate, RATE), length)


def _tell(progress: ReadProgress, done: int, files: int, before: int) -> None:
    """Report every hundredth, and the last one."""
    if done == files or done % max(1, files // 100) == 0:
        progress(before + done, 2 * files)


def _remark(headers: list[WavHeader], lengths: list[int], length: int) -> str:
    """What was done to recordings that were not all alike."""
    longer, shorter = (sum(sign * one > sign * length for one in lengths) for sign in (1, -1))
    which = "the median length" if length < LONGEST else "the most that is used of one"
    said = [f"recordings: {length / RATE:g} s each, {which}"]
    if longer:
        said.append(f"{longer:,} longer: their middle is used")
    if shorter:
        said.append(f"{shorter:,} shorter: with silence on either side")
    rates = Counter(header.rate for header in headers if header.rate != RATE).most_common(3)
    if rates:
        given = ", ".join(f"{rate:,} Hz ({count:,})" for rate, count in rates)
        said.append(f"resampled to {RATE:,} Hz: {given}")
    if mixed := sum(header.channels > 1 for header in headers):
        said.append(f"{mixed:,} with several channels: mixed to one")
    return "; ".join(said)
