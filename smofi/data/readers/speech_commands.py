"""Speech Commands: one word a second, as log-mel images. The official folder:

    WORD/SPEAKER_nohash_NUMBER.wav, testing_list.txt, validation_list.txt and _background_noise_ (not read)

The test set is the testing list, the training set all the rest: clips that the authors set apart for validation are
trained on, as in the paper, which counts 94,824 and 11,005 clips. Where there is no list, the rule it was made by
decides: a hash of the speaker.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from smofi.data.decoded import Array, DataFiles, Decoded, ReadProgress, Split
from smofi.data.formats.files import listing, read_bytes, wrong
from smofi.data.formats.sound import BANDS, FRAMES, RATE, SOUND_INPUT, as_bytes, log_mel, one_second, read_wav
from smofi.seeds import generator

PLACES = ("", "speech_commands_v0.02", "speech_commands_v0.01", "SpeechCommands/speech_commands_v0.02")
"""Where in the given folder the words may be: at its top, or where unpacking it, or torchaudio, puts them."""

CLIP = re.compile(r"([0-9A-Za-z-]+)_nohash_[0-9]+\.wav")
LIST = "testing_list.txt"
MOST_LIST = 2**25
AT_ONCE = 32


@dataclass(frozen=True)
class Clip:
    """One recording."""

    path: Path
    word: str
    speaker: str

    @property
    def name(self) -> str:
        """As the lists have it."""
        return f"{self.word}/{self.path.name}"


def find_speech_commands(folder: Path) -> DataFiles:
    """One-second words, 49 x 40 bytes each; owners are the speakers.

    All recordings and the list, in a folder or the official one in it.
    """
    place, clips = _find(folder)
    paths = [*(clip.path for clip in clips), *([place / LIST] if os.path.isfile(place / LIST) else [])]
    return DataFiles(paths, partial(_read, place, clips))


def _read(place: Path, clips: list[Clip], progress: ReadProgress) -> Decoded:
    splits = _divided(place, clips)
    if not all(splits):
        counts = f"{len(splits[0]):,} to train on and {len(splits[1]):,} to test on"
        wrong(place, f"clips to train on and clips to test on, but the {len(clips):,} clips are {counts}")
    order = generator(0, "speech-commands order")
    train, test = ([split[i] for i in order.permutation(len(split))] for split in splits)
    words = sorted({clip.word for clip in clips})
    speakers = sorted({clip.speaker for clip in train + test})
    images = _images(train + test, progress)
    return Decoded(
        "image",
        _split(train, images[: len(train)], words, speakers),
        _split(test, images[len(train) :], words, speakers),
        classes=tuple(words),
        owners=tuple(speakers),
        raw_input=SOUND_INPUT,
    )


def official_split(speaker: str) -> str:
    """The split of all clips of a speaker by the official rule: 10 % validation, 10 % testing, the rest training.

    >>> official_split("012c8314")
    'training'
    """
    # the hash of the name, as a percentage
    most = 2**27 - 1
    percent = int(hashlib.sha1(speaker.encode(), usedforsecurity=False).hexdigest(), 16) % (most + 1) * (100 / most)
    return "validation" if percent < 10 else "testing" if percent < 20 else "training"


def _find(folder: Path) -> tuple[Path, list[Clip]]:
    """Where the words are, and all clips, sorted."""
    for place in (folder / name for name in PLACES):
        words = listing(place)[0] if os.path.isdir(place) else []
        if clips := [clip for word in words for clip in _clips(word)]:
            return place, clips
    wrong(folder, f"WORD/SPEAKER_nohash_NUMBER.wav, in it or in {', '.join(PLACES[1:])}, but there is none")


def _clips(folder: Path) -> Iterator[Clip]:
    if folder.name.startswith("_"):
        return
    folders, files = listing(folder)
    if odd := [path for path in folders if path.suffix == ".wav"]:
        wrong(odd[0], "a file")
    for path in files:
        if path.suffix == ".wav":
            match = CLIP.fullmatch(path.name)
            if match is None or not folder.name.isprintable():
                wrong(folder, f"clips named SPEAKER_nohash_NUMBER.wav, but one is {path.name!r}")
            yield Clip(path, folder.name, match[1])


def _divided(place: Path, clips: list[Clip]) -> tuple[list[Clip], list[Clip]]:
    """The clips to train on and those to test on, by the list if there is one, else by the hash."""
    names, words = {clip.name for clip in clips}, {clip.word for clip in clips}
    if os.path.exists(place / LIST):
        listed = _list(place / LIST, names, words)
    else:
        listed = {clip.name for clip in clips if official_split(clip.speaker) == "testing"}
    return [clip for clip in clips if clip.name not in listed], [clip for clip in clips if clip.name in listed]


def _list(path: Path, names: set[str], words: set[str]) -> set[str]:
    """The clips that a list names. Words without any clip may be listed: the folder may be a subset of the data."""
    if not os.path.isfile(path):
        wrong(path, "a file")
    try:
        lines = read_bytes(path, MOST_LIST, "a list of clips").decode("ascii").split()
    except UnicodeDecodeError as error:
        wrong(path, f"WORD/SPEAKER_nohash_NUMBER.wav on every line, but its byte {error.start:,} is not ASCII")
    for line in lines:
        word, _, name = line.partition("/")
        if CLIP.fullmatch(name) is None or word.startswith((".", "_")) or not word:
            wrong(path, f"WORD/SPEAKER_nohash_NUMBER.wav on every line, but one is {line[:200]!r}")
        if line not in names and word in words:
            wrong(path, f"clips that are in the folder, but {line} is missing (without this file, a hash decides)")
    return names & set(lines)


def _images(clips: list[Clip], progress: ReadProgress) -> Array:
    """The log-mel image of every clip, `[clips, 49, 40, 1]`."""
    images = np.empty((len(clips), FRAMES, BANDS, 1), np.uint8)
    reported = 0
    for begin in range(0, len(clips), AT_ONCE):
        some = clips[begin : begin + AT_ONCE]
        seconds = torch.from_numpy(np.stack([one_second(read_wav(clip.path, RATE)) for clip in some]))
        # in double precision, so that rounding to bytes comes out the same everywhere
        images[begin : begin + len(some), :, :, 0] = as_bytes(log_mel(seconds.double())).numpy()
        done = begin + len(some)
        if done == len(clips) or 100 * (done - reported) >= len(clips):
            reported = done
            progress(done, len(clips))
    return images


def _split(clips: list[Clip], images: Array, words: list[str], speakers: list[str]) -> Split:
    word_number = {word: number for number, word in enumerate(words)}
    speaker_number = {speaker: number for number, speaker in enumerate(speakers)}
    return Split(
        images,
        np.array([word_number[clip.word] for clip in clips], np.int64),
        np.array([speaker_number[clip.speaker] for clip in clips], np.int32),
    )
