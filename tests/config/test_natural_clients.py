"""With partition natural, the data tells how many clients there are; with a saved one, the file does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from smofi import experiment
from smofi.cli import main
from smofi.config import Config, config_yaml, read_config, run_config, sentence_of
from smofi.config.federation import gather
from smofi.errors import InputError
from smofi.runs import RunFolder

SIZES = {"mercy": 40, "clinic": 30, "ward": 25, "tiny": 3}
"""Rows of each site; of the last one, no batch can be made."""


@pytest.fixture
def table(tmp_path: Path) -> str:
    rows = [(site, number) for site, size in SIZES.items() for number in range(size)]
    lines = "".join(f"{number},{number % 2},{site}\n" for site, number in rows)
    (tmp_path / "sites.csv").write_text("a,label,site\n" + lines)
    return f"csv:{tmp_path / 'sites.csv'}"


def settings(table: str, **more: Any) -> dict[str, Any]:
    quick = {
        "executor": "loop",
        "model": "mlp",
        "width": 4,
        "rounds": 1,
        "participation": 1.0,
        "local_epochs": 1,
        "method": "smofi",
    }
    return {"data": table, "partition": "natural", **quick, **more}


def flags(table: str) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings(table).items()]


def test_every_owner_with_a_batch_is_a_client(table: str) -> None:
    config = Config(**settings(table))
    federation = gather(config)
    assert config.clients is None
    assert [federation.source.owners[federation.source.owner[rows[0]]] for rows in federation.indices] == [
        "clinic",
        "mercy",
        "ward",
    ]
    assert config.divided(federation).clients == 3
    given = gather(Config(**settings(table, clients=3)))
    assert (given.owners == federation.owners).all()


def test_a_share_held_out_by_every_client(table: str) -> None:
    federation = gather(Config(**settings(table, validation=0.2, batch_size=22)))
    assert [len(client) for client in federation.clients] == [26]
    with pytest.raises(InputError, match="none of the 4 owners in this data has that many samples"):
        gather(Config(**settings(table, batch_size=100)))
    with pytest.raises(InputError, match=r"clients=4 is not accepted: 3 of the 4 owners .* use at most 3 clients"):
        gather(Config(**settings(table, clients=4)))


def test_other_partitions_have_fifty_clients_and_a_file_counts_as_given(tmp_path: Path) -> None:
    assert Config().clients == Config(clients=None).clients == Config(clients="null", partition="iid").clients == 50
    assert Config(clients="null", partition="natural(most=9)").clients is None
    assert Config(clients=7, partition="natural").clients == 7
    (tmp_path / "mine.yaml").write_text("clients: 50\npartition: iid\n")
    assert read_config(tmp_path / "mine.yaml", {"partition": "natural"}).clients == 50
    assert read_config(tmp_path / "mine.yaml", {"partition": "natural", "clients": None}).clients is None
    (tmp_path / "whole.yaml").write_text(config_yaml(Config(partition="natural")))
    assert read_config(tmp_path / "whole.yaml").clients is None


def test_a_cut_for_each_is_counted_once_they_are_known(table: str) -> None:
    config = Config(**settings(table, cut="[0,1]"))
    with pytest.raises(ValidationError) as refused:
        config.divided(gather(config))
    assert sentence_of(refused.value) == (
        "cut='[0,1]' is not accepted: expected one cut for each of the 3 clients, but it has 2"
    )


def test_the_run_folder_has_the_number_and_goes_on(table: str, tmp_path: Path, capsys: Any) -> None:
    (one,) = experiment.start(Config(**settings(table)), tmp_path / "run")
    one.train()
    stored = run_config(RunFolder(tmp_path / "run"))
    assert stored is not None
    assert stored.clients == 3
    (again,) = experiment.resume(tmp_path / "run", {"rounds": 2})
    again.train()
    assert again.folder.saved_rounds()[-1] == 2
    assert main(["run", *flags(table), "--output", str(tmp_path / "run")]) == 2  # with workers for three clients
    assert "already" in capsys.readouterr().err
    saved = Config(**settings(table, partition=f"file:{tmp_path / 'run'}"))
    assert saved.clients is None
    assert len(gather(saved).clients) == 3


@pytest.mark.parametrize("command", ["plan", "advise"])
def test_commands_that_train_nothing(command: str, table: str, capsys: Any) -> None:
    assert main([command, *flags(table)]) == 0
    words = capsys.readouterr().out.replace("│", " ").split()
    assert ["3", "clients,"] in [words[k : k + 2] for k in range(len(words))] or words[
        words.index("clients") + 1
    ] == "3"


def test_smofi_data_shows_them_and_takes_columns(table: str, capsys: Any) -> None:
    assert main(["data", table, "--partition", "natural", "--devices"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "natural, 3 clients" in shown
    assert "phones of 3 clients" in shown
    assert main(["data", table, "--partition", "natural", "--client-column", "label", "--label-column", "site"]) == 0
    assert "natural, 2 clients" in " ".join(capsys.readouterr().out.split())
    assert main(["data", "digits", "--label-column", "y"]) == 2
    assert "is not accepted: only csv:PATH has columns, and the data is digits" in capsys.readouterr().err
