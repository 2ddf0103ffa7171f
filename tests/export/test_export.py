"""An exported model computes what the trained one does, whole and in parts, in every format."""

import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

import smofi
from smofi import data
from smofi.config import Config
from smofi.errors import InputError
from smofi.export import export_run
from smofi.runs import StoredCheckpoint
from smofi.runs.folder import CHANGED
from support.cards import run_card
from support.kinds import table, untrained_run
from support.run_folder import (
    SETTINGS,
    finished,
    going_on,
    images,
    initial,
    rewritten,
    train,
    unfinished,
    write_comparison,
    write_run,
)

Compute = Callable[[Tensor], Tensor]
WITH_WHOLE = ("preprocessing.json", "predict.py", "read_array.py", "README.md")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Sequential]:
    """A finished run, never changed, and the model it ended with."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    return folder, finished(folder)


def by_torch(path: Path) -> Compute:
    return torch.export.load(path).module()


def by_onnx(path: Path) -> Compute:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(["output"], {"input": x.numpy()})[0])


def same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=1e-4, atol=1e-5)


def about_in(folder: Path) -> Any:
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        return json.loads(file.metadata()["smofi"])


def check_no_places(folder: Path, *others: Path) -> None:
    """No file says where anything was on the machine that wrote it."""
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    with zipfile.ZipFile(folder / "model.pt2") as archive:
        contents |= {name: archive.read(name) for name in archive.namelist()}
    places = [*others, Path(smofi.__file__).parent, Path(torch.__file__).parent, Path.home(), Path.cwd()]
    for place in {str(place).encode() for place in places} - {b"/"} | {b"site-packages", b"stack_trace"}:
        assert not [name for name, content in contents.items() if place in content], place


def test_whole_model_in_every_format(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnx

    trained, out = finished(tmp_path / "run", model="resnet8", norm="batch"), tmp_path / "out"
    done = export_run(tmp_path / "run", out)
    assert capfd.readouterr() == ("", "")
    assert done.files == ("model.safetensors", "model.pt2", "model.onnx", *WITH_WHOLE)
    assert done.notes == ()
    check_no_places(out, tmp_path)
    graph = onnx.load(out / "model.onnx").graph
    for value in (*graph.input, *graph.output):
        first, *others = value.type.tensor_type.shape.dim
        assert first.dim_param == "batch"
        assert all(size.dim_value > 0 for size in others)
    assert sorted(path.name for path in out.iterdir()) == sorted(done.files)
    assert not (tmp_path / ".out.part").exists()

    again = initial(SETTINGS | {"model": "resnet8", "norm": "batch", "seed": 99})
    again.load_state_dict(load_file(out / "model.safetensors"))
    assert torch.export.load(out / "model.pt2").state_dict.keys() == trained.state_dict().keys()
    monkeypatch.chdir(out)
    run_card(["safetensors", "torch", "onnx"])
    for count in (1, 2, 7):
        x = images(count)
        torch.testing.assert_close(again.eval()(x), trained(x), rtol=0, atol=0)
        same(by_torch(out / "model.pt2")(x), trained(x))
        same(by_onnx(out / "model.onnx")(x), trained(x))
    assert not torch.allclose(again.train()(images(5)), trained(images(5)), atol=1e-3)  # running statistics matter


@pytest.mark.parametrize("cut", ["1,2", *(pytest.param(cut, marks=pytest.mark.slow) for cut in ("0", "3", "0,1"))])
def test_client_then_server_is_the_whole_model(
    cut: str, run: tuple[Path, nn.Sequential], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder, trained), u_shaped = run, "," in cut
    client, server = tmp_path / "client", tmp_path / "server"
    for part in (client, server):
        export_run(folder, part, ["safetensors", "torch"], part=part.name, cut=cut)
        monkeypatch.chdir(part)
        run_card(["safetensors", "torch"])
    x = images(5)
    front = by_torch(client / ("front.pt2" if u_shaped else "model.pt2"))(x)
    middle = by_torch(server / "model.pt2")(front)
    same(by_torch(client / "back.pt2")(middle) if u_shaped else middle, trained(x))

    ours, theirs = load_file(client / "model.safetensors"), load_file(server / "model.safetensors")
    assert not ours.keys() & theirs.keys()
    whole = trained.state_dict()
    assert (ours | theirs).keys() == whole.keys()
    assert all(torch.equal(tensor, whole[name]) for name, tensor in (ours | theirs).items())
    blocks = list(dict(trained.named_children()))
    core, _, head = cut.partition(",")
    kept = set(blocks[: int(core) + 1] + (blocks[-int(head) :] if head else []))
    assert {name.partition(".")[0] for name in ours} == kept


def test_several_cuts_need_a_choice(tmp_path: Path) -> None:
    finished(tmp_path / "run", cut="0-2")
    with pytest.raises(InputError, match='cut is one of "0", "1", "2"'):
        export_run(tmp_path / "run", tmp_path / "out", ["safetensors"], part="client")
    export_run(tmp_path / "run", tmp_path / "out", ["safetensors"], part="client", cut=2)
    names = load_file(tmp_path / "out" / "model.safetensors")
    assert {name.partition(".")[0] for name in names} == {"input", "core1", "core2"}


def test_unfinished_run_gives_its_newest_whole_checkpoint(tmp_path: Path) -> None:
    model = unfinished(tmp_path / "run", rounds=[1, 2])
    done = export_run(tmp_path / "run", tmp_path / "out", ["safetensors"])
    assert done.notes == ("the run has not finished: exported its checkpoint after round 2",)
    weights = load_file(tmp_path / "out" / "model.safetensors")
    assert all(torch.equal(weights[name], one) for name, one in model.state_dict().items() if one.is_floating_point())
    assert "had not finished" in (tmp_path / "out" / "README.md").read_text()

    newest = tmp_path / "run" / "checkpoints" / "round-000002.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"\xff")
    done = export_run(tmp_path / "run", tmp_path / "earlier", ["safetensors"])
    assert done.notes == (
        f"{newest} {CHANGED}",
        "the run has not finished: exported its checkpoint after round 1",
    )
    assert load_file(tmp_path / "earlier" / "model.safetensors")["output.linear.weight"].abs().sum() == 0
    (tmp_path / "run" / "checkpoints" / "round-000001.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"no trained model: .*its checkpoints are damaged .*000002.*000001"):
        export_run(tmp_path / "run", tmp_path / "none")


def test_the_best_round_may_be_one_since_the_last_save(tmp_path: Path) -> None:
    unfinished(tmp_path / "run")
    writer = going_on(tmp_path / "run")
    (first,) = train(SETTINGS).history
    writer.append_records([first, replace(first, round=2, accuracy=0.75)])
    best = writer.folder.checkpoint(1)
    writer.save_best(StoredCheckpoint(2, best.tensors, best.notes))
    export_run(tmp_path / "run", tmp_path / "out", ["safetensors"], best=True)
    about = about_in(tmp_path / "out")
    assert (about["round"], about["accuracy"]) == (2, 0.75)


def test_metadata_and_card(run: tuple[Path, nn.Sequential], tmp_path: Path) -> None:
    folder, trained = run
    export_run(folder, tmp_path / "out", ["safetensors"], part="server")
    about = about_in(tmp_path / "out")
    record = json.loads((folder / "metrics.jsonl").read_text())
    assert (about["part"], about["cut"], about["round"]) == ("server", "1", 1)
    assert about["accuracy"] == record["accuracy"]
    assert about["config"] == Config(**SETTINGS).model_dump(mode="json")
    assert about["config"].items() >= SETTINGS.items()

    card = (tmp_path / "out" / "README.md").read_text()
    inside = sum(p.numel() for name, p in trained.named_parameters() if not name.startswith(("input.", "core1.")))
    total = sum(p.numel() for p in trained.parameters())
    for expected in (
        f"{inside:,} of the whole model's {total:,}",
        f"{record['accuracy']:.2%} on the test data of digits",
        "Li et al., Federated Optimization in Heterogeneous Networks",
        "float32 [batch, 8, 8, 8]",
    ):
        assert expected in card


def test_the_card_of_a_table_lists_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "home"))
    kind = table(tmp_path / "flowers")
    untrained_run(kind, tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "out", ["safetensors"])
    card, facts = (tmp_path / "out" / "README.md").read_text(), kind.source().preparation
    assert facts is not None
    mean, deviation = (facts["standardise"][name][0] for name in ("mean", "deviation"))
    for expected in (
        "# mlp on csv:flowers, the whole model",
        f"| weight, g | {mean:.6g} | {deviation:.6g} |\n| b | ",
        "| same | 7 | 1 |",
        "The label was column 'class'",
        "There is no `predict.py`, which would answer for raw input: it needs the model in the format torch or onnx.",
    ):
        assert expected in card
    assert str(tmp_path) not in card
    assert str(tmp_path) not in json.dumps(about_in(tmp_path / "out"))


def test_the_destination_must_be_new_or_empty_and_gets_the_usual_modes(
    run: tuple[Path, nn.Sequential], tmp_path: Path
) -> None:
    folder, out = run[0], tmp_path / "out"
    before = os.umask(0o027)
    try:
        export_run(folder, out, ["safetensors"])
    finally:
        os.umask(before)
    assert stat.S_IMODE(out.stat().st_mode) == 0o750
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()} == {0o640}
    names = sorted(out.iterdir())
    (tmp_path / "file").touch()
    for taken in (out, tmp_path / "file"):
        with pytest.raises(InputError, match="expected a folder that is new or empty"):
            export_run(folder, taken, ["safetensors"])
    assert sorted(out.iterdir()) == names
    with pytest.raises(InputError, match=r"destination=.* is not accepted: Not a directory"):
        export_run(folder, tmp_path / "file" / "below", ["safetensors"])


def test_what_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    finished(folder)
    config, about = (folder / "config.yaml").read_text(), json.loads((folder / "about.json").read_text())
    forged = [("config.yaml", config.replace("width: 8", "width: 4"), "does not fit the model that config.yaml")]
    for task, sentence in (
        (None, "about.json cannot be used: expected the run's task"),
        ({"kind": "image", "input_shape": ["a"]}, "expected the run's task"),
        (about["task"] | {"preparation": {"raw_input": {"kind": "table"}}}, "lacks facts about raw input"),
        (about["task"] | {"preparation": {"raw_input": 7}}, "expected the run's task"),
    ):
        forged.append(("about.json", json.dumps({"task": task}), sentence))
    for name, other, sentence in forged:
        before = (folder / name).read_bytes()
        (folder / name).write_text(other)
        saved = f"{folder / name} is not what the run saved (its checksum differs)"
        with pytest.raises(InputError, match=re.escape(saved)):
            export_run(folder, tmp_path / "out")
        rewritten(folder, name, other.encode())
        with pytest.raises(InputError, match=re.escape(sentence)):
            export_run(folder, tmp_path / "out")
        rewritten(folder, name, before)
        assert not (tmp_path / "out").exists()


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    for name, sentence in (("config.yaml", "is not a run folder"), ("model.safetensors", "Put the original back")):
        finished(tmp_path / name)
        (tmp_path / name / name).unlink()
        with pytest.raises(InputError, match=sentence):
            export_run(tmp_path / name, tmp_path / "out")
    write_run(tmp_path / "run", yaml.safe_dump(SETTINGS), about={"task": data.load("digits").task()})
    with pytest.raises(InputError, match=r"no model\.safetensors and no checkpoint\. Let the run finish"):
        export_run(tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_comparison_names_its_runs(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    for method in ("fedavg", "smofi"):
        finished(tmp_path / "all" / method)
    write_comparison(tmp_path / "all", yaml.safe_dump(SETTINGS | {"method": ["fedavg", "smofi"]}), ["fedavg", "smofi"])
    with pytest.raises(InputError, match=r"compares 2 methods; export one of its runs: .*all/fedavg, .*all/smofi$"):
        export_run(tmp_path / "all", tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"formats": ["onxn"]}, "formats='onxn' is not accepted: .*did you mean 'onnx'"),
        ({"formats": "torch"}, "formats='torch' is not accepted: expected one or more of"),
        ({"formats": []}, r"formats=\[\] is not accepted"),
        ({"part": "servr"}, "part='servr' is not accepted: .*did you mean 'server'"),
        ({"cut": "1"}, "cut='1' is not accepted: the whole model is exported unsplit"),
        ({"part": "client", "cut": "0-2"}, "cut='0-2' is not accepted: expected a single cut"),
        ({"part": "client", "cut": 4}, "cut=4 is not accepted: expected 0 <= L <= 3"),
    ],
)
def test_refused_arguments(
    arguments: dict[str, Any], sentence: str, run: tuple[Path, nn.Sequential], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=sentence):
        export_run(run[0], tmp_path / "out", **arguments)


def test_without_onnx_it_is_left_out_or_refused(
    run: tuple[Path, nn.Sequential], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r'^onnxscript is not installed; .*pip install "smofi\[onnx\]"$'):
        export_run(run[0], tmp_path / "out", ["onnx"])
    done = export_run(run[0], tmp_path / "out")
    assert done.files == ("model.safetensors", "model.pt2", *WITH_WHOLE)
    assert "onnx is left out" in done.notes[0]


PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text()


@pytest.mark.slow
def test_the_page_on_exporting_runs_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 5
    assert not any("smofi" in code for code in blocks[1:])
    (tmp_path / "runs").mkdir()
    finished(tmp_path / "runs" / "first")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits.csv").write_text("".join(",".join(["3"] * 64) + "\n" for _ in range(2)))
    for code in blocks:
        exec(code, {})
    for command in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL):
        done = subprocess.run([sys.executable, *command.split()[1:]], capture_output=True, text=True, check=True)
        header, *rows = done.stdout.splitlines()
        assert f"    {header}\n" in PAGE
        assert [row.split(",")[0] for row in rows] == ["digits.csv[0]", "digits.csv[1]"]
