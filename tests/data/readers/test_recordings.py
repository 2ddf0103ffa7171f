"""A folder of wav files: log-mel as for Speech Commands, whatever the rate, the channels and the length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from smofi.cli import main
from smofi.data import load
from smofi.data.decoded import Decoded, silent
from smofi.data.readers.folder import find_folder
from smofi.data.readers.speech_commands import find_speech_commands
from smofi.errors import InputError
from smofi.memory import limited
from support.sounds import tone, write_wav


def by_label(decoded: Decoded, label: str) -> np.ndarray:
    return decoded.train.inputs[decoded.train.targets == decoded.classes.index(label)]


def test_a_tone_of_any_rate_is_the_same_image_and_a_high_one_is_none(tmp_path: Path) -> None:
    for number, rate in enumerate((8_000, 16_000, 44_100, 48_000)):
        write_wav(tmp_path / "train" / "low" / f"{number}.wav", tone(1_000, rate), rate)
    for number, rate in enumerate((44_100, 48_000)):
        write_wav(tmp_path / "train" / "high" / f"{number}.wav", tone(10_000, rate), rate)
    write_wav(tmp_path / "train" / "silent" / "1.wav", np.zeros(16_000))
    write_wav(tmp_path / "test" / "low" / "1.wav", tone(1_000, 16_000))
    decoded = find_folder(tmp_path).read(silent)
    assert decoded.train.inputs.shape == (7, 49, 40, 1)
    low = by_label(decoded, "low").astype(int)
    # every image is the one of 16,000 Hz: in the bands of the tone within a byte or two, elsewhere both are faint
    middle = low[:, 5:-5]
    loud = middle.max(axis=0) > 120
    assert loud.any()
    assert np.ptp(middle, axis=0)[loud].max() <= 3
    assert (middle.argmax(axis=2) == middle[0].argmax(axis=1)).all()
    # a tone that 16,000 Hz cannot carry is as good as silence, once it has begun
    quietest, high = by_label(decoded, "silent"), by_label(decoded, "high")
    assert int(high[:, 5:-5].max()) - int(quietest.max()) < 30 < int(low.max()) - 150


def test_all_have_the_median_length_and_what_was_done_is_said(tmp_path: Path) -> None:
    seconds = [0.5, 1.5, 1.5, 4.0]
    for label in "ab":
        for number, length in enumerate(seconds):
            write_wav(tmp_path / "train" / label / f"{number}.wav", tone(500, 16_000, length))
    stereo = np.stack([tone(500, 32_000, 1.5)] * 2, axis=1)
    write_wav(tmp_path / "test" / "a" / "1.wav", stereo, 32_000)
    told: list[tuple[int, int]] = []
    decoded = find_folder(tmp_path).read(lambda done, total: told.append((done, total)))
    assert decoded.train.inputs.shape == (8, (24_000 - 480) // 320 + 1, 40, 1)
    assert decoded.about["remark"] == (
        "recordings: 1.5 s each, the median length; 2 longer: their middle is used; 2 shorter: with silence on either "
        "side; resampled to 16,000 Hz: 32,000 Hz (1); 1 with several channels: mixed to one"
    )
    assert decoded.raw_input is not None
    assert (decoded.raw_input["samples"], decoded.raw_input["rate"]) == (24_000, 16_000)
    assert told == sorted(told)
    assert told[-1] == (18, 18)
    source = load(f"folder:{tmp_path}")
    assert source.remarks[-1] == "not tested: 'b', of which the test set has no sample; add some to it"
    assert load(f"folder:{tmp_path}", image_size=16).input_shape == (1, 16, 16)


def test_no_more_than_ten_seconds_of_a_recording_are_used(tmp_path: Path) -> None:
    for name in ("a/1.wav", "a/2.wav", "b/1.wav"):
        write_wav(tmp_path / name, np.zeros(12 * 8_000), 8_000)
    decoded = find_folder(tmp_path).read(silent)
    assert decoded.train.inputs.shape[1] == 499
    assert "10 s each, the most that is used of one; 3 longer" in decoded.about["remark"]


def test_clips_of_speech_commands_come_out_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for word in ("yes", "no"):
        for number in range(5):
            noise = rng.normal(size={0: 15_000, 4: 17_000}.get(number, 16_000)) / 10
            write_wav(tmp_path / word / f"0a1b{number}_nohash_0.wav", noise)
    (tmp_path / "testing_list.txt").write_text("yes/0a1b0_nohash_0.wav\n")
    official, own = find_speech_commands(tmp_path).read(silent), find_folder(tmp_path).read(silent)
    images = [
        sorted(image.tobytes() for split in (one.train, one.test) for image in split.inputs) for one in (official, own)
    ]
    assert images[0] == images[1]


def test_speakers_are_folders_and_natural_needs_no_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for speaker in ("anna", "ben"):
        for label in ("yes", "no"):
            for number in range(6):
                write_wav(tmp_path / speaker / label / f"{number}.wav", tone(300, 4_000, 0.2), 4_000)
    assert main(["data", f"folder:{tmp_path}", "--partition", "natural", "--batch-size", "4"]) == 0
    shown = capsys.readouterr().out
    shown = " ".join(shown.split())
    assert "natural, 2 clients" in shown
    assert "tested on: a fifth of the recordings, held out; to choose" in shown
    assert load(f"folder:{tmp_path}").owners == ("anna", "ben")


def test_pictures_among_recordings_are_refused(tmp_path: Path) -> None:
    for name in ("a/1.wav", "a/2.wav", "b/1.wav"):
        write_wav(tmp_path / name, np.zeros(800))
    (tmp_path / "b" / "cover.png").write_bytes(b"")
    both = (
        rf"pictures or recordings, but there are both, such as {tmp_path.name}/b/cover\.png and .*/a/1\.wav: give each"
    )
    with pytest.raises(InputError, match=both):
        find_folder(tmp_path)
    (tmp_path / "b" / "cover.png").rename(tmp_path / "b" / "notes.txt")
    assert find_folder(tmp_path).read(silent).about["left_out"] == "1 file that is not a recording: .txt (1)"


def test_broken_recordings_are_named_and_more_than_fits_is_refused(tmp_path: Path) -> None:
    for name in ("a/1.wav", "a/2.wav", "b/1.wav"):
        write_wav(tmp_path / name, np.zeros(160_000))
    arithmetic = r"3 x 499 x 40 bytes \+ 32 x 64 x 160,000 while they are decoded = 328 MB"
    with limited("300MB"), pytest.raises(InputError, match=arithmetic):
        find_folder(tmp_path).read(silent)
    (tmp_path / "b" / "1.wav").write_bytes(b"RIFF")
    with pytest.raises(InputError, match=r"b/1\.wav is not accepted: expected a WAVE file"):
        find_folder(tmp_path).read(silent)
