"""predict.py answers as the run did, in an environment in which smofi is not installed."""

import csv
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from smofi import cli
from smofi.export import export_run, standalone
from smofi.export.trained import read_run
from support.cards import run_card
from support.elsewhere import environment
from support.kinds import KINDS, Kind, table, untrained_run

PACKAGES = {"onnx": ("numpy", "pillow", "onnxruntime"), "torch": ("numpy", "pillow", "torch")}
ABSENT = {"onnx": ("smofi", "torch", "safetensors"), "torch": ("smofi", "onnxruntime", "safetensors")}

DRIVER = """
import contextlib, io, json, runpy, sys
for name in sys.argv[2:]:
    try:
        __import__(name)
        sys.exit(name + " is installed")
    except ImportError:
        pass
answers = []
for program, *arguments in json.loads(sys.argv[1]):
    sys.argv = [program, *arguments]
    output, code = io.StringIO(), None
    with contextlib.redirect_stdout(output):
        try:
            runpy.run_path(program, run_name="__main__")
        except SystemExit as end:
            code = end.code
    answers.append([output.getvalue(), code])
print(json.dumps(answers))
"""


def elsewhere(folder: Path, runtime: str, calls: list[list[str]]) -> list[tuple[str, str | int | None]]:
    """What programs print, and how each ends, in one process of an environment of its own."""
    folder.mkdir()
    python = environment(folder / "environment", PACKAGES[runtime])
    command = [str(python), "-I", "-c", DRIVER, json.dumps(calls), *ABSENT[runtime]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [tuple(one) for one in json.loads(done.stdout.splitlines()[-1])]


def check_answers(text: str, kind: Kind, run: Path, accuracy: float) -> None:
    """The classes are right as often as the run recorded, and the probabilities are those of the run's model."""
    header, *rows = csv.reader(text.splitlines())
    source = kind.source()
    assert header == ["input", "class", "probability", *source.class_names]
    found = np.mean([row[1] == label for row, label in zip(rows, kind.labels, strict=True)])
    assert found == pytest.approx(accuracy, abs=1e-6)
    expected = torch.softmax(read_run(run).model(source.test.tensors()[0]).detach(), dim=1).numpy()
    given = np.array([row[3:] for row in rows], float)
    for ours, theirs in zip(np.sort(expected, axis=0).T, np.sort(given, axis=0).T, strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-5)
    assert all(float(row[2]) == max(map(float, row[3:])) for row in rows)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "home"))


@pytest.mark.slow
def test_a_run_answers_for_rows_as_well_as_it_was_measured_without_smofi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = table(tmp_path / "table")
    run, out = tmp_path / "run", tmp_path / "out"
    settings = "--model mlp --clients 2 --partition iid --participation 1 --rounds 3 --method fedavg --local-epochs 2"
    assert cli.main(["run", "--data", kind.data, "--output", str(run), *settings.split()]) == 0
    assert cli.main(["export", str(run), str(out), "--format", "onnx"]) == 0
    recorded = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["accuracy"]
    assert recorded > 0.8
    monkeypatch.chdir(out)
    run_card(["onnx"])
    (tmp_path / "bad.csv").write_text("b,same\n1,2\n")
    program, bad = str(out / "predict.py"), str(tmp_path / "bad.csv")
    calls = [["--all", *kind.inputs], ["--help"], [bad], ["none.csv"], [], ["--runtime", "torch", "x"]]
    answers, help_, *refused = elsewhere(tmp_path / "there", "onnx", [[program, *call] for call in calls])
    assert answers[1] is None
    check_answers(answers[0], kind, run, recorded)
    assert help_[1] == 0
    assert "CSV files whose first line names the columns" in " ".join(help_[0].split())
    assert [one[1] for one in refused] == [
        f"predict.py: {bad}: expected a column 'weight, g' in the first line, but it has 'b', 'same'",
        "predict.py: none.csv: No such file or directory",
        "predict.py: there is nothing to classify; python predict.py --help says what it takes",
        f"predict.py: --runtime torch needs model.pt2, which is not in {out}",
    ]


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    python = environment(tmp_path / "environment", ["numpy"])
    for name in ("predict.py", "read_table.py", "read_picture.py"):
        shutil.copyfile(Path(standalone.__file__).parent / name, folder / name)
    (folder / "rows.csv").write_text("a\n1\n")

    def refused(kind: str) -> str:
        facts = {"raw_input": {"kind": kind, "columns": ["a"]}, "classes": []}
        (folder / "preprocessing.json").write_text(json.dumps(facts))
        done = subprocess.run([python, "predict.py", "rows.csv"], cwd=folder, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr.strip()

    assert refused("picture") == "predict.py needs PIL: pip install pillow"
    assert refused("table") == f"predict.py: expected model.onnx or model.pt2 in {folder}, but there is neither"
    (folder / "model.onnx").touch()
    assert refused("table") == "predict.py: onnxruntime (for model.onnx) is not installed: pip install onnxruntime"


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnx", "torch"])
def test_every_kind_of_data_without_smofi(runtime: str, tmp_path: Path) -> None:
    kinds = {name: make(tmp_path / name) for name, make in KINDS.items()}
    accuracy = {name: untrained_run(kind, tmp_path / f"run-{name}") for name, kind in kinds.items()}
    for name in kinds:
        assert export_run(tmp_path / f"run-{name}", tmp_path / f"out-{name}", [runtime]).notes == ()
    calls = [[str(tmp_path / f"out-{name}" / "predict.py"), "--all", *kind.inputs] for name, kind in kinds.items()]
    answers = elsewhere(tmp_path / "there", runtime, calls)
    for (name, kind), (text, code) in zip(kinds.items(), answers, strict=True):
        assert code is None, (name, code)
        check_answers(text, kind, tmp_path / f"run-{name}", accuracy[name])


def test_a_folder_from_before_is_exported_without_predict(tmp_path: Path) -> None:
    kind = table(tmp_path / "table")
    untrained_run(kind, tmp_path / "run", known=False)
    done = export_run(tmp_path / "run", tmp_path / "out", ["torch"])
    assert done.notes == ("predict.py is left out: the run folder does not say how raw input was prepared",)
    assert done.files == ("model.pt2", "preprocessing.json", "README.md")
    facts = json.loads((tmp_path / "out" / "preprocessing.json").read_text())
    assert facts["raw_input"] is None
    assert facts["classes"] == ["lily", "rose"]
    assert facts["standardise"]["mean"][2] == 7
    card = (tmp_path / "out" / "README.md").read_text()
    assert "How raw input was prepared is not known in full" in card
    assert "There is no `predict.py`" in card
