"""What a server needs is added up before it listens: in closed form, against a real run, and in refusals."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import pytest
import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from smofi.config import Config
from smofi.config.federation import read_source
from smofi.engine.events import Event, RoundDone, TickDone
from smofi.errors import InputError
from smofi.serving import memory
from smofi.serving.assembly import Assembly
from smofi.serving.checks import Serving
from smofi.serving.memory import ServedMemory
from smofi.serving.server import Server
from support.deployed import Clients, Serve, small
from support.ports import free_port

MOMENTUM = "sgd(lr=0.05, momentum=0.9)"


def needs(config: Config) -> ServedMemory:
    serving = Serving(config, Path("nowhere"))
    return Assembly(serving, read_source(config), torch.device("cpu")).needs(config, 0)


def numbers(config: Config) -> dict[str, float]:
    """How many numbers of 4 bytes, by what they are."""
    return {item.what: item.bytes / 4 for item in needs(config).items()}


@pytest.mark.parametrize("method", ["fedavg", "sflv1", "smofi", "sflv2", "mergesfl", "fednag"])
def test_the_sums_are_those_of_the_guide(method: str) -> None:
    """J = 5 of 8 clients; P, Pc and Ps are counted in the model itself."""
    config = small(method=method, optimizer=MOMENTUM, model="resnet8", width=4)
    model = config.build_model(read_source(config))
    whole = sum(p.numel() for p in model.parameters())
    server = sum(p.numel() for block in list(model)[2:] for p in block.parameters())
    client, found = whole - server, numbers(config)
    assert needs(config).per_round == 5
    rows = 5 * client + server if method in ("sflv2", "mergesfl") else 5 * whole
    assert (found["rows: weights"], found["gradients"]) == (rows, rows)
    if method == "smofi":
        assert found["momentum: client parts"] + found["momentum: fused"] == 5 * client + 11 * server
    else:
        assert found["momentum"] == rows


def test_moments_and_activations() -> None:
    assert "momentum" not in numbers(small(method="fedavg", optimizer="sgd(lr=0.05)"))
    with_adam = numbers(small(method="fedavg", optimizer="adam(lr=0.01)"))
    assert with_adam["momentum"] == 2 * with_adam["rows: weights"]
    assert needs(small(method="fedavg", cut="1,1")).at_a_time == needs(small(method="mergesfl")).at_a_time == 5
    assert needs(small(method="sflv2")).at_a_time == 1


def test_passes_are_counted_on_the_model() -> None:
    """A server of pooling, flattening and a linear layer, 8 samples: the activation and its copy, the pooled and the
    output are made, the first of them is the largest; the largest weight of the model is a convolution's."""
    found = {item.what: item.bytes for item in needs(small(model="resnet8", width=4, cut="3", method="sflv2")).items()}
    cut, pooled, output, weight = 16 * 2 * 2, 16, 10, 16 * 16 * 3 * 3
    assert found["activations"] == 4 * 8 * (2 * cut + pooled + output)
    assert found["backward passes"] == 4 * (4 * 8 * cut + 3 * weight)


def test_threads_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main one, and two whose passes are at least timed; a single server model has one pass."""
    monkeypatch.setattr(memory, "available_cores", lambda: 2)
    one = numbers(small(method="sflv2"))
    for changes, times in (({}, 3), ({"workers": 1}, 1), ({"workers": 4}, 5)):
        found = numbers(small(method="fedavg", **changes))
        assert found["activations"] == pytest.approx(times * one["activations"], rel=1e-6)
        assert found["backward passes"] == times * one["backward passes"]
    u_shaped, merged = small(method="fedavg", cut="0,1", workers=1), small(method="mergesfl")
    assert (needs(u_shaped).at_a_time, needs(u_shaped).threads) == (5, 1)
    assert numbers(merged)["activations"] == pytest.approx(5 * one["activations"], rel=1e-6)


@pytest.mark.parametrize("method", ["smofi", pytest.param("fedavg", marks=pytest.mark.slow)])
def test_a_real_run_has_the_tensors_that_are_foreseen(method: str, tmp_path: Path) -> None:
    config = small(model="resnet8", width=48, cut="0", method=method, clients=3, participation=1.0, rounds=2)
    port, found, foreseen = free_port(), list[int](), needs(config)

    def measure(event: Event) -> None:
        if isinstance(event, RoundDone) or (isinstance(event, TickDone) and event.tick in (0, 3)):
            found.append(tensors_in_memory())

    before = tensors_in_memory()
    with Clients(port, 3, allow_labels=True) as clients, Serve(config, tmp_path / "run", port) as server:
        server.on_event = measure
        server.result()
        assert clients.all_ended() == [0] * 3
    of_the_heap = ("backward passes", "end of a round", "libraries")
    tensors = sum(item.bytes for item in foreseen.items() if item.what not in of_the_heap)
    limit = tensors + foreseen.lasting()
    assert limit / 2 < max(found) - before < limit


def tensors_in_memory() -> int:
    """The bytes of all that tensors of this process live in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # looking at every object touches deprecated ones
        kinds = (torch.Tensor, torch.nn.Parameter)
        places = [
            one.untyped_storage()
            for one in gc.get_objects()
            if type(one) in kinds and one.layout == torch.strided and not is_functorch_wrapped_tensor(one)
        ]
    return sum({place.data_ptr(): place.nbytes() for place in places}.values())


def test_a_limit_that_is_too_small_is_refused_with_the_sum(tmp_path: Path) -> None:
    config = small(model="resnet8", width=48, memory_limit="150MB")
    rows = next(item.arithmetic for item in needs(config).items() if item.what == "rows: weights")
    with pytest.raises(InputError) as refused:
        Server(Serving(config, tmp_path / "run"))
    assert str(refused.value).startswith("memory_limit='150MB' is not accepted: expected at least ")
    assert "that this process already uses + 1" in str(refused.value)
    assert f"rows: weights {rows}" in str(refused.value)
    assert rows.startswith("5 x ")
    Server(Serving(small(memory_limit="30GB"), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_machine_that_has_too_little_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 5e7)
    with pytest.raises(InputError, match=r"^this run is not accepted: a round needs .* and 50 MB of memory are avail"):
        Server(Serving(small(), tmp_path / "run"))
