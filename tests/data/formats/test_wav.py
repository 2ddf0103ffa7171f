"""WAVE files: what Python's own writer writes is read, and whatever is wrong is refused in a sentence."""

from __future__ import annotations

import io
import struct
import tracemalloc
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from smofi.data.formats.sound import MOST_BYTES, decode_wav, read_steps, read_wav, read_wav_header
from smofi.errors import InputError
from support.sounds import wav, write_wav

HERE = Path("clip.wav")


def form(step: int = 2, bits: int = 16) -> bytes:
    return struct.pack("<HHIIHH", 1, 1, 16_000, 32_000, step, bits)


FORM = form()


def chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def riff(*chunks: bytes) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def written(samples: list[int], channels: int = 1, rate: int = 16_000, width: int = 2) -> bytes:
    memory = io.BytesIO()
    with wave.open(memory, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return memory.getvalue()


def with_form(**changed: int) -> bytes:
    return riff(chunk(b"fmt ", form(**changed)), chunk(b"data", b"1234"))


GOOD = written([0, 1, -1, 32767, -32768])


def test_samples_are_fractions_of_32768(tmp_path: Path) -> None:
    (tmp_path / "clip.wav").write_bytes(GOOD)
    samples = read_wav(tmp_path / "clip.wav", 16_000)
    assert samples.dtype == np.float32
    assert samples.tolist() == [0, 1 / 32768, -1 / 32768, 32767 / 32768, -1]


def test_other_chunks_are_skipped_odd_ones_with_their_padding_and_what_follows_is_ignored() -> None:
    two = struct.pack("<2h", 16384, -16384)
    content = riff(chunk(b"LIST", b"odd"), chunk(b"fmt ", FORM + b"\0\0"), chunk(b"fact", b"1234"), chunk(b"data", two))
    assert decode_wav(content, HERE, 16_000).tolist() == [0.5, -0.5]
    assert decode_wav(content + b"junk", HERE, 16_000).tolist() == [0.5, -0.5]
    behind = riff(chunk(b"fmt ", FORM), chunk(b"data", two), b"half a chunk")
    assert decode_wav(behind, HERE, 16_000).tolist() == [0.5, -0.5]


def test_half_a_sample_at_the_end_is_dropped_padded_or_not() -> None:
    padded = riff(chunk(b"fmt ", FORM), chunk(b"data", struct.pack("<h", 16384) + b"x"))
    bare = riff(chunk(b"fmt ", FORM), chunk(b"data", struct.pack("<h", 16384) + b"x")[:-1])
    assert decode_wav(padded, HERE, 16_000).tolist() == decode_wav(bare, HERE, 16_000).tolist() == [0.5]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", r"a WAVE file of plain samples, but it is not one, or it is damaged \(it ends too early\)"),
        (b"RIFX" + GOOD[4:], r"a WAVE file .* \(file does not start with RIFF id\)"),
        (GOOD[:8] + b"AVI " + GOOD[12:], r"a WAVE file .* \(not a WAVE file\)"),
        (
            written([0, 0], channels=2),
            r"1 channel, 16,000 Hz, 16 bits, 2 bytes a step, but it has format 1, 2 channels",
        ),
        (written([0, 0], rate=8000), r"but it has format 1, 1 channels, 8,000 Hz"),
        (written([0, 0], width=1), r"but it has format 1, 1 channels, 16,000 Hz, 8 bits, 1 bytes a step"),
        (with_form(bits=12), r"but it has format 1, 1 channels, 16,000 Hz, 12 bits, 2 bytes a step"),
        (with_form(bits=9), r"but it has format 1, 1 channels, 16,000 Hz, 9 bits, 2 bytes a step"),
        (with_form(step=4), r"but it has format 1, 1 channels, 16,000 Hz, 16 bits, 4 bytes a step"),
        (riff(chunk(b"fmt ", form(bits=12)), chunk(b"fmt ", FORM), chunk(b"data", b"1234")), r"but it has .*12 bits"),
        (riff(chunk(b"fmt ", b"\3" + FORM[1:]), chunk(b"data", b"1234")), r"but it has format 3, 1 channels"),
        (riff(chunk(b"fmt ", FORM[:14]), chunk(b"data", b"1234")), r"\(it ends too early\)"),
        (riff(chunk(b"fmt ", b"\1\0\0\0" + FORM[4:]), chunk(b"data", b"1234")), r"\(bad # of channels\)"),
        (riff(chunk(b"data", b"1234"), chunk(b"fmt ", FORM)), r"\(data chunk before fmt chunk\)"),
        (riff(chunk(b"fmt ", FORM)), r"\(fmt chunk and/or data chunk missing\)"),
        (riff(chunk(b"fmt ", FORM), b"LIST\xff\xff\xff\xff1234"), r"a WAVE file of plain samples"),
        (riff(chunk(b"fmt ", FORM), chunk(b"data", b"")), r"at least one sample"),
        (riff(chunk(b"fmt ", FORM), b"data\xff\xff\xff\xff1234"), r"2,147,483,647 samples, as its header says.* has 2"),
        (GOOD[:-1], r"expected 5 samples, as its header says, but it has 4"),
    ],
)
def test_what_is_refused(content: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=rf"^clip\.wav is not accepted: .*{sentence}"):
        decode_wav(content, HERE, 16_000)


def outcome(content: bytes) -> np.ndarray | str:
    try:
        return decode_wav(content, HERE, 16_000)
    except InputError as error:
        return str(error)


@hypothesis_settings(max_examples=200)
@given(st.data())
def test_damaged_bytes_give_samples_or_a_sentence(data: st.DataObject) -> None:
    content = bytearray(riff(chunk(b"LIST", b"odd"), chunk(b"fmt ", FORM), chunk(b"data", bytes(range(20)))))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    damaged = bytes(content[: data.draw(st.integers(0, len(content)))])
    result = outcome(damaged)
    if isinstance(result, str):
        assert result.startswith("clip.wav is not accepted: expected ")
    else:
        assert 1 <= len(result) <= len(damaged) // 2
        assert np.abs(result).max() <= 1


def test_an_absurd_header_takes_no_memory_and_a_giant_file_is_not_opened(tmp_path: Path) -> None:
    absurd = b"RIFF\xff\xff\xff\xffWAVE" + chunk(b"fmt ", FORM) + b"data\xff\xff\xff\xff1234"
    (tmp_path / "absurd.wav").write_bytes(absurd)
    with (tmp_path / "giant.wav").open("wb") as file:
        file.truncate(2**33)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"2,147,483,647 samples, as its header says, but it has 2"):
            read_wav(tmp_path / "absurd.wav", 16_000)
        with pytest.raises(InputError, match=rf"at most {MOST_BYTES:,} bytes, but it has 8,589,934,592"):
            read_wav(tmp_path / "giant.wav", 16_000)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------------------------------------------- any other file


@pytest.mark.parametrize(
    ("bits", "floating"), [(8, False), (16, False), (24, False), (32, False), (32, True), (64, True)]
)
@pytest.mark.parametrize("extensible", [False, True])
def test_every_form_gives_the_same_samples(tmp_path: Path, bits: int, floating: bool, extensible: bool) -> None:
    given = np.array([[-1.0, -0.5], [0.25, 0.25], [0.5, 0.0], [0.0, -0.25]])
    path = write_wav(tmp_path / "a.wav", given, 22_050, bits, floating=floating, extensible=extensible)
    header = read_wav_header(path)
    assert (header.rate, header.channels, header.steps) == (22_050, 2, 4)
    assert read_steps(header, 0, 4).tolist() == [-0.75, 0.25, 0.25, -0.125]
    assert read_steps(header, 1, 2).tolist() == [0.25, 0.25]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (wav(np.zeros(4), 500), r"1,000 to 768,000 Hz and at most 256 channels, but it has .* 500 Hz"),
        (wav(np.zeros(4), 900_000), r"1,000 to 768,000 Hz"),
        (
            with_form(bits=12),
            r"samples of 8, 16, 24 or 32 bits, or floating-point ones of 32 or 64, but it has .*12 bits",
        ),
        (with_form(step=4), r"but it has .*16 bits, 4 bytes a step"),
        (with_form(step=0), r"it is damaged \(no bytes a step\)"),
        (wav(np.zeros(4), 8_000)[:-2], r"4 samples, as its header says, but it has 3"),
        (wav(np.zeros(0), 8_000), r"at least one sample, but it has none"),
        (b"OggS" + bytes(100), r"a WAVE file of plain samples, but it is not one"),
        (riff(*[chunk(b"junk", b"")] * 10_001), r"no samples in its first 10,000 chunks"),
    ],
)
def test_what_is_refused_of_any_file(content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "clip.wav").write_bytes(content)
    with pytest.raises(InputError, match=rf"clip\.wav is not accepted: expected .*{sentence}"):
        read_wav_header(tmp_path / "clip.wav")


@hypothesis_settings(max_examples=60)
@given(data=st.data())
def test_damaged_files_of_any_form_give_samples_or_a_sentence(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("wav") / "clip.wav"
    bits, floating = data.draw(st.sampled_from([(8, False), (24, False), (32, True), (64, True)]))
    content = bytearray(wav(np.linspace(-1, 1, 10).reshape(5, 2), 44_100, bits, floating=floating, extensible=True))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    try:
        header = read_wav_header(path)
        assert np.isfinite(read_steps(header, 0, header.steps)).all()
    except InputError as error:
        assert str(error).startswith(f"{path} is not accepted: expected ")  # noqa: PT017


def test_samples_that_are_no_numbers_and_files_that_change_are_refused(tmp_path: Path) -> None:
    for value in (np.nan, np.inf, 1e300):
        header = read_wav_header(write_wav(tmp_path / "a.wav", np.array([0.0, value]), 8_000, 64, floating=True))
        with pytest.raises(InputError, match=r"a\.wav is not accepted: expected .*finite"):
            read_steps(header, 0, 2)
    header = read_wav_header(write_wav(tmp_path / "a.wav", np.zeros(100)))
    write_wav(tmp_path / "a.wav", np.zeros(50))
    with pytest.raises(InputError, match="a recording that does not change while it is read"):
        read_steps(header, 0, 100)


def test_of_a_long_recording_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "long.wav", np.zeros(4))
    content = bytearray(path.read_bytes())
    content[40:44] = struct.pack("<I", 2**31)  # two gigabytes that are there, as a hole
    with path.open("wb") as file:
        file.write(content)
        file.truncate(44 + 2**31)
    tracemalloc.start()
    try:
        header = read_wav_header(path)
        assert header.steps == 2**30
        assert not read_steps(header, 2**29, 16_000).any()
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
