"""An exported model computes what the trained one does, whole and in parts, in every format."""

import json
import os
import stat
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
CUTS = ["0", "1", "3", "0,1", "1,2"]


def by_torch(path: Path) -> Compute:
    return torch.export.load(path).module()


def by_onnx(path: Path) -> Compute:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(["output"], {"input": x.numpy()})[0])


WITH_WHOLE = ("preprocessing.json", "predict.py", "read_array.py", "README.md")
LOADERS = {"torch": ("pt2", by_torch), "onnx": ("onnx", by_onnx)}


def same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=1e-4, atol=1e-5)


def check_no_places(folder: Path, *others: Path) -> None:
    """No file says where anything was on the machine that wrote it."""
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    with zipfile.ZipFile(folder / "model.pt2") as archive:
        contents |= {name: archive.read(name) for name in archive.namelist()}
    places = [*others, Path(smofi.__file__).parent, Path(torch.__file__).parent, Path.home(), Path.cwd()]
    for place in {str(place).encode() for place in places} - {b"/"} | {b"site-packages", b"stack_trace"}:
        assert not [name for name, content in contents.items() if place in content], place


def check_batch_is_named(path: Path) -> None:
    import onnx

    graph = onnx.load(path).graph
    for value in (*graph.input, *graph.output):
        first, *rest = value.type.tensor_type.shape.dim
        assert first.dim_param == "batch"
        assert all(size.dim_value > 0 for size in rest)


@pytest.mark.parametrize(
    ("model", "norm"), [("resnet8", "batch"), ("cnn", None), pytest.param("resnet8", "group", marks=pytest.mark.slow)]
)
def test_whole_model_in_every_format(
    model: str,
    norm: str | None,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained = finished(tmp_path / "run", model=model, norm=norm)
    done = export_run(tmp_path / "run", tmp_path / "out")
    assert capfd.readouterr() == ("", "")
    assert done.files == ("model.safetensors", "model.pt2", "model.onnx", *WITH_WHOLE)
    assert done.notes == ()
    check_no_places(tmp_path / "out", tmp_path)
    check_batch_is_named(tmp_path / "out" / "model.onnx")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(done.files)
    assert not (tmp_path / ".out.part").exists()

    again = initial(SETTINGS | {"model": model, "norm": norm, "seed": 99})
    again.load_state_dict(load_file(tmp_path / "out" / "model.safetensors"))
    monkeypatch.chdir(tmp_path / "out")
    run_card(["safetensors", "torch", "onnx"])
    for count in (1, 2, 7):
        x = images(count)
        torch.testing.assert_close(again.eval()(x), trained(x), rtol=0, atol=0)
        for ending, load in LOADERS.values():
            same(load(tmp_path / "out" / f"model.{ending}")(x), trained(x))


def test_trained_statistics_are_exported(tmp_path: Path) -> None:
    """Otherwise the tests of BatchNorm here would prove nothing."""
    trained = finished(tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "out", ["torch"])
    trained.train()
    assert not torch.allclose(by_torch(tmp_path / "out" / "model.pt2")(images(5)), trained(images(5)), atol=1e-3)


@pytest.mark.parametrize(
    "cut", ["1", "1,2", *(pytest.param(cut, marks=pytest.mark.slow) for cut in CUTS if cut not in ("1", "1,2"))]
)
def test_client_then_server_is_the_whole_model(cut: str, tmp_path: Path) -> None:
    trained, u_shaped = finished(tmp_path / "run"), "," in cut
    client, server = tmp_path / "client", tmp_path / "server"
    for part in (client, server):
        export_run(tmp_path / "run", part, ["safetensors", "torch"], part=part.name, cut=cut)

    x = images(5)
    front = by_torch(client / ("front.pt2" if u_shaped else "model.pt2"))(x)
    middle = by_torch(server / "model.pt2")(front)
    outputs = by_torch(client / "back.pt2")(middle) if u_shaped else middle
    same(outputs, trained(x))

    ours, theirs = load_file(client / "model.safetensors"), load_file(server / "model.safetensors")
    assert not ours.keys() & theirs.keys()
    whole = trained.state_dict()
    assert (ours | theirs).keys() == whole.keys()
    assert all(torch.equal(tensor, whole[name]) for name, tensor in (ours | theirs).items())
    blocks = list(dict(trained.named_children()))
    core, _, head = cut.partition(",")
    kept = set(blocks[: int(core) + 1] + (blocks[-int(head) :] if head else []))
    assert {name.partition(".")[0] for name in ours} == kept


@pytest.mark.slow
def test_parts_in_onnx(tmp_path: Path) -> None:
    trained = finished(tmp_path / "run", cut="1,1")
    for part in ("client", "server"):
        export_run(tmp_path / "run", tmp_path / part, ["onnx"], part=part)
    client, server = tmp_path / "client", tmp_path / "server"
    x = images(3)
    same(by_onnx(client / "back.onnx")(by_onnx(server / "model.onnx")(by_onnx(client / "front.onnx")(x))), trained(x))


@pytest.mark.parametrize("cut", ["0-2", [0, 1, 1, 2], "[0,1,1,2]"])
def test_several_cuts_need_a_choice(cut: Any, tmp_path: Path) -> None:
    finished(tmp_path / "run", cut=cut)
    with pytest.raises(InputError, match='cut is one of "0", "1", "2"'):
        export_run(tmp_path / "run", tmp_path / "out", ["safetensors"], part="client")
    assert not (tmp_path / "out").exists()
    export_run(tmp_path / "run", tmp_path / "out", ["safetensors"], part="client", cut=2)
    names = load_file(tmp_path / "out" / "model.safetensors")
    assert {name.partition(".")[0] for name in names} == {"input", "core1", "core2"}
    export_run(tmp_path / "run", tmp_path / "whole", ["safetensors"])


def test_unfinished_run_gives_its_newest_whole_checkpoint(tmp_path: Path) -> None:
    model = unfinished(tmp_path / "run", rounds=[1, 2])
    done = export_run(tmp_path / "run", tmp_path / "out", ["torch"])
    assert done.notes == ("the run has not finished: exported its checkpoint after round 2",)
    same(by_torch(tmp_path / "out" / "model.pt2")(images(4)), model(images(4)))
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
    with safe_open(tmp_path / "out" / "model.safetensors", framework="pt") as file:
        about = json.loads(file.metadata()["smofi"])
    assert (about["round"], about["accuracy"]) == (2, 0.75)


def test_metadata_and_card(tmp_path: Path) -> None:
    trained = finished(tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "out", ["safetensors", "torch"], part="server")
    with safe_open(tmp_path / "out" / "model.safetensors", framework="pt") as file:
        about = json.loads(file.metadata()["smofi"])
    record = json.loads((tmp_path / "run" / "metrics.jsonl").read_text())
    assert (about["part"], about["cut"], about["round"]) == ("server", "1", 1)
    assert about["accuracy"] == record["accuracy"]
    assert about["config"] == Config(**SETTINGS).model_dump(mode="json")
    assert about["config"].items() >= SETTINGS.items()

    card = (tmp_path / "out" / "README.md").read_text()
    inside = sum(p.numel() for name, p in trained.named_parameters() if not name.startswith(("input.", "core1.")))
    total = sum(p.numel() for p in trained.parameters())
    for expected in (
        "license:  # yours to choose",
        f"{inside:,} of the whole model's {total:,}",
        f"{record['accuracy']:.2%} on the test data of digits",
        "`fedprox(mu=0.01)+smofi`",
        "Li et al., Federated Optimization in Heterogeneous Networks",
        "yang2026smofi",
        "not differentially private",
        "float32 [batch, 8, 8, 8]",
        "This part takes what the client's part computes",
    ):
        assert expected in card


def test_how_the_card_says_to_load_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(tmp_path / "run", cut="1,1")
    monkeypatch.chdir(tmp_path)
    for formats in (["torch"], ["safetensors"], ["torch", "safetensors"]):
        folder = tmp_path / "-".join(formats)
        export_run(tmp_path / "run", folder, formats, part="client")
        monkeypatch.chdir(folder)
        run_card(formats)


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
    with safe_open(tmp_path / "out" / "model.safetensors", framework="pt") as file:
        assert str(tmp_path) not in file.metadata()["smofi"]


def test_files_are_as_open_as_any_that_are_written(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    for mask, of_file, of_folder in ((0o022, 0o644, 0o755), (0o027, 0o640, 0o750)):
        before = os.umask(mask)
        try:
            export_run(tmp_path / "run", tmp_path / str(mask), ["safetensors"])
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / str(mask)).stat().st_mode) == of_folder
        assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / str(mask)).iterdir()} == {of_file}


def changed(run: Path, name: str, content: bytes) -> None:
    (run / name).write_bytes(content)


def config(run: Path, old: str, new: str) -> bytes:
    text = (run / "config.yaml").read_text()
    assert old in text
    return text.replace(old, new).encode()


def prepared(run: Path, preparation: Any) -> bytes:
    about = json.loads((run / "about.json").read_text())
    about["task"]["preparation"] = preparation
    return json.dumps(about).encode()


Change = Callable[[Path, str, bytes], None]
AS_SAVED = "is not what the run saved (its checksum differs): it is damaged, edited or from another run. Put"


@pytest.mark.parametrize("change", [changed, rewritten])
@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("config.yaml", lambda run: config(run, "width: 8\n", ""), "does not fit the model that config.yaml"),
        ("config.yaml", lambda run: config(run, "width: 8", "width: 4"), "does not fit the model that config.yaml"),
        ("config.yaml", lambda run: config(run, "rounds: 1", "rounds: [1"), "config.yaml cannot be read as YAML"),
        ("model.safetensors", lambda run: b"nothing", "model.safetensors cannot be read"),
        ("metrics.jsonl", lambda run: b'{"round": 1\n', "line 1 is not the record of round 1"),
        ("result.json", lambda run: b"{}", "result.json cannot be used: expected the rounds"),
        ("about.json", lambda run: b"{}", "about.json cannot be used: expected the run's task"),
        ("about.json", lambda run: b'{"task": {"kind": "image", "input_shape": ["a"]}}', "expected the run's task"),
        ("about.json", lambda run: prepared(run, {"raw_input": {"kind": "table"}}), "lacks facts about raw input"),
        ("about.json", lambda run: prepared(run, {"raw_input": 7}), "expected the run's task"),
    ],
)
def test_what_cannot_be_used_is_a_sentence(
    name: str, content: Callable[[Path], bytes], sentence: str, change: Change, tmp_path: Path
) -> None:
    finished(tmp_path / "run")
    other = content(tmp_path / "run")
    change(tmp_path / "run", name, other)
    with pytest.raises(InputError) as caught:
        export_run(tmp_path / "run", tmp_path / "out")
    if change is rewritten:
        assert sentence in str(caught.value)
    elif other:
        assert str(caught.value).startswith(f"{tmp_path / 'run' / name} {AS_SAVED}")
    else:
        assert "metrics.jsonl lacks rounds that were saved: expected at least 1. Put" in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("config.yaml", "is not a run folder"),
        ("about.json", "about.json is missing"),
        ("result.json", "result.json is missing"),
        ("manifest.json", "manifest.json is missing, and without it no file of the run can be checked"),
        ("metrics.jsonl", "metrics.jsonl lacks rounds that were saved: expected at least 1"),
        ("model.safetensors", "model.safetensors is missing. Put the original back: smofi run --resume"),
    ],
)
def test_a_file_that_is_gone_is_named(name: str, sentence: str, tmp_path: Path) -> None:
    finished(tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    with pytest.raises(InputError) as caught:
        export_run(tmp_path / "run", tmp_path / "out")
    assert sentence in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_run_without_any_state_has_no_model(tmp_path: Path) -> None:
    write_run(tmp_path / "run", yaml.safe_dump(SETTINGS), about={"task": data.load("digits").task()})
    with pytest.raises(InputError, match=r"no model\.safetensors and no checkpoint\. Let the run finish"):
        export_run(tmp_path / "run", tmp_path / "out")


def test_a_comparison_names_its_runs(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    for method in ("fedavg", "smofi"):
        finished(tmp_path / "all" / method, method=[method])
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
def test_refused_arguments(arguments: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    finished(tmp_path / "run")
    with pytest.raises(InputError, match=sentence):
        export_run(tmp_path / "run", tmp_path / "out", **arguments)


def test_destination_must_be_new_or_empty(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    out = tmp_path / "out"
    out.mkdir()
    export_run(tmp_path / "run", out, ["safetensors"])
    before = sorted(out.iterdir())
    with pytest.raises(InputError, match="expected a folder that is new or empty"):
        export_run(tmp_path / "run", out, ["safetensors"])
    assert sorted(out.iterdir()) == before
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="expected a folder that is new or empty"):
        export_run(tmp_path / "run", tmp_path / "file", ["safetensors"])
    with pytest.raises(InputError, match=r"destination=.* is not accepted: Not a directory"):
        export_run(tmp_path / "run", tmp_path / "file" / "below", ["safetensors"])


def test_without_onnx_it_is_left_out_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r'^onnxscript is not installed; .*pip install "smofi\[onnx\]"$'):
        export_run(tmp_path / "run", tmp_path / "out", ["onnx"])
    done = export_run(tmp_path / "run", tmp_path / "out")
    assert done.files == ("model.safetensors", "model.pt2", *WITH_WHOLE)
    assert "onnx is left out" in done.notes[0]


def test_the_exported_module_shares_the_blocks_names(tmp_path: Path) -> None:
    trained: nn.Module = finished(tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "out", ["torch"])
    assert torch.export.load(tmp_path / "out" / "model.pt2").state_dict.keys() == trained.state_dict().keys()
