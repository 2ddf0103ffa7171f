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


def speaker_of(clip: Path) -> str:
    """Return the part of a clip's name that is its speaker."""
    return clip.name.partition("_nohash_")[0]


def name_of(clip: Path) -> str:
    """Return a clip as the lists have it."""
    return f"{clip.parent.name}/{clip.name}"


def find_speech_commands(folder: Path) -> DataFiles:
    """Find one-second words, 49 x 40 bytes each, in a folder or the official one in it; owners are the speakers."""
    for place in (folder / name for name in PLACES):
        words = listing(place)[0] if os.path.isdir(place) else []
        clips = [path for word in words for path in listing(word)[1] if path.suffix == ".wav" and word.name[0] != "_"]
        for clip in clips:
            if CLIP.fullmatch(clip.name) is None or not clip.parent.name.isprintable():
                wrong(clip.parent, f"clips named SPEAKER_nohash_NUMBER.wav, but one is {clip.name!r}")
        if clips:
            paths = [*clips, *([place / LIST] if os.path.isfile(place / LIST) else [])]
            return DataFiles(paths, partial(_read, place, clips))
    wrong(folder, f"WORD/SPEAKER_nohash_NUMBER.wav, in it or in {', '.join(PLACES[1:])}, but there is none")


def _read(place: Path, clips: list[Path], progress: ReadProgress) -> Decoded:
    if os.path.exists(place / LIST):
        listed = _list(place / LIST, clips)
    else:
        listed = {name_of(clip) for clip in clips if official_split(speaker_of(clip)) == "testing"}
    splits = [[clip for clip in clips if (name_of(clip) in listed) == testing] for testing in (False, True)]
    if not all(splits):
        counts = f"{len(splits[0]):,} to train on and {len(splits[1]):,} to test on"
        wrong(place, f"clips to train on and clips to test on, but the {len(clips):,} clips are {counts}")
    order = generator(0, "speech-commands order")
    train, test = ([split[i] for i in order.permutation(len(split))] for split in splits)
    by_word, by_speaker = [clip.parent.name for clip in train + test], [speaker_of(clip) for clip in train + test]
    words, speakers = sorted(set(by_word)), sorted(set(by_speaker))

    def samples(clip: Path) -> Samples:
        return decode_clip(read_bytes(clip, MOST_OF_CLIP, "a WAVE file"), clip)

    images = images_of(train + test, samples, RATE, every_hundredth(progress))
    both = named_split(images, by_word, words, by_speaker, speakers)
    train_split, test_split = both[: len(train)], both[len(train) :]
    return Decoded("image", train_split, test_split, tuple(words), tuple(speakers), raw_input=SOUND_INPUT)


def official_split(speaker: str) -> str:
    """Return the split of a speaker's clips by the official rule: 10 % validation, 10 % testing, the rest training."""
    # the hash of the name, as a percentage
    most = 2**27 - 1
    percent = int(hashlib.sha1(speaker.encode(), usedforsecurity=False).hexdigest(), 16) % (most + 1) * (100 / most)
    return "validation" if percent < 10 else "testing" if percent < 20 else "training"


def _list(path: Path, clips: list[Path]) -> set[str]:
    """Read which clips a list names. Words without any clip may be listed: the folder may be a part of the data."""
    names, words = {name_of(clip) for clip in clips}, {clip.parent.name for clip in clips}
    lines = read_lines(path, MOST_LIST, "WORD/SPEAKER_nohash_NUMBER.wav on every line")
    for line in lines:
        word, _, name = line.partition("/")
        if CLIP.fullmatch(name) is None or word.startswith((".", "_")) or not word:
            wrong(path, f"WORD/SPEAKER_nohash_NUMBER.wav on every line, but one is {line[:200]!r}")
        if line not in names and word in words:
            wrong(path, f"clips that are in the folder, but {line[:200]} is not (without this list, a hash decides)")
    return names & set(lines)
