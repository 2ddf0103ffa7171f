"""Data and models of one's own through configurations and runs: what is kept, what is noticed, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smofi import experiment
from smofi.config import Config
from smofi.config.federation import gather
from smofi.data import load
from smofi.errors import InputError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def patients(path: str = "patients.npz", seed: int = 0, **more: Any) -> None:
    """Vectors from five sites, one of which has test samples only."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 4)).astype(np.float32)
    y = np.arange(200) % 2
    site, site_test = np.arange(200) % 4, np.arange(50) % 5
    np.savez(path, **{"x": x, "y": y, "site": site, "x_test": x[:50], "y_test": y[:50], "site_test": site_test, **more})


def config(**changes: Any) -> Config:
    given = {"data": "npz:patients.npz", "model": "mlp", "width": 4, "clients": 4, "method": "smofi", "rounds": 2}
    return Config(**{**given, "batch_size": 8, "participation": 1.0, "local_epochs": 1, **changes})


@pytest.mark.parametrize("partition", ["iid", "dirichlet(1)", "natural"])
def test_all_is_tested_on_unless_owners_are_left_out(partition: str) -> None:
    patients()
    assert len(gather(config(partition=partition)).test) == 50


def test_who_is_left_out_is_not_tested_on() -> None:
    patients()
    federation = gather(config(partition="natural", clients=2))
    assert federation.source.owner is not None
    assert federation.source.test_owner is not None
    chosen = {int(federation.source.owner[part[0]]) for part in federation.indices}
    assert len(chosen) == 2
    assert len(federation.test) == sum(int((federation.source.test_owner == one).sum()) for one in chosen) == 20


def test_a_run_is_resumed_with_its_own_data_only(monkeypatch: pytest.MonkeyPatch) -> None:
    patients()
    (one,) = experiment.start(config(), Path("run"))
    one.train()
    for changed in ({"seed": 1}, {"y": np.arange(200) // 2 % 2}):
        patients(**changed)
        with pytest.raises(InputError, match="run was made with other data"):
            experiment.resume(Path("run"), {"rounds": 3})
    Path("elsewhere").mkdir()
    patients("elsewhere/moved.npz")
    monkeypatch.chdir("elsewhere")  # the run knows its data by an absolute path, and is told of another
    (again,) = experiment.resume(Path("../run"), {"rounds": 3, "data": "npz:moved.npz"})
    assert len(again.train().history) == 3


def test_a_partition_by_file_is_kept_and_still_fits_its_data_only() -> None:
    patients()
    (first,) = experiment.start(config(), Path("first"))
    first.train()
    (second,) = experiment.start(config(partition="file:first", seed=5), Path("second"))
    second.train()
    Path("first").rename("gone")
    (again,) = experiment.resume(Path("second"), {"rounds": 3})
    assert len(again.train().history) == 3
    patients(y=np.arange(200) // 2 % 2)
    with pytest.raises(InputError, match="other labels"):
        gather(config(partition="file:gone"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"model": "resnet8"},
            r"model='resnet8' is not accepted: expected a model for vectors, as in npz:.*: one of mlp",
        ),
        ({"model": "transformer"}, "expected a model for vectors"),
        (
            {"data": "digits"},
            "model='mlp' is not accepted: expected a model for images, as in digits: one of cnn",
        ),
        ({"data": "digits", "model": "vgg11"}, r"model='vgg11' does not fit data='digits': .*--image-size changes it"),
        ({"image_size": 8}, "image_size=8 is not accepted: npz:patients.npz has no images"),
        ({"data": "digits", "model": "cnn", "image_size": 5000}, "image_size=5000 is not accepted: .*<= 1024"),
        ({"data": "npz:none.npz"}, r"expected a path that exists, but there is no /.*none\.npz"),
    ],
)
def test_what_does_not_fit_is_said_by_the_settings(changes: dict[str, Any], sentence: str) -> None:
    patients()
    with pytest.raises(InputError, match=sentence):
        config(**changes).arguments()


def test_an_empty_folder_is_not_a_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(Path("home").absolute()))
    for make in (False, True):
        if make:
            Path("home/cifar100").mkdir(parents=True)
        with pytest.raises(InputError, match=r"Two ways to get cifar100: \(1\) cifar-100-binary.*\(2\) .*--fetch"):
            load("cifar100")
