"""Random damages over all files of the cache: what is loaded is right each time, or refused in a sentence."""

from __future__ import annotations

import os
import random
import shutil
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from smofi.data import Source, cache, load
from smofi.data.cache import CHECKED, with_moments
from smofi.data.loading import FROM_HUB
from smofi.engine.cohort.measurements import StepTimes, measured_before
from smofi.errors import CacheWarning, InputError
from support.pets import flip, keeping_its_time, pets

DAMAGES = 400
TIMES, OTHER_TIMES = StepTimes(0.25, 0.5, 0.75), StepTimes(1.0, 2.0, 3.0)


def make_data() -> None:
    rng = np.random.default_rng(0)
    # an uint8 array of more than SMALL bytes, so that it is trusted while it looks as it did
    images = rng.integers(0, 256, (5400, 64, 64), dtype=np.uint8)
    np.savez("large.npz", x=images, y=np.arange(5400) % 7, site=np.arange(5400) % 5)
    lines = ["a,b,site,label", *(f"{k / 7},{k % 11},{k % 3},{k % 2}" for k in range(60))]
    Path("table.csv").write_text("\n".join(lines))
    Path("shakespeare").mkdir()
    for name in ("HAMLET_OPHELIA", "HAMLET_GHOST"):
        Path("shakespeare", f"{name}.txt").write_text("To be, or not to be: that is the question. " * 40)


def load_all() -> list[Source]:
    return [
        load("npz:large.npz"),
        load("npz:large.npz", image_size=8),
        load("csv:table.csv"),
        load("shakespeare", folder="shakespeare"),
        load("cifar10"),
    ]


def content(source: Source) -> list[torch.Tensor]:
    found = [tensor for samples in (source.train, source.test) for tensor in samples.tensors()]
    return found + [torch.from_numpy(owner) for owner in (source.owner, source.test_owner) if owner is not None]


def damage(path: Path, others: list[Path], draw: random.Random) -> str:
    """Damage a file in some way; what was done."""
    way = draw.choice(["bits", "bits, time kept", "zeros", "zeros, time kept", "cut", "more", "gone", "swapped"])
    size = path.stat().st_size
    if way.startswith("bits"):
        position = draw.randrange(8 * size)
        keeping_its_time(path, flip(position)) if "kept" in way else path.write_bytes(flip(position)(path.read_bytes()))
    elif way.startswith("zeros"):
        begin = draw.randrange(size)
        before = path.stat()
        with open(path, "r+b") as file:
            file.seek(begin)
            file.write(bytes(draw.randint(1, size - begin)))
        if "kept" in way:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif way == "cut":
        os.truncate(path, draw.randrange(size))
    elif way == "more":
        with open(path, "ab") as file:
            file.write(draw.randbytes(draw.randint(1, 5000)))
    elif way == "gone":
        path.unlink()
    else:
        other = draw.choice([one for one in others if one != path])
        away = path.with_name("away")
        path.rename(away)
        other.rename(path)
        away.rename(other)
    return way


def load_all_or_fetch_again() -> tuple[list[list[torch.Tensor]], str]:
    """What is in all data sets, and what was said of damage."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found, refusal = [content(source) for source in load_all()], ""
        except InputError as error:
            refusal = str(error)
            assert refusal.endswith("fetch it again with: smofi data cifar10 --fetch")
            cache.store("cifar10", FROM_HUB, FROM_HUB, with_moments(pets()))
            found = [content(source) for source in load_all()]
    assert {warning.category for warning in said} <= {CacheWarning}
    return found, refusal or " ".join(str(warning.message) for warning in said)


def must_be_said(path: Path, before: bytes) -> bool:
    """Whether a file of a data set has changed, other than the note of what need not be read."""
    changed = not path.is_file() or path.read_bytes() != before
    return changed and "decoded" in path.parts and path.name != CHECKED


@pytest.mark.slow
def test_random_damages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMOFI_DATA", str(home))
    monkeypatch.setattr(cache, "SETTLED", 10**7)  # files are younger here than a user's would be
    make_data()
    cache.store("cifar10", FROM_HUB, FROM_HUB, with_moments(pets()))
    right, _ = load_all_or_fetch_again()
    measured_before("a cnn", lambda: TIMES)
    assert list(home.rglob(CHECKED))

    draw, counts = random.Random(0), Counter[str]()
    for _ in range(DAMAGES):
        files = sorted(path for path in home.rglob("*") if path.is_file())
        before, path = {path: path.read_bytes() for path in files}, draw.choice(files)
        way = damage(path, files, draw)
        silent = not any(must_be_said(*one) for one in before.items())
        measured_again = any(
            one.parent.name == "measured" and (not one.is_file() or one.read_bytes() != content)
            for one, content in before.items()
        )
        found, said = load_all_or_fetch_again()
        assert all(torch.equal(*pair) for one in zip(right, found, strict=True) for pair in zip(*one, strict=True)), way
        assert silent == (not said), (way, path, said)
        assert measured_before("a cnn", lambda: OTHER_TIMES) == (OTHER_TIMES if measured_again else TIMES)
        if measured_again:
            shutil.rmtree(home / "measured")
            measured_before("a cnn", lambda: TIMES)
        outcome = "refused" if "fetch" in said else "made anew" if said or measured_again else "nothing lost"
        counts[outcome] += 1
    assert not list(home.rglob(".unfinished*"))
    assert counts["made anew"] + counts["refused"] > 0.9 * DAMAGES, counts
