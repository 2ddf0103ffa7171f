"""Every task of the paper on real files, where they are at hand: load, divide, train a few rounds, learn something.

The files lie beside the project, in `../shared/data`; a test whose files are absent is skipped and says so.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smofi
from real_data import shared
from smofi.config import read_config
from smofi.config.federation import gather
from smofi.data import load


def learned(config_name: str, folder: Path, **changes: Any) -> tuple[float, float]:
    """Best accuracy of a few rounds of SMoFi by a small preset, and the share of the most frequent test class."""
    config = read_config(config_name, {"method": "smofi", "data_folder": str(folder), **changes}, scale="small")
    federation = gather(config)
    labels = federation.test.labels.numpy()
    result = smofi.train(**config.arguments(federation), method="smofi")
    accuracies = [record.accuracy for record in result.history if record.accuracy is not None]
    return max(accuracies), float(np.bincount(labels).max() / len(labels))


@pytest.fixture(scope="module")
def cifar10(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script, folder = shared("get_cifar10.py"), tmp_path_factory.mktemp("cifar")
    done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"CIFAR-10 cannot be made here: {done.stderr.strip().splitlines()[-1:]}")
    return folder


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    for name in ("tiny-imagenet-mini.tar.gz", "speech-commands-mini.tar.gz"):
        with tarfile.open(shared(name)) as archive:
            archive.extractall(folder, filter="data")
    return folder


@pytest.mark.slow
def test_cifar10_whole(cifar10: Path) -> None:
    source = load("cifar10", folder=cifar10)
    assert (len(source.train), len(source.test), source.input_shape) == (50_000, 10_000, (3, 32, 32))
    assert np.bincount(source.train.labels).tolist() == [5000] * 10
    # as published for the training images
    np.testing.assert_allclose(source.train.store.mean.numpy() / 255, [0.4914, 0.4822, 0.4465], atol=5e-5)
    np.testing.assert_allclose(source.train.store.deviation.numpy() / 255, [0.2470, 0.2435, 0.2616], atol=5e-5)
    started = time.perf_counter()
    load("cifar10", folder=cifar10)
    assert time.perf_counter() - started < 1
    best, chance = learned("cifar10", cifar10, rounds=8)
    assert best > chance + 0.15


def test_fashion_mnist_whole() -> None:
    listed = subprocess.run(["dpkg", "-L", "dataset-fashion-mnist"], capture_output=True, text=True, check=False)
    found = [Path(line).parent for line in listed.stdout.splitlines() if "train-images" in line]
    if not found:
        pytest.skip("Debian's dataset-fashion-mnist is not installed")
    folder = found[0]
    source = load("fashion-mnist", folder=folder)
    assert (len(source.train), len(source.test), source.input_shape) == (60_000, 10_000, (1, 28, 28))
    assert np.bincount(source.train.labels).tolist() == [6000] * 10
    best, chance = learned("fashion-mnist", folder, rounds=4, participation=0.1, max_test=1000)
    assert best > chance + 0.3


def test_tiny_imagenet_part(unpacked: Path) -> None:
    folder = unpacked / "tiny-imagenet-mini"
    source = load("tiny-imagenet", folder=folder)
    assert (len(source.train), len(source.test), source.classes) == (1200, 300, 20)
    changes = dict(image_size=16, clients=10, participation=0.5, batch_size=16, partition="dirichlet(1)", rounds=12)
    best, chance = learned("tiny-imagenet", folder, **changes)
    assert best > 2 * chance


def test_speech_commands_wavs(unpacked: Path) -> None:
    folder = unpacked / "speech-commands-mini"
    clips = sorted(f"{path.parent.name}/{path.name}" for path in folder.glob("*/*.wav"))
    speakers = sorted({clip.split("/")[1].split("_")[0] for clip in clips})
    tested = [clip for clip in clips if clip.split("/")[1].split("_")[0] in speakers[::5]]
    (folder / "testing_list.txt").write_text("\n".join(tested))  # the official one has hardly any of these speakers
    source = load("speech-commands", folder=folder)
    assert source.input_shape == (1, 49, 40)
    assert source.classes == 10
    assert (len(source.train), len(source.test)) == (360 - len(tested), len(tested))
    changes = dict(clients=8, participation=0.5, batch_size=8, partition="dirichlet(1)", rounds=10, width=8)
    best, chance = learned("speech-commands", folder, **changes)
    assert best > chance + 0.1


def test_speech_commands_features(tmp_path: Path) -> None:
    with np.load(shared("speech_commands_logmel.npz")) as features:
        x, y, speaker = (features[name] for name in ("x", "y", "speaker"))
    heard = np.flatnonzero(np.isin(y, np.flatnonzero(np.bincount(y[speaker < 1838]) > 300)) & (speaker < 1838))
    x, y, speaker = x[heard], y[heard], speaker[heard]
    tested = speaker % 5 == 0  # by speaker: nobody is in both parts
    path = tmp_path / "words.npz"
    np.savez(path, x=x[~tested], y=y[~tested], speaker=speaker[~tested], x_test=x[tested], y_test=y[tested])
    assert load(f"npz:{path}").owner is not None
    changes = dict(data=f"npz:{path}", rounds=8, clients=40, width=8, max_train=3000, max_test=1000)
    best, chance = learned("speech-commands", None, **{**changes, "data_folder": None})  # type: ignore[arg-type]
    assert best > chance + 0.1


def test_shakespeare_roles(tmp_path: Path) -> None:
    content = gzip.decompress(shared("shakespeare_roles.json.gz").read_bytes())
    (tmp_path / "roles.json").write_bytes(content)
    source = load("shakespeare", folder=tmp_path)
    assert source.classes == 80
    assert source.input_shape == (80,)
    assert len(source.owners) > 1000
    best, chance = learned("shakespeare", tmp_path, rounds=4, clients=20, max_test=500)
    assert best > max(chance, 1 / 80) + 0.02
