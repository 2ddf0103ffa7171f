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

from smofi.data.decoded import DataFiles, Decoded, ReadProgress, every_hundredth, named_split
from smofi.data.outside import listing, read_bytes, read_lines, wrong
from smofi.data.sound import MOST_OF_CLIP, RATE, SOUND_INPUT, Samples, decode_clip, images_of
from smofi.seeds import generator

PLACES = ("", "speech_commands_v0.02", "speech_commands_v0.01", "SpeechCommands/speech_commands_v0.02")
"""Where in the given folder the words may be: at its top, or where unpacking it, or torchaudio, puts them."""

CLIP = re.compile(r"([0-9A-Za-z-]+)_nohash_[0-9]+\.wav")
LIST = "testing_list.txt"
MOST_LIST = 2**25


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
    """Find one-second words, 49 x 40 bytes each, in a folder or the official one in it; owners are the speakers."""
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
    images = images_of(train + test, _samples, RATE, every_hundredth(progress))
    by_word, by_speaker = [clip.word for clip in train + test], [clip.speaker for clip in train + test]
    both = named_split(images, by_word, words, by_speaker, speakers)
    train_split, test_split = both[: len(train)], both[len(train) :]
    return Decoded("image", train_split, test_split, tuple(words), tuple(speakers), raw_input=SOUND_INPUT)


def official_split(speaker: str) -> str:
    """Return the split of a speaker's clips by the official rule: 10 % validation, 10 % testing, the rest training."""
    # the hash of the name, as a percentage
    most = 2**27 - 1
    percent = int(hashlib.sha1(speaker.encode(), usedforsecurity=False).hexdigest(), 16) % (most + 1) * (100 / most)
    return "validation" if percent < 10 else "testing" if percent < 20 else "training"


def _find(folder: Path) -> tuple[Path, list[Clip]]:
    """Find where the words are, and all clips, sorted."""
    for place in (folder / name for name in PLACES):
        words = listing(place)[0] if os.path.isdir(place) else []
        if clips := [clip for word in words for clip in _clips(word)]:
            return place, clips
    wrong(folder, f"WORD/SPEAKER_nohash_NUMBER.wav, in it or in {', '.join(PLACES[1:])}, but there is none")


def _clips(folder: Path) -> Iterator[Clip]:
    if folder.name.startswith("_"):
        return
    for path in listing(folder)[1]:
        if path.suffix == ".wav":
            match = CLIP.fullmatch(path.name)
            if match is None or not folder.name.isprintable():
                wrong(folder, f"clips named SPEAKER_nohash_NUMBER.wav, but one is {path.name!r}")
            yield Clip(path, folder.name, match[1])


def _divided(place: Path, clips: list[Clip]) -> tuple[list[Clip], list[Clip]]:
    """Divide clips into those to train on and those to test on: by the list if there is one, else by the hash."""
    names, words = {clip.name for clip in clips}, {clip.word for clip in clips}
    if os.path.exists(place / LIST):
        listed = _list(place / LIST, names, words)
    else:
        listed = {clip.name for clip in clips if official_split(clip.speaker) == "testing"}
    return [clip for clip in clips if clip.name not in listed], [clip for clip in clips if clip.name in listed]


def _list(path: Path, names: set[str], words: set[str]) -> set[str]:
    """Read which clips a list names. Words without any clip may be listed: the folder may be a part of the data."""
    lines = read_lines(path, MOST_LIST, "WORD/SPEAKER_nohash_NUMBER.wav on every line")
    for line in lines:
        word, _, name = line.partition("/")
        if CLIP.fullmatch(name) is None or word.startswith((".", "_")) or not word:
            wrong(path, f"WORD/SPEAKER_nohash_NUMBER.wav on every line, but one is {line[:200]!r}")
        if line not in names and word in words:
            wrong(path, f"clips that are in the folder, but {line[:200]} is not (without this list, a hash decides)")
    return names & set(lines)


def _samples(clip: Clip) -> Samples:
    return decode_clip(read_bytes(clip.path, MOST_OF_CLIP, "a WAVE file"), clip.path)
