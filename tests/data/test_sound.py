"""Sound: log-mel images against their definition, other rates, every form of WAVE file, and Speech Commands."""

from __future__ import annotations

import math
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from smofi.data.decoded import Decoded, silent
from smofi.data.sound import (
    as_bytes,
    as_floats,
    decode_clip,
    decode_wav,
    images_of,
    log_mel,
    middle,
    read_recording,
    resampled,
    triangles,
)
from smofi.data.speech_commands import find_speech_commands, official_split
from smofi.errors import InputError
from support.real_data import shared
from support.sounds import tone, wav, write_wav

# -------------------------------------------------------------------------------------------------------------- log-mel


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
    everything = [[triangle(band, k * 31.25) for band in range(40)] for k in range(257)]
    assert torch.allclose(triangles(), torch.tensor(everything, dtype=torch.float64), atol=1e-12)


def test_silence_rests_on_the_floor_and_bytes_are_within_half_a_step() -> None:
    quiet = log_mel(torch.zeros(1, 16_000))
    assert quiet.shape == (1, 49, 40)
    assert torch.allclose(quiet, torch.tensor(math.log(1e-8)))
    # (log(1e-8) + 18.5) / 22.5 * 255 = 0.9
    assert as_bytes(quiet).unique().tolist() == [1]
    values = torch.linspace(-18.5, 4, 1001, dtype=torch.float64)
    kept = as_bytes(values)
    assert (-18.5 + kept.double() / 255 * 22.5 - values).abs().max().item() <= 22.5 / 255 / 2 + 1e-12
    assert (kept[0], kept[-1]) == (0, 255)


@pytest.mark.parametrize(("length", "before"), [(1, 7999), (15_999, 0), (15_997, 1), (16_000, 0)])
def test_short_clips_lie_in_the_middle(length: int, before: int) -> None:
    second = middle(np.arange(1, length + 1, dtype=np.float32))
    assert second.shape == (16_000,)
    assert np.array_equal(second[before : before + length], np.arange(1, length + 1))
    assert np.count_nonzero(second) == length
    assert middle(np.arange(16_005, dtype=np.float32))[[0, -1]].tolist() == [2, 16_001]


def test_real_clips_give_the_bytes_of_an_earlier_computation(tmp_path: Path) -> None:
    with np.load(shared("speech_commands_logmel.npz")) as features:
        words = features["words"][features["y"]]
        place = {f"{word}/{name}": k for k, (word, name) in enumerate(zip(words, features["fname"], strict=True))}
        images = features["x"]
    with tarfile.open(shared("speech-commands-mini.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    clips = sorted(tmp_path.glob("*/*/*.wav"))
    assert len(clips) == 360
    ours = images_of(clips, lambda clip: decode_clip(clip.read_bytes(), clip), 16_000)[..., 0].astype(int)
    apart = np.abs(ours - images[[place[f"{clip.parent.name}/{clip.name}"] for clip in clips]])
    # those were rounded from single precision: one of 705,600 bytes differs, by 1
    assert apart.max() <= 1
    assert np.count_nonzero(apart) <= 10


# ---------------------------------------------------------------------------------------------------------- other rates

INSIDE = slice(2000, -2000)
"""Away from the ends, where the sound begins and stops."""


@pytest.mark.parametrize(
    "rate", [8_000, 11_025, 22_050, 44_100, 48_000, 96_000, pytest.param(44_099, marks=pytest.mark.slow)]
)
def test_a_tone_is_what_it_would_have_been(rate: int) -> None:
    for frequency in (300, 3_000, min(7_000, 0.4 * rate)):
        found = resampled(tone(frequency, rate).astype(np.float32), rate)
        assert len(found) == 16_000
        assert np.abs(found - tone(frequency, 16_000))[INSIDE].max() < 2e-5


@pytest.mark.parametrize("frequency", [8_500, 10_000, 20_000])
def test_what_is_above_half_the_rate_does_not_come_back_as_something_else(frequency: int) -> None:
    found = resampled(tone(frequency, 44_100).astype(np.float32), 44_100)
    assert np.abs(found)[INSIDE].max() < 1e-5  # 94 dB below the tone


def test_resampling_is_a_windowed_sum_over_all_samples() -> None:
    samples = np.random.default_rng(0).normal(size=3_000).astype(np.float32)
    found = resampled(samples, 24_000)
    apart = (np.arange(3_000) - 701 * 24_000 / 16_000) * 0.95 * 16_000 / 24_000
    window = np.where(np.abs(apart) <= 64, np.i0(10 * np.sqrt(np.clip(1 - (apart / 64) ** 2, 0, None))) / np.i0(10), 0)
    weights = np.sinc(apart) * window
    assert found[701] == pytest.approx(float(weights @ samples / weights.sum()), abs=1e-6)
    assert [len(resampled(np.ones(count, np.float32), 44_100)) for count in (1, 2, 3, 4)] == [1, 1, 2, 2]


# ----------------------------------------------------------------------------------------------------------- WAVE files


@pytest.mark.parametrize(
    ("bits", "floating"), [(8, False), (16, False), (24, False), (32, False), (32, True), (64, True)]
)
@pytest.mark.parametrize("extensible", [False, True])
def test_every_form_gives_the_same_samples(tmp_path: Path, bits: int, floating: bool, extensible: bool) -> None:
    given = np.array([[-1.0, -0.5], [0.25, 0.25], [0.5, 0.0], [0.0, -0.25]])
    path = write_wav(tmp_path / "a.wav", given, 22_050, bits, floating=floating, extensible=extensible)
    rate, samples = read_recording(path)
    assert (rate, samples.shape) == (22_050, (4, 2))
    assert as_floats(samples, path).tolist() == [-0.75, 0.25, 0.25, -0.125]


def test_other_chunks_are_skipped_and_samples_are_fractions_of_32768() -> None:
    content, here = wav(np.array([0, 1, -1, 32767, -32768]) / 32768, 16_000), Path("clip.wav")
    more = b"LIST\3\0\0\0odd\0" + b"mine\2\0\0\0ab"
    content = content[:4] + (len(content) - 8 + len(more)).to_bytes(4, "little") + content[8:12] + more + content[12:]
    assert decode_clip(content, here).tolist() == [0, 1 / 32768, -1 / 32768, 32767 / 32768, -1]
    assert decode_wav(content, here)[0] == 16_000


# ------------------------------------------------------------------------------------------------------ Speech Commands

# The first names in the official validation_list.txt and testing_list.txt, and one in neither.
VALIDATION, TESTING, TRAINING = "a69b9b3e", "bb05582b", "012c8314"
SIX = ("no/a1_nohash_0.wav", "no/b2_nohash_0.wav", "no/c3_nohash_0.wav", "yes/a1_nohash_0.wav",
       "yes/b2_nohash_1.wav", "yes/c3_nohash_0.wav")  # fmt: skip
TESTED = [SIX[2], SIX[5]]


def folder_of(place: Path, *names: str, tested: list[str] | None = None) -> Path:
    """Clips of these names, each a bit louder than the one before."""
    for number, name in enumerate(names):
        write_wav(place / name, np.full(200, 100 * (number + 1) / 32768))
    if tested is not None:
        (place / "testing_list.txt").write_text("".join(f"{entry}\n" for entry in tested))
    return place


def read(place: Path) -> Decoded:
    return find_speech_commands(place).read(silent)


def test_the_list_decides_and_clips_for_validation_are_trained_on(tmp_path: Path) -> None:
    place = folder_of(tmp_path / "speech_commands_v0.02", *SIX, tested=[*TESTED, "zero/c3_nohash_0.wav", ""])
    folder_of(place / "_background_noise_", "running_tap.wav")
    (place / "README.md").write_text("words")
    decoded = read(tmp_path)
    assert (decoded.kind, decoded.classes, decoded.owners) == ("image", ("no", "yes"), ("a1", "b2", "c3"))
    assert (decoded.train.inputs.shape, decoded.test.inputs.shape) == ((4, 49, 40, 1), (2, 49, 40, 1))
    for part, owners, words in ((decoded.train, [0, 0, 1, 1], [0, 0, 1, 1]), (decoded.test, [2, 2], [0, 1])):
        assert (part.inputs.dtype, part.targets.dtype, part.owner.dtype) == (np.uint8, np.int64, np.int32)
        assert (sorted(part.owner.tolist()), sorted(part.targets.tolist())) == (owners, words)
        # the louder of two clips is the one written later: yes after no
        loudest = part.inputs.reshape(len(part.inputs), -1).max(1)
        assert loudest[part.targets == 1].min() > loudest[part.targets == 0].max()
    names = {str(path.relative_to(place)) for path in find_speech_commands(tmp_path).paths}
    assert names == {*SIX, "testing_list.txt"}


def test_without_a_list_the_hash_of_the_speaker_decides(tmp_path: Path) -> None:
    assert [official_split(name) for name in (VALIDATION, TESTING, TRAINING)] == ["validation", "testing", "training"]
    names = [f"{word}/{who}_nohash_{n}.wav" for word in ("go", "up") for who in (VALIDATION, TESTING, TRAINING)
             for n in range(25)]  # fmt: skip
    calls: list[tuple[int, int]] = []
    decoded = find_speech_commands(folder_of(tmp_path, *names)).read(lambda done, total: calls.append((done, total)))
    assert decoded.owners == (TRAINING, VALIDATION, TESTING)
    assert (len(decoded.train.targets), len(decoded.test.targets)) == (100, 50)
    assert (set(decoded.train.owner.tolist()), set(decoded.test.owner.tolist())) == ({0, 1}, {2})
    assert 5 < decoded.train.targets[:25].sum() < 20  # no part begins with all of one word
    assert calls == sorted(calls)
    assert calls[-1] == (150, 150)
    parts = [official_split(f"{number:08x}") for number in range(20_000)]
    # three deviations of such a share are 3 * sqrt(0.1 * 0.9 / 20,000) = 0.0064
    assert parts.count("testing") / 20_000 == pytest.approx(0.1, abs=0.0064)
    assert parts.count("validation") / 20_000 == pytest.approx(0.1, abs=0.0064)


def test_the_hash_agrees_with_the_official_test_set() -> None:
    with np.load(shared("speech_commands_logmel.npz")) as features:
        official = features["sources"][features["source"]] == "v0.02 canonical test set"
        speakers = features["speaker_ids"][features["speaker"]][official]
    known = [str(speaker) for speaker in speakers if speaker != "none"]
    assert len(known) > 4000
    assert {official_split(speaker) for speaker in known} == {"testing"}


@pytest.mark.parametrize(
    ("names", "tested", "said"),
    [
        ([], None, r"expected WORD/.* or in speech_commands_v0\.02"),
        (["yes/tap.wav"], None, r"expected clips named SPEAKER_nohash_NUMBER\.wav, but one is 'tap\.wav'"),
        ([f"yes/{TRAINING}_nohash_0.wav"], None, "the 1 clips are 1 to train on and 0 to test on"),
        (SIX, [*TESTED, "yes/d4_nohash_0.wav"], r"testing_list\.txt .*yes/d4_nohash_0\.wav is not"),
        (SIX, ["yes"], r"expected WORD/SPEAKER_nohash_NUMBER\.wav on every line, but one is 'yes'"),
        (SIX, ["_background_noise_/a1_nohash_0.wav"], "on every line, but one is '_background_noise_/a1_noh"),
    ],
)
def test_what_is_refused_of_speech_commands(
    names: list[str], tested: list[str] | None, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        read(folder_of(tmp_path, *names, tested=tested))
