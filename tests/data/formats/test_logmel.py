"""Log-mel images: against the definition written out number by number, a pure tone, and an earlier computation."""

from __future__ import annotations

import math
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from smofi.data.formats.sound import as_bytes, log_mel, one_second, read_wav, triangles
from support.real_data import shared


def hertz(mel: float) -> float:
    return 700 * (10 ** (mel / 2595) - 1)


def mel(frequency: float) -> float:
    return 2595 * math.log10(1 + frequency / 700)


CORNERS = [hertz(mel(60) + (mel(7600) - mel(60)) * k / 41) for k in range(42)]


def triangle(band: int, frequency: float) -> float:
    left, middle, right = CORNERS[band : band + 3]
    if left < frequency <= middle:
        return (frequency - left) / (middle - left)
    return (right - frequency) / (right - middle) if middle < frequency < right else 0.0


def test_one_frame_against_the_definition() -> None:
    clip = np.random.default_rng(0).normal(size=16_000) / 10
    frame, bands = 31, (0, 7, 39)
    # Hann, 0 at both ends
    weighted = [clip[frame * 320 + n] * (0.5 - 0.5 * math.cos(2 * math.pi * n / 479)) for n in range(480)]
    expected = dict.fromkeys(bands, 0.0)
    for k in range(257):
        angles = 2 * math.pi * k * np.arange(480) / 512
        power = (np.dot(weighted, np.cos(angles)) ** 2 + np.dot(weighted, np.sin(angles)) ** 2) / 512
        for band in bands:
            expected[band] += power * triangle(band, k * 16_000 / 512)
    got = log_mel(torch.from_numpy(clip)[None])[0, frame]
    for band in bands:
        assert got[band].item() == pytest.approx(math.log(expected[band] + 1e-8), abs=1e-9)


def test_the_triangles() -> None:
    expected = [[triangle(band, k * 31.25) for band in range(40)] for k in range(257)]
    assert torch.allclose(triangles(), torch.tensor(expected, dtype=torch.float64), atol=1e-12)
    # neighbours add up to 1 between the first middle and the last
    inside = [k for k in range(257) if CORNERS[1] <= k * 31.25 <= CORNERS[-2]]
    assert torch.allclose(triangles()[inside].sum(1), torch.ones(len(inside), dtype=torch.float64))


def test_a_pure_tone_is_loudest_where_it_should_be() -> None:
    # 1500 Hz is number 48 of the 512 frequencies, and |X_48| = A/2 * (sum of the window = 479/2)
    tone = 0.25 * torch.sin(2 * math.pi * 1500 * torch.arange(16_000, dtype=torch.float64) / 16_000)
    image = log_mel(tone[None])[0]
    band = max(range(40), key=lambda k: triangle(k, 1500))
    assert image.argmax(1).unique().tolist() == [band]
    alone = (0.25 / 2 * 479 / 2) ** 2 / 512 * triangle(band, 1500)
    # Parseval: half the energy, A²/2 * (sum of the squared window = 3/8 * 479), is at positive frequencies
    all_of_it = 0.25**2 / 2 * 3 / 8 * 479 / 2
    assert math.log(alone) < image[10, band].item() < math.log(all_of_it)


def test_silence_rests_on_the_floor() -> None:
    silent = log_mel(torch.zeros(1, 16_000))
    assert silent.shape == (1, 49, 40)
    assert torch.allclose(silent, torch.tensor(math.log(1e-8)))
    # (log(1e-8) + 18.5) / 22.5 * 255 = 0.9
    assert as_bytes(silent).unique().tolist() == [1]


def test_bytes_are_within_half_a_step() -> None:
    values = torch.linspace(-18.5, 4, 1001, dtype=torch.float64)
    kept = as_bytes(values)
    back = -18.5 + kept.double() / 255 * 22.5
    assert (back - values).abs().max().item() <= 22.5 / 255 / 2 + 1e-12
    assert (kept[0], kept[-1]) == (0, 255)


@pytest.mark.parametrize(("length", "before"), [(1, 7999), (15_999, 0), (15_997, 1), (16_000, 0)])
def test_short_clips_lie_in_the_middle(length: int, before: int) -> None:
    second = one_second(np.arange(1, length + 1, dtype=np.float32))
    assert second.shape == (16_000,)
    assert np.array_equal(second[before : before + length], np.arange(1, length + 1))
    assert np.count_nonzero(second) == length


def test_of_long_clips_the_middle_is_kept() -> None:
    assert one_second(np.arange(16_005, dtype=np.float32))[[0, -1]].tolist() == [2, 16_001]


def test_real_clips_give_the_bytes_of_an_earlier_computation(tmp_path: Path) -> None:
    with np.load(shared("speech_commands_logmel.npz")) as features:
        words = features["words"][features["y"]]
        place = {f"{word}/{name}": k for k, (word, name) in enumerate(zip(words, features["fname"], strict=True))}
        images = features["x"]
    with tarfile.open(shared("speech-commands-mini.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    clips = sorted(tmp_path.glob("*/*/*.wav"))
    assert len(clips) == 360
    seconds = torch.from_numpy(np.stack([one_second(read_wav(clip, 16_000)) for clip in clips])).double()
    ours = torch.cat([as_bytes(log_mel(some)) for some in seconds.split(40)]).numpy().astype(int)
    theirs = images[[place[f"{clip.parent.name}/{clip.name}"] for clip in clips]]
    apart = np.abs(ours - theirs)
    # those were rounded from single precision: one of 705,600 bytes differs, by 1
    assert apart.max() <= 1
    assert np.count_nonzero(apart) <= 10
