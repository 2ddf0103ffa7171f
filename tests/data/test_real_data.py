"""Every task of the paper on real files, where they are at hand: load, divide, train a few rounds, learn something.

The files lie beside the project, in `../shared/data`; a test whose files are absent is skipped and says so. What takes
long is marked slow: `make slow`.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smofi
from smofi.config import Config, read_config
from smofi.config.federation import Federation, gather
from smofi.data import load
from smofi.data.speech_commands import official_split
from support.real_data import shared


def learned(preset: str, folder: Path | None, **changes: Any) -> float:
    """How far the best accuracy of some rounds of SMoFi, by a small preset, is above always saying the same class."""
    given = {"method": "smofi", "data_folder": folder and str(folder), **changes}
    config = read_config(preset, given, scale="small")
    federation = gather(config)
    labels = federation.test.labels.numpy()
    result = smofi.train(**config.arguments(federation), method="smofi")
    best = max(record.accuracy for record in result.history if record.accuracy is not None)
    return float(best - np.bincount(labels).max() / len(labels))


def mean_steps(config: Config, federation: Federation) -> float:
    """T_j = E floor(|D_j| / B), its mean over the clients."""
    return float(np.mean([config.local_epochs * (len(part) // config.batch_size) for part in federation.indices]))


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


@pytest.fixture(scope="module")
def fashion_mnist() -> Path:
    listed = subprocess.run(["dpkg", "-L", "dataset-fashion-mnist"], capture_output=True, text=True, check=False)
    found = [Path(line).parent for line in listed.stdout.splitlines() if "train-images" in line]
    if not found:
        pytest.skip("Debian's dataset-fashion-mnist is not installed")
    return found[0]


@pytest.fixture(scope="module")
def tiny_imagenet(unpacked: Path) -> Path:
    return unpacked / "tiny-imagenet-mini"


@pytest.fixture(scope="module")
def speech_commands(unpacked: Path) -> Path:
    """With a testing list of our own, for the official rule puts one of these 360 clips into the test."""
    folder = unpacked / "speech-commands-mini"
    clips = sorted(f"{path.parent.name}/{path.name}" for path in folder.glob("*/*.wav"))
    speakers = sorted({clip.split("/")[1].split("_")[0] for clip in clips})
    tested = [clip for clip in clips if clip.split("/")[1].split("_")[0] in speakers[::5]]
    (folder / "testing_list.txt").write_text("\n".join(tested))
    return folder


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Log-mel spectrograms in an npz of x, y and speaker: words that are in the training and in the test source, and
    to test on, the speakers whom the official rule sets apart."""
    with np.load(shared("speech_commands_logmel.npz")) as content:
        x, y, speaker, source = (content[name] for name in ("x", "y", "speaker", "source"))
        names = content["speaker_ids"]
    both = np.intersect1d(y[source < 2], y[source == 2])
    kept = np.flatnonzero(np.isin(y, both) & (names[speaker] != "none"))
    kept = np.random.default_rng(0).permutation(kept)  # of which max_train takes the first
    x, y, speaker = x[kept], y[kept], names[speaker[kept]]
    tested = np.array([official_split(name) == "testing" for name in speaker])
    path = tmp_path_factory.mktemp("features") / "words.npz"
    np.savez(path, x=x[~tested], y=y[~tested], speaker=speaker[~tested], x_test=x[tested], y_test=y[tested])
    return f"npz:{path}"


@pytest.fixture(scope="module")
def shakespeare() -> Path:
    return shared("shakespeare_roles.json.gz")


def test_fashion_mnist_is_read_whole(fashion_mnist: Path) -> None:
    source = load("fashion-mnist", folder=fashion_mnist)
    assert (len(source.train), len(source.test), source.input_shape) == (60_000, 10_000, (1, 28, 28))
    assert np.bincount(source.train.labels.numpy()).tolist() == [6000] * 10


@pytest.mark.slow
def test_fashion_mnist_is_learned(fashion_mnist: Path) -> None:
    assert learned("fashion-mnist", fashion_mnist, rounds=3, participation=0.1, max_test=500) > 0.2


def test_tiny_imagenet_is_read(tiny_imagenet: Path) -> None:
    source = load("tiny-imagenet", folder=tiny_imagenet)
    assert (len(source.train), len(source.test), source.classes) == (1200, 300, 20)
    assert np.bincount(source.train.labels.numpy()).tolist() == [60] * 20


def test_speech_commands_are_read_from_wavs(speech_commands: Path) -> None:
    source = load("speech-commands", folder=speech_commands)
    assert (source.input_shape, source.classes, len(source.train) + len(source.test)) == ((1, 49, 40), 10, 360)


def test_shakespeare_is_read_by_role(shakespeare: Path) -> None:
    config = read_config("shakespeare", {"data_folder": str(shakespeare)}, scale="small")
    federation = gather(config)
    source = federation.source
    assert (source.input_shape, source.classes, len(source.owners)) == ((80,), 80, 1259)
    assert source.owner is not None
    for part in federation.indices:
        assert len(set(source.owner[part].tolist())) == 1
        assert 8 <= len(part) <= 80
    assert mean_steps(config, federation) == pytest.approx(47, abs=1)  # what SlowMo and FedNAG take in this preset


@pytest.mark.slow
def test_cifar10_is_read_whole_and_learned(cifar10: Path) -> None:
    source = load("cifar10", folder=cifar10)
    assert (len(source.train), len(source.test), source.input_shape) == (50_000, 10_000, (3, 32, 32))
    assert np.bincount(source.train.labels.numpy()).tolist() == [5000] * 10
    # as published for the training images
    mean, deviation = source.train.store.mean, source.train.store.deviation
    assert mean is not None
    assert deviation is not None
    np.testing.assert_allclose(mean.numpy() / 255, [0.4914, 0.4822, 0.4465], atol=5e-5)
    np.testing.assert_allclose(deviation.numpy() / 255, [0.2470, 0.2435, 0.2616], atol=5e-5)
    assert learned("cifar10", cifar10, rounds=10) > 0.15


@pytest.mark.slow
def test_tiny_imagenet_is_learned(tiny_imagenet: Path) -> None:
    changes = dict(image_size=16, clients=10, participation=0.5, batch_size=16, partition="dirichlet(1)", rounds=20)
    assert learned("tiny-imagenet", tiny_imagenet, **changes) > 0.05


@pytest.mark.slow
def test_speech_commands_are_learned_from_wavs(speech_commands: Path) -> None:
    changes = dict(clients=8, participation=0.5, batch_size=8, partition="dirichlet(1)", rounds=15, width=8)
    assert learned("speech-commands", speech_commands, **changes) > 0.1


def test_speech_commands_are_read_from_features(features: str) -> None:
    source = load(features)
    assert (len(source.train), len(source.test), source.classes) == (9637, 2628, 12)
    assert source.owner is not None
    assert set(source.train.labels.tolist()) == set(source.test.labels.tolist())
    config = read_config("speech-commands", {"data": features}, scale="small")
    assert round(mean_steps(config, gather(config))) == 14  # what SlowMo and FedNAG take in this preset


@pytest.mark.slow
def test_speech_commands_are_learned_from_features(features: str) -> None:
    assert learned("speech-commands", None, data=features, rounds=12) > 0.1


@pytest.mark.slow
def test_shakespeare_is_learned(shakespeare: Path) -> None:
    assert learned("shakespeare", shakespeare, rounds=15) > 0.03
