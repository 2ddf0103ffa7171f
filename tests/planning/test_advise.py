"""Which cut? What advise says of every cut against closed forms and real runs, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from torch import nn

import smofi
from smofi.cli import main
from smofi.config import Config
from smofi.config.federation import gather_each
from smofi.cut import Cuts, parse_cut
from smofi.engine.plan import Planner
from smofi.errors import InputError
from smofi.flat import Layout
from smofi.planning import Outlook, advise, advise_each, look_ahead, recommended, single_cuts
from smofi.training import arguments_of, as_samples, make_planner

SMALL = Config(model="cnn", width=4, clients=4, batch_size=64, local_epochs=1, participation=0.5, rounds=3)
DEVICES = [smofi.Device(seconds=0.2, up=100.0, down=400.0), smofi.Device(seconds=0.6, up=50.0, down=200.0)]


def config(**changes: Any) -> Config:
    return Config(**SMALL.model_dump() | changes)


def planner(method: str, clock: str = "full", **options: Any) -> tuple[Planner, Cuts]:
    """Two clients with 8 and 12 samples of 4 numbers, and a model of 4 blocks: 32, 64, 24 and 6 MACs."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(3, 2))
    layout = Layout.of(model)
    data = [(torch.zeros(size, 4), torch.arange(size) % 2) for size in (8, 12)]
    samples = [as_samples(pair, "clients", layout.dtype, torch.device("cpu")) for pair in data]
    asked = arguments_of(
        model,
        data,
        method=method,
        optimizer=smofi.sgd(lr=0.1, momentum=0.9),
        cut=0,
        participation=1.0,
        local_epochs=2,
        batch_size=4,
        clock=smofi.Timing(clock, DEVICES),
        **options,
    )
    made = make_planner(asked, layout, samples)
    return made, parse_cut(options.get("cut", 0), layout, 2)


# ------------------------------------------------------------------------------------------------------------- figures


@pytest.mark.parametrize("clock", ["paper", "full"])
def test_the_figures_of_two_devices_by_hand(clock: str) -> None:
    made, given = planner("fedavg", clock)
    found = look_ahead(made, single_cuts(given), rounds=2)
    # Of 126 MACs; numbers that cross the cut; parameters of the client's blocks.
    shares, crossing = [32 / 126, 96 / 126, 120 / 126], [8, 8, 3]
    parameters = [40, 40 + 72, 40 + 72 + 27]
    server = fmean(device.seconds for device in DEVICES) / 100
    for outlook, share, numbers, own in zip(found, shares, crossing, parameters, strict=True):
        assert outlook
        weights = 4 * own if clock == "full" else 0
        times, computes, sent = [], [], []
        for device, steps in zip(DEVICES, (4, 6), strict=True):
            samples = 4 * steps
            computes.append(3 * samples * device.seconds * share)
            sent.append(4 * samples * numbers + weights)
            serving = 3 * samples * server * (1 - share)
            times.append(computes[-1] + serving + sent[-1] / device.up + sent[-1] / device.down)
        assert outlook.seconds == pytest.approx([max(times)] * 2)
        assert outlook.mean == pytest.approx(max(times))
        assert outlook.spread == pytest.approx(0, abs=1e-9)
        assert outlook.compute == pytest.approx(fmean(computes))
        assert outlook.up == outlook.down == fmean(sent)
        assert outlook.idle == pytest.approx(fmean(1 - time / max(times) for time in times))


@pytest.mark.parametrize(
    "changes",
    [
        {"clock": "paper"},
        {"availability": "phones", "method": "fednag"},
        {"server_parallel": 1, "cut": "0,1"},
        {"method": "mergesfl(steps=3)"},
        {"step_deadline": 0.001},
    ],
    ids=str,
)
def test_what_is_foreseen_is_what_a_run_records(changes: dict[str, Any]) -> None:
    given = config(**{"clock": "full", "method": "smofi", **changes})
    found = advise(given)
    (outlooks,) = found.outlooks.values()
    for side, outlook in zip(found.sides, outlooks, strict=True):
        assert outlook
        run = Config(**given.model_dump() | {"cut": side.cut})
        history = smofi.train(**run.arguments(), method=given.method[0]).history
        assert outlook.seconds == pytest.approx([record.virtual_seconds for record in history])
        assert outlook.up == fmean(sent for record in history for sent in record.bytes_up)
        assert outlook.down == fmean(received for record in history for received in record.bytes_down)
        assert outlook.idle == pytest.approx(fmean(idle for record in history for idle in record.idle))


def test_several_seeds_are_planned_together() -> None:
    whole = config(method=["fedavg", "fedavgm(momentum=0.3)", "smofi"], partition="dirichlet(0.5)")
    whole = whole.model_copy(update={"seeds": (0, 4)})
    together = advise_each(whole, gather_each(whole))
    assert list(together.alike.values()) == [["fedavg", "fedavgm(momentum=0.3)"], ["smofi"]]
    first, second = (advise(whole.with_seed(seed)) for seed in (0, 4))
    assert together.sides == first.sides == second.sides
    for method, outlooks in together.outlooks.items():
        for both, one, other in zip(outlooks, first.outlooks[method], second.outlooks[method], strict=True):
            assert both and one and other  # noqa: PT018
            assert one.seconds != other.seconds
            assert both.seconds == (*one.seconds, *other.seconds)
            assert both.up == pytest.approx((one.up + other.up) / 2)


# ---------------------------------------------------------------------------------------------------------------- cuts


@pytest.mark.parametrize(
    ("cut", "cuts", "configured"),
    [
        ("1", ["0", "1", "2"], 1),
        ("1,1", ["0,1", "1,1"], 1),
        ("0,2", ["0,2"], 0),
        ("0-2", ["0", "1", "2"], None),
        ("[0,1,2,1]", ["0", "1", "2"], None),
        ("[2,2,2,2]", ["0", "1", "2"], 2),
    ],
)
def test_every_single_cut_with_the_end_as_given(cut: str, cuts: list[str], configured: int | None) -> None:
    found = advise(config(cut=cut))
    assert [side.cut for side in found.sides] == cuts
    assert found.configured == configured


def outlook(seconds: float, compute: float) -> Outlook:
    return Outlook((seconds,), compute, up=0.0, down=0.0, idle=0.0)


@pytest.mark.parametrize(
    ("outlooks", "best"),
    [
        ([outlook(10, 1), outlook(9, 2), outlook(11, 3)], 1),
        ([outlook(10.4, 1), outlook(10, 2), outlook(11, 0.5)], 0),
        ([outlook(10.51, 1), outlook(10, 2)], 1),
        ([outlook(10.3, 2), outlook(10.4, 1), outlook(10, 3)], 1),
        ([None, outlook(10, 5), None], 1),
    ],
)
def test_the_least_time_and_of_what_is_near_the_least_computing(outlooks: list[Outlook | None], best: int) -> None:
    assert recommended(outlooks) == best


# ------------------------------------------------------------------------------------------------------------- refusals


def test_a_cut_that_no_batch_fits_through_is_left_out() -> None:
    # The slower client's batch is the smallest: 2 samples of 8 numbers at the first two cuts, 1 of 3 at the last.
    for bandwidth, possible in ((64, [True, True, True]), (63, [False, False, True]), (12, [False, False, True])):
        made, given = planner(f"mergesfl(bandwidth={bandwidth})")
        assert [one is not None for one in look_ahead(made, single_cuts(given), 1)] == possible
    made, given = planner("mergesfl(bandwidth=11)")
    with pytest.raises(InputError, match=r"a bandwidth of [0-9,]+ bytes a step or more"):
        look_ahead(made, single_cuts(given), 1)


# --------------------------------------------------------------------------------------------------------- the command


def test_the_command_prints_the_table_and_saves_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"model": "cnn", "clients": 4, "participation": 1, "batch_size": 64, "method": "[fedavg, smofi]"}
    (tmp_path / "run.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
    picture = tmp_path / "cuts.png"
    assert main(["advise", str(tmp_path / "run.yaml"), "--width", "4", "--rounds", "2", "--output", str(picture)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("cnn on digits, dirichlet(0.2), 4 clients")
    assert "\nfedavg: cut " in text
    assert "\nsmofi: cut " in text
    assert "not weigh what activations reveal" in " ".join(text.split())
    assert f"Picture: {picture}" in text
    assert picture.stat().st_size > 10_000
