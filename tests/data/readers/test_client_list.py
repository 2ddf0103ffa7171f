"""clients.csv beside the files says whose each is, for pictures, recordings and texts alike."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smofi.data.decoded import Decoded, Split, silent
from smofi.data.readers.folder import find_folder
from smofi.errors import InputError
from support.sounds import write_wav


def write(root: Path, lines: str, *names: str) -> None:
    """Pictures, the first one of shade 0, the second of shade 1, and so on; and the list."""
    for shade, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), shade).save(root / name)
    (root / "clients.csv").write_text(lines)


def told(found: Decoded, split: Split) -> dict[int, str]:
    assert split.owner is not None
    rows = zip(split.inputs[:, 0, 0, 0].tolist(), split.owner, split.targets, strict=True)
    return {shade: f"{found.owners[owner]} {found.classes[target]}" for shade, owner, target in rows}


def test_classes_by_folder_and_clients_by_list(tmp_path: Path) -> None:
    names = [f"{label}/{number}.png" for label in "xy" for number in range(5)]
    speakers = ["bo", "al"]
    write(tmp_path, "file,speaker\n" + "".join(f"{name},{speakers[k % 2]}\n" for k, name in enumerate(names)), *names)
    found = find_folder(tmp_path).read(silent)
    everything = {**told(found, found.train), **told(found, found.test)}
    assert everything == {k: f"{speakers[k % 2]} {name[0]}" for k, name in enumerate(names)}
    assert (found.owners, found.classes, len(found.test.targets)) == (("al", "bo"), ("x", "y"), 2)
    assert found.about["test"].endswith("to choose the test set yourself, add a column split to clients.csv")


def test_everything_by_list(tmp_path: Path) -> None:
    lines = "split;client;label;file\ntrain;al;cat;a.png\ntrain;bo;dog;./deep/b.png\nTest;al;dog;c.png\n"
    write(tmp_path, lines, "a.png", "deep/b.png", "c.png", "d.png")
    found = find_folder(tmp_path).read(silent)
    assert (told(found, found.train), told(found, found.test)) == ({0: "al cat", 1: "bo dog"}, {2: "al dog"})
    assert found.about == {
        "test": "what clients.csv or a folder says is for the test",
        "left_out": "1 file not in the list: .png (1)",
    }
    assert tmp_path / "clients.csv" in find_folder(tmp_path).paths


def test_folders_train_and_test_count_where_the_list_does_not_say(tmp_path: Path) -> None:
    names = ["train/x/1.png", "train/y/1.png", "test/y/1.png"]
    write(tmp_path, "file,client\n" + "".join(f"{name},al\n" for name in names), *names)
    found = find_folder(tmp_path).read(silent)
    assert (told(found, found.train), told(found, found.test)) == ({0: "al x", 1: "al y"}, {2: "al y"})


def test_recordings_and_texts_by_list(tmp_path: Path) -> None:
    for number in range(4):
        write_wav(tmp_path / "sound" / f"{number}.wav", np.zeros(800))
    rows = "".join(f"{number}.wav,s{number % 2},{'ab'[number // 2]}\n" for number in range(4))
    (tmp_path / "sound" / "clients.csv").write_text("file,site,label\n" + rows)
    found = find_folder(tmp_path / "sound").read(silent)
    assert (found.owners, found.classes) == (("s0", "s1"), ("a", "b"))
    (tmp_path / "text").mkdir()
    for number in range(4):
        (tmp_path / "text" / f"{number}.txt").write_text("so it goes, " * 60)
    (tmp_path / "text" / "clients.csv").write_text("file,user\n0.txt,al\n1.txt,bo\n2.txt,al\n3.txt,al\n")
    found = find_folder(tmp_path / "text").read(silent)
    assert found.owners == ("al", "bo")
    assert found.train.owner is not None
    assert np.bincount(found.train.owner)[0] == 3 * np.bincount(found.train.owner)[1]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("name,client\nx/1.png,a\n", "a column file and a column client, .* but the columns are 'name', 'client'"),
        ("file,label\nx/1.png,a\n", "a column file and a column client, .* but the columns are 'file', 'label'"),
        ("file,client,site\nx/1.png,a,b\n", "one column of client, .* but there are 'client', 'site': leave the oth"),
        ("file,client\n", "a line for each file below the names of the columns, but there is none"),
        ("file,client\nx/1.png\n", "2 fields in line 2, as in the first line, but it has 1"),
        ("file,client\nx/1.png,\n", "a value in column 'client' of line 2, but it is empty"),
        ("file,client\nx/1.png,a\nx/9.png,a\n", r"files that are in .*, but 'x/9\.png' of line 3 is not"),
        ("file,client\nx/1.png,a\n../y.png,a\n", r"files that are in .*, but '\.\./y\.png' of line 3 is not"),
        ("file,client\nx/1.png,a\nx/1.png,b\n", r"every file once, but 'x/1\.png' is in line 2 and in line 3"),
        ("file,client\nx/1.png,a\nnotes.txt,b\n", r"pictures only, but 'notes\.txt' of line 3 is something else"),
        ("file,client\nx/1.png,a\nloose.png,b\n", r"a column label, as .*loose\.png lies in no folder"),
        ("file,client,split\nx/1.png,a,no\n", "train or test in column 'split' of line 2, but it is 'no'"),
        ("file,client,split\nx/1.png,a,test\n", "files to train on, but all are for the test"),
    ],
)
def test_what_is_wrong_with_a_list_is_said(tmp_path: Path, lines: str, said: str) -> None:
    write(tmp_path, lines, "x/1.png", "y/1.png", "loose.png")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(InputError, match=rf"clients\.csv is not accepted: expected {said}"):
        find_folder(tmp_path)


def test_texts_have_no_label_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("so it goes, " * 60)
    (tmp_path / "clients.csv").write_text("file,client,label\na.txt,al,x\n")
    with pytest.raises(InputError, match="no column label: a text has no class"):
        find_folder(tmp_path)
    (tmp_path / "clients.csv").unlink()
    os.mkfifo(tmp_path / "clients.csv")
    with pytest.raises(InputError, match=r"clients\.csv is not accepted: expected a file or a folder that can be read"):
        find_folder(tmp_path)
