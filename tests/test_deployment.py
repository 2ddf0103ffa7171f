"""What the deployment guide and the README show is run, as shown: a server and its clients as processes, with TLS.

Of every command only the server's name and port are replaced, as there is no train.example.org, and ports may be taken.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from smofi.net.certs import init, issue
from support.certificates import make_pki
from support.chaos import Nursery, Process, rounds_in, until
from support.ports import free_port
from support.processes import ENVIRONMENT

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs/deployment.md").read_text()
WATCHING = (ROOT / "docs/status.md").read_text()
SECURITY = (ROOT / "docs/security.md").read_text()
FRONT = (ROOT / "README.md").read_text().split("## On several machines")[1].split("\n## ")[0]
PATIENCE = 300


class Walk:
    """A reader who types one command after the other; servers and clients go on in windows of their own."""

    def __init__(self, nursery: Nursery) -> None:
        self.nursery, self.port, self.begun = nursery, free_port(), list[Process]()

    def type(self, line: str, **environment: str) -> Process:
        """A command, as far as one waits for it before one types the next."""
        line = line.replace("train.example.org", "localhost").replace("7443", str(self.port))
        program, *words = shlex.split(line)
        assert program == "smofi"
        if words[0] == "serve" and "--listen" not in words:
            words += ["--listen", f"0.0.0.0:{self.port}"]
        process = self.nursery.smofi(*words, **environment)
        if words[0] == "serve":
            until(lambda: "Listening at" in process.text() or not process.alive, PATIENCE, f"{line} does not listen")
        if words[0] in ("serve", "join") and "--dry-run" not in words:
            self.begun.append(process)
        else:
            assert process.wait(PATIENCE) == 0, process.text()
        return process

    def wait(self) -> list[str]:
        """Until servers and clients are done; what they said."""
        begun, self.begun = self.begun, []
        for process in begun:
            assert process.wait(PATIENCE) == 0, process.text()
        return [process.text() for process in begun]


def commands(page: str) -> list[str]:
    return [line for block in re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL) for line in block.splitlines()]


def pictures(folder: Path, seed: int) -> None:
    """Sixty small pictures of three classes."""
    rng = np.random.default_rng(seed)
    for shade, name in enumerate(("normal", "nodule", "other")):
        (folder / name).mkdir(parents=True)
        for number in range(20):
            pixels = rng.integers(80 * shade, 80 * shade + 80, (16, 16), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


def furnish(folder: Path) -> None:
    """Write the pictures and the settings that the guide speaks of."""
    for seed, name in enumerate(("examples", "scans-a", "scans-b")):
        pictures(folder / name, seed)
    settings = re.search(r"```yaml\n(# run.yaml\n.*?)```", GUIDE, flags=re.DOTALL)
    assert settings
    (folder / "run.yaml").write_text(settings[1])


def test_every_command_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    furnish(tmp_path)
    lines = commands(GUIDE)
    joining = [line for line in lines if line.startswith("smofi join") and "--dry-run" not in line]
    assert len(joining) == 2
    with Nursery(tmp_path) as nursery:
        walk = Walk(nursery)
        for line in lines:
            process = walk.type(line)
            if "--dry-run" in line:
                assert process.text() == re.sub(r"^    ", "", shown_by(GUIDE), flags=re.MULTILINE)
            elif line == joining[-1]:
                assert "smofi" in walk.wait()[0]
                assert len(rounds_in(Path("runs/served"))) == 3
            elif "--resume" in line:
                for one in joining:
                    walk.type(one)
                assert all("The run is finished. Rounds taken part in: 1." in said for said in walk.wait()[1:])
    assert len(rounds_in(Path("runs/served"))) == 4


def test_from_python(tmp_path: Path) -> None:
    """The programs of the guide, as processes: a server, and a client for each hospital."""
    programs = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", GUIDE, flags=re.DOTALL))
    assert programs.keys() == {"server", "client"}
    furnish(tmp_path)
    init(tmp_path / "pki")
    issue(tmp_path / "pki", server=["localhost"])
    port, begun = free_port(), list[subprocess.Popen[str]]()
    try:
        for letter in ("", "a", "b"):
            if letter:
                issue(tmp_path / "pki", client=f"hospital-{letter}")
            text = programs["client" if letter else "server"].replace("7443", str(port))
            text = text.replace("train.example.org", "localhost").replace("-a", f"-{letter}")
            begun.append(start(text, tmp_path))
            if not letter:
                until(lambda: listens(port) or begun[0].poll() is not None, PATIENCE, "the server does not listen")
        said = [process.communicate(timeout=PATIENCE)[0] for process in begun]
    finally:
        for process in begun:
            process.kill()
    assert [process.returncode for process in begun] == [0, 0, 0], "\n".join(said)
    assert re.search(r"^\d+\.\d% after 3 rounds$", said[0], flags=re.MULTILINE)
    for one in said[1:]:
        assert "The server trains resnet8 with smofi" in one
        assert "joined localhost" in one
        assert one.endswith("the run is finished\n")


def start(program: str, folder: Path) -> subprocess.Popen[str]:
    command, pipe = [sys.executable, "-c", program], subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def shown_by(page: str) -> str:
    """What the page says that the dry run prints."""
    found = re.search(r"^    The server trains .*?docs/security.md\.\n", page, flags=re.DOTALL | re.MULTILINE)
    assert found
    return found[0]


@pytest.mark.parametrize("rounds", ["1 --local-epochs 1", pytest.param("3", marks=pytest.mark.slow)])
def test_every_command_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: str) -> None:
    """With fewer rounds and, where there is time, as shown."""
    monkeypatch.chdir(tmp_path)
    lines = [line.strip() for line in FRONT.splitlines() if line.startswith("    smofi ")]
    assert len(lines) >= 7
    with Nursery(tmp_path) as nursery:
        walk = Walk(nursery)
        for line in lines:
            walk.type(line.partition("  #")[0].replace("--rounds 3", f"--rounds {rounds}"))
        said = walk.wait()
    assert all(f"The run is finished. Rounds taken part in: {rounds[0]}." in one for one in said[1:])


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page shows how curl reads it")
def test_every_command_of_the_page_on_watching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that wait for their clients: no training is needed to look at them."""
    monkeypatch.chdir(tmp_path)
    furnish(tmp_path)
    make_pki(tmp_path / "pki")
    (scraped,) = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", WATCHING, flags=re.DOTALL)[0])["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": ["train.example.org:8080"]}]
    page, read = free_port(), list[str]()
    with Nursery(tmp_path) as nursery:
        walk = Walk(nursery)
        for line in commands(WATCHING):
            line = line.replace("8080", str(page)).replace("train.example.org", "localhost")
            found = re.fullmatch(r"(?:(SMOFI_STATUS_TOKEN)=\$\(cat (\S+)\) )?(smofi serve .*)", line)
            if found is None:
                read.append(subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout)
                continue
            for process in walk.begun:
                process.kill()
            shutil.rmtree("runs", ignore_errors=True)
            secret = {found[1]: Path(found[2]).read_text().strip()} if found[1] else {}
            assert found[2] in (None, scraped["authorization"]["credentials_file"])
            assert walk.type(found[3], **secret).alive
        assert Path("status-token").stat().st_mode & 0o777 == 0o600
    healthy, status, metrics, _, distant = read
    assert healthy == "ok\n"
    assert json.loads(status).keys() == json.loads(distant).keys()
    assert "smofi_run_state" in metrics


class Services:
    """The commands of the guide's units, run as systemd does: in a folder of their own, without a home."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.running = folder, free_port(), list[subprocess.Popen[bytes]]()
        program = folder / "smofi"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m smofi "$@"\n')
        program.chmod(0o755)
        self.lines = [
            line.replace("/opt/smofi/bin/smofi", str(program))
            .replace("train.example.org:7443", f"localhost:{self.port}")
            .replace("--certs pki/server", f"--certs pki/server --listen 0.0.0.0:{self.port}")
            for line in re.findall(r"^ExecStart=(.*)$", GUIDE, flags=re.MULTILINE)
        ]
        self.environment = ENVIRONMENT | {"HOME": "/proc/no-home", "OMP_NUM_THREADS": "1"}
        self.environment.pop("SMOFI_DATA", None)
        given = re.findall(r"^Environment=(\w+)=(.*)$", GUIDE, flags=re.MULTILINE)
        self.environment |= {name: value.replace("%S/smofi", str(folder)) for name, value in given}

    def __enter__(self) -> Services:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running:
            process.kill()
            process.wait()

    def start(self, line: str, log: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("wb") as file:
            process = subprocess.Popen(
                shlex.split(line), cwd=self.folder, env=self.environment, stdout=file, stderr=subprocess.STDOUT
            )
        self.running.append(process)
        return process

    def said(self, log: str) -> str:
        return (self.folder / log).read_text()


@pytest.mark.slow
def test_the_services_run_and_go_on_after_a_crash(tmp_path: Path) -> None:
    furnish(tmp_path)
    (tmp_path / "run.yaml").write_text((tmp_path / "run.yaml").read_text().replace("rounds: 3", "rounds: 6"))
    authority = make_pki(tmp_path / "pki", "hospital-a", "hospital-b")
    assert (authority / "server").is_dir()
    run = tmp_path / "runs/served"
    with Services(tmp_path) as services:
        serve, join = services.lines
        server = services.start(serve, "first")
        clients = [services.start(join.replace("pital-a", f"pital-{one}"), one) for one in "ab"]
        until(lambda: len(rounds_in(run)) >= 2 or server.poll() is not None, PATIENCE, "no round is saved")
        server.kill()
        server.wait()
        done = len(rounds_in(run))
        assert 2 <= done < 6, services.said("first")
        again = services.start(serve, "second")
        assert again.wait(PATIENCE) == 0, services.said("second")
        assert [one.wait(PATIENCE) for one in clients] == [0, 0], services.said("a")
        assert services.start(serve, "third").wait(PATIENCE) == 0, services.said("third")
    assert len(rounds_in(run)) == 6
    for log in ("first", "second", "third", "a", "b"):
        assert not re.search("Traceback|Matplotlib", services.said(log))
    events = [json.loads(line)["event"] for line in services.said("second").splitlines() if line.startswith("{")]
    assert "joined" in events
