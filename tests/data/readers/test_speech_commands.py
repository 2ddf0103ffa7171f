"""Speech Commands: small folders in the official layout, its rule for who is tested on, and what is refused."""

from __future__ import annotations

import os
import struct
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from smofi.data.decoded import Decoded, silent
from smofi.data.readers.speech_commands import find_speech_commands, official_split
from smofi.errors import InputError
from support.real_data import shared

# The first names in the official validation_list.txt and testing_list.txt, and one in neither.
VALIDATION, TESTING, TRAINING = "a69b9b3e", "bb05582b", "012c8314"


def wav(loudness: int, length: int = 200) -> bytes:
    samples = struct.pack("<h", loudness) * length
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 16_000, 32_000, 2, 16)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", len(samples)) + samples
    return struct.pack("<4sI", b"RIFF", len(body)) + body


def folder_of(place: Path, *names: str, lists: dict[str, list[str]] | None = None) -> Path:
    """Clips of these names, each a bit louder than the one before."""
    for number, name in enumerate(names):
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wav(100 * (number + 1)))
    for part, entries in (lists or {}).items():
        (place / f"{part}_list.txt").write_text("".join(f"{entry}\n" for entry in entries))
    return place


SIX = ("no/a1_nohash_0.wav", "no/b2_nohash_0.wav", "no/c3_nohash_0.wav", "yes/a1_nohash_0.wav",
       "yes/b2_nohash_1.wav", "yes/c3_nohash_0.wav")  # fmt: skip
BOTH = {"validation": [SIX[1], SIX[4]], "testing": [SIX[2], SIX[5]]}


def read(place: Path) -> Decoded:
    return find_speech_commands(place).read(silent)


def test_the_list_decides_and_clips_for_validation_are_trained_on(tmp_path: Path) -> None:
    place = folder_of(tmp_path, *SIX, lists=BOTH)
    folder_of(place / "_background_noise_", "running_tap.wav")
    (place / "README.md").write_text("words")
    decoded = read(place)
    assert (decoded.kind, decoded.classes, decoded.owners) == ("image", ("no", "yes"), ("a1", "b2", "c3"))
    assert (decoded.train.inputs.shape, decoded.test.inputs.shape) == ((4, 49, 40, 1), (2, 49, 40, 1))
    for part, owners, words in ((decoded.train, [0, 0, 1, 1], [0, 0, 1, 1]), (decoded.test, [2, 2], [0, 1])):
        assert (part.inputs.dtype, part.targets.dtype) == (np.uint8, np.int64)
        assert part.owner is not None
        assert (part.owner.dtype, sorted(part.owner.tolist())) == (np.int32, owners)
        assert sorted(part.targets.tolist()) == words
    names = {str(path.relative_to(place)) for path in find_speech_commands(place).paths}
    assert names == {*SIX, "testing_list.txt"}


def test_images_belong_to_their_targets_and_owners(tmp_path: Path) -> None:
    decoded = read(folder_of(tmp_path, *SIX, lists=BOTH))
    # the louder of two clips is the one written later: yes after no
    for part in (decoded.train, decoded.test):
        loudest = part.inputs.reshape(len(part.inputs), -1).max(1)
        assert loudest[part.targets == 1].min() > loudest[part.targets == 0].max()


def test_the_official_folder_is_found_inside(tmp_path: Path) -> None:
    folder_of(tmp_path / "speech_commands_v0.02", *SIX, lists=BOTH)
    assert np.array_equal(read(tmp_path).train.inputs, read(tmp_path / "speech_commands_v0.02").train.inputs)
    assert len(find_speech_commands(tmp_path).paths) == 7


def test_without_lists_the_hash_of_the_speaker_decides(tmp_path: Path) -> None:
    assert [official_split(name) for name in (VALIDATION, TESTING, TRAINING)] == ["validation", "testing", "training"]
    names = [f"{word}/{who}_nohash_{n}.wav" for word in ("go", "up") for who in (VALIDATION, TESTING, TRAINING)
             for n in (0, 1)]  # fmt: skip
    decoded = read(folder_of(tmp_path, *names))
    assert decoded.owners == (TRAINING, VALIDATION, TESTING)
    assert (len(decoded.train.targets), len(decoded.test.targets)) == (8, 4)
    assert (set(decoded.train.owner.tolist()), set(decoded.test.owner.tolist())) == ({0, 1}, {2})


def test_a_tenth_of_all_speakers_is_tested_on_and_a_tenth_validated_on() -> None:
    parts = [official_split(f"{number:08x}") for number in range(20_000)]
    # three deviations of such a share are 3 * sqrt(0.1 * 0.9 / 20,000) = 0.0064
    assert parts.count("testing") / 20_000 == pytest.approx(0.1, abs=0.0064)
    assert parts.count("validation") / 20_000 == pytest.approx(0.1, abs=0.0064)


def test_a_list_replaces_the_hash(tmp_path: Path) -> None:
    names = [f"go/{who}_nohash_0.wav" for who in (TESTING, TRAINING)]
    decoded = read(folder_of(tmp_path, *names, lists={"testing": [names[1]]}))
    assert decoded.owners == (TRAINING, TESTING)
    assert (decoded.train.owner.tolist(), decoded.test.owner.tolist()) == ([1], [0])


def test_the_hash_agrees_with_the_official_test_set() -> None:
    with np.load(shared("speech_commands_logmel.npz")) as features:
        official = features["sources"][features["source"]] == "v0.02 canonical test set"
        speakers = features["speaker_ids"][features["speaker"]][official]
    known = [str(speaker) for speaker in speakers if speaker != "none"]
    assert len(known) > 4000
    assert {official_split(speaker) for speaker in known} == {"testing"}


def test_lists_may_name_words_that_are_not_there_but_no_missing_clips_of_those_that_are(tmp_path: Path) -> None:
    more = {"validation": BOTH["validation"], "testing": [*BOTH["testing"], "zero/c3_nohash_0.wav", ""]}
    assert len(read(folder_of(tmp_path, *SIX, lists=more)).test.targets) == 2
    more["testing"].append("yes/d4_nohash_0.wav")
    with pytest.raises(InputError, match=r"testing_list\.txt is not accepted: .*yes/d4_nohash_0\.wav is missing"):
        read(folder_of(tmp_path, lists=more))


@pytest.mark.parametrize(
    "entry",
    ["../yes/a1_nohash_0.wav", "/etc/passwd", "yes/../../a1_nohash_0.wav", "..//a1_nohash_0.wav", "/a1_nohash_0.wav",
     "yes", "yes/tap.wav", "_background_noise_/a1_nohash_0.wav", "./yes/a1_nohash_0.wav", "yes\\a1_nohash_0.wav"],
)  # fmt: skip
def test_entries_that_lead_elsewhere_are_refused_by_name(tmp_path: Path, entry: str) -> None:
    place = folder_of(tmp_path, *SIX, lists={**BOTH, "testing": [*BOTH["testing"], entry]})
    with pytest.raises(InputError) as caught:
        read(place)
    assert f"testing_list.txt is not accepted: expected WORD/SPEAKER_nohash_NUMBER.wav on every line, but one is {entry!r}" in str(caught.value)  # noqa: E501  # fmt: skip


def test_what_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere is not accepted: expected WORD/.* or in speech_commands_v0\.02"):
        find_speech_commands(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"x is not accepted: expected WORD/"):
        find_speech_commands(tmp_path / ("x" * 5000))
    with pytest.raises(InputError, match=r"expected clips named SPEAKER_nohash_NUMBER\.wav, but one is 'tap\.wav'"):
        read(folder_of(tmp_path / "named", "yes/tap.wav"))
    with pytest.raises(InputError, match=r"the 1 clips are 1 to train on and 0 to test on"):
        read(folder_of(tmp_path / "few", f"yes/{TRAINING}_nohash_0.wav"))
    (tmp_path / "named" / "yes" / "tap.wav").unlink()
    (tmp_path / "named" / "yes" / "a1_nohash_0.wav").mkdir()
    with pytest.raises(InputError, match=r"a1_nohash_0\.wav is not accepted: expected a file"):
        read(tmp_path / "named")
    place = folder_of(tmp_path / "bytes", *SIX)
    (place / "testing_list.txt").write_bytes(b"yes/\xff")
    with pytest.raises(InputError, match=r"its byte 4 is not ASCII"):
        read(place)


def test_a_broken_clip_is_named(tmp_path: Path) -> None:
    place = folder_of(tmp_path, *SIX, lists=BOTH)
    (place / SIX[3]).write_bytes(b"RIFF")
    with pytest.raises(InputError, match=r"yes/a1_nohash_0\.wav is not accepted: expected a WAVE file"):
        read(place)


def test_a_pipe_is_refused_not_waited_for(tmp_path: Path) -> None:
    place = folder_of(tmp_path, *SIX)
    os.mkfifo(place / "testing_list.txt")
    with pytest.raises(InputError, match=r"testing_list\.txt is not accepted: expected a file"):
        read(place)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(tmp_path_factory.mktemp("fuzzed"), *SIX, lists=BOTH)


def outcome(place: Path) -> Decoded | str:
    try:
        return read(place)
    except InputError as error:
        return str(error)


@hypothesis_settings(max_examples=60)
@given(st.one_of(st.binary(max_size=60), st.text(max_size=30).map(lambda text: f"{SIX[2]}\n{text}".encode())))
def test_any_list_gives_data_or_a_sentence(fuzzed: Path, content: bytes) -> None:
    (fuzzed / "testing_list.txt").write_bytes(content)
    result = outcome(fuzzed)
    if isinstance(result, str):
        assert " is not accepted: expected " in result
    else:
        assert 1 <= len(result.test.targets) <= 4


def test_the_same_files_give_the_same_bits_and_progress_ends_at_the_end(tmp_path: Path) -> None:
    names = [f"{word}/{who}_nohash_{n}.wav" for word in ("go", "up") for who in (TESTING, TRAINING) for n in range(25)]
    place, calls = folder_of(tmp_path / "one", *names), []
    first = find_speech_commands(place).read(lambda done, total: calls.append((done, total)))
    again = read(folder_of(tmp_path / "other", *names))
    assert np.array_equal(first.train.inputs, again.train.inputs)
    assert np.array_equal(first.train.targets, again.train.targets)
    assert calls[-1] == (100, 100)
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    # neither part begins with all of one word
    assert 5 < first.train.targets[:25].sum() < 20
    assert not np.array_equal(first.train.targets, first.test.targets)


def test_a_giant_list_is_not_read(tmp_path: Path) -> None:
    place = folder_of(tmp_path, *SIX)
    with (place / "testing_list.txt").open("wb") as file:
        file.truncate(2**33)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"at most 33,554,432 bytes, but it has 8,589,934,592"):
            read(place)
        assert tracemalloc.get_traced_memory()[1] < 2**21
    finally:
        tracemalloc.stop()


def test_the_real_clips(tmp_path: Path) -> None:
    with tarfile.open(shared("speech-commands-mini.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    decoded = read(tmp_path / "speech-commands-mini")
    assert decoded.classes == ("bed", "cat", "down", "eight", "five", "go", "happy", "left", "one", "right")
    assert len(decoded.train.targets) + len(decoded.test.targets) == 360
    assert not set(decoded.train.owner.tolist()) & set(decoded.test.owner.tolist())
