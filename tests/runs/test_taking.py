"""`smofi run --output` takes a new folder, an empty one, or one where a run was ended while it started; no other."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from smofi.cli import main
from smofi.errors import InputError
from smofi.runs import RunFolder, RunWriter, check_free
from support.crash import TINY, TINY_RUN, child, same_end, train
from support.run_folder import write_run


def contents(folder: Path) -> dict[str, bytes | str | None]:
    """All that is below a folder, with links as they are."""
    return {
        path.relative_to(folder).as_posix(): os.readlink(path) if path.is_symlink() else path.read_bytes()
        if path.is_file() else None
        for path in folder.rglob("*")
    }  # fmt: skip


def refusal(output: Path, capsys: pytest.CaptureFixture[str], *methods: str) -> str:
    """What a run says that may not write into a folder."""
    chosen = [word for method in methods or ("fedavg",) for word in ("--method", method)]
    assert main(["run", *TINY_RUN, "--rounds", "1", *chosen, "--output", str(output)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert str(output) in err
    return err


@pytest.mark.parametrize(
    ("name", "content", "methods"),
    [
        ("thesis.txt", b"mine", 1),
        ("manifest.json", b'{"name": "an app", "version": 3}', 1),
        ("config.yaml", b"theme: dark", 1),
        (".lock", b"another program's", 1),
        ("photos/cat.png", b"mine", 1),
        ("fedavg/thesis.txt", b"mine", 2),
        ("fedavg/config.yaml", b"theme: dark", 2),
        ("other/notes.txt", b"mine", 2),
    ],
)
def test_other_peoples_files_are_left_alone(
    name: str, content: bytes, methods: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    before = contents(tmp_path)
    told = refusal(tmp_path, capsys, *("fedavg", "smofi")[:methods])
    assert f"expected a new or an empty folder, but it has {name.split('/')[0]}\n" in told
    assert contents(tmp_path) == before


def test_what_is_no_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("no/such/place")
    before = contents(tmp_path)
    for name, sentence in (
        ("file", "expected a folder, but it is a file"),
        ("link", "expected a folder, but it is a link to nothing"),
        ("file/below", "Not a directory"),
        ("x" * 300, "File name too long"),
    ):
        assert sentence in refusal(tmp_path / name, capsys)
    assert contents(tmp_path) == before


@pytest.fixture
def readable_only() -> Iterator[Path]:
    """A folder that this process may not write; root gives up its rights for it, once all that is needed is loaded."""
    importlib.import_module("smofi.experiment.resuming")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_folder_that_may_not_be_written_is_refused(readable_only: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Permission denied" in refusal(readable_only / "run", capsys)
    assert "Permission denied" in refusal(readable_only, capsys)
    assert contents(readable_only) == {}


def test_a_run_is_not_overwritten_even_without_its_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = write_run(tmp_path / "run", "data: digits")
    assert "it already contains a run" in refusal(tmp_path / "run", capsys)
    writer.write_records([{"round": 1}])
    (tmp_path / "run/config.yaml").unlink()
    before = contents(tmp_path)
    assert "but it has about.json, manifest.json, metrics.jsonl and more" in refusal(tmp_path / "run", capsys)
    assert contents(tmp_path) == before


def test_new_and_empty_folders_are_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked/.lock").write_text(" 123")
    (tmp_path / "served").mkdir()
    (tmp_path / "served/.clients.json.part").write_bytes(b"[")  # by a server that was killed
    for name in ("new", "empty", "link", "locked", "served", "far/below"):
        check_free(tmp_path / name)
    assert main(["run", *TINY_RUN, "--rounds", "1", "--method", "fedavg", "--output", str(tmp_path / "link")]) == 0
    assert RunFolder(tmp_path / "empty").has_model


WRITTEN = ["manifest.json", "partition.safetensors", "about.json", "config.yaml"]


def begun(run: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Begin a run, and end while this file gets its name."""
    replace = os.replace

    def ending(source: Path, target: Path) -> None:
        if target.name == name:
            raise KeyboardInterrupt
        replace(source, target)

    run.mkdir(exist_ok=True)
    owners, labels = np.random.default_rng().integers(2, size=3), np.array([4, 5, 6])
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", ending)
        with pytest.raises(KeyboardInterrupt):
            RunWriter(RunFolder(run)).describe("data: digits", {}, owners, labels)


@pytest.mark.parametrize("first", WRITTEN[1::2])
@pytest.mark.parametrize("second", WRITTEN)
def test_a_start_that_was_cut_off_is_begun_anew(
    first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when that is cut off in turn; but not when a file is somebody's own by then."""
    run = tmp_path / "run"
    for name in (first, second):
        begun(run, monkeypatch, name)
        (run / f".{name}.part").write_bytes(b"half of it")  # as a killed process leaves it
        check_free(run)
    for name in {path.name for path in run.iterdir()} & set(WRITTEN[1:]):
        shutil.copytree(run, tmp_path / name)
        (tmp_path / name / name).write_bytes(b"mine")
        with pytest.raises(InputError, match=rf"but it has {name}$"):
            check_free(tmp_path / name)


@pytest.mark.slow
@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("number", range(1, 5))
def test_a_start_that_was_killed_is_begun_anew(call: str, number: int, tmp_path: Path) -> None:
    """At each write of it, twice."""
    config = TINY.model_copy(update={"rounds": 1})
    for _ in range(2):
        victim = child(tmp_path / "run", config, die_at=(call, number))
        victim.join()
        assert victim.exitcode == -signal.SIGKILL
        assert not (tmp_path / "run/config.yaml").exists()
    train(tmp_path / "run", config)
    train(tmp_path / "straight", config)
    same_end(tmp_path / "run", tmp_path / "straight")
