from __future__ import annotations

import gzip
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smofi.data.cache import with_moments
from smofi.data.decoded import silent
from smofi.data.formats import rows as rows_module
from smofi.data.loading import load
from smofi.data.readers.csv import NamedColumns, find_csv
from smofi.data.source import as_source
from smofi.errors import InputError

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
        "\ufeff" + table(),
        table().replace("\n", "\r\n"),
        table().replace("\n", "\r"),
        table().rstrip("\n"),
        table() + "\n\n",
        table().replace("a,b,label,client", '"a", b ,LABEL,Client'),
        table().replace(",p,", ',"p",').replace("0.5,", " 5e-1 ,"),
    ],
    ids=["comma", "semicolon", "tab", "mark", "crlf", "cr", "no end", "blank lines", "names", "quotes"],
)
def test_however_it_is_written_it_says_the_same(content: str, written: Written) -> None:
    decoded = find_csv(written(content)).read(silent)
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


def test_columns_by_the_names_that_the_user_gives(written: Written) -> None:
    content = "site,outcome,age,y\n" + "".join(f"s{i % 2},{'ab'[i % 2]},{i},{i % 3}\n" for i in range(20))
    path = written(content)
    by_name = find_csv(path, NamedColumns("outcome", "site")).read(silent)
    assert (by_name.classes, by_name.owners, by_name.about["features"]) == (("a", "b"), ("s0", "s1"), ["age", "y"])
    other = find_csv(path, NamedColumns("site", "y")).read
    with pytest.raises(InputError, match="column 'outcome' of line 2"):
        other(silent)
    listed = "a column of .*mine.csv, which are 'site', 'outcome', 'age', 'y'$"
    wrong: Any = 3
    for field, named in (
        ("label", NamedColumns("Outcome")),
        ("label", NamedColumns(wrong)),
        ("client", NamedColumns(client="clinic")),
    ):
        with pytest.raises(InputError, match=f"^{field}_column=.* is not accepted: expected {listed}"):
            find_csv(path, named).read(silent)
    with pytest.raises(InputError, match=r"^client_column='y' is not accepted: expected another column than label_col"):
        find_csv(path, NamedColumns("y", "y"))


def test_a_column_that_is_named_is_nothing_else(written: Written) -> None:
    rows = "".join(f"{i % 2},{('train', 'test')[i % 4 > 1]},{i}\n" for i in range(20))
    by_site = find_csv(written("site,split,age\n" + rows), NamedColumns(label="site")).read(silent)
    assert (by_site.classes, by_site.owners, by_site.about["test"]) == (("0", "1"), (), "split column")
    by_split = find_csv(written("y,split,age\n" + rows), NamedColumns(label="split")).read(silent)
    assert (by_split.classes, by_split.about["features"]) == (("test", "train"), ["y", "age"])
    with pytest.raises(InputError, match=r"expected a column label, y, class or target, or another one named by label"):
        find_csv(written("y,split,age\n" + rows), NamedColumns(client="y")).read(silent)


def test_a_table_read_by_other_columns_is_another_in_the_cache(
    written: Written, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "cache"))
    path = written("b,label\n" + "".join(f"{i % 5},{i % 2}\n" for i in range(30)))
    assert [load(f"csv:{path}", label_column=name).classes for name in (None, "b", None)] == [2, 5, 2]


@pytest.mark.parametrize("name", ["digits", "npz:a.npz", "folder:pictures", "python:module:function"])
@pytest.mark.parametrize("field", ["label_column", "client_column"])
def test_only_tables_have_columns_to_name(name: str, field: str) -> None:
    with pytest.raises(
        InputError, match=f"^{field}='a' is not accepted: only csv:PATH has columns, and the data is {name}$"
    ):
        load(name, **{field: "a"})


def test_a_packed_table(written: Written) -> None:
    plain, packed = (find_csv(written(table(), name)).read(silent) for name in ("mine.csv", "mine.csv.gz"))
    assert (plain.train.inputs == packed.train.inputs).all()


@pytest.mark.parametrize("in_folder", [False, True])
def test_train_and_test_by_a_column_or_by_two_files(in_folder: bool, written: Written) -> None:
    lines = [f"{i},{(i % 2) * 2 + 8},{i % 3}" for i in range(20)]
    if in_folder:
        written("a,y,site\n" + "\n".join(lines[:15]), "both/train.csv")
        path = written("a,y,site\n" + "\n".join(lines[15:]), "both/test.csv.gz").parent
        assert [file.name for file in find_csv(path).paths] == ["train.csv", "test.csv.gz"]
    else:
        parts = ["train"] * 14 + [" Train"] + ["test"] * 4 + ["TEST"]
        path = written(
            "a,y,site,split\n" + "".join(f"{line},{part}\n" for line, part in zip(lines, parts, strict=True))
        )
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


def test_as_many_rows_as_it_takes_several_pieces_for(written: Written) -> None:
    count = 12_345
    content = "label," + ",".join(f"f{k}" for k in range(20)) + "\n"
    content += "".join(f"{i % 3},{i}," + ",".join(f"{i * k % 97}.25" for k in range(19)) + "\n" for i in range(count))
    told: list[tuple[int, int]] = []
    decoded = find_csv(written(content)).read(lambda done, total: told.append((done, total)))
    everything = np.concatenate([decoded.train.inputs, decoded.test.inputs])
    everything = everything[everything[:, 0].argsort()]
    assert (everything[:, 0] == np.arange(count)).all()
    assert (everything[:, 1:] == np.arange(count)[:, None] * np.arange(19) % 97 + 0.25).all()
    assert told[-1] == (len(content), len(content))
    assert len(told) <= 102
    assert sorted(told) == told


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "a line that names the columns, but it is empty"),
        ("\n\n", "names of columns in the first line"),
        ("label\np\nq\n", "names of columns in the first line, a comma, a semicolon or a tab between them"),
        (
            "a,b\n1,2\n",
            "a column label, y, class or target, or another one named by label_column, but the columns are 'a', 'b'",
        ),
        ("a,y,Label\n1,2,3\n", "one column of label, y, class, target, but there are 'y', 'Label'"),
        (
            "a,y,user,site\n1,2,3,4\n",
            "one column of client, .*, but there are 'user', 'site': say which with client_col",
        ),
        ("y,client\n1,2\n", "at least one column of numbers beside 'y', 'client'"),
        ("a,a ,y\n1,2,3\n", "every column name once, but 'a' occurs 2 times"),
        (",a,y\n0,1,2\n", "a name for every column, but column 1 has none"),
        ("a,y\n", "rows below the names of the columns, but there are none"),
        ("a,y\n1,2\n1\n", "2 fields in line 3, as in the first line, but it has 1"),
        ("a,y\n1,2\n\n1,2,3\n", "2 fields in line 4, as in the first line, but it has 3"),
        ("a,b,y\n1,2,p\n1,x,q\n", "a finite number in column 'b' of line 3, but it is 'x'"),
        ("a,b,y\n1,2,p\n,2,q\n", "a finite number in column 'a' of line 3, but it is ''"),
        ("a,y\n1,p\nnan,q\n", "a finite number in column 'a' of line 3, but it is 'nan'"),
        ("a,y\n1,p\n-inf,q\n", "a finite number in column 'a' of line 3, but it is '-inf'"),
        ("a,y\n1,p\n1e39,q\n", "a finite number in column 'a' of line 3, but it is '1e39'"),
        ("a,y\n1,p\n1_000,q\n", "a finite number in column 'a' of line 3, but it is '1_000'"),
        ("a;y\n1;p\n1,5;q\n", "a finite number in column 'a' of line 3, but it is '1,5'"),
        ("a,y\n1,p\n1, \n", "a value in column 'y' of line 3, but it is empty"),
        ("a,y,client\n1,p,0\n1,q,\n", "a value in column 'client' of line 3, but it is empty"),
        ("a,y\n1,p\n2,p\n", "at least two classes in column 'y', but there is only 'p'"),
        ("a,y\n1,p\n2,q\n", "a class with two samples to hold one out"),
        ("a,y,split\n1,p,train\n2,q,valid\n", "train or test in column 'split' of line 3, but it is 'valid'"),
        ("a,y,split\n1,p,train\n2,q,train\n", "rows to train on and rows to test on, but all are for train"),
        (
            "a,y,split\n1,p,train\n2,q,train\n2,r,test\n",
            "classes in the test set that are in the training set, but there is 'r'",
        ),
        ('a,y\n1,"p\n2,q\n', r"a row of fields in line 2 \(unexpected end of data\)"),
        ('a,y\n1,"p"x\n2,q\n', "a row of fields in line 2"),
        ("a,y\n1,p\n" + "2" * 200_000 + ",q\n", "a row of fields in line 3 .*field limit"),
        ("a,y\n1,p\n2,\x00\n3,q\n3,r\n", None),
        (b"a,y\n1,\xff\n", "text in UTF-8, but line 2 has the byte 0xff$"),
        (b"a,y\n1,\xc3\xa4\n\n2,ab\xe4\n3,q\n", "text in UTF-8, but line 4 has the byte 0xe4$"),
        (b"a,y\r" + b"1,p\r" * 40_000 + b"2,\x80\r3,q\r", "text in UTF-8, but line 40002 has the byte 0x80$"),
        (b"a,y\n1,p\n2,\xc3", "text in UTF-8, but line 3 has the byte 0xc3$"),
        (b"a,y\n1,\xed\xb3\xbf\n", "text in UTF-8, but line 2 has the byte 0xed$"),
        ("a,y\n1,p\n".encode("utf-16"), "text in UTF-8, but line 1 has the byte 0xff$"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(content: str | bytes, said: str | None, written: Written) -> None:
    with pytest.raises(InputError, match=rf"mine\.csv is not accepted: expected .*{said or ''}"):
        find_csv(written(content)).read(silent)


@pytest.mark.parametrize(
    ("cell", "hinted"), [("mercy", True), ("NA", True), ("", False), ("nan", False), ("1,5", False)]
)
def test_a_column_of_words_may_be_the_owner(cell: str, hinted: bool, written: Written) -> None:
    with pytest.raises(InputError, match="column 'clinic' of line 3") as refused:
        find_csv(written(f"a;clinic;y\n1;2;p\n1;{cell};q\n")).read(silent)
    hint = "if it is the owner of the sample, call the column client, user, .* or name it with client_column; conv"
    assert bool(re.search(hint, str(refused.value))) is hinted


@pytest.mark.parametrize("name", ["hospital", "Patient", "device"])
def test_hospitals_patients_and_devices_are_owners(name: str, written: Written) -> None:
    content = f"a,{name},y\n" + "".join(f"{i},h{i % 2},{i % 3}\n" for i in range(12))
    decoded = find_csv(written(content)).read(silent)
    assert (decoded.owners, decoded.about["features"]) == (("h0", "h1"), ["a"])


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


@pytest.mark.parametrize(
    "content", [b"a,y\n" + b"1" * 30_000_000, b"1" * 30_000_000, b'"\n' * 10_000_000, b"," * 4_000_000 + b"\n"]
)
def test_what_unpacks_to_a_lot_takes_little_memory(content: bytes, written: Written) -> None:
    path = written(content, "bomb.csv.gz")
    tracemalloc.start()
    with pytest.raises(InputError, match=r"bomb\.csv\.gz is not accepted"):
        find_csv(path).read(silent)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # a line of 4 million characters, split into as many fields at worst
    assert peak < 128 << 20


def test_a_table_that_is_too_large_is_refused(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MOST_BYTES", 200)
    with pytest.raises(InputError, match="at most 200 bytes, but it has 507"):
        find_csv(written(table(40))).read(silent)


def test_a_word_of_any_length_is_kept_once(written: Written) -> None:
    content = f"a,y,client\n1,{'p' * 100_000},{'c' * 100_000}\n" + "".join(f"{i},q,d\n" for i in range(3000))
    tracemalloc.start()
    decoded = find_csv(written(content)).read(silent)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert decoded.classes == ("p" * 200, "q")
    assert peak < 8 << 20


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_broken_files_are_refused_in_a_sentence(written: Written, data: st.DataObject) -> None:
    packed = data.draw(st.booleans())
    content = bytearray(gzip.compress(table().encode(), mtime=0) if packed else table().encode())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    path = written(b"", "broken.csv")
    path = path.rename(path.with_suffix(".csv.gz")) if packed else path
    path.write_bytes(content)
    try:
        assert np.isfinite(find_csv(path).read(silent).train.inputs).all()
    except InputError as error:
        assert "broken.csv" in str(error)  # noqa: PT017
