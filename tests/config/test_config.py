"""One configuration, whether it comes from Python, from YAML or from flags."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from smofi import experiment
from smofi.cli import main
from smofi.config import Config, Settings, changed_fields, config_yaml, presets, read_config, run_config, sentence_of
from smofi.config.federation import gather
from smofi.data import load, partition
from smofi.errors import InputError
from smofi.experiment import stored_config
from smofi.optim import parse_optimizer
from smofi.plain_yaml import LARGEST, as_yaml, parse_settings
from smofi.runs import RunFolder
from support.run_folder import write_run

PAGE = (Path(__file__).parents[2] / "docs/configuration.md").read_text()
COUNT = "is not accepted: expected a whole number >= 1"
CUT = "is not accepted: expected L (such as 2), L,H for the U shape (such as 2,1), a range drawn each round (such as"
SEEDS = "is not accepted: expected seeds such as 0-2 or 0,3,5, each a whole number >= 0 and given once"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a.yaml into an empty current folder."""
    monkeypatch.chdir(tmp_path)

    def write(content: str | bytes) -> str:
        Path("a.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
        return "a.yaml"

    return write


def refusal(source: str | Path, overrides: dict[str, Any] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_config(source, overrides or {})
    return str(caught.value)


# ------------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"method": "smofi"}, ("smofi",)),
        ({"method": ["fedavg", "fedprox(0.01)+smofi( )"]}, ("fedavg", "fedprox(mu=0.01)+smofi")),
        ({"metrics": ["top1", "worst_client"]}, ("top1", "worst_client")),
        ({"cut": 2}, "2"),
        ({"cut": "0 - 2"}, "0-2"),
        ({"cut": (1, 1)}, "1,1"),
        ({"cut": [1, 2], "clients": 2}, "[1,2]"),
        ({"optimizer": "sgd(lr=0.1,\n  momentum=0.9)"}, "sgd(lr=0.1, momentum=0.9)"),
        ({"participation": 1}, 1.0),
        ({"rounds": np.int64(7)}, 7),
        ({"device": torch.device("cuda", 1)}, "cuda:1"),
        ({"wire": "fp32"}, None),
        ({"seeds": "0-2"}, (0, 1, 2)),
        # flags come as text
        ({"rounds": "12"}, 12),
        ({"participation": "1e-1"}, 0.1),
        ({"diagnose": "true"}, True),
        ({"width": "null"}, None),
    ],
)
def test_what_is_kept(given: dict[str, Any], kept: Any) -> None:
    value = getattr(Config(**given), next(iter(given)))
    assert (value, type(value)) == (kept, type(kept))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rounds": "x"}, f"rounds='x' {COUNT}"),
        ({"rounds": 0}, f"rounds=0 {COUNT}"),
        ({"rounds": "5.0"}, f"rounds='5.0' {COUNT}"),
        ({"local_epochs": 100_001}, f"local_epochs=100001 {COUNT} and <= 100000"),
        ({"rounds": 10**5000}, f"rounds=a whole number of more than 4000 digits {COUNT} and <= {2**63 - 1}"),
        ({"seed": -1}, "seed=-1 is not accepted: expected a whole number >= 0"),
        ({"participation": "nan"}, "participation='nan' is not accepted: expected a number > 0 and <= 1"),
        ({"validation": 1}, "validation=1 is not accepted: expected a number >= 0 and < 1"),
        ({"diagnose": 1}, "diagnose=1 is not accepted: expected True or False"),
        ({"data": "digit"}, "data='digit' is not accepted: expected one of digits, cifar10, "),
        ({"data": "x" * 10_000}, "data='xxx"),
        ({"data": "folder:"}, "data='folder:' is not accepted: expected one of digits, cifar10, "),
        ({"model": "vgg"}, "model='vgg' is not accepted: expected one of mlp, cnn, "),
        ({"augment": "turn"}, "augment='turn' is not accepted: expected crop and flip, each at most once, joined by +"),
        ({"norm": "group(0)"}, f"norm='group(0)': n=0 {COUNT}"),
        ({"device": "gpu"}, "device='gpu' is not accepted: expected the name of a torch device, such as cpu or cuda:0"),
        ({"partition": "dirichlet(0)"}, "partition='dirichlet(0)': gamma=0 is not accepted: expected a number > 0"),
        ({"optimizer": "sgd(lr=-1)"}, "optimizer='sgd(lr=-1)': lr=-1 is not accepted: expected a number > 0"),
        ({"method": []}, "method=[] is not accepted: expected a value such as smofi, or a list of them"),
        ({"method": "fedprox(mu=-1)"}, "method='fedprox(mu=-1)': fedprox: mu=-1 is not accepted: expected a number >="),
        ({"method": ("fedavg", "smofi+sflv2")}, "method='smofi+sflv2': smofi and sflv2 cannot be combined: "),
        (
            {"method": ["fedavgm(0.3)", "fedavgm(momentum=0.3)"]},
            "method=['fedavgm(momentum=0.3)', 'fedavgm(momentum=0.3)'] is not accepted: expected each of them once",
        ),
        (
            {"metrics": "top"},
            "metrics='top' is not accepted: expected one of top1, macro_f1, per_client, worst_client",
        ),
        ({"cut": "half"}, f"cut='half' {CUT}"),
        ({"cut": [1, 2], "clients": 3}, "expected one cut for each of the 3 clients, but it has 2"),
        ({"patience": 3}, "patience=3 is not accepted: expected validation to be more than 0 as well, such as 0.1"),
        ({"seeds": "2-0"}, f"seeds='2-0' {SEEDS}"),
        ({"seeds": [1, 1]}, f"seeds=[1, 1] {SEEDS}"),
        ({"seeds": "0-123456789012345678901234567890"}, "is not accepted: expected at most 1000 seeds"),
        ({"seed": 1, "seeds": "0-2"}, "seeds='0-2' is not accepted: expected seed or seeds, not both, and seed is 1"),
        ({"round": 5}, "round=5 is not accepted: there is no such setting, did you mean 'rounds'?"),
        ({"lr": 0.1}, "lr=0.1 is not accepted: there is no such setting; the settings are data, "),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_what_is_refused(given: dict[str, Any], sentence: str, tmp_path: Path, capsys: Any) -> None:
    """By the Config, by a file that names the setting, and by a flag."""
    with pytest.raises(ValidationError) as caught:
        Config(**given)
    said = sentence_of(caught.value)
    assert sentence in said
    assert len(said) < 700
    name, value = next(iter(given.items()))
    if len(given) > 1 or value == 10**5000 or not isinstance(value, (int, str)):
        return
    (file := tmp_path / "a.yaml").write_text(f"# mine\n{name}: {as_yaml(value)}\n")
    assert refusal(file).startswith(f"{file}, line 2: {name}=")
    if name in Config.model_fields and name not in ("diagnose", "data_folder"):
        assert main(["config", f"--{name.replace('_', '-')}={value}"]) == 2
        printed = capsys.readouterr().err
        assert printed.startswith(f"error: {name}=")
        assert printed.count("\n") == 1


@pytest.mark.parametrize("digits", ["9" * 400, "-" + "9" * 5000], ids=len)
def test_a_long_number_is_refused_in_a_sentence(digits: str, write: Any, capsys: Any) -> None:
    for name in ("rounds", "seed", "width", "seeds"):
        assert main(["config", f"--{name}={digits}"]) == 2
        printed = capsys.readouterr().err
        assert printed.startswith(f"error: {name}=")
        assert "whole number >= " in printed
        assert len(printed) < 700
        assert "a.yaml" in refusal(write(f"{name}: {digits}\n"))
    for name in ("nonsense", "method", "data", "participation", "norm", "cut", "memory_limit"):
        with pytest.raises(ValidationError) as refused:
            Config(**{name: 10**5000})
        assert sentence_of(refused.value).startswith(f"{name}=")


def test_flags_alone_need_not_go_together() -> None:
    assert Settings(patience=3, cut="[1,2]").model_fields_set == {"patience", "cut"}
    assert Settings(seeds=["null"]).seeds is None  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        Config().rounds = 3  # type: ignore[misc]


# ---------------------------------------------------------------------------------------------------------------- seeds


@pytest.mark.parametrize(
    ("written", "seeds"),
    [
        ("--seeds 0 1 2", "0-2"),
        ("--seeds 0,3,5", "0,3,5"),
        ("--seeds=7 --seeds=0-1", "7,0-1"),
        ("--seeds 4", None),
    ],
)
def test_seeds_are_the_same_as_flags_and_in_files(written: str, seeds: str | None, write: Any, capsys: Any) -> None:
    assert main(["config", *written.split(), "--rounds", "3"]) == 0
    printed = capsys.readouterr().out
    assert ("\nseed: null\n" in printed, f"\nseeds: {seeds or 'null'}\n" in printed) == (seeds is not None, True)
    config = read_config(write(printed))
    assert config == Config(seeds=list(config.each_seed), rounds=3)
    assert config_yaml(config) == printed


def test_one_seed_takes_the_place_of_several_and_several_that_of_one(write: Any) -> None:
    assert Config().seeds == Config(workers=1).seeds == (0, 1, 2)
    assert Config(rounds=30).each_seed == Config(method="smofi").each_seed == (0,)
    assert read_config(write("seeds: 0-2\nrounds: 3\n"), {"seed": 7}).each_seed == (7,)
    assert read_config("a.yaml", {"seeds": None}).each_seed == (0,)
    assert read_config(write("seed: 7\nrounds: 3\n"), {"seeds": "1-2"}).each_seed == (1, 2)
    assert refusal(write("seed: 0\nseeds: 0-2\n")) == "a.yaml has both seed and seeds: expected one of them"
    for command in ("run", "plan", "advise"):
        assert main([command, "--seed", "0", "--seeds", "0-2"]) == 2


# ---------------------------------------------------------------------------------------------------------------- files


def test_a_file_gives_what_it_says_and_defaults_otherwise(write: Any) -> None:
    path = write("rounds: 50\nmethod: fedprox(mu=0.01)+smofi\ncut: 0-2\nparticipation: 1e-1\nnorm: null\n")
    expected = Config(rounds=50, method=("fedprox(mu=0.01)+smofi",), cut="0-2", participation=0.1)
    assert read_config(Path(path)) == expected
    assert read_config(path, {"rounds": 5, "seed": 3}) == Config(**expected.model_dump() | {"rounds": 5, "seed": 3})
    assert read_config(write("rounds: x"), {"rounds": 5, "seed": 0}) == Config(rounds=5)


def test_an_error_names_the_file_only_if_the_file_has_the_setting(write: Any) -> None:
    path = write("patience: 3\nvalidation: 0.1\n")
    assert refusal(path, {"rounds": "x"}) == f"rounds='x' {COUNT}"
    assert refusal(path, {"round": 3}) == "round=3 is not accepted: there is no such setting, did you mean 'rounds'?"
    assert refusal(path, {"validation": 0.0}).startswith("a.yaml, line 1: patience=3 is not accepted: expected ")
    shown = re.findall(r"^    (my\.yaml, .+)$", PAGE, flags=re.MULTILINE)
    assert [refusal(write(one)).replace("a.yaml", "my.yaml") for one in ("round: 50", "rounds: many")] == shown


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("clients: 2\nround: 5", "a.yaml, line 2: round=5 is not accepted: there is no such setting, did you mean"),
        ("# nothing\n", "a.yaml is empty: expected settings, one per line, such as rounds: 50"),
        ("- smofi", "a.yaml contains a list: expected settings, one per line, such as rounds: 50"),
        ("5: 2", "a.yaml: 5 is not accepted as a key: expected the name of a setting"),
        ("rounds: 1\nseed: 2\nrounds: 3", "a.yaml cannot be read as YAML: line 3: 'rounds' is given twice"),
        ("rounds: 1\nmethod: [a", "line 2"),
        ("rounds: 1\n---\nrounds: 2", "expected a single document in the stream, but found another document"),
        ("? [1]\n: 2", "found unhashable key"),
        ("data: !!python/object/apply:os.getcwd []", "could not determine a constructor for the tag"),
        ("data: 2001-99-99", "a.yaml cannot be read as YAML: month must be in 1..12"),
        ("a: &a [x, x]\nb: &b [*a, *a]", "line 2: expected the value itself, not an alias (*name)"),
        ("[" * 500, "a.yaml cannot be read as YAML: it is nested too deeply"),
        ("data: \0", "a.yaml cannot be read as YAML: unacceptable character"),
        (b"data: \xff\xfe", "a.yaml is not text: byte 7 is not UTF-8; expected a YAML file"),
        ("x" * (LARGEST + 1), "a.yaml is larger than 256 KiB: expected a YAML file of settings"),
    ],
    ids=lambda content: "" if len(content) > 40 else None,
)
def test_a_file_that_cannot_be_used_is_a_sentence(write: Any, content: str | bytes, sentence: str) -> None:
    message = refusal(write(content))
    assert sentence in message
    assert message.startswith("a.yaml")
    assert "\n" not in message


def test_a_file_that_is_none(write: Any) -> None:
    write("")
    names = ", ".join(sorted({preset.name for preset in presets()}))
    assert refusal("b.yaml") == f"b.yaml does not exist: expected a YAML file, or a preset: {names}"
    assert refusal("digit").endswith(f"a preset: {names} (did you mean 'digits'?)")
    assert "does not exist" in refusal("a\0b") or "cannot be read" in refusal("a\0b")
    Path("run").mkdir()
    assert refusal("run") == "run is a folder: expected a YAML file of settings"
    Path("run/config.yaml").write_text("rounds: 3")
    assert refusal("run") == "run is a folder: expected a YAML file; did you mean run/config.yaml?"


@settings(max_examples=40)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_whatever_a_file_holds_is_settings_or_a_sentence(tmp_path_factory: Any, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_config(path, {})


configs = st.builds(
    Config,
    clients=st.just(3),
    partition=st.floats(1e-6, 1e6).map(lambda gamma: f"dirichlet({gamma!r})") | st.just("iid"),
    width=st.none() | st.integers(1, 64),
    norm=st.sampled_from([None, "batch", "group(2)"]),
    method=st.lists(st.sampled_from(["fedavg", "fednar(scope='part')+smofi"]), min_size=1, unique=True),
    optimizer=st.floats(1e-9, 10).map(lambda lr: f"sgd(lr={lr!r}, momentum=0.9)") | st.just("adamw"),
    cut=st.sampled_from(["1", "01", "1,1", "0-2", "[0,1,2]"]),
    participation=st.floats(0, 1, exclude_min=True),
    seed=st.integers(0, 2**70),
    device=st.sampled_from(["cpu", "cuda:1"]),
    validation=st.floats(0, 1, exclude_min=True, exclude_max=True),
    patience=st.none() | st.integers(1, 50),
    metrics=st.lists(st.sampled_from(["top1", "macro_f1", "per_client"]), min_size=1, unique=True),
    diagnose=st.booleans(),
)


@settings(max_examples=30)
@given(configs)
def test_what_is_written_reads_back(tmp_path_factory: Any, config: Config) -> None:
    path = tmp_path_factory.mktemp("written") / "config.yaml"
    path.write_text(config_yaml(config))
    assert read_config(path, {}) == config
    # and for anybody else's reader of YAML
    assert set(yaml.safe_load(config_yaml(config))) == set(Config.model_fields)


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1))
def test_a_line_of_text_reads_back(text: str) -> None:
    assert parse_settings(f"key: {as_yaml(text)}\nlist: {as_yaml([text])}", "it") == {"key": text, "list": [text]}


def test_a_preset_and_what_is_given_on_top_of_it() -> None:
    assert read_config("digits", {}) == Config()
    own = parse_optimizer(read_config("cifar10").optimizer)
    assert (own.weight_decay, own.lr_decay) == (5e-4, 0.998)
    given = parse_optimizer(read_config("cifar10", {"optimizer": "adam"}).optimizer)
    assert (given.lr, given.weight_decay, given.lr_decay) == (0.001, 0, 1)


@pytest.mark.parametrize("example", re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL))
def test_the_examples_on_the_page_are_configurations(example: str, write: Any) -> None:
    assert read_config(write(example), {}) != Config()
    for preset in presets():
        assert f"| `{preset.written}` | {preset.description} |" in PAGE


# -------------------------------------------------------------------------------------------------------- what it means


def test_owners_are_the_partition_of_what_is_not_held_out() -> None:
    labels = load("digits").train.labels
    config = Config(clients=7, validation=0.25, seed=5, batch_size=8)
    owner, arguments = config.owners(), config.arguments()
    assert (owner == -1).sum() == round(0.25 * len(labels))
    rest = np.flatnonzero(owner >= 0)
    for client, part in enumerate(partition(labels.numpy()[rest], 7, "dirichlet(0.2)", min_size=8, seed=5)):
        assert np.flatnonzero(owner == client).tolist() == rest[part].tolist()
        assert arguments["clients"][client].labels.tolist() == labels[rest[part]].tolist()
    assert arguments["validation"].labels.tolist() == labels[np.flatnonzero(owner == -1)].tolist()
    assert (config.owners() == owner).all()
    assert (Config(clients=7, validation=0.25, seed=6).owners() != owner).any()
    assert Config(clients=7).arguments()["validation"] is None
    with pytest.raises(InputError, match="validation=1e-05 is not accepted: expected 0, or at least one of the 1437"):
        Config(validation=1e-5).owners()


SIZES = {"mercy": 40, "clinic": 30, "ward": 25, "tiny": 3}
"""Rows of each site; of the last one, no batch can be made."""


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    """Settings of a run whose data is divided as it is among sites."""
    rows = [(site, number) for site, size in SIZES.items() for number in range(size)]
    lines = "".join(f"{number},{number % 2},{site}\n" for site, number in rows)
    (tmp_path / "sites.csv").write_text("a,label,site\n" + lines)
    quick = dict(executor="loop", model="mlp", width=4, rounds=1, participation=1.0, local_epochs=1, method="smofi")
    return dict(data=f"csv:{tmp_path / 'sites.csv'}", partition="natural") | quick


def test_every_owner_with_a_batch_is_a_client(table: dict[str, Any]) -> None:
    config = Config(**table)
    federation = gather(config)
    assert config.clients is None
    assert list(federation.client_names) == ["clinic", "mercy", "ward"]
    assert config.divided(federation).clients == 3
    assert (gather(Config(**table, clients=3)).owners == federation.owners).all()
    held_out = gather(Config(**table, validation=0.2, batch_size=22))
    assert [len(client) for client in held_out.clients] == [26]
    with pytest.raises(InputError, match=r"clients=4 is not accepted: 3 of the 4 owners .* use at most 3 clients"):
        gather(Config(**table, clients=4))
    with pytest.raises(ValidationError) as refused:
        Config(**table, cut="[0,1]").divided(federation)
    assert "expected one cut for each of the 3 clients, but it has 2" in sentence_of(refused.value)


def test_other_partitions_have_fifty_clients_and_a_file_counts_as_given(write: Any) -> None:
    assert Config().clients == Config(clients=None).clients == Config(clients="null", partition="iid").clients == 50
    assert Config(clients="null", partition="natural(most=9)").clients is None
    assert Config(clients=7, partition="natural").clients == 7
    assert read_config(write("clients: 50\npartition: iid\n"), {"partition": "natural"}).clients == 50
    assert read_config("a.yaml", {"partition": "natural", "clients": None}).clients is None
    assert read_config(write(config_yaml(Config(partition="natural")))).clients is None


def test_a_run_knows_how_many_clients_there_were(table: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    (one,) = experiment.start(Config(**table), tmp_path / "run")
    one.train()
    stored = run_config(RunFolder(tmp_path / "run"))
    assert stored is not None
    assert stored.clients == 3
    saved = Config(**table | {"partition": f"file:{tmp_path / 'run'}"})
    assert (saved.clients, len(gather(saved).clients)) == (None, 3)
    columns = ["--client-column", "label", "--label-column", "site"]
    assert main(["data", table["data"], "--partition", "natural", *columns]) == 0
    assert "natural, 2 clients" in " ".join(capsys.readouterr().out.split())
    assert main(["data", "digits", "--label-column", "y"]) == 2
    assert "is not accepted: only csv:PATH has columns" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------- resuming


def test_only_some_settings_may_change_on_resume() -> None:
    old = Config(validation=0.1)
    same = Config(validation=0.1, rounds=99, eval_every=2, checkpoint_every=1, patience=3, target_accuracy=0.5)
    assert changed_fields(old, same) == []
    assert changed_fields(old, Config(seed=1, method=("smofi",))) == [
        "method=['smofi'] is not accepted: the run was started with "
        "method=['fedavg', 'fedavgm(momentum=0.3)', 'smofi'], and a resumed run cannot change it",
        "seed=1 is not accepted: the run was started with seed=0, and a resumed run cannot change it",
        "validation=0.0 is not accepted: the run was started with validation=0.1, and a resumed run cannot change it",
    ]
    assert "seeds='0-1'" in changed_fields(old, Config(validation=0.1, seeds="0-1"))[0]
    for data, moved, may in (("csv:a", "csv:b", True), ("csv:a", "npz:a", False), ("python:a:b", "python:a:c", False)):
        assert (changed_fields(Config(data=data), Config(data=moved)) == []) is may


def test_a_folder_that_was_edited_is_a_new_run(tmp_path: Path) -> None:
    stored = tmp_path / "run" / "config.yaml"
    write_run(stored.parent, "optimizer: sgd(lr=0.1, decay=0.99)")
    with pytest.raises(InputError, match="decay is now lr_decay, the factor on the learning rate"):
        stored_config(stored.parent)
    stored.write_text("optimizer: sgd(lr=0.1, lr_decay=0.99)")
    with pytest.raises(InputError, match=r"is not what the run saved \(its checksum differs\)"):
        stored_config(stored.parent)
    assert read_config(stored).optimizer == "sgd(lr=0.1, lr_decay=0.99)"
