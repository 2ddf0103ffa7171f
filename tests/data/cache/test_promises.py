"""What every reader promises, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from smofi.data.cache import check_promises, with_moments
from smofi.data.decoded import Decoded, Split
from support.pets import pets


def with_train(**arrays: Any) -> Decoded:
    made = with_moments(pets())
    return replace(made, train=replace(made.train, **arrays))


def vectors(value: float) -> Decoded:
    split = Split(np.full((3, 2), value, np.float32), np.zeros(3, np.int64))
    return Decoded("vector", split, split, ("a",), standardise=False)


def text(letter: int = 0, row: int = 2, length: int = 4) -> Decoded:
    split = Split(np.full(9, letter, np.uint8), np.zeros(2, np.int64), rows=np.array([0, row]))
    return Decoded("text", split, split, ("a", "b"), standardise=False, length=length)


IMPOSSIBLE: dict[str, Decoded] = {
    "train.targets has 1000000000000, but there are 2 classes": with_train(targets=np.full(20, 10**12)),
    "train.targets has -1, but": with_train(targets=np.full(20, -1)),
    "train.targets has shape .20. and type int32": with_train(targets=np.zeros(20, np.int32)),
    "train has 20 inputs and 19 targets": with_train(targets=np.zeros(19, np.int64)),
    "train.owner has 2, but there are 2 owners": with_train(owner=np.full(20, 2, np.int32)),
    "train.owner has shape .3.": with_train(owner=np.zeros(3, np.int32)),
    "train.rows belong to no text": with_train(rows=np.zeros(20, np.int64)),
    r"train.inputs has shape .20, 4, 4, 3. and type int64": with_train(inputs=np.zeros((20, 4, 4, 3), np.int64)),
    "test.inputs is unlike train.inputs": with_train(inputs=np.zeros((20, 4, 5, 3), np.uint8)),
    "train.inputs has numbers that are not finite": vectors(np.nan),
    "train.inputs has characters that do not exist": text(letter=2),
    "train.rows has 5, but there are 5 places": text(row=5),
    "train.rows belong": text(length=0),
    "there is no kind 'sound'": replace(pets(), kind="sound"),
    "there are no classes": replace(with_moments(pets()), classes=()),
    "names are not text": replace(with_moments(pets()), classes=(1, 2)),  # type: ignore[arg-type]
    "mean is not 3 finite numbers": replace(pets(), about={"mean": [1.0], "deviation": [1.0]}),
    "deviation is not 3 finite numbers": replace(pets(), about={"mean": [1.0] * 3, "deviation": [np.inf] * 3}),
    "deviation is not positive": replace(pets(), about={"mean": [1.0] * 3, "deviation": [1.0, 0.0, 1.0]}),
    "what is known about the data is of another type": replace(pets(), length="long"),  # type: ignore[arg-type]
    "what is said about the data is not text": replace(with_moments(pets()), about={"test": [1]}),
}


@pytest.mark.parametrize("clause", IMPOSSIBLE)
def test_what_no_reader_makes(clause: str) -> None:
    with pytest.raises(ValueError, match=f"^{clause}"):
        check_promises(IMPOSSIBLE[clause])


@pytest.mark.parametrize(
    "made", [with_moments(pets()), vectors(1), text(), replace(with_moments(pets()), owners=("a",) * 9)]
)
def test_what_readers_make(made: Decoded) -> None:
    check_promises(made)


def test_inputs_are_looked_at_where_asked() -> None:
    check_promises(vectors(np.inf), look_at=())
    check_promises(text(letter=9), look_at=())
    mixed = replace(vectors(1), test=vectors(np.inf).test)
    check_promises(mixed, look_at=["train"])
    with pytest.raises(ValueError, match=r"test\.inputs"):
        check_promises(mixed, look_at=["test"])
