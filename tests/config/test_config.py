"""One configuration, whether it comes from Python, from YAML or from flags."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from smofi.config import (
    RESUMABLE,
    Config,
    Settings,
    changed_fields,
    config_yaml,
    presets,
    read_config,
    sentence_of,
)
from smofi.data import PARTITIONS, load, partition
from smofi.data.catalogue import descriptions
from smofi.errors import InputError
from smofi.experiment import stored_config
from smofi.models import MODELS
from smofi.optim import parse_optimizer
from smofi.plain_yaml import LARGEST, as_yaml, parse_settings
from support.run_folder import write_run

PAGE = (Path(__file__).parents[2] / "docs/configuration.md").read_text()
DATA = ", ".join([*descriptions(), "folder:PATH, npz:PATH, csv:PATH, python:module:function"])
CUT_FORMS = (
    'expected L (such as 2), L,H for the U shape (such as 2,1), a range drawn each round (such as "0-3"), or a list '
    "with one cut per client"
)


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


def test_a_config_is_frozen() -> None:
    with pytest.raises(ValidationError):
        Config().rounds = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"method": "smofi"}, ("smofi",)),
        ({"method": ["fedavg", "fedprox(0.01)+smofi( )"]}, ("fedavg", "fedprox(mu=0.01)+smofi")),
        ({"metrics": "macro_f1"}, ("macro_f1",)),
        ({"metrics": ["top1", "worst_client"]}, ("top1", "worst_client")),
        ({"cut": 2}, "2"),
        ({"cut": "0 - 2"}, "0-2"),
        ({"cut": (1, 1)}, "1,1"),
        ({"cut": [1, 2], "clients": 2}, "[1,2]"),
        ({"optimizer": "sgd(lr=0.1,\n  momentum=0.9)"}, "sgd(lr=0.1, momentum=0.9)"),
        ({"participation": 1}, 1.0),
        ({"rounds": np.int64(7)}, 7),
        ({"device": torch.device("cuda", 1)}, "cuda:1"),
        ({"width": None}, None),
        # flags come as text
        ({"rounds": "12"}, 12),
        ({"participation": "1e-1"}, 0.1),
        ({"diagnose": "true"}, True),
        ({"width": "null"}, None),
        ({"patience": "3", "validation": "0.1"}, 3),
    ],
)
def test_what_is_kept(given: dict[str, Any], kept: Any) -> None:
    value = getattr(Config(**given), next(iter(given)))
    assert value == kept
    assert type(value) is type(kept)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rounds": "x"}, "rounds='x' is not accepted: expected a whole number >= 1"),
        ({"rounds": 0}, "rounds=0 is not accepted: expected a whole number >= 1"),
        ({"rounds": True}, "rounds=True is not accepted: expected a whole number >= 1"),
        ({"rounds": "0"}, "rounds='0' is not accepted: expected a whole number >= 1"),
        ({"rounds": "5.0"}, "rounds='5.0' is not accepted: expected a whole number >= 1"),
        ({"participation": "nan"}, "participation='nan' is not accepted: expected a number > 0 and <= 1"),
        ({"diagnose": "maybe"}, "diagnose='maybe' is not accepted: expected True or False"),
        ({"clients": 2.5}, "clients=2.5 is not accepted: expected a whole number >= 1"),
        ({"seed": -1}, "seed=-1 is not accepted: expected a whole number >= 0"),
        ({"participation": 0}, "participation=0 is not accepted: expected a number > 0 and <= 1"),
        ({"validation": 1}, "validation=1 is not accepted: expected a number >= 0 and < 1"),
        ({"target_accuracy": 90}, "target_accuracy=90 is not accepted: expected a number > 0 and <= 1"),
        ({"diagnose": 1}, "diagnose=1 is not accepted: expected True or False"),
        ({"eval_every": 0}, "eval_every=0 is not accepted: expected a whole number >= 1"),
        ({"checkpoint_every": 0}, "checkpoint_every=0 is not accepted: expected a whole number >= 1"),
        ({"data": "digit"}, f"data='digit' is not accepted: expected one of {DATA} (did you mean 'digits'?)"),
        ({"data": 5}, f"data=5 is not accepted: expected one of {DATA}"),
        ({"data": "folder:"}, f"data='folder:' is not accepted: expected one of {DATA}"),
        ({"model": "vgg"}, f"model='vgg' is not accepted: expected one of {', '.join(MODELS)} (did you mean 'vgg16'?)"),
        ({"image_size": 0}, "image_size=0 is not accepted: expected a whole number >= 1"),
        ({"max_train": 1.5}, "max_train=1.5 is not accepted: expected a whole number >= 1"),
        ({"augment": "turn"}, "augment='turn' is not accepted: expected crop and flip, each at most once, joined by +"),
        ({"data_folder": 5}, "data_folder=5 is not accepted: expected the path of a folder"),
        ({"norm": "layer"}, "norm='layer' is not accepted: expected one of batch, group"),
        ({"norm": 2}, 'norm=2 is not accepted: expected a string such as "group(2)"'),
        ({"norm": "group(0)"}, "norm='group(0)': n=0 is not accepted: expected a whole number >= 1"),
        ({"device": "gpu"}, "device='gpu' is not accepted: expected the name of a torch device, such as cpu or cuda:0"),
        ({"device": 0}, "device=0 is not accepted: expected the name of a torch device, such as cpu or cuda:0"),
        ({"partition": 0.2}, 'partition=0.2 is not accepted: expected a string such as "dirichlet(0.2)"'),
        ({"partition": "dirichlet(0)"}, "partition='dirichlet(0)': gamma=0 is not accepted: expected a number > 0"),
        (
            {"partition": "even"},
            f"partition='even' is not accepted: expected one of {', '.join(PARTITIONS)}, file:PATH",
        ),
        ({"optimizer": "sgd(lr=-1)"}, "optimizer='sgd(lr=-1)': lr=-1 is not accepted: expected a number > 0"),
        ({"method": 5}, "method=5 is not accepted: expected a value such as smofi, or a list of them"),
        ({"method": []}, "method=[] is not accepted: expected a value such as smofi, or a list of them"),
        ({"method": [3]}, 'method=3 is not accepted: expected a string such as "fedprox(mu=0.01)+smofi"'),
        (
            {"method": "fedprox(mu=-1)"},
            "method='fedprox(mu=-1)': fedprox: mu=-1 is not accepted: expected a number >= 0",
        ),
        (
            {"method": ["fedavgm(0.3)", "fedavgm(momentum=0.3)"]},
            "method=['fedavgm(momentum=0.3)', 'fedavgm(momentum=0.3)'] is not accepted: expected each of them once",
        ),
        (
            {"metrics": "top"},
            "metrics='top' is not accepted: expected one of top1, macro_f1, per_client, worst_client "
            "(did you mean 'top1'?)",
        ),
        ({"cut": "half"}, f"cut='half' is not accepted: {CUT_FORMS}"),
        ({"cut": 1.5}, f"cut='1.5' is not accepted: {CUT_FORMS}"),
        ({"cut": True}, f"cut='True' is not accepted: {CUT_FORMS}"),
        ({"cut": -1}, f"cut='-1' is not accepted: {CUT_FORMS}"),
        (
            {"cut": [1, 2], "clients": 3},
            "cut='[1,2]' is not accepted: expected one cut for each of the 3 clients, but it has 2",
        ),
        (
            {"model": "mlp", "norm": "batch"},
            "norm='batch' is not accepted: model mlp has no such option",
        ),
        (
            {"patience": 3},
            "patience=3 is not accepted: expected validation to be more than 0 as well, such as 0.1",
        ),
        ({"round": 5}, "round=5 is not accepted: there is no such setting, did you mean 'rounds'?"),
        (
            {"lr": 0.1},
            f"lr=0.1 is not accepted: there is no such setting; the settings are {', '.join(Config.model_fields)}",
        ),
    ],
)
def test_what_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Config(**given)
    assert sentence_of(caught.value) == sentence


def test_methods_that_cannot_work_together_are_refused_by_their_name() -> None:
    with pytest.raises(ValidationError) as caught:
        Config(method=("fedavg", "smofi+sflv2"))
    assert sentence_of(caught.value).startswith("method='smofi+sflv2': smofi and sflv2 cannot be combined: ")


def test_a_long_value_is_shortened_and_the_advice_kept() -> None:
    with pytest.raises(ValidationError) as caught:
        Config(data="x" * 10_000)
    sentence = sentence_of(caught.value)
    assert len(sentence) < 700
    assert sentence.startswith("data='xxx")
    assert sentence.endswith("xxx... is not accepted: expected one of " + DATA)


def test_flags_alone_need_not_go_together() -> None:
    assert Settings(patience=3, cut="[1,2]").model_fields_set == {"patience", "cut"}
    with pytest.raises(ValidationError):
        Settings(rounds=0)


# ---------------------------------------------------------------------------------------------------------------- files


def test_a_file_gives_what_it_says_and_defaults_otherwise(write: Any) -> None:
    path = write("rounds: 50\nmethod: fedprox(mu=0.01)+smofi\ncut: 0-2\nparticipation: 1e-1\nnorm: null\n")
    expected = Config(rounds=50, method=("fedprox(mu=0.01)+smofi",), cut="0-2", participation=0.1)
    assert read_config(path, {}) == expected
    assert read_config(Path(path)) == expected


def test_overrides_win(write: Any) -> None:
    path = write("rounds: 50\nseed: 3\n")
    assert read_config(path, {"rounds": 5}) == Config(rounds=5, seed=3)
    assert read_config(write("rounds: x"), {"rounds": 5}) == Config(rounds=5)


def test_an_error_names_the_file_only_if_the_file_is_at_fault(write: Any) -> None:
    path = write("patience: 3\nvalidation: 0.1\n")
    alone = "patience=3 is not accepted: expected validation to be more than 0 as well, such as 0.1"
    assert refusal(path, {"rounds": "x"}) == "rounds='x' is not accepted: expected a whole number >= 1"
    assert refusal(path, {"round": 3}) == "round=3 is not accepted: there is no such setting, did you mean 'rounds'?"
    assert refusal(write("patience: 3"), {"rounds": 3}) == f"a.yaml, line 1: {alone.replace('=', ': ', 1)}"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("rounds: x", "a.yaml, line 1: rounds: x is not accepted: expected a whole number >= 1"),
        ("rounds: null", "a.yaml, line 1: rounds: null is not accepted: expected a whole number >= 1"),
        ("clients: 2\nround: 5", "a.yaml, line 2: round: 5 is not accepted: there is no such setting, did you mean"),
        ("", "a.yaml is empty: expected settings, one per line, such as rounds: 50"),
        ("# nothing\n", "a.yaml is empty: expected settings, one per line, such as rounds: 50"),
        ("- smofi", "a.yaml contains a list: expected settings, one per line, such as rounds: 50"),
        ("smofi", "a.yaml contains a str: expected settings, one per line, such as rounds: 50"),
        ("5: 2", "a.yaml: 5 is not accepted as a key: expected the name of a setting"),
        ("rounds: 1\nseed: 2\nrounds: 3", "a.yaml cannot be read as YAML: line 3: 'rounds' is given twice"),
        ("rounds: 1\nmethod: [a", "line 2"),
        ("rounds: 1\n\tseed: 2", "line 2"),
        ("rounds: 1\n---\nrounds: 2", "expected a single document in the stream, but found another document"),
        ("? [1]\n: 2", "found unhashable key"),
        ("data: !!python/object/apply:os.getcwd []", "could not determine a constructor for the tag"),
        ("data: 2001-99-99", "a.yaml cannot be read as YAML: month must be in 1..12"),
        ("rounds: " + "1" * 5000, "a.yaml cannot be read as YAML: "),
        (
            "a: &a [x, x]\nb: &b [*a, *a]",
            "a.yaml cannot be read as YAML: line 2: expected the value itself, not an alias (*name)",
        ),
        ("[" * 5000, "a.yaml cannot be read as YAML: it is nested too deeply"),
        ("data: \0", "a.yaml cannot be read as YAML: unacceptable character"),
        (b"data: \xff\xfe", "a.yaml is not text: byte 7 is not UTF-8; expected a YAML file"),
        ("x" * (LARGEST + 1), "a.yaml is larger than 256 KiB: expected a YAML file of settings"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_sentence(write: Any, content: str | bytes, sentence: str) -> None:
    message = refusal(write(content))
    assert sentence in message
    assert message.startswith("a.yaml")
    assert "\n" not in message


def test_a_file_that_is_none(write: Any) -> None:
    names = ", ".join(sorted({preset.name for preset in presets()}))
    assert refusal("b.yaml") == f"b.yaml does not exist: expected a YAML file, or a preset: {names}"
    assert refusal("digit").endswith(f"a preset: {names} (did you mean 'digits'?)")
    assert "does not exist" in refusal("a\0b") or "cannot be read" in refusal("a\0b")
    Path("run").mkdir()
    assert refusal("run") == "run is a folder: expected a YAML file of settings"
    Path("run/config.yaml").write_text("rounds: 3")
    assert refusal("run") == "run is a folder: expected a YAML file; did you mean run/config.yaml?"


def test_an_explosion_of_aliases_ends_quickly(write: Any) -> None:
    levels = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30))
    assert "alias" in refusal(write(f"a0: &a0 [x]\n{levels}"))


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_whatever_a_file_holds_is_settings_or_a_sentence(tmp_path_factory: Any, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_config(path, {})


# -------------------------------------------------------------------------------------------------------------- writing

configs = st.builds(
    Config,
    clients=st.just(3),
    partition=st.floats(1e-6, 1e6).map(lambda gamma: f"dirichlet({gamma!r})") | st.just("iid"),
    model=st.just("resnet8"),
    width=st.none() | st.integers(1, 64),
    norm=st.sampled_from([None, "batch", "group", "group(2)"]),
    method=st.lists(
        st.sampled_from(["fedavg", "smofi", "fednar(scope='part')+smofi", "fedprox(mu=1e-05)", "slowmo(1, 0.5, 3)"]),
        min_size=1,
        unique=True,
    ),
    optimizer=st.floats(1e-9, 10).map(lambda lr: f"sgd(lr={lr!r}, momentum=0.9)") | st.just("adamw"),
    cut=st.sampled_from(["1", "01", "1,1", "0-2", "[0,1,2]"]),
    rounds=st.integers(1, 10**6),
    participation=st.floats(0, 1, exclude_min=True),
    seed=st.integers(0, 2**70),
    device=st.sampled_from(["cpu", "cuda", "cuda:1"]),
    validation=st.floats(0, 1, exclude_min=True, exclude_max=True),
    patience=st.none() | st.integers(1, 50),
    target_accuracy=st.none() | st.floats(0, 1, exclude_min=True),
    eval_every=st.integers(1, 100),
    checkpoint_every=st.integers(1, 100),
    metrics=st.lists(st.sampled_from(["top1", "macro_f1", "per_client"]), min_size=1, unique=True),
    diagnose=st.booleans(),
)


@given(configs)
def test_what_is_written_reads_back(tmp_path_factory: Any, config: Config) -> None:
    path = tmp_path_factory.mktemp("written") / "config.yaml"
    path.write_text(config_yaml(config))
    assert read_config(path, {}) == config
    # and for anybody else's reader of YAML
    assert set(yaml.safe_load(config_yaml(config))) == set(Config.model_fields)


def test_every_key_has_its_comment_above() -> None:
    lines = config_yaml(Config()).splitlines()
    for name, field in Config.model_fields.items():
        (at,) = [number for number, line in enumerate(lines) if line.startswith(f"{name}:")]
        assert lines[at - 1] == f"# {field.description}"


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1))
def test_a_line_of_text_reads_back(text: str) -> None:
    assert parse_settings(f"key: {as_yaml(text)}\nlist: {as_yaml([text])}", "it") == {"key": text, "list": [text]}


def test_the_preset_is_the_first_run() -> None:
    assert read_config("digits", {}) == Config()
    (first,) = (preset for preset in presets() if preset.name == "digits")
    assert first.description.startswith("The first run: FedAvg, FedAvgM and SMoFi side by side")


def test_an_optimizer_given_on_top_of_a_preset_keeps_nothing_of_the_presets() -> None:
    """As the page says: neither weight decay nor the factor per round."""
    own = parse_optimizer(read_config("cifar10").optimizer)
    assert (own.weight_decay, own.lr_decay) == (5e-4, 0.998)
    given = parse_optimizer(read_config("cifar10", {"optimizer": "adam"}).optimizer)
    assert (given.lr, given.weight_decay, given.lr_decay) == (0.001, 0, 1)
    kept = parse_optimizer(read_config("cifar10", {"optimizer": "adam(lr_decay=0.998)"}).optimizer)
    assert kept.lr_decay == 0.998


# -------------------------------------------------------------------------------------------------------- what it means


def test_owners_are_the_partition_of_what_is_not_held_out() -> None:
    config = Config(clients=7, validation=0.25, seed=5)
    labels = load("digits").train.labels.numpy()
    owner = config.owners()
    assert owner.dtype == np.int32
    assert (owner == -1).sum() == round(0.25 * len(labels))
    rest = np.flatnonzero(owner >= 0)
    for client, part in enumerate(partition(labels[rest], 7, "dirichlet(0.2)", min_size=8, seed=5)):
        assert np.flatnonzero(owner == client).tolist() == rest[part].tolist()
    assert (config.owners() == owner).all()
    assert (Config(clients=7, validation=0.25, seed=6).owners() != owner).any()


def test_without_validation_owners_are_the_partition_itself() -> None:
    labels = load("digits").train.labels.numpy()
    owner = Config(seed=2).owners()
    for client, part in enumerate(partition(labels, 50, "dirichlet(0.2)", min_size=8, seed=2)):
        assert np.flatnonzero(owner == client).tolist() == part.tolist()


def test_the_arguments_hold_every_training_sample_once() -> None:
    config = Config(
        clients=6, validation=0.1, patience=4, target_accuracy=0.8, eval_every=3, metrics=("top1", "macro_f1")
    )
    arguments, owner = config.arguments(), config.owners()
    targets = load("digits").train.labels
    for client, samples in enumerate(arguments["clients"]):
        assert samples.labels.tolist() == targets[np.flatnonzero(owner == client)].tolist()
    assert arguments["validation"].labels.tolist() == targets[np.flatnonzero(owner == -1)].tolist()
    assert sum(map(len, arguments["clients"])) + len(arguments["validation"]) == len(targets)
    names = ("patience", "target_accuracy", "eval_every", "metrics", "diagnose", "rounds", "seed", "cut")
    assert {name: arguments[name] for name in names} == {name: getattr(config, name) for name in names}
    assert Config().arguments()["validation"] is None


def test_a_share_too_small_to_hold_a_sample_is_refused() -> None:
    with pytest.raises(InputError, match="validation=1e-05 is not accepted: expected 0, or at least one of the 1437"):
        Config(validation=1e-5).owners()


def test_only_some_settings_may_change_on_resume() -> None:
    old = Config(validation=0.1)
    same = Config(validation=0.1, rounds=99, eval_every=2, checkpoint_every=1, patience=3, target_accuracy=0.5)
    assert changed_fields(old, same) == []
    assert changed_fields(old, old) == []
    assert changed_fields(old, Config(seed=1, method=("smofi",))) == [
        "method=['smofi'] is not accepted: the run was started with "
        "method=['fedavg', 'fedavgm(momentum=0.3)', 'smofi'], and a resumed run cannot change it",
        "seed=1 is not accepted: the run was started with seed=0, and a resumed run cannot change it",
        "validation=0.0 is not accepted: the run was started with validation=0.1, and a resumed run cannot change it",
    ]
    assert set(Config.model_fields) >= RESUMABLE


def test_a_run_with_the_old_name_of_lr_decay_is_a_new_run_with_the_new_one(tmp_path: Path) -> None:
    stored = tmp_path / "run" / "config.yaml"
    write_run(stored.parent, "optimizer: sgd(lr=0.1, decay=0.99)")
    with pytest.raises(InputError) as caught:
        stored_config(stored.parent)
    assert str(caught.value) == (
        f"{stored}: optimizer='sgd(lr=0.1, decay=0.99)': decay=0.99 is not accepted: decay is now lr_decay, the factor "
        "on the learning rate per round"
    )
    stored.write_text("optimizer: sgd(lr=0.1, lr_decay=0.99)")
    with pytest.raises(InputError) as caught:
        stored_config(stored.parent)
    assert str(caught.value) == (
        f"{stored} is not what the run saved (its checksum differs): it is damaged, edited or from another run. "
        f"Put the original back; other settings are a new run: smofi run {stored} --output NEW"
    )
    assert read_config(stored).optimizer == "sgd(lr=0.1, lr_decay=0.99)"


# -------------------------------------------------------------------------------------------------------- documentation


def test_the_page_lists_every_preset() -> None:
    for preset in presets():
        assert f"| `{preset.written}` | {preset.description} |" in PAGE


@pytest.mark.parametrize("example", re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL))
def test_the_examples_on_the_page_are_configurations(example: str, write: Any) -> None:
    assert read_config(write(example), {}) != Config()


def test_the_page_shows_refusals_as_they_are(write: Any) -> None:
    shown = re.findall(r"^    (my\.yaml, .+)$", PAGE, flags=re.MULTILINE)
    for content, sentence in zip(["round: 50", "rounds: many"], shown, strict=True):
        assert refusal(write(content)).replace("a.yaml", "my.yaml") == sentence
