"""`smofi.train`: every argument that is refused, before any work and in a sentence, and what a run gives back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

import smofi
from reference import convnet, federation, perceptron
from smofi import InputError
from smofi.engine.events import Event

X, Y = federation([3], sizes=(12,))[0]


def clients() -> list[Any]:
    return federation([3], sizes=(9, 5, 13))


def train(**changes: Any) -> smofi.Result:
    arguments: dict[str, Any] = {
        "model": perceptron(),
        "clients": clients(),
        "test": (X, Y),
        "method": "fedavg",
        "rounds": 1,
        "participation": 1.0,
        "local_epochs": 1,
        "batch_size": 4,
        **changes,
    }
    return smofi.train(**arguments)


def refusal(**changes: Any) -> str:
    """The sentence with which these arguments are refused, before anything has happened."""
    events: list[Event] = []
    with pytest.raises(InputError) as caught:
        train(**changes, callback=events.append)
    assert events == []
    return str(caught.value)


# Numbers


@pytest.mark.parametrize("field", ["rounds", "local_epochs", "batch_size"])
@pytest.mark.parametrize("value", [0, -1, 1.0, "5", None, True, math.nan], ids=repr)
def test_counts_are_whole_numbers_from_one(field: str, value: Any) -> None:
    most = " and <= 100000" if field == "local_epochs" else ""
    assert refusal(**{field: value}) == f"{field}={value!r} is not accepted: expected a whole number >= 1{most}"


@pytest.mark.parametrize("value", [-1, 0.5, "0", None, False], ids=repr)
def test_a_seed_is_a_whole_number_from_zero(value: Any) -> None:
    assert refusal(seed=value) == f"seed={value!r} is not accepted: expected a whole number >= 0"


@pytest.mark.parametrize("value", [0, -0.1, 1.01, 2, math.nan, math.inf, "half", None, True], ids=repr)
def test_participation_is_a_share(value: Any) -> None:
    assert refusal(participation=value) == f"participation={value!r} is not accepted: expected a number > 0 and <= 1"


def test_numbers_of_numpy_are_numbers() -> None:
    result = train(rounds=np.int64(2), batch_size=np.int32(4), participation=np.float32(1), seed=np.uint8(3))
    assert len(result.history) == 2


@pytest.mark.parametrize("value", ["gpu", "cuda:99", "meta", "", "cpu:x"])
def test_a_device_has_to_be_one_that_torch_can_use(value: str) -> None:
    message = refusal(device=value)
    assert message.startswith(
        f"device={value!r} is not accepted: expected a device that torch can use, such as cpu or cuda ("
    )
    assert "\n" not in message


# Method, optimizer, cut


@pytest.mark.parametrize("value", [5, None, smofi.methods.smofi, ["smofi"]], ids=["5", "None", "builder", "list"])
def test_a_method_is_a_string_or_a_value(value: Any) -> None:
    assert refusal(method=value) == (
        f'method={value!r} is not accepted: expected a string such as "smofi" or a value such as smofi.methods.smofi()'
    )


@pytest.mark.parametrize("value", [0.1, None, torch.optim.SGD, smofi.sgd], ids=["0.1", "None", "torch's", "builder"])
def test_an_optimizer_is_a_string_or_a_value(value: Any) -> None:
    assert refusal(optimizer=value) == (
        f"optimizer={value!r} is not accepted: expected a string or a value such as smofi.sgd(lr=0.05, momentum=0.9)"
    )


@pytest.mark.parametrize(
    ("field", "accepted"),
    [
        ("wire", "fp32, fp16, bf16, int8, float16, a function, or None"),
        ("augment", 'a string such as "crop(4)+flip", or None'),
        ("clock", '"none", "paper", "full", or a smofi.Timing'),
    ],
)
def test_what_is_neither_text_nor_a_value_is_refused(field: str, accepted: str) -> None:
    assert refusal(**{field: 5}) == f"{field}=5 is not accepted: expected {accepted}"


def test_methods_and_optimizers_as_strings() -> None:
    as_strings = train(method="fedprox(0.1)", optimizer="sgd(lr=0.1, momentum=0.5)")
    as_values = train(method=smofi.methods.fedprox(mu=0.1), optimizer=smofi.sgd(lr=0.1, momentum=0.5))
    for a, b in zip(as_strings.model.parameters(), as_values.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_bad_method_or_optimizer_in_a_string_is_refused() -> None:
    assert refusal(method="fedprox(mu=-1)") == (
        "method='fedprox(mu=-1)': fedprox: mu=-1 is not accepted: expected a number >= 0"
    )
    assert refusal(optimizer="sgd(lr=0)") == "optimizer='sgd(lr=0)': lr=0 is not accepted: expected a number > 0"
    with pytest.raises(smofi.CompositionError, match="cannot be combined"):
        train(method="smofi+sflv2")


def test_a_cut_that_the_model_cannot_do_is_refused() -> None:
    message = refusal(cut=3)
    assert message.startswith("cut=3 is not accepted: expected 0 <= L <= 2 core blocks on the client")
    assert message.endswith("the model's blocks are 0=0, 1=1, 2=2, 3=3")
    assert "one cut for each of the 3 clients, but it has 2" in refusal(cut=[0, 1])


@pytest.mark.parametrize("method", ["sflv2", "sflv2(turns='step')", "mergesfl", "fedprox(mu=0.1)+sflv2"])
def test_one_server_model_has_one_cut(method: str) -> None:
    assert refusal(method=method, cut=[0, 1, 2]) == (
        f"cut=[0, 1, 2] is not accepted: expected one cut for all clients: {method} keeps a single server model"
    )
    assert train(method=method, cut=[1, 1, 1]).history[0].cut == "1"


# Speeds


@pytest.mark.parametrize("value", [[], [1.0], [1.0] * 4])
def test_speeds_need_one_for_each_client(value: list[float]) -> None:
    assert refusal(method="mergesfl", speeds=value) == (
        f"speeds={value!r} is not accepted: expected 3 numbers, one for each client, but it has {len(value)}"
    )


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "fast", None], ids=repr)
def test_every_speed_is_above_zero(value: Any) -> None:
    for method in ("mergesfl", "fedavg"):
        assert refusal(method=method, speeds=[1.0, value, 1.0]) == (
            f"speeds={value!r} is not accepted: expected a number > 0"
        )


def test_speeds_may_be_an_array() -> None:
    result = train(method="mergesfl", speeds=np.array([1.0, 0.5, 1.0]))
    assert result.history[0].steps == [9 // 4, 5 // 2, 13 // 4]


# Clients


def test_there_has_to_be_a_client() -> None:
    assert refusal(clients=[]) == "clients=[] is not accepted: expected a list of at least one client"


@pytest.mark.parametrize("value", [5, None])
def test_clients_are_a_sequence(value: Any) -> None:
    assert f"clients={value!r} is not accepted" in refusal(clients=value)


def test_every_input_needs_a_target() -> None:
    assert refusal(clients=[(X, Y), (X, Y[:-1])]) == (
        "clients[1] is not accepted: expected as many inputs as targets, but it has inputs of shape (12, 3) and "
        "targets of shape (11,)"
    )
    assert "clients[0] is not accepted" in refusal(clients=[(torch.tensor(1.0), torch.tensor(1))])
    assert "test is not accepted" in refusal(test=(X, Y[:3]))


@pytest.mark.parametrize("value", [object(), None, 5, "digits", {"x": X, "y": Y}, X], ids=lambda v: type(v).__name__)
def test_a_client_is_a_pair_or_a_dataset(value: Any) -> None:
    assert refusal(clients=[(X, Y), value]) == (
        "clients[1] is not accepted: expected a pair of tensors (inputs, targets) or a map-style Dataset, "
        f"not {type(value).__name__}"
    )


def test_a_dataset_gives_pairs() -> None:
    """The refusal names the client and says what went wrong with it."""
    message = refusal(clients=[[1.0, 2.0, 3.0, 4.0, 5.0]])
    assert "clients[0]" in message
    assert "is not accepted" in message


def test_all_samples_have_one_shape() -> None:
    assert refusal(clients=[*clients(), (torch.zeros(8, 4), torch.zeros(8, dtype=torch.int64))]) == (
        "clients[3] is not accepted: its inputs have shape (4,), but those of clients[0] have (3,)"
    )
    message = refusal(test=(torch.zeros(8, 4), torch.zeros(8, dtype=torch.int64)))
    assert message == "test is not accepted: its inputs have shape (4,), but those of clients[0] have (3,)"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_inputs_are_finite(value: float) -> None:
    bad = X.clone()
    bad[7, 1] = value
    assert refusal(clients=[(X, Y), (bad, Y)]) == (
        "clients[1] is not accepted: its inputs contain values that are not finite numbers"
    )
    assert refusal(test=(bad, Y)) == "test is not accepted: its inputs contain values that are not finite numbers"


@pytest.mark.parametrize("loss", [nn.functional.cross_entropy, nn.CrossEntropyLoss()], ids=["function", "module"])
@pytest.mark.parametrize(("wrong", "low", "high"), [(3, 0, 3), (-1, -1, 2), (99, 0, 99)])
def test_targets_are_classes_that_the_model_has(loss: Any, wrong: int, low: int, high: int) -> None:
    bad = Y.clone()
    bad[-1] = wrong
    bad[:3] = torch.tensor([0, 1, 2])
    reach = f"its targets range from {low} to {high}, but the model has 3 outputs, for targets from 0 to 2"
    assert refusal(clients=[*clients(), (X, bad)], loss=loss) == f"clients[3] is not accepted: {reach}"
    assert refusal(test=(X, bad), loss=loss) == f"test is not accepted: {reach}"


def test_an_empty_client_is_no_reason_to_refuse() -> None:
    result = train(clients=[(X[:0], Y[:0]), (X, Y), (X[:3], Y[:3])])
    assert result.history[0].selected == [1]


@pytest.mark.parametrize("batch_size", [14, 1000])
def test_one_client_at_least_has_a_whole_batch(batch_size: int) -> None:
    assert refusal(batch_size=batch_size) == (
        f"batch_size={batch_size} is not accepted: expected at most 13, the largest client's number of samples"
    )
    assert train(batch_size=13).history[0].selected == [2]


@pytest.mark.parametrize("empty", [(X[:0], Y[:0]), []], ids=["tensors", "list"])
def test_test_data_is_not_empty(empty: Any) -> None:
    message = refusal(test=empty)
    assert message.startswith("test=")
    assert "is not accepted: expected at least one sample, or None" in message


# Model, loss and metrics


def test_a_model_that_fails_on_the_data_is_refused() -> None:
    wide = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)).double()
    message = refusal(model=wide, cut=0)
    assert message.startswith("model is not accepted with this loss and metrics: ")
    assert "clients[0]" in message
    assert "mat1 and mat2 shapes cannot be multiplied" in message


def test_a_model_that_fails_only_in_training_is_refused() -> None:
    """BatchNorm cannot normalise a single value, which shows only in training."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()
    message = refusal(model=model, batch_size=1)
    assert message.startswith("model is not accepted: with cut 1 a training step on 1 samples of clients[0] fails: ")
    assert "more than 1 value per channel" in message
    slow = refusal(model=model, method="mergesfl", speeds=[1.0, 0.01, 1.0])
    assert "a training step on 1 samples" in slow
    assert len(train(model=model, batch_size=2).history) == 1


def test_a_model_that_fails_at_one_of_its_cuts_is_refused() -> None:
    """Two blocks that pass a pair of tensors between them cannot be parted: only one tensor crosses a cut."""

    class Pair(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, x

    class First(nn.Module):
        def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
            return pair[0]

    model = nn.Sequential(nn.Linear(3, 3), Pair(), First(), nn.Linear(3, 3)).double()
    assert len(train(model=model, cut=0).history) == 1
    assert refusal(model=model, cut="0-2").startswith("model is not accepted: with cut 1 a training step")


def test_a_model_has_to_be_a_sequence_of_blocks() -> None:
    assert refusal(model=nn.Linear(3, 3)).startswith(
        "model=Linear is not accepted: expected an nn.Sequential of blocks"
    )
    assert "at least two blocks" in refusal(model=nn.Sequential(nn.Linear(3, 3)))


def test_a_loss_that_does_not_fit_the_targets_is_refused() -> None:
    assert "is not accepted" in refusal(loss=lambda output, target: (output - target).mean())


def test_statistics_have_to_change_in_place() -> None:
    class Replacing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                self.seen = self.seen + x.detach().mean(0)
            return x

    class Counting(Replacing):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3, dtype=torch.int64))

        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                self.seen += 1
            return x

    def model(block: nn.Module) -> nn.Sequential:
        return nn.Sequential(block, nn.Linear(3, 3).double(), nn.Linear(3, 3).double())

    assert refusal(model=model(Replacing())) == (
        "model is not accepted: 0.seen is replaced in training; change it in place instead"
    )
    assert refusal(model=model(Counting())).startswith(
        "model is not accepted: the buffer 0.seen (torch.int64) changes in training and cannot be averaged"
    )


@pytest.mark.parametrize("metric", ["top2", "accuracy", 7])
def test_an_unknown_metric_is_refused(metric: Any) -> None:
    assert refusal(metrics=["top1", metric]).startswith(
        f"metrics={metric!r} is not accepted: expected one of top1, macro_f1, per_client, worst_client"
    )


def test_a_metric_that_fails_is_refused_before_the_first_round() -> None:
    def broken(outputs: Tensor, targets: Tensor) -> float:
        raise RuntimeError("no such thing")

    message = refusal(metrics=[broken])
    assert "is not accepted" in message
    assert "no such thing" in message


def test_regression_needs_no_classes() -> None:
    """Without test data nothing is evaluated, so the accuracy, which is measured by default, does no harm."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1), nn.Flatten(0)).double()
    targets = X.sum(1)
    settings: dict[str, Any] = dict(model=model, clients=[(X, targets)], loss=mse_loss)
    result = train(**settings, test=(X, targets), metrics=())
    assert result.history[0].loss == pytest.approx(mse_loss(result.model(X), targets).item())
    assert result.history[0].accuracy is None
    assert train(**settings, test=None).history[0].loss is None


# What comes back


def test_a_record_says_what_a_round_did() -> None:
    result = train(
        rounds=3, participation=0.67, optimizer="sgd(lr=0.1, momentum=0.9, lr_decay=0.5)", cut=(0, 1), seed=4
    )
    assert [record.round for record in result.history] == [1, 2, 3]
    for n, record in enumerate(result.history):
        assert len(record.selected) == 2
        assert record.selected == sorted(record.selected)
        assert record.steps == [{0: 2, 1: 1, 2: 3}[client] for client in record.selected]
        assert record.learning_rate == pytest.approx(0.1 * 0.5**n)
        assert record.cut == "0,1"
        assert record.seconds > 0
        assert 0 <= record.accuracy <= 1
        assert record.metrics == {"top1": record.accuracy}
        assert record.loss > 0
        assert record.train_loss > 0
    assert result.stopped is None


def test_a_record_names_all_the_cuts_of_its_round() -> None:
    assert train(cut=[0, 2, 0]).history[0].cut == "0 2"
    assert train(cut=[0, (0, 1), 2]).history[0].cut == "0 0,1 2"
    drawn = [record.cut for record in train(cut="0-2", rounds=12).history]
    assert set(drawn) == {"0", "1", "2"}


def test_the_result_is_a_model_of_the_same_kind() -> None:
    model = convnet().eval()
    result = train(model=model, clients=federation([1, 4, 4]), test=None)
    assert [type(block) for block in result.model.modules()] == [type(block) for block in model.modules()]
    assert result.model.state_dict().keys() == model.state_dict().keys()
    assert not result.model.training
    result.model(torch.zeros(2, 1, 4, 4, dtype=torch.float64)).sum().backward()


def test_a_session_is_checked_and_not_yet_trained() -> None:
    events: list[Event] = []
    session = smofi.prepare(
        perceptron(), clients(), rounds=1, participation=1.0, batch_size=4, local_epochs=1, callback=events.append
    )
    assert events == []
    result = session.train()
    assert len(result.history) == 1
    again = session.train()
    assert [record.round for record in again.history] == [1], "a run that is over is not trained on"
