"""A mistake on the command line is one sentence that says what is wrong, exit code 2, and nothing left behind."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.net.certs import init, issue
from support.finished_runs import put_run

MISTAKES = {
    # commands and flags
    "frobnicate": "frobnicate",
    "rum": 'Did you mean "run"?',
    "--quick": "--quick",
    "run --local-epoch 3": "Did you mean --local-epochs?",
    "run --rounds": "--rounds requires an argument",
    "run --rounds 2 --rounds=3": "--rounds specified multiple times",
    "run --method --rounds 3": "--method requires at least 1 element",
    "run --no-cut": "--no-cut",
    "run --display fancy": '"auto", "live", "plain", "quiet", "jsonl"',
    "run --compile=maybe": "maybe",
    "run a.yaml b.yaml": "b.yaml",
    "methods all": "all",
    "timeline": "FOLDER",
    "timeline runs --round x": "int",
    "config --output here": "--output",
    # numbers
    "run --rounds 0": "rounds='0' is not accepted: expected a whole number >= 1",
    "run --rounds 1.5": "rounds='1.5'",
    "run --rounds ''": "rounds=''",
    "run --seed -1": "a whole number >= 0",
    "run --participation nan": "participation='nan'",
    "run --clients 100000": "samples",
    "run --batch-size 100": "samples",
    f"run --threads {'9' * 20}": "threads='9999",
    "run --seed 0 --seeds 0-2": "--seed or --seeds, not both",
    # names, methods, cuts
    "run --data mnist": "digits",
    "run --model resnet9": "did you mean 'resnet8'?",
    "run --model mlp --norm batch": "mlp has no such option",
    "run --norm group(3)": "divides the channels of every layer, but one has 8",
    "run --partition dirichlet(0)": "gamma=0",
    "run --partition iid+iid": "a single one",
    "run --device meta": "device='meta'",
    "run --method fedavgg": "did you mean 'fedavg'?",
    "run --method smofi --method smofi": "once",
    "run --method fedavg,smofi": "method='fedavg,smofi'",
    "run --method fedprox(mu=": "is not accepted",
    "run --method smofi+sflv2": "smofi and sflv2 cannot be combined",
    "run --method __import__('os').mkdir('x')": "is not accepted",
    "run --optimizer sgd": "missing a required argument: 'lr'",
    "run --cut 9": "0=input, 1=core1, 2=core2, 3=core3, 4=output",
    "run --cut [0,1]": "one cut for each of the 50 clients, but it has 2",
    "run --executor vmap(at_most=3)": "it is written vmap(at_least=1)",
    "run --executor loop vmap": "or one for each of the 3",
    "run --diagnose --workers 2": "with 2 workers",
    "config --step-deadline 1": "it needs a clock",
    "config --data mine.csv": "did you mean 'csv:mine.csv'?",
    "run --track none tensorboard": "none alone",
    # places
    "run --output file": "output='file'",
    "run --output file/below": "output='file/below'",
    "run nosuch.yaml": "nosuch.yaml does not exist",
    f"run {'x' * 300}.yaml": "File name too long",
    f"run --output {'x' * 300}": "File name too long",
    "run --resume nowhere": "resume='nowhere'",
    "run --resume runs/fedavg file": "--resume is not accepted with a file",
    "run cifar10 --scale nope": "scale='nope'",
    "show nowhere": "expected the folder of a run, but there is none",
    "show file": "but it is a file",
    "timeline runs --output x.gif": ".png, .svg or .pdf",
    "export runs/fedavg --format tflite": "expected one of safetensors, torch, onnx",
    f"advise --output {'x' * 300}.png": "File name too long",
    "models resnet19": "expected one of",
    # data, with several seeds
    "data digits --seeds 0-1 --seed 0": "no --seed with it",
    "data digits --seeds 0-1 --output x.png": "no --output with it",
    "data digits --seeds 0-1 --devices": "no --devices with it",
    "data --seeds 0-1": "a data set with it",
    "data digits --seeds 1-0": "seeds such as 0-2",
    # sweep, tune
    "sweep file --jobs 0": "file",
    "tune": "METHOD",
    "tune fedprx": "did you mean 'fedprox'?",
    "tune fedprox --validation 0": "expected more than 0",
    "tune fedprox --method smofi": "the method to tune comes first",
    "tune fedprox --grid mu=a,b": "expected numbers",
    "tune fedprox --grid mu=1,-1": "mu=-1",
    # compare, plot
    "compare nowhere": "expected the folder of a run, but there is none",
    "compare runs --target 70": "a share of the baseline's best such as 0.9",
    "compare runs --format html": "text, markdown, latex, csv",
    "compare runs --per-seed": "--format csv with it",
    "compare runs --output table.doc": "a file name that ends in .txt",
    "compare runs --output no/table.md": "a file in a folder that exists",
    "compare runs --baseline sflv2": "one of the runs: fedavg, smofi",
    "compare runs again": "are the same run, smofi with seed 0",
    "plot runs -o f.gif": ".png, .svg or .pdf",
    "plot runs -o f.svg --kind pie": "curves, panels, bars",
    "plot runs -o f.svg --value speed": "accuracy, mean",
    "plot runs -o f.svg --width wide": "column, page",
    "plot runs -o f.svg --over cut --kind bars": "no --kind with it",
    "plot runs -o f.svg --hours --kind bars": "expected curves",
    "plot runs -o f.svg --own-axes --kind bars": "expected curves",
    "plot runs -o f.svg --over cut": "a setting in which these runs differ",
    "plot runs -o f.svg --over alpha": "it is -0.1 in all of them",
    "plot runs -o f.svg --over beta": "a setting, or a parameter of a method",
    "plot runs -o f.svg --kind bars --value rounds --baseline sflv2": "expected runs of sflv2 too",
    # certs
    "certs isue pki": 'Did you mean "issue"?',
    "certs init pki": "pki has a certificate authority already",
    "certs init file": "expected a new or an empty folder",
    "certs init a b": "b",
    "certs init a --days 0": "a whole number >= 1",
    "certs issue pki": "one of the two",
    "certs issue pki --server a.b --client a": "one of the two",
    "certs issue pki --client ../x": "at most 64 letters",
    "certs issue pki --client server": "the server's folder has this name",
    "certs issue pki --client hospital-a": "write --renew",
    "certs issue pki --client b --renew": "no certificate that could be renewed",
    "certs issue pki --client b --days 9999": "expected at most ",
    "certs issue pki --server a.b:7443": "a host name such as train.example.org or an IP address",
    "certs issue nowhere --client a": "smofi certs init nowhere makes one",
    "certs revoke pki c": "pki has issued no certificate to 'c'",
    "certs revoke pki ../a": "at most 64 letters",
    "certs list file": "file has no certificate authority",
    # serve
    "serve --clients 2": "smofi serve needs --certs FOLDER",
    "serve --insecure --certs pki/server": "--insecure is not accepted with --certs",
    "serve --insecure --allow list.txt": "--insecure is not accepted with --allow",
    "serve --certs nowhere": "expected a folder with ca.pem, cert.pem and key.pem",
    "serve --certs pki/hospital-a": "cert.pem is for a client, not for a server",
    "serve --insecure --listen 7443": "expected host:port",
    "serve --insecure --listen 0.0.0.0:7444": "without certificates",
    "serve --insecure --listen 127.0.0.1:{taken}": "another program has this port",
    "serve --insecure --output runs": "expected a new or an empty folder",
    "serve --insecure --output file": "expected a folder, but it is a file",
    "serve --insecure --resume nowhere": "expected the folder of a run, but there is none",
    "serve --insecure --resume runs/fedavg --output new": "--resume is not accepted with a file",
    "serve --insecure --resume runs/fedavg": "resume='runs/fedavg' is not accepted",
    "serve --insecure --clients 2 --min-clients 3": "a whole number >= 1 and <= 2",
    "serve --certs pki/server --clients 2 --allow list.txt": "expected at most 1: list.txt",
    "serve --certs pki/server --allow runs": "expected a file with a name per line",
    "serve --certs pki/server --allow binary": "expected a text file with a name per line",
    "serve --insecure --evaluate nowhere": '"server", "clients", "none"',
    "serve --insecure --away 0": "away=0.0",
    "serve --insecure --connect 0.01": "a number >= 0.1 and <= 3600",
    "serve --insecure --deadline 0": "deadline=0.0",
    "serve --insecure --clock full": "expected none: clients are real",
    "serve --insecure --diagnose": "expected false",
    "serve --insecure --validation 0.1": "expected 0",
    "serve --insecure --patience 3": "nothing can be held out for validation",
    "serve --insecure --step-deadline 3": "--deadline says how long a step waits for a client",
    "serve timed.yaml --insecure": "clock='full' is not accepted: expected none",
    "serve --insecure --executor vmap": "expected auto: each client computes for itself",
    "serve --insecure --partition file:runs": "they have no file of the server's",
    "serve --insecure --method clip(1)+fednar(0.1)": "one limit on the norm of the whole model",
    "serve --insecure --cut 1,1 --method mergesfl(bandwidth=3)": "expected a cut of one number",
    "serve --insecure --method smofi --memory-limit 100MB": "expected at least",
    "serve --insecure --clients 2 --status 8080": "expected an address and a port",
    "serve --insecure --status-token 0123456789abcdef": "--status-token",  # it would be kept
    # join
    "join": "SERVER",
    "join localhost:7443": "--data",
    "join localhost:7443 --data digits": "smofi join needs --certs FOLDER",
    "join localhost:7443 --data digits --certs pki/hospital-a --insecure": "not accepted with --certs",
    "join localhost:7443 --data digits --certs pki/hospital-a --name me": "the certificate has the name",
    "join localhost:7443 --data digits --insecure": "smofi join --insecure needs --name",
    "join https://localhost:7443 --data digits --certs pki/hospital-a": "expected host:port",
    "join localhost:7443 --data digits --certs pki/server": "cert.pem is for a server, not for a client",
    "join localhost:7443 --data digits --certs pki/hospital-a --threads 0": "threads=0",
    "join localhost:7443 --data digits --certs pki/hospital-a --part -1": "part=-1",
    "join localhost:7443 --data digits --certs pki/hospital-a --device gpu": "device='gpu'",
    "join example.org:7443 --data digits --insecure --name me": "a client connects to 127.0.0.1 only",
    "join localhost:7443 --data folder:nope --certs pki/hospital-a": "expected a path that exists",
    "join localhost:7443 --data nothing --certs pki/hospital-a": "expected one of digits",
    "join localhost:7443 --data digits --data-folder pki --certs pki/hospital-a": "digits already says where it is",
}
"""What is typed, and what is said about it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs, one of them twice, certificates, and files that are in the way."""
    made = tmp_path_factory.mktemp("mistakes")
    put_run(made / "runs/fedavg", "fedavg", [0.2, 0.6, 0.8])
    for place in ("runs/smofi", "again"):
        put_run(made / place, "smofi", [0.6, 0.8, 0.9])
    init(made / "pki")
    issue(made / "pki", server=["localhost"])
    issue(made / "pki", client="hospital-a")
    (made / "file").write_text("in the way")
    (made / "list.txt").write_text("hospital-a\n")
    (made / "timed.yaml").write_text("clock: full\ndevices: phones(rtt_ms=80)\n")
    (made / "binary").write_bytes(b"\xff\xfe\x00")
    return made


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        words = line.replace("{taken}", str(other.getsockname()[1])).split()
        assert main(["" if word == "''" else word for word in words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("error: ")
    assert MISTAKES[line] in err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not [path for path in folder.rglob("*") if path.is_dir() and path.name in ("new", "a", "x")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--method fedavg smofi", "method: [fedavg, smofi]"),
        ("--method fedavg --method smofi", "method: [fedavg, smofi]"),
        ("--metrics top1 macro_f1 --seed 2", "metrics: [top1, macro_f1]"),
        ("--compile", "compile: true"),
        ("--compile true", "compile: true"),
        ("--compile=false", "compile: false"),
        ("--compile no", "compile: false"),
        ("--no-compile", "compile: false"),
        ("--max-train null", "max_train: null"),
    ],
)
def test_ways_to_write_a_setting(
    line: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.yaml").write_text("rounds: 3\n")
    assert main(["config", "my.yaml", *line.split(), "--patience", "null"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {expected, "rounds: 3"} <= set(lines)
