from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smofi.data.decoded import Decoded
from smofi.data.formats.arrays import from_arrays, hold_out
from smofi.data.source import as_source
from smofi.errors import InputError

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(256, size=(20, 6, 5, 3), dtype=np.uint8)
LABELS = np.arange(20) % 2


def both_parts(decoded: Decoded) -> np.ndarray:
    return np.concatenate([decoded.train.inputs, decoded.test.inputs])


def as_set(images: np.ndarray) -> set[bytes]:
    return {np.ascontiguousarray(image).tobytes() for image in images}


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (PIXELS, (6, 5, 3)),
        (PIXELS.transpose(0, 3, 1, 2), (6, 5, 3)),
        (PIXELS[..., 0], (6, 5, 1)),
        (PIXELS[:, :3, :, :1], (3, 5, 1)),  # 3 first and 1 last: channels last
        (PIXELS[:, None, :, :, 1], (6, 5, 1)),
    ],
)
def test_images_of_bytes_in_any_layout(x: np.ndarray, shape: tuple[int, ...], as_tensor: bool) -> None:
    given = torch.from_numpy(np.ascontiguousarray(x)) if as_tensor else x
    decoded = from_arrays({"x": given, "y": LABELS}, "mine")
    assert decoded.kind == "image"
    assert decoded.standardise
    assert decoded.train.inputs.dtype == np.uint8
    assert decoded.train.inputs.shape == (16, *shape)
    channels_last = x[..., None] if x.ndim == 3 else x if x.shape[3] in (1, 3) else np.moveaxis(x, 1, 3)
    assert as_set(both_parts(decoded)) == as_set(channels_last)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, ">f8"])
def test_floats_are_taken_as_they_are(kind: Any) -> None:
    x = (PIXELS / 8).astype(kind)
    decoded = from_arrays({"x": x, "y": LABELS}, "mine")
    assert (decoded.kind, decoded.standardise, decoded.train.inputs.dtype) == ("image", False, np.float32)
    assert as_set(both_parts(decoded)) == as_set((PIXELS / 8).astype(np.float32))
    vectors = from_arrays({"x": x.reshape(20, -1), "y": LABELS}, "mine")
    assert (vectors.kind, vectors.standardise, vectors.train.inputs.shape) == ("vector", False, (16, 90))


@pytest.mark.parametrize("kind", [np.uint8, np.int64, bool, ">i2"])
def test_whole_numbers_in_rows_are_standardised(kind: Any) -> None:
    decoded = from_arrays({"x": np.eye(20).astype(kind), "y": LABELS}, "mine")
    assert (decoded.kind, decoded.standardise, decoded.train.inputs.dtype) == ("vector", True, np.float32)


def test_half_precision_tensors() -> None:
    x = torch.arange(40.0).reshape(20, 2).to(torch.bfloat16).requires_grad_()
    assert from_arrays({"x": x, "y": torch.arange(20) % 2}, "mine").train.inputs.max() <= 39


def test_sample_label_and_owner_stay_together() -> None:
    ids = np.arange(1000)
    arrays = {"x": ids[:, None].astype(np.float32), "y": ids % 7, "speaker": np.array([f"s{i % 13:02}" for i in ids])}
    decoded = from_arrays(arrays, "mine")
    seen = []
    for part in (decoded.train, decoded.test):
        assert part.owner is not None
        for value, target, owner in zip(part.inputs[:, 0], part.targets, part.owner, strict=True):
            assert target == int(value) % 7
            assert decoded.owners[owner] == f"s{int(value) % 13:02}"
        assert part.targets.dtype == np.int64
        assert part.owner.dtype == np.int32
        seen.extend(part.inputs[:, 0].tolist())
    assert sorted(seen) == ids.tolist()


def test_the_users_test_is_kept_and_each_part_shuffled() -> None:
    x = np.arange(300, dtype=np.float32)[:, None]
    arrays = {"x": x[:200], "y": np.arange(200) // 100, "x_test": x[200:], "y_test": np.arange(100) // 50,
              "client": np.arange(200) % 3, "client_test": np.arange(100) % 3 + 5}  # fmt: skip
    decoded = from_arrays(arrays, "mine")
    assert decoded.about == {"test": "x_test and y_test"}
    assert sorted(decoded.train.inputs[:, 0].tolist()) == list(range(200))
    assert sorted(decoded.test.inputs[:, 0].tolist()) == list(range(200, 300))
    assert decoded.owners == ("0", "1", "2", "5", "6", "7")
    assert decoded.test.owner is not None
    assert ((decoded.test.inputs[:, 0] - 200) % 3 + 3 == decoded.test.owner).all()
    # the labels lay in order, and any beginning should be a fair sample
    assert 25 < decoded.train.targets[:100].sum() < 75
    assert 10 < decoded.test.targets[:50].sum() < 40
    without = from_arrays({key: value for key, value in arrays.items() if key != "client_test"}, "mine")
    assert without.train.owner is not None
    assert without.test.owner is None


def test_same_arrays_same_bits() -> None:
    one, two = (from_arrays({"x": PIXELS.copy(), "y": LABELS.copy()}, name) for name in ("one", "two"))
    assert (one.train.inputs == two.train.inputs).all()
    assert (one.test.inputs == two.test.inputs).all()


@pytest.mark.parametrize(
    ("y", "classes", "names"),
    [
        ([5, -3, 5, 10, 9, 9], None, ("-3", "5", "9", "10")),
        (["b", "a", "c", "b", "a", "c"], None, ("a", "b", "c")),
        ([b"b", b"a", b"c", b"b", b"a", b"c"], None, ("a", "b", "c")),
        ([True, False] * 3, None, ("0", "1")),
        ([2, 0, 2, 0, 2, 0], ["cat", "dog", "eel"], ("cat", "dog", "eel")),
        (["dog", "eel"] * 3, np.array(["eel", "cat", "dog"]), ("eel", "cat", "dog")),
    ],
)
def test_labels_become_numbers_of_classes(y: list[Any], classes: Any, names: tuple[str, ...]) -> None:
    x = np.arange(len(y), dtype=np.float32)[:, None]
    given = {"x": x, "y": np.array(y), "x_test": x, "y_test": np.array(y)}
    decoded = from_arrays(given if classes is None else {**given, "classes": classes}, "mine")
    assert decoded.classes == names
    for part in (decoded.train, decoded.test):
        said = [y[int(value)] for value in part.inputs[:, 0]]
        if classes is not None and isinstance(y[0], int):
            assert part.targets.tolist() == said
        else:
            plain = [
                word.decode() if isinstance(word, bytes) else str(int(word) if word in (True, False) else word)
                for word in said
            ]
            assert [decoded.classes[target] for target in part.targets] == plain


@settings(max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=120))
def test_a_fifth_of_every_class_is_held_out(drawn: list[int]) -> None:
    labels = np.unique(np.array(drawn), return_inverse=True)[1]
    sizes = np.bincount(labels)
    if sizes.max() < 2:
        with pytest.raises(InputError, match="a class with two samples"):
            hold_out(labels, "mine")
        return
    kept, held_out = hold_out(labels, "mine")
    assert sorted([*kept, *held_out]) == list(range(len(labels)))
    assert len(held_out) == -(-int(sizes[sizes > 1].sum()) // 5)
    for size, taken in zip(sizes, np.bincount(labels[held_out], minlength=len(sizes)), strict=True):
        assert abs(taken - size / 5) <= 1
        assert taken < size


def test_it_becomes_a_source_without_a_warning() -> None:
    x = PIXELS.copy()
    x.flags.writeable = False
    source = as_source("mine", from_arrays({"x": x, "y": LABELS}, "mine"))
    assert source.input_shape == (3, 6, 5)


X, Y = np.ones((6, 2), np.float32), np.arange(6) % 3


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"y": Y}, "the arrays x and y, but there is no x, only y$"),
        ({"x": X}, "the arrays x and y, but there is no y, only x$"),
        ({"images": X, "labels": Y, 3: Y}, "the arrays x and y, but there is no x, only 3, images, labels$"),
        ({f"k{k:02}": X for k in range(12)}, "there is no x, only k00, .*, k09 and 2 more$"),
        ({}, "there is no x, only nothing$"),
        ({"x": X, "y": Y, "x_test": X}, "both x_test and y_test or neither"),
        ({"x": X, "y": Y, "y_test": Y}, "both x_test and y_test or neither"),
        ({"x": X, "y": Y, "client": Y, "site": Y}, "but there are client and site: leave the others out"),
        ({"x": X, "y": Y, "client_test": Y}, "client_test only beside client, x_test and y_test"),
        ({"x": X, "y": Y, "client": Y, "client_test": Y}, "client_test only beside"),
        ({"x": X, "y": Y[:5]}, "one value of y per sample, but there are 5 for 6 samples"),
        ({"x": X, "y": Y, "user": Y[:1]}, "one value of user per sample, but there are 1 for 6"),
        ({"x": X, "y": Y, "x_test": X[:4], "y_test": Y}, "one value of y_test per sample, but there are 6 for 4"),
        ({"x": X, "y": np.array(3)}, r"at least one sample in y, but it has shape \[\]"),
        ({"x": X[:0], "y": Y[:0]}, r"at least one sample in x, but it has shape \[0, 2\]"),
        ({"x": X, "y": Y[:, None]}, r"y to be whole numbers or words, shape \[samples\], but it has shape \[6, 1\]"),
        ({"x": X, "y": Y / 2}, "y to be whole numbers or words.*type float64"),
        ({"x": X, "y": np.zeros(6, int)}, "at least two classes in y, but there is only 0"),
        ({"x": X, "y": Y.astype(object)}, "y to be a numpy array or torch tensor of numbers or words.*type object"),
        ({"x": X.astype(object), "y": Y}, "x to be a numpy array or torch tensor.*type object"),
        ({"x": X.astype(complex), "y": Y}, "type complex128"),
        ({"x": X, "y": Y.astype("M8[D]")}, "type datetime64"),
        ({"x": X.tolist(), "y": Y}, "but it is of type list"),
        ({"x": np.ma.masked_array(X), "y": Y}, "but it is of type MaskedArray"),
        ({"x": torch.ones(6, 2).to_sparse(), "y": Y}, "x to be a numpy array or torch tensor"),
        ({"x": torch.ones(6, 2, dtype=torch.complex64).conj(), "y": Y}, "x to be a numpy array or torch tensor"),
        ({"x": X[:, 0], "y": Y}, r"images .* or vectors .*, but it has shape \[6\] and type float32"),
        ({"x": np.ones((6, 2, 2, 2), np.uint8), "y": Y}, r"shape \[6, 2, 2, 2\] and type uint8"),
        ({"x": np.ones((6, 2, 2), np.int64), "y": Y}, r"shape \[6, 2, 2\] and type int64"),
        ({"x": np.ones((6, 1, 1, 1, 1)), "y": Y}, r"shape \[6, 1, 1, 1, 1\]"),
        ({"x": np.array(["a"] * 12).reshape(6, 2), "y": Y}, r"shape \[6, 2\] and type <U1"),
        ({"x": np.where(np.arange(12).reshape(6, 2) == 5, np.nan, 1.0), "y": Y}, "finite numbers in x, but sample 2"),
        ({"x": np.full((6, 2), 1e39), "y": Y}, "finite numbers in x, but sample 0"),
        ({"x": X, "y": Y, "x_test": X[:, :1], "y_test": Y}, r"like those of x, shape \[2\].*shape \[1\]"),
        ({"x": X, "y": Y, "x_test": X.astype(int), "y_test": Y}, "type float32, but they have .*type int64"),
        ({"x": X, "y": Y, "x_test": X, "y_test": Y + 1}, "y_test to be of the 3 classes 0, 1, 2, but there is 3"),
        (
            {"x": X, "y": Y, "x_test": X, "y_test": Y.astype(str)},
            "y_test to be whole numbers, as y is, but it is words",
        ),
        ({"x": X, "y": Y, "classes": ["a", "b"]}, "y to be of the 2 classes 0, 1, but there is 2"),
        ({"x": X, "y": Y, "classes": ["a", "b", "a"]}, "classes to be two or more different words"),
        ({"x": X, "y": Y, "classes": 3}, "classes to be two or more different words, but it is of type int"),
        ({"x": X, "y": np.array([2**63] * 6, np.uint64)}, r"below 2\^63"),
        ({"x": X, "y": np.array([b"\xff"] * 6)}, "y to be whole numbers or words, but some are not"),
        (
            {"x": X, "y": Y, "x_test": X, "y_test": Y, "role": Y, "role_test": Y.astype(str)},
            "role and role_test to be all whole numbers or all words",
        ),
    ],
)
def test_what_does_not_fit_is_refused(arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=rf"^mine is not accepted: expected .*{said}"):
        from_arrays(arrays, "mine")


def test_other_keys_are_left_alone_and_named() -> None:
    given = {"x": X, "y": Y, "fold": 3, "fname\x1b": object(), "client": Y}
    assert from_arrays(given, "mine").about == {
        "test": "a fifth of the samples, held out; to choose the test set yourself, add x_test and y_test",
        "left_out": "keys that are not used: fname?, fold",
    }


@pytest.mark.parametrize(
    "key", ["client", "user", "speaker", "role", "site", "writer", "hospital", "patient", "device"]
)
def test_owners_by_any_name(key: str) -> None:
    given = {"x": X, "y": Y, "x_test": X, "y_test": Y, key: Y + 5, f"{key}_test": Y + 6}
    decoded = from_arrays(given, "mine")
    assert decoded.owners == ("5", "6", "7", "8")
    assert decoded.test.owner is not None
    assert sorted(decoded.test.owner.tolist()) == [1, 1, 2, 2, 3, 3]
