"""The user's own arrays and tables: what is read of them, in any form, and through configurations and runs."""

from __future__ import annotations

import gzip
import hashlib
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smofi import experiment
from smofi.config import Config
from smofi.config.federation import gather
from smofi.data import load
from smofi.data.decoded import Decoded, silent, with_moments
from smofi.data.source import Source, as_source
from smofi.data.tables import NamedColumns, find_csv, find_npz, from_arrays, hold_out, read_python
from smofi.errors import InputError

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(256, size=(20, 6, 5, 3), dtype=np.uint8)
LABELS = np.arange(20) % 2


def as_set(images: np.ndarray) -> set[bytes]:
    return {np.ascontiguousarray(image).tobytes() for image in images}


def all_inputs(decoded: Decoded) -> np.ndarray:
    return np.concatenate([decoded.train.inputs, decoded.test.inputs])


# --------------------------------------------------------------------------------------------------------------- arrays


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (PIXELS, (6, 5, 3)),
        (PIXELS.transpose(0, 3, 1, 2), (6, 5, 3)),
        (PIXELS[..., 0], (6, 5, 1)),
        (PIXELS[:, :3, :, :1], (3, 5, 1)),  # 3 first and 1 last: channels last
    ],
)
def test_images_of_bytes_in_any_layout(x: np.ndarray, shape: tuple[int, ...], as_tensor: bool) -> None:
    given = torch.from_numpy(np.ascontiguousarray(x)) if as_tensor else x
    decoded = from_arrays({"x": given, "y": LABELS}, "mine")
    assert (decoded.kind, decoded.standardise, decoded.train.inputs.dtype) == ("image", True, np.uint8)
    assert decoded.train.inputs.shape == (16, *shape)
    channels_last = x[..., None] if x.ndim == 3 else x if x.shape[3] in (1, 3) else np.moveaxis(x, 1, 3)
    assert as_set(all_inputs(decoded)) == as_set(channels_last)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, ">f8"])
def test_floats_are_taken_as_they_are_and_whole_numbers_in_rows_standardised(kind: Any) -> None:
    x = (PIXELS / 8).astype(kind)
    decoded = from_arrays({"x": x, "y": LABELS}, "mine")
    assert (decoded.kind, decoded.standardise, decoded.train.inputs.dtype) == ("image", False, np.float32)
    assert as_set(all_inputs(decoded)) == as_set((PIXELS / 8).astype(np.float32))
    vectors = from_arrays({"x": x.reshape(20, -1), "y": LABELS}, "mine")
    assert (vectors.kind, vectors.standardise, vectors.train.inputs.shape) == ("vector", False, (16, 90))
    whole = from_arrays({"x": np.eye(20).astype(">i2"), "y": LABELS}, "mine")
    assert (whole.kind, whole.standardise, whole.train.inputs.dtype) == ("vector", True, np.float32)
    half = torch.arange(40.0).reshape(20, 2).to(torch.bfloat16).requires_grad_()
    assert from_arrays({"x": half, "y": torch.arange(20) % 2}, "mine").train.inputs.max() <= 39


def test_sample_label_and_owner_stay_together() -> None:
    ids = np.arange(1000)
    arrays = {"x": ids[:, None].astype(np.float32), "y": ids % 7, "speaker": np.array([f"s{i % 13:02}" for i in ids])}
    decoded = from_arrays(arrays, "mine")
    seen = []
    for part in (decoded.train, decoded.test):
        assert part.owner is not None
        for value, target, owner in zip(part.inputs[:, 0], part.targets, part.owner, strict=True):
            assert (target, decoded.owners[owner]) == (int(value) % 7, f"s{int(value) % 13:02}")
        assert (part.targets.dtype, part.owner.dtype) == (np.int64, np.int32)
        seen.extend(part.inputs[:, 0].tolist())
    assert sorted(seen) == ids.tolist()


@pytest.mark.parametrize("key", ["client", "device"])
def test_the_users_test_is_kept_and_each_part_shuffled(key: str) -> None:
    x = np.arange(300, dtype=np.float32)[:, None]
    arrays = {"x": x[:200], "y": np.arange(200) // 100, "x_test": x[200:], "y_test": np.arange(100) // 50,
              key: np.arange(200) % 3, f"{key}_test": np.arange(100) % 3 + 5}  # fmt: skip
    decoded = from_arrays(arrays, "mine")
    assert decoded.about == {"test": "x_test and y_test"}
    assert sorted(decoded.train.inputs[:, 0].tolist()) == list(range(200))
    assert decoded.owners == ("0", "1", "2", "5", "6", "7")
    assert decoded.test.owner is not None
    assert ((decoded.test.inputs[:, 0] - 200) % 3 + 3 == decoded.test.owner).all()
    # the labels lay in order, and any beginning should be a fair sample
    assert 25 < decoded.train.targets[:100].sum() < 75
    assert 10 < decoded.test.targets[:50].sum() < 40
    without = from_arrays({one: value for one, value in arrays.items() if one != f"{key}_test"}, "mine")
    assert without.train.owner is not None
    assert without.test.owner is None


@pytest.mark.parametrize(
    ("y", "classes", "names"),
    [
        ([5, -3, 5, 10, 9, 9], None, ("-3", "5", "9", "10")),
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
            plain = [one.decode() if isinstance(one, bytes) else str(one + 0 if one in (0, 1) else one) for one in said]
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


X, Y = np.ones((6, 2), np.float32), np.arange(6) % 3
BOTH = {"x": X, "y": Y, "x_test": X, "y_test": Y}


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"y": Y}, "the arrays x and y, but there is no x, only y$"),
        ({f"k{k:02}": X for k in range(12)}, "there is no x, only k00, .*, k09 and 2 more$"),
        ({"x": X, "y": Y, "x_test": X}, "both x_test and y_test or neither"),
        ({"x": X, "y": Y, "client": Y, "site": Y}, "but there are client and site: leave the others out"),
        ({"x": X, "y": Y, "client": Y, "client_test": Y}, "client_test only beside client, x_test and y_test"),
        ({"x": X, "y": Y[:5]}, "one value of y per sample, but there are 5 for 6 samples"),
        ({"x": X, "y": np.array(3)}, r"at least one sample in y, but it has shape \[\]"),
        ({"x": X, "y": Y[:, None]}, r"y to be whole numbers or words, shape \[samples\], but it has shape \[6, 1\]"),
        ({"x": X, "y": np.zeros(6, int)}, "at least two classes in y, but there is only 0"),
        ({"x": X, "y": Y.astype(object)}, "y to be a numpy array or torch tensor of numbers or words.*type object"),
        ({"x": X.tolist(), "y": Y}, "but it is of type list"),
        ({"x": np.ma.masked_array(X), "y": Y}, "but it is of type MaskedArray"),
        ({"x": torch.ones(6, 2).to_sparse(), "y": Y}, "x to be a numpy array or torch tensor"),
        ({"x": np.ones((6, 2, 2, 2), np.uint8), "y": Y}, r"shape \[6, 2, 2, 2\] and type uint8"),
        ({"x": np.ones((6, 2, 2), np.int64), "y": Y}, r"shape \[6, 2, 2\] and type int64"),
        ({"x": np.where(np.arange(12).reshape(6, 2) == 5, np.nan, 1.0), "y": Y}, "finite numbers in x, but sample 2"),
        ({"x": np.full((6, 2), 1e39), "y": Y}, "finite numbers in x, but sample 0"),
        ({**BOTH, "x_test": X[:, :1]}, r"like those of x, shape \[2\].*shape \[1\]"),
        ({**BOTH, "y_test": Y + 1}, "y_test to be of the 3 classes 0, 1, 2, but there is 3"),
        ({**BOTH, "y_test": Y.astype(str)}, "y_test to be whole numbers, as y is, but it is words"),
        ({"x": X, "y": Y, "classes": ["a", "b"]}, "y to be of the 2 classes 0, 1, but there is 2"),
        ({"x": X, "y": Y, "classes": 3}, "classes to be two or more different words, but it is of type int"),
        ({"x": X, "y": np.array([2**63] * 6, np.uint64)}, r"below 2\^63"),
        ({"x": X, "y": np.array([b"\xff"] * 6)}, "y to be whole numbers or words, but some are not"),
        ({**BOTH, "role": Y, "role_test": Y.astype(str)}, "role and role_test to be all whole numbers or all words"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=rf"^mine is not accepted: expected .*{said}"):
        from_arrays(arrays, "mine")


def test_other_keys_are_left_alone_and_named() -> None:
    assert from_arrays({"x": X, "y": Y, "fold": 3, "fname\x1b": object(), "client": Y}, "mine").about == {
        "test": "a fifth of the samples, held out; to choose the test set yourself, add x_test and y_test",
        "left_out": "keys that are not used: fname?, fold",
    }


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_is_read_as_numpy_reads_it(save: Any, tmp_path: Path) -> None:
    words, y = np.array(["å", "b", "ccc"]), np.arange(30) % 3
    x = RANDOM.integers(256, size=(30, 90, 90), dtype=np.uint8)
    arrays = {"x": np.asfortranarray(x.astype(">f4")), "y": words[y], "x_test": x[:6].astype(np.float64),
              "y_test": words[y[:6]], "site": y + 4, "fold": np.array([{}], dtype=object)}  # fmt: skip
    save(tmp_path / "mine.npz", **arrays)
    told: list[tuple[int, int]] = []
    found = find_npz(tmp_path / "mine.npz").read(lambda done, total: told.append((done, total)))
    with np.load(tmp_path / "mine.npz") as loaded:
        expected = from_arrays({key: loaded[key] for key in arrays if key != "fold"} | {"fold": 0}, "mine")
    for part, other in ((found.train, expected.train), (found.test, expected.test)):
        assert (part.inputs == other.inputs).all()
        assert (part.targets == other.targets).all()
    assert (found.train.owner == expected.train.owner).all()
    assert (found.classes, found.owners, found.about) == (expected.classes, expected.owners, expected.about)
    sizes = {info.filename: info.file_size for info in zipfile.ZipFile(tmp_path / "mine.npz").infolist()}
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == sum(sizes.values()) - sizes["fold.npy"]
    assert 3 < len(told) <= 100


# ------------------------------------------------------------------------------------------------------------ functions


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("own_data", None)


def returned(here: Path, result: str) -> Decoded | Source:
    imports = "import numpy as np\nimport torch\nfrom smofi.data import Source, TensorSamples\n"
    (here / "own_data.py").write_text(f"{imports}def load():\n    {result}\n")
    return read_python("python:own_data:load")


ARRAYS = "np.arange(20.0).reshape(10, 2), np.arange(10) % 2"
LAZY = "class Lazy(dict):\n        def __getitem__(self, key): "


@pytest.mark.parametrize(
    ("result", "train", "test"),
    [
        (f"return {ARRAYS}", 8, 2),
        (f"return [*({ARRAYS})] * 2", 10, 10),
        ("return dict(x=torch.ones(10, 1, 4, 4), y=torch.arange(10) % 2, client=np.array(list('abababcccc')))", 8, 2),
        # of arrays that are made when asked for, only the needed are
        (f"{LAZY}return {{'x': np.eye(10), 'y': np.arange(10) % 2}}[key]\n    return Lazy(x=0, y=0, objects=0)", 8, 2),
    ],
)
def test_what_a_function_returns(here: Path, result: str, train: int, test: int) -> None:
    decoded = returned(here, result)
    assert isinstance(decoded, Decoded)
    assert (len(decoded.train.targets), len(decoded.test.targets)) == (train, test)
    assert decoded.owners == (("a", "b", "c") if "client" in result else ())


def test_a_source_is_taken_as_it_is_and_whole_numbers_are_standardised(here: Path) -> None:
    samples = "TensorSamples.of(torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64))"
    source = returned(here, f"some = {samples}; return Source('own', some, some, ('a', 'b'))")
    assert isinstance(source, Source)
    assert source.input_shape == (1, 8, 8)
    sys.modules.pop("own_data")
    decoded = returned(here, "return dict(x=np.arange(10, dtype=int)[:, None], y=np.arange(10) % 2)  # anew")
    assert isinstance(decoded, Decoded)
    inputs = as_source("own", decoded).train.tensors()[0]
    assert abs(float(inputs.mean())) < 1e-6
    assert abs(float(inputs.std(correction=0)) - 1) < 1e-6


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("return 1 / 0", r" is not accepted: own_data\.load\(\) failed with ZeroDivisionError: division by zero"),
        ("exit(3)", r" is not accepted: own_data\.load\(\) failed with SystemExit: 3"),
        ("return None", " is not accepted: expected .* to return arrays by key .* but it returned a NoneType"),
        ("return 1, 2, 3", " is not accepted: expected .* but it returned a tuple of 3"),
        ("return {'x': np.ones((4, 2))}", r": what own_data\.load\(\) gives is not accepted: .* there is no y"),
        (f"{LAZY}raise OSError('gone')\n    return Lazy(x=0, y=0)", r".* reading what .* failed with OSError: gone"),
    ],
)
def test_failures_of_a_function_name_the_setting_and_the_cause(here: Path, result: str, said: str) -> None:
    with pytest.raises(InputError, match=rf"^data='python:own_data:load'{said}") as refused:
        returned(here, result)
    if "failed with" in said:
        assert refused.value.__cause__ is not None
        assert refused.value.__cause__.__traceback__ is not None


# --------------------------------------------------------------------------------------------------------------- tables

Written = Callable[..., Path]
HELD_OUT = (
    "a fifth of the rows, held out; to choose the test set yourself, add a column split with the words train and test"
)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(content: str | bytes, name: str = "mine.csv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        raw = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path

    return write


def table(count: int = 20) -> str:
    return "a,b,label,client\n" + "".join(f"{i},{i * 0.5},{'pq'[i % 2]},c{i % 3}\n" for i in range(count))


@pytest.mark.parametrize(
    "content",
    [
        table(),
        table().replace(",", ";"),
        table().replace(",", "\t"),
        "\ufeff" + table().replace("\n", "\r\n"),
        table().replace("\n", "\r").rstrip("\r"),
        table().replace("\n", "\n\n"),
        table()
        .replace("a,b,label,client", '"a", b ,LABEL,Hospital')
        .replace(",p,", ',"p",')
        .replace("0.5,", " 5e-1 ,"),
    ],
    ids=["comma", "semicolon", "tab", "mark, crlf", "cr, no end", "blank lines", "names, quotes"],
)
@pytest.mark.parametrize("name", ["mine.csv", "mine.csv.gz"])
def test_however_a_table_is_written_it_says_the_same(content: str, name: str, written: Written) -> None:
    decoded = find_csv(written(content, name)).read(silent)
    assert (decoded.kind, decoded.standardise, decoded.classes) == ("vector", True, ("p", "q"))
    assert decoded.owners == ("c0", "c1", "c2")
    assert decoded.about == {"test": HELD_OUT, "features": ["a", "b"]}
    assert (len(decoded.train.targets), len(decoded.test.targets)) == (16, 4)
    seen = []
    for part in (decoded.train, decoded.test):
        assert part.owner is not None
        assert part.inputs.dtype == np.float32
        for (a, b), target, owner in zip(part.inputs.tolist(), part.targets, part.owner, strict=True):
            assert (b, target, owner) == (a / 2, a % 2, a % 3)
            seen.append(a)
    assert sorted(seen) == list(range(20))


def test_columns_by_the_names_that_the_user_gives(
    written: Written, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = written("site,outcome,age,y\n" + "".join(f"s{i % 2},{'ab'[i % 2]},{i},{i % 3}\n" for i in range(20)))
    by_name = find_csv(path, NamedColumns("outcome", "site")).read(silent)
    assert (by_name.classes, by_name.owners, by_name.about["features"]) == (("a", "b"), ("s0", "s1"), ["age", "y"])
    with pytest.raises(InputError, match="column 'outcome' of line 2"):
        find_csv(path, NamedColumns("site", "y")).read(silent)
    listed = "a column of .*mine.csv, which are 'site', 'outcome', 'age', 'y'$"
    for field, named in (("label", NamedColumns("Outcome")), ("client", NamedColumns(client="clinic"))):
        with pytest.raises(InputError, match=f"^{field}_column=.* is not accepted: expected {listed}"):
            find_csv(path, named).read(silent)
    with pytest.raises(InputError, match=r"^client_column='y' is not accepted: expected another column than label_col"):
        find_csv(path, NamedColumns("y", "y"))
    # read by other columns, it is another one in the cache
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "cache"))
    path = written("b,label\n" + "".join(f"{i % 5},{i % 2}\n" for i in range(30)))
    assert [load(f"csv:{path}", label_column=name).classes for name in (None, "b", None)] == [2, 5, 2]
    for field in ("label_column", "client_column"):
        with pytest.raises(InputError, match=f"^{field}='a' is not accepted: only csv:PATH has columns, and"):
            load("digits", **{field: "a"})


def test_a_column_that_is_named_is_nothing_else(written: Written) -> None:
    rows = "".join(f"{i % 2},{('train', 'test')[i % 4 > 1]},{i}\n" for i in range(20))
    by_site = find_csv(written("site,split,age\n" + rows), NamedColumns(label="site")).read(silent)
    assert (by_site.classes, by_site.owners, by_site.about["test"]) == (("0", "1"), (), "split column")
    by_split = find_csv(written("y,split,age\n" + rows), NamedColumns(label="split")).read(silent)
    assert (by_split.classes, by_split.about["features"]) == (("test", "train"), ["y", "age"])
    with pytest.raises(InputError, match=r"expected a column label, y, class or target, or another one named by label"):
        find_csv(written("y,split,age\n" + rows), NamedColumns(client="y")).read(silent)


@pytest.mark.parametrize("in_folder", [False, True])
def test_train_and_test_by_a_column_or_by_two_files(in_folder: bool, written: Written) -> None:
    lines = [f"{i},{(i % 2) * 2 + 8},{i % 3}" for i in range(20)]
    if in_folder:
        written("a,y,site\n" + "\n".join(lines[:15]), "both/train.csv")
        path = written("a,y,site\n" + "\n".join(lines[15:]), "both/test.csv.gz").parent
        assert [file.name for file in find_csv(path).paths] == ["train.csv", "test.csv.gz"]
    else:
        parts = ["train"] * 14 + [" Train"] + ["test"] * 4 + ["TEST"]
        rows = (f"{line},{part}\n" for line, part in zip(lines, parts, strict=True))
        path = written("a,y,site,split\n" + "".join(rows))
    decoded = find_csv(path).read(silent)
    assert sorted(decoded.train.inputs[:, 0].tolist()) == list(range(15))
    assert sorted(decoded.test.inputs[:, 0].tolist()) == list(range(15, 20))
    assert decoded.classes == ("8", "10")  # in the order of numbers
    assert decoded.about == {"test": "test.csv.gz" if in_folder else "split column", "features": ["a"]}
    for part in (decoded.train, decoded.test):
        assert part.owner is not None
        assert (part.inputs[:, 0] % 2 == part.targets).all()
        assert (part.inputs[:, 0] % 3 == part.owner).all()


def test_features_are_standardised_over_what_is_trained_on(written: Written) -> None:
    content = "a,b,label,split\n1,7,p,train\n3,7,q,train\n9,8,p,test\n"
    source = as_source("mine", with_moments(find_csv(written(content)).read(silent)))
    inputs, targets = source.train.tensors()
    # mean 2 and deviation 1 of a; b is constant
    assert sorted(inputs.tolist()) == [[-1, 0], [1, 0]]
    assert inputs[:, 0].argsort().tolist() == targets.argsort().tolist()
    assert source.test.tensors()[0].tolist() == [[7, 1]]


def test_many_rows_with_progress_and_little_memory(written: Written) -> None:
    count = 5_000
    rows = (f"{i % 3},{i}," + ",".join(f"{i * k % 97}.25" for k in range(19)) + "\n" for i in range(count))
    content = "label," + ",".join(f"f{k}" for k in range(20)) + "\n" + "".join(rows)
    told: list[tuple[int, int]] = []
    tracemalloc.start()
    decoded = find_csv(written(content)).read(lambda done, total: told.append((done, total)))
    assert tracemalloc.get_traced_memory()[1] < 13 * 20 * count + 2**21
    tracemalloc.stop()
    everything = all_inputs(decoded)
    everything = everything[everything[:, 0].argsort()]
    assert (everything[:, 0] == np.arange(count)).all()
    assert (everything[:, 1:] == np.arange(count)[:, None] * np.arange(19) % 97 + 0.25).all()
    assert told == sorted(told)
    assert told[-1] == (len(content), len(content))
    assert len(told) <= 102


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "a line that names the columns, but it is empty"),
        ("label\np\nq\n", "names of columns in the first line, a comma, a semicolon or a tab between them"),
        ("a,b\n1,2\n", "a column label, y, class or target, or .* label_column, but the columns are 'a', 'b'"),
        ("a,y,Label\n1,2,3\n", "one column of label, y, class, target, but there are 'y', 'Label'"),
        ("y,client\n1,2\n", "at least one column of numbers beside 'y', 'client'"),
        ("a,a ,y\n1,2,3\n", "every column name once, but 'a' occurs 2 times"),
        (",a,y\n0,1,2\n", "a name for every column, but column 1 has none"),
        ("a,y\n", "rows below the names of the columns, but there are none"),
        ("a,y\n1,2\n1\n", "2 fields in line 3, as in the first line, but it has 1"),
        ("a,y\n1,p\nnan,q\n", "a finite number in column 'a' of line 3, but it is 'nan'"),
        ("a,y\n1,p\n1_000,q\n", "a finite number in column 'a' of line 3, but it is '1_000'"),
        ("a;y\n1;p\n1,5;q\n", "a finite number in column 'a' of line 3, but it is '1,5'$"),
        ("a,b,y\n1,2,p\n1,x,q\n", "a finite number in column 'b' of line 3, but it is 'x': if it is the owner"),
        ("a,y\n1,p\n1, \n", "a value in column 'y' of line 3, but it is empty"),
        ("a,y\n1,p\n2,p\n", "at least two classes in column 'y', but there is only 'p'"),
        ("a,y\n1,p\n2,q\n", "a class with two samples to hold one out"),
        ("a,y,split\n1,p,train\n2,q,valid\n", "train or test in column 'split' of line 3, but it is 'valid'"),
        ("a,y,split\n1,p,train\n2,q,train\n", "rows to train on and rows to test on, but all are for train"),
        ("a,y,split\n1,p,train\n2,q,train\n2,r,test\n", "only classes .* in the training set, but there is 'r'"),
        ('a,y\n1,"p\n2,q\n', r"a row of fields in line 2 \(unexpected end of data\)"),
        ("a,y\n1,p\n" + "2" * 200_000 + ",q\n", "a row of fields in line 3 .*field limit"),
        (b"a,y\r" + b"1,p\r" * 40_000 + b"2,\x80\r3,q\r", "text in UTF-8, but line 40002 has the byte 0x80$"),
        (b"a,y\n1,p\n2,\xc3", "text in UTF-8, but line 3 has the byte 0xc3$"),
    ],
)
def test_what_is_wrong_in_a_table_is_refused_with_its_line(content: str | bytes, said: str, written: Written) -> None:
    with pytest.raises(InputError, match=rf"mine\.csv is not accepted: expected .*{said}"):
        find_csv(written(content)).read(silent)


def test_two_files_that_do_not_fit_are_refused(written: Written) -> None:
    folder = written("a,b,y\n1,2,p\n2,1,q\n", "both/train.csv").parent
    with pytest.raises(InputError, match=r"both is not accepted: expected .* there is no test\.csv"):
        find_csv(folder)
    written("b,a,y\n1,2,p\n", "both/test.csv")
    with pytest.raises(InputError, match=r"test\.csv is not accepted: expected the same columns .* 'a', 'b', 'y'"):
        find_csv(folder).read(silent)
    written("a,y,split\n1,p,train\n", "both/train.csv")
    with pytest.raises(InputError, match=r"train\.csv is not accepted: expected no column 'split'"):
        find_csv(folder).read(silent)
    with pytest.raises(InputError, match=r"nothing\.csv is not accepted: expected a \.csv file, or a folder"):
        find_csv(folder / "nothing.csv")


# ------------------------------------------------------------------------------------------------ through runs, by name


def patients(path: str = "patients.npz", seed: int = 0, **more: Any) -> None:
    """Vectors from five sites, one of which has test samples only."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(200, 4)).astype(np.float32), np.arange(200) % 2
    site, site_test = np.arange(200) % 4, np.arange(50) % 5
    np.savez(path, **{"x": x, "y": y, "site": site, "x_test": x[:50], "y_test": y[:50], "site_test": site_test, **more})


def config(**changes: Any) -> Config:
    given = {"data": "npz:patients.npz", "model": "mlp", "width": 4, "clients": 4, "method": "smofi", "rounds": 2}
    return Config(**{**given, "batch_size": 8, "participation": 1.0, "local_epochs": 1, **changes})


def test_all_is_tested_on_unless_owners_are_left_out(here: Path) -> None:
    patients()
    assert [len(gather(config(partition=how)).test) for how in ("dirichlet(1)", "natural")] == [50, 50]
    federation = gather(config(partition="natural", clients=2))
    assert federation.source.owner is not None
    assert federation.source.test_owner is not None
    chosen = {int(federation.source.owner[part[0]]) for part in federation.indices}
    assert len(chosen) == 2
    assert len(federation.test) == sum(int((federation.source.test_owner == one).sum()) for one in chosen) == 20


def test_a_run_is_resumed_with_its_own_data_only(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patients()
    (one,) = experiment.start(config(), Path("run"))
    one.train()
    for changed in ({"seed": 1}, {"y": np.arange(200) // 2 % 2}):
        patients(**changed)
        with pytest.raises(InputError, match="run was made with other data"):
            experiment.resume(Path("run"), {"rounds": 3})
    Path("elsewhere").mkdir()
    patients("elsewhere/moved.npz")
    monkeypatch.chdir("elsewhere")  # the run knows its data by an absolute path, and is told of another
    (again,) = experiment.resume(Path("../run"), {"rounds": 3, "data": "npz:moved.npz"})
    assert len(again.train().history) == 3


def test_a_partition_by_file_is_kept_and_still_fits_its_data_only(here: Path) -> None:
    patients()
    (first,) = experiment.start(config(), Path("first"))
    first.train()
    (second,) = experiment.start(config(partition="file:first", seed=5), Path("second"))
    second.train()
    Path("first").rename("gone")
    (again,) = experiment.resume(Path("second"), {"rounds": 3})
    assert len(again.train().history) == 3
    patients(y=np.arange(200) // 2 % 2)
    with pytest.raises(InputError, match="other labels"):
        gather(config(partition="file:gone"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": "resnet8"}, r"model='resnet8' is not accepted: expected a model for vectors, .*: one of mlp"),
        ({"data": "digits"}, "model='mlp' is not accepted: expected a model for images, as in digits: one of cnn"),
        ({"data": "digits", "model": "vgg11"}, r"model='vgg11' does not fit data='digits': .*--image-size changes it"),
        ({"image_size": 8}, "image_size=8 is not accepted: npz:patients.npz has no images"),
        ({"data": "digits", "model": "cnn", "image_size": 5000}, "image_size=5000 is not accepted: .*<= 1024"),
        ({"data": "npz:none.npz"}, r"expected a path that exists, but there is no /.*none\.npz"),
        ({"data": "cifar100"}, r"Two ways to get cifar100: \(1\) cifar-100-binary.*\(2\) .*--fetch"),
    ],
)
def test_what_does_not_fit_is_said_by_the_settings(
    changes: dict[str, Any], sentence: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(here / "home"))
    (here / "home" / "cifar100").mkdir(parents=True)
    patients()
    with pytest.raises(InputError, match=sentence):
        config(**changes).arguments()
    with pytest.raises(InputError, match=r"data='digit' is not accepted: .*did you mean 'digits'"):
        load("digit")


def test_the_digits_are_those_of_scikit_learn_each_once_and_fairly_split() -> None:
    source = load("digits")
    (images, labels), (test_images, test_labels) = source.train.tensors(), source.test.tensors()
    assert (tuple(images.shape), tuple(test_images.shape)) == ((1437, 1, 8, 8), (360, 1, 8, 8))
    assert (images.mean().item(), images.std().item()) == (pytest.approx(0, abs=1e-5), pytest.approx(1, abs=1e-5))
    # Undoing the scaling gives back the 17 grey levels, and with them the original images, in another order.
    both, every = torch.cat([images, test_images]), torch.cat([labels, test_labels]).tolist()
    levels = ((both - both.min()) / (both.max() - both.min()) * 16).round().to(torch.int64).reshape(-1, 64)
    ours = sorted([*row, label] for row, label in zip(levels.tolist(), every, strict=True))
    # of the rows that sklearn.datasets.load_digits gives, sorted
    theirs = "f67d6a29d0e1f70e7f0cd9dcf25816b694881f4b8f27f5cc1db59551f0499fb8"
    assert hashlib.sha256(np.array(ours, np.uint8).tobytes()).hexdigest() == theirs
    assert all(125 <= count <= 160 for count in torch.bincount(labels).tolist())
    assert all(20 <= count <= 53 for count in torch.bincount(test_labels).tolist())
