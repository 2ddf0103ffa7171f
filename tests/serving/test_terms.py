"""What a server and its clients agree on: data that fits, where models are judged, what leaves, and what is refused."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import smofi
from smofi.cli import main
from smofi.errors import InputError
from support.chaos import Nursery, until
from support.ports import free_port
from support.processes import tensors_in_memory
from support.served import SOON, Served

HERE = "127.0.0.1:7443"
PLAIN = r"certs=None is not accepted: expected the {0}'s folder of certificates, .* or insecure=True for trials on this"


# --------------------------------------------------------------------------------- refused before anything is started

LARGE = {"model": "resnet8", "width": 48, "clients": 3, "participation": 1.0, "cut": "0", "max_train": 96}

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a server in plain text": (lambda: smofi.serve({}, "run"), PLAIN.format("server")),
    "a client in plain text": (lambda: smofi.join(HERE, "digits", name="a"), PLAIN.format("client")),
    "both": (lambda: smofi.serve({}, "run", certs="pki/server", insecure=True), "insecure=True is not accepted: with"),
    "a client without a name": (lambda: smofi.join(HERE, "digits", insecure=True), "name=None is not accepted"),
    "a name besides that of a certificate": (
        lambda: smofi.join(HERE, "digits", certs="pki/a", name="b"),
        "name='b' is not accepted: with certs, the certificate has the name",
    ),
    "a list of names without certificates": (
        lambda: smofi.serve({}, "run", insecure=True, allow="clients.txt"),
        "allow='clients.txt' is not accepted: without certificates",
    ),
    "a time that no client takes": (
        lambda: smofi.serve({}, "run", insecure=True, keepalive=0.01),
        "keepalive=0.01 is not accepted: expected a number >= 0.1 and <= 3600",
    ),
    "data that is not there": (
        lambda: smofi.join(HERE, "folder:nope", insecure=True, name="a"),
        "data='folder:nope' is not accepted: expected a path that exists",
    ),
    "a device that is none": (
        lambda: smofi.join(HERE, "digits", insecure=True, name="a", device="gpu"),
        "device='gpu' is not accepted",
    ),
    "plain text beyond this machine": (
        lambda: smofi.join("example.org:7443", "digits", insecure=True, name="a"),
        "without certificates, a client connects to 127.0.0.1 only",
    ),
    "a measure that no client takes": (
        lambda: smofi.serve({"metrics": ("top1", "macro_f1")}, "run", insecure=True, evaluate="clients"),
        "metrics='macro_f1' is not accepted: expected top1",
    ),
    "a target that nobody measures": (
        lambda: smofi.serve({"target_accuracy": 0.5}, "run", insecure=True, evaluate="none"),
        "target_accuracy=0.5 is not accepted: with evaluate=none, none is ever",
    ),
    "a file to go on with": (
        lambda: smofi.serve("run.yaml", "run", insecure=True, resume=True),
        r"config='run\.yaml' is not accepted: expected with resume, a mapping",
    ),
    "nothing to go on with": (
        lambda: smofi.serve({}, "run", insecure=True, resume=True),
        "expected the folder of a run, but there is none",
    ),
    "a limit on memory that is too small": (
        lambda: smofi.serve({**LARGE, "memory_limit": "1MB"}, "run", insecure=True),
        r"memory_limit='1MB' is not accepted: expected at least .* [MG]B that this process already uses \+ .* rows: ",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_before_anything_is_started(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, expected = WRONG[case]
    with pytest.raises(InputError, match=expected):
        call()
    assert not Path("run").exists()


def test_a_server_has_the_tensors_that_are_foreseen(nursery: Nursery, tmp_path: Path) -> None:
    """In two rounds, each as a step is done."""
    port, found = free_port(), list[int]()
    settings = {**LARGE, "rounds": 2, "local_epochs": 1, "batch_size": 8, "partition": "iid", "workers": 1}
    with pytest.raises(InputError) as refused:
        smofi.serve({**settings, "memory_limit": "1MB"}, str(tmp_path / "none"), insecure=True)
    foreseen = re.search(r"already uses \+ ([\d,]+) MB for", str(refused.value))
    assert foreseen

    def measure(event: smofi.Event) -> None:
        if isinstance(event, smofi.TickDone):
            found.append(tensors_in_memory())

    words = ["--insecure", "--data", "digits", "--allow-labels"]
    clients = [
        nursery.smofi("join", f"127.0.0.1:{port}", *words, "--name", name, "--part", part)
        for part, name in enumerate("abc")
    ]
    before = tensors_in_memory()
    smofi.serve(settings, str(tmp_path / "run"), listen=f"127.0.0.1:{port}", insecure=True, callback=measure)
    assert [client.wait(SOON) for client in clients] == [0] * 3
    limit = 1e6 * int(foreseen[1].replace(",", ""))
    assert limit / 8 < max(found) - before < limit


def test_a_machine_that_has_too_little_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is read from where Linux tells it."""
    real = Path.read_text
    little = "MemTotal: 100000 kB\nMemAvailable: 50000 kB\n"
    patched = lambda path, *rest, **more: little if str(path) == "/proc/meminfo" else real(path, *rest, **more)  # noqa: E731
    monkeypatch.setattr(Path, "read_text", patched)
    settings = {"model": "resnet18", "clients": 8, "participation": 1.0}
    with pytest.raises(InputError, match=r"this run is not accepted: a round needs .* memory are avail"):
        smofi.serve(settings, str(tmp_path / "run"), insecure=True, listen="127.0.0.1:0")


# -------------------------------------------------------------------------------------------------- data that fits


def table(path: Path, classes: str, columns: int = 3, scale: float = 1.0) -> str:
    """A csv file with ten samples of each class, which are letters."""
    draw = np.random.default_rng(len(classes))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"column{number}" for number in range(columns)), "label"])
        for name in classes * 10:
            writer.writerow([*(scale * draw.normal(size=columns)).tolist(), name])
    return f"csv:{path}"


def pictures(folder: Path, *classes: str) -> str:
    """A folder with ten small pictures of each class."""
    draw = np.random.default_rng(0)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(10):
            Image.fromarray(draw.integers(256, size=(8, 8), dtype=np.uint8)).save(folder / name / f"{number}.png")
    return f"folder:{folder}"


def arrays(path: Path) -> str:
    np.savez(path, x=np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32), y=np.arange(30) % 3)
    return f"npz:{path}"


MISFITS: dict[str, tuple[Callable[[Path], str], str]] = {
    "another class": (
        lambda folder: table(folder / "mine.csv", "abd"),
        "your data has the class 'd', which it does not know; its classes are a, b, c",
    ),
    "another shape": (
        lambda folder: table(folder / "mine.csv", "abc", columns=4), "its samples have the shape [3], yours [4]",
    ),
    "another kind": (lambda folder: "digits", "and your data has images"),
    "too few": (
        lambda folder: table(folder / "mine.csv", "a"),
        "a batch has 16 samples, and with 8 training samples here this client could never take part",
    ),
    "without a mean": (lambda folder: arrays(folder / "mine.npz"), "does not know"),
}  # fmt: skip


@pytest.fixture(scope="module")
def offering(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """A server that waits for more clients than will come, with a table of three classes."""
    folder = tmp_path_factory.mktemp("offering")
    data = table(folder / "server.csv", "abc")
    run = Served(
        nursery, folder / "run", data=data, model="mlp", width=4, cut="0", clients=9, batch_size=16, max_train=None,
        max_test=None,
    )  # fmt: skip
    run.serve()
    return run


@pytest.mark.parametrize("case", MISFITS)
def test_data_that_does_not_fit_is_refused(case: str, offering: Served, tmp_path: Path) -> None:
    make, sentence = MISFITS[case]
    client = offering.join(1, "--data", make(tmp_path))
    assert client.wait(SOON) == 2, client.text()
    assert sentence in client.text()


def test_labels_leave_only_if_they_may(offering: Served, tmp_path: Path) -> None:
    data = table(tmp_path / "mine.csv", "cba")
    offering.joining.clear()
    refused = offering.join(3, "--data", data)
    assert refused.wait(SOON) == 2
    assert "they leave this machine only with --allow-labels" in refused.text()
    accepted = offering.join(4, "--data", data, "--allow-labels")
    until(lambda: "24 samples" in accepted.text() or not accepted.alive, SOON, accepted.text())
    assert accepted.alive, accepted.text()
    assert "to train mlp with smofi, cut 0; a round begins when enough clients are there" in accepted.text()
    accepted.kill()
    offering.joining.append("--allow-labels")


def test_clients_with_some_of_the_classes_and_other_scales(nursery: Nursery, tmp_path: Path) -> None:
    """Classes are known by their names, and everybody uses the server's mean and deviation: a client whose columns are
    a hundred times as large learns with numbers that are."""
    theirs = table(tmp_path / "server.csv", "abc")
    own = [
        table(tmp_path / f"{name}.csv", name, scale=scale) for name, scale in (("cb", 1.0), ("a", 1.0), ("ca", 100.0))
    ]
    run = Served(
        nursery, tmp_path / "run", data=theirs, model="mlp", width=4, cut="0", clients=3, rounds=2, max_train=None,
        max_test=None, batch_size=4, optimizer="sgd(lr=1e-3)",
    )  # fmt: skip
    run.serve()
    for number, data in enumerate(own):
        run.join(number, "--data", data)
    run.finish()
    assert [record["steps"] for record in run.records()] == [[4, 2, 4]] * 2
    assert run.records()[0]["train_loss"] > 3


def test_a_folder_with_one_of_the_servers_classes_is_enough(nursery: Nursery, tmp_path: Path) -> None:
    """A simulation refuses such a folder; here others have the other classes."""
    theirs = pictures(tmp_path / "server", "a", "b")
    run = Served(nursery, tmp_path / "run", data=theirs, clients=2, rounds=1, max_train=None, max_test=None)
    run.serve()
    for number, name in enumerate("ab"):
        run.join(number, "--data", pictures(tmp_path / f"mine-{name}", name))
    assert len(run.finish().records()) == 1


# -------------------------------------------------------------------------------------------- where models are judged


def test_judged_by_the_clients_or_by_nobody(nursery: Nursery, tmp_path: Path) -> None:
    """Together, the clients hold out all that the server would judge by; of a loss, nothing leaves them. A run goes on
    to be judged where it was, without being told; a curve with other numbers from some round on would mislead."""
    with Served(nursery, tmp_path / "clients", max_test=None, serve=["--evaluate", "clients"], clients=2) as run:
        run.finish()
    expected = run.simulated("smofi")
    assert [one["accuracy"] for one in run.records()] == [one.accuracy for one in expected.history]
    assert [one["loss"] for one in run.records()] == [None, None]
    again: dict[str, Any] = {"listen": "127.0.0.1:0", "insecure": True, "resume": True, "away": 0.1}
    with pytest.raises(InputError, match=r"evaluate='server' is not accepted: expected clients: .* until now"):
        smofi.serve({"rounds": 3}, str(run.folder), evaluate="server", **again)
    (only,) = smofi.serve({}, str(run.folder), evaluate="clients", **again)
    assert [one.loss for one in only.history] == [None, None]
    with Served(nursery, tmp_path / "nobody", serve=["--evaluate", "none"], clients=2) as run:
        run.finish()
    assert [(one["accuracy"], one["loss"]) for one in run.records()] == [(None, None)] * 2
    assert [one["train_loss"] for one in run.records()] == [one.train_loss for one in expected.history]


# ----------------------------------------------------------------------------------------------------- what would leave

SIZES = {"B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6}

RUNS: dict[str, tuple[dict[str, Any], str]] = {
    "smofi": ({}, "statistics of normalisation layers; "),
    "the U shape": ({"cut": "1,1", "wire": "int8"}, " int8), the gradient of the server's output ("),
    "fednag": ({"method": "fednag"}, " numbers of momentum; "),
    "fednar": ({"method": "fednar(0.01)"}, " and the squared norm of your gradient; "),
}


@pytest.mark.parametrize(
    "case", [one if one == "the U shape" else pytest.param(one, marks=pytest.mark.slow) for one in RUNS]
)
def test_what_a_dry_run_says_would_leave_is_what_leaves(case: str, nursery: Nursery, tmp_path: Path) -> None:
    """Every tensor and number in words, and its bytes: of a round, compared with those that the status page counts."""
    changes, words = RUNS[case]
    run = Served(
        nursery, tmp_path / "run", clients=2, rounds=100_000, model="resnet8", width=4, partition="iid",
        max_train=64, serve=["--evaluate", "none"], **changes,
    )  # fmt: skip
    run.serve()

    def dry_run() -> str:
        with suppress(InputError):  # it does not listen yet
            return smofi.join(run.address, "digits", insecure=True, name="site-0", part=0, dry_run=True)
        return ""

    said = until(dry_run, SOON, "it does not listen")
    assert said.startswith(f"The server trains resnet8 with {run.config().method[0]}")
    assert words in said
    assert ("labels stay here" in said) == (case == "the U shape")
    assert "Batches have 8 samples: any other batch size or learning rate" in said
    up, down = (float(number) * SIZES[unit] for number, unit in re.findall(r"([\d.]+) (\w?B) (?:up|down)", said)[-2:])
    for number in range(2):
        run.join(number)

    def counted() -> dict[int, tuple[int, int]]:
        status = run.status()
        bytes_ = {one["name"]: (one["bytes_up"], one["bytes_down"]) for one in status["clients"]}
        return {status["run"]["done"]: bytes_["site-0"]}

    run.wait_for(lambda: (run.status().get("run") or {}).get("done", 0) >= 2)
    (first, before), *_ = counted().items()
    run.wait_for(lambda: run.status()["run"]["done"] >= first + 10)
    (last, after), *_ = counted().items()
    for server_process in (run.server, *run.clients.values()):
        assert server_process
        server_process.kill()
    steps = run.records()[0]["steps"][0]
    for told, one, other in zip((up, down), before, after, strict=True):
        each = (other - one) / (last - first)
        # a header of at most 600 bytes for each message; the counts may be from within a round
        assert 0.9 * told < each < 1.1 * (told + 600 * (2 * steps + 2)), (told, each)


# -------------------------------------------------------------------------------------------------------- its folder


@pytest.fixture(scope="module")
def served(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two methods, served to two clients."""
    folder = tmp_path_factory.mktemp("served") / "run"
    with Served(nursery, folder, clients=2, method=["fedavg", "smofi"]) as run:
        run.finish()
    return folder


def said(capsys: pytest.CaptureFixture[str], code: int, *arguments: str | Path) -> str:
    assert main([*map(str, arguments)]) == code
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    return " ".join((shown.out if code == 0 else shown.err).split())


def test_what_reads_folders_of_runs_reads_it_too(
    served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("show", "compare"):
        assert "smofi" in said(capsys, 0, command, served)
    said(capsys, 0, "report", served, "--output", tmp_path / "page.html")
    assert "smofi" in (tmp_path / "page.html").read_text()
    said(capsys, 0, "plot", served, "--output", tmp_path / "curves.png")
    said(capsys, 0, "export", served / "smofi", tmp_path / "model", "--format", "safetensors")
    assert "clock" in said(capsys, 2, "timeline", served / "smofi")


def test_it_goes_on_only_as_what_it_is(served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (served, served / "smofi"):
        text = said(capsys, 2, "run", "--resume", folder)
        assert "it was served to clients, who have the samples; go on with smofi serve --resume" in text
    simulation = tmp_path / "simulation"
    command = "run --clients 2 --participation 1 --rounds 1 --max-train 80 --method fedavg --model cnn --width 2"
    assert main([*command.split(), "--output", str(simulation), "--display", "jsonl"]) == 0
    with pytest.raises(InputError, match="no clients took part in it, so that smofi serve cannot go on with it"):
        smofi.serve({}, str(simulation), insecure=True, resume=True)
    with pytest.raises(InputError, match=r"it is a part of .*run, which goes on as a whole"):
        smofi.serve({}, str(served / "smofi"), insecure=True, resume=True)


def test_a_finished_run_is_served_without_clients_and_has_a_page(served: Path) -> None:
    from urllib.request import urlopen

    sentences, shown = list[str](), list[str]()

    def look(port: int) -> None:
        with urlopen(sentences[0].removeprefix("Status: ")) as page:
            shown.append(page.read().decode())

    how: dict[str, Any] = {"listen": "127.0.0.1:0", "insecure": True, "resume": True, "away": 0.1, "started": look}
    results = smofi.serve({}, str(served), status="127.0.0.1:0", say=sentences.append, **how)
    assert [len(result.history) for result in results] == [2, 2]
    assert sentences[0].startswith("Status: http://127.0.0.1:")
    assert "<html" in shown[0]


def test_every_round_is_saved_unless_the_server_is_told_otherwise(
    nursery: Nursery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file may come from `smofi config`, which names every setting, and says how often a simulation saves."""
    folder, port, path = tmp_path / "run", free_port(), tmp_path / "all.yaml"
    flags = (
        "--clients 1 --participation 1 --model cnn --width 2 --method fedavg --max-train 60 --batch-size 8 --rounds 3"
    )
    assert main(["config", *flags.split()]) == 0
    path.write_text(capsys.readouterr().out)
    assert "checkpoint_every: 5" in path.read_text()
    words = ["--insecure", "--name", "a", "--data", "digits", "--part", 0, "--allow-labels"]
    client = nursery.smofi("join", f"127.0.0.1:{port}", *words)
    sentences, saved = list[str](), list[int]()

    def look(event: smofi.Event) -> None:
        if isinstance(event, smofi.RoundDone):
            names = [one.stem.removeprefix("round-") for one in folder.glob("**/checkpoints/round-*")]
            saved.append(max(map(int, names), default=0))

    smofi.serve(str(path), str(folder), listen=f"127.0.0.1:{port}", insecure=True, callback=look, say=sentences.append)
    assert client.wait(SOON) == 0
    assert any(one.startswith("Every round is saved, although the file says 5") for one in sentences)
    assert saved == [0, 1, 2]
