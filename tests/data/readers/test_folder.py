from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from smofi.data.decoded import Decoded, Split, silent
from smofi.data.readers import folder as module
from smofi.data.readers.folder import find_folder
from smofi.errors import InputError
from smofi.memory import limited

HELD_OUT = "a fifth of the pictures, held out; to choose the test set yourself, add a folder test beside a folder train"


def draw(path: Path, shade: int = 0, size: tuple[int, int] = (6, 5), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, shade if mode == "L" else (shade, 0, 255 - shade)).save(path)


def draw_all(root: Path, *names: str) -> list[str]:
    """Pictures, the first one of shade 0, the second of shade 1, and so on."""
    for shade, name in enumerate(names):
        draw(root / name, shade)
    return list(names)


def shades(part: Split) -> list[int]:
    return [int(shade) for shade in part.inputs[:, 0, 0, 0]]


def test_a_folder_per_class_of_which_a_fifth_is_the_test(tmp_path: Path) -> None:
    names = draw_all(tmp_path, *(f"cat/{k}.png" for k in range(20)), *(f"dog/{k}.BMP" for k in range(10)), "emu/1.gif")
    (tmp_path / "dog" / "notes.txt").write_text("")
    (tmp_path / ".hidden").mkdir()
    draw(tmp_path / "cat" / "._5.png")
    told: list[tuple[int, int]] = []
    found = find_folder(tmp_path).read(lambda done, total: told.append((done, total)))
    assert (found.kind, found.classes, found.owners, found.train.owner) == ("image", ("cat", "dog", "emu"), (), None)
    assert found.train.inputs.shape == (25, 5, 6, 3)
    assert (found.train.inputs.dtype, found.train.targets.dtype) == (np.uint8, np.int64)
    assert Counter(found.train.targets.tolist()) == {0: 16, 1: 8, 2: 1}
    assert Counter(found.test.targets.tolist()) == {0: 4, 1: 2}
    for part in (found.train, found.test):
        assert [names[shade].split("/")[0] for shade in shades(part)] == [found.classes[k] for k in part.targets]
    assert told[-1] == (62, 62)
    assert told == sorted(told)
    assert sorted(find_folder(tmp_path).paths) == sorted(tmp_path / name for name in names)


def test_every_picture_once_and_the_same_every_time(tmp_path: Path) -> None:
    names = draw_all(tmp_path, *(f"{label}/{k}.png" for label in "ab" for k in range(15)))
    one, two = find_folder(tmp_path).read(silent), find_folder(tmp_path).read(silent)
    assert sorted(shades(one.train) + shades(one.test)) == list(range(len(names)))
    assert (shades(one.train), shades(one.test)) == (shades(two.train), shades(two.test))
    assert shades(one.train) != sorted(shades(one.train))
    assert one.train.targets.tolist() == [int(shade >= 15) for shade in shades(one.train)]


@pytest.mark.parametrize("train", ["train", "Training"])
@pytest.mark.parametrize("test", ["test", "val", "valid", "Validation"])
def test_folders_for_training_and_testing(tmp_path: Path, train: str, test: str) -> None:
    draw_all(tmp_path, f"{train}/a/1.png", f"{train}/b/1.png", f"{train}/b/2.png", f"{test}/b/3.png")
    found = find_folder(tmp_path).read(silent)
    assert sorted(zip(shades(found.train), found.train.targets.tolist(), strict=True)) == [(0, 0), (1, 1), (2, 1)]
    assert (shades(found.test), found.test.targets.tolist()) == ([3], [1])
    assert found.about == {"test": f"folder {test}/"}


def test_a_folder_for_training_alone(tmp_path: Path) -> None:
    draw_all(tmp_path, *(f"train/{label}/{k}.png" for label in "ab" for k in range(5)))
    found = find_folder(tmp_path).read(silent)
    assert Counter(found.test.targets.tolist()) == {0: 1, 1: 1}


def test_test_comes_before_val(tmp_path: Path) -> None:
    draw_all(tmp_path, "train/a/1.png", "train/b/1.png", "val/a/1.png", "test/a/1.png")
    found = find_folder(tmp_path).read(silent)
    assert (shades(found.test), found.about) == ([3], {"test": "folder test/", "left_out": "folder val/"})


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    draw_all(tmp_path, *(f"{label}/{k}.png" for label in "ab" for k in range(5)))
    for name in ("Thumbs.db", "desktop.ini", ".DS_Store", ".hidden.dcm"):
        (tmp_path / "a" / name).write_text("")
    assert find_folder(tmp_path).read(silent).about == {"test": HELD_OUT}
    for name in ("a/1.dcm", "a/2.DCM", "b/3.dcm", "b/notes.txt", "LICENSE"):
        (tmp_path / name).write_text("")
    left_out = find_folder(tmp_path).read(silent).about["left_out"]
    assert left_out == "5 files that are not pictures: .dcm (3), LICENSE (1), .txt (1)"


def test_what_is_left_out_beside_train_and_test(tmp_path: Path) -> None:
    draw_all(tmp_path, "train/a/1.png", "train/b/1.png", "test/a/1.png", "val/a/1.png", "cover.png")
    for name in ("train/a/1.dcm", "test/a/1.dcm", "labels.csv", "desktop.ini"):
        (tmp_path / name).write_text("")
    outside = "2 files outside the folders: .png (1), .csv (1)"
    found = find_folder(tmp_path).read(silent)
    assert found.about["left_out"] == f"folder val/; 2 files that are not pictures: .dcm (2); {outside}"
    draw_all(tmp_path / "two", "train/a/1.png", "train/a/2.png", "train/b/1.png", "cover.png")
    found = find_folder(tmp_path / "two").read(silent)
    assert found.about["test"] == HELD_OUT
    assert found.about["left_out"] == "1 file outside the folders: .png (1)"


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    draw_all(tmp_path, *(f"{label}/{k}.png" for label in ("train", "bus") for k in range(2)))
    assert find_folder(tmp_path).read(silent).classes == ("bus", "train")


# -------------------------------------------------------------------------------------------------------------- clients


def test_clients_with_classes(tmp_path: Path) -> None:
    names = draw_all(tmp_path, *(f"{who}/{label}/{k}.png" for who in ("bo", "al") for label in "xy" for k in range(5)))
    (tmp_path / "al" / "x" / "notes.txt").write_text("")
    found = find_folder(tmp_path).read(silent)
    assert (found.owners, found.classes) == (("al", "bo"), ("x", "y"))
    for part in (found.train, found.test):
        assert part.owner is not None
        assert part.owner.dtype == np.int32
        told = [f"{found.owners[o]}/{found.classes[t]}" for o, t in zip(part.owner, part.targets, strict=True)]
        assert told == [names[shade].rpartition("/")[0] for shade in shades(part)]
    assert Counter(found.test.targets.tolist()) == {0: 2, 1: 2}


def test_no_client_is_left_without_training(tmp_path: Path) -> None:
    # All but the first two clients have one picture, which is not taken from them.
    draw_all(tmp_path, *(f"client {k}/{'ab'[k % 2]}/1.png" for k in range(10)), "client 0/a/2.png", "client 1/b/2.png")
    found = find_folder(tmp_path).read(silent)
    assert found.train.owner is not None
    assert found.test.owner is not None
    assert sorted(found.train.owner.tolist()) == list(range(10))
    assert sorted(found.test.owner.tolist()) == [0, 1]


def test_a_test_part_that_is_undivided_or_has_clients_of_its_own(tmp_path: Path) -> None:
    draw_all(tmp_path, "train/bo/x/1.png", "train/al/y/1.png", "train/al/y/2.png", "test/x/1.png")
    (tmp_path / "train" / "al" / "x").mkdir()  # a client may have nothing of a class
    found = find_folder(tmp_path).read(silent)
    assert (found.owners, found.test.owner) == (("al", "bo"), None)
    draw_all(tmp_path / "two", "train/bo/x/1.png", "train/cy/y/1.png", "test/al/x/1.png", "test/bo/y/1.png")
    found = find_folder(tmp_path / "two").read(silent)
    assert found.test.owner is not None
    assert found.owners == ("bo", "cy", "al")
    assert sorted(found.test.owner.tolist()) == [0, 2]


# ------------------------------------------------------------------------------------------------------ sizes, channels


def test_only_grey_pictures_have_one_channel(tmp_path: Path) -> None:
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png"):
        draw(tmp_path / name, 77, mode="L")
    found = find_folder(tmp_path).read(silent)
    assert (found.train.inputs.shape, set(shades(found.train))) == ((2, 5, 6, 1), {77})
    draw(tmp_path / "b" / "3.png", 200)
    found = find_folder(tmp_path).read(silent)
    assert found.train.inputs.shape[1:] == (5, 6, 3)


def test_pictures_of_many_sizes_need_image_size(tmp_path: Path) -> None:
    draw_all(tmp_path, "a/1.png", "a/2.png", "b/1.png", "b/2.png")
    draw(tmp_path / "b" / "3.png", 9, size=(30, 20))
    with pytest.raises(InputError) as caught:
        find_folder(tmp_path).read(silent)
    assert {"6 x 5", "30 x 20"} <= {f"{a} x {b}" for a in (6, 30) for b in (5, 20) if f"{a} x {b}" in str(caught.value)}
    assert str(caught.value).count(".png") == 2
    assert "set image_size" in str(caught.value)
    found = find_folder(tmp_path, image_size=4).read(silent)
    assert found.train.inputs.shape[1:] == (4, 4, 3)
    assert sorted(shades(found.train) + shades(found.test)) == [0, 1, 2, 3, 9]


@pytest.mark.parametrize("value", [0, -1, 2.5, True, 10_000])
def test_image_size_is_looked_at(tmp_path: Path, value: int) -> None:
    with pytest.raises(InputError, match=f"image_size={value} is not accepted"):
        find_folder(tmp_path, image_size=value).read(silent)


def test_photographs_stand_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 4)).save(tmp_path / name / "turned.jpg", exif=exif)
        Image.new("RGB", (4, 8)).save(tmp_path / name / "upright.jpg")
    assert find_folder(tmp_path).read(silent).train.inputs.shape[1:] == (8, 4, 3)


def test_large_pictures_go_through_threads_to_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_all(tmp_path, *(f"{label}/{k}.png" for label in "ab" for k in range(15)))
    plain = find_folder(tmp_path).read(silent)
    monkeypatch.setattr(module, "LARGE", 0)
    threaded = find_folder(tmp_path).read(silent)
    np.testing.assert_array_equal(plain.train.inputs, threaded.train.inputs)


def test_more_than_fits_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    draw_all(tmp_path, "a/1.png", "a/2.png", "b/1.png", "b/2.png")
    arithmetic = r"4 x 1,024 x 1,024 x 3 bytes \(less with a smaller image_size\) \+ \d+ x 30 while .* = 13 MB"
    with limited("1MB"), pytest.raises(InputError, match=rf"fits into the 0 MB that memory_limit=1MB.* {arithmetic}"):
        find_folder(tmp_path, 1024).read(silent)


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a/1.png", "a/2.png"], "two classes or more, a sub-folder each, but there is only 'a'"),
        (["al/x/1.png", "bo/x/2.png"], "each in the folders of the clients, but there is only 'x'"),
        (["a/1.png", "b/c/2.png"], r"b/c/2\.png is not accepted: expected a picture as deep as .*a/1\.png"),
        (["1.png", "2.png"], r"1\.png is not accepted: expected a picture in a sub-folder"),
        (["1.png", "a/2.png"], r"as deep as .*1\.png"),
        (["a/b/c/1.png", "a/b/d/1.png"], "expected a picture in a sub-folder of .* per class"),
        (["a/b/c/d/e/1.png"], "a/b/c/d is not accepted: expected no folder nested as deeply as this one"),
        (["a/1.png", "b/1.png"], "expected at least two pictures of some class"),
        (
            ["train/a/1.png", "test/a/1.png", "more/a/1.png"],
            "expected only train and test, but there is more too",
        ),
        (
            ["train/a/1.png", "training/a/1.png", "test/a/1.png"],
            "expected only train and test, but there is training too",
        ),
        (["test/a/1.png", "val/a/1.png"], "expected a folder train beside test"),
        (["train/a/1.png", "train/b/1.png", "test/c/1.png"], r"test/c/1\.png is not accepted: .*'c' is not"),
        (
            ["train/a/1.png", "train/b/1.png", "test/al/a/1.png"],
            r"test/al/a/1\.png is not accepted: expected a picture in a class folder",
        ),
    ],
)
def test_layouts_that_cannot_be_understood(tmp_path: Path, names: list[str], said: str) -> None:
    draw_all(tmp_path, *names)
    with pytest.raises(InputError, match=said):
        find_folder(tmp_path)


@pytest.mark.parametrize("empty", ["c", "a/c", "train"])
def test_a_folder_without_pictures_is_refused(tmp_path: Path, empty: str) -> None:
    draw_all(tmp_path, "a/1.png", "a/2.png", "b/1.png")
    (tmp_path / empty).mkdir()
    with pytest.raises(InputError, match=f"{empty} is not accepted: expected pictures in this folder"):
        find_folder(tmp_path)


@pytest.mark.parametrize("empty", ["cy", "cy/x", "bo/z"])
def test_a_client_or_a_class_without_pictures_is_refused(tmp_path: Path, empty: str) -> None:
    draw_all(tmp_path, "bo/x/1.png", "bo/x/2.png", "al/y/1.png")
    (tmp_path / empty).mkdir(parents=True)
    with pytest.raises(InputError, match=f"{empty} is not accepted: expected pictures in this folder"):
        find_folder(tmp_path)


def test_what_was_there_instead_of_pictures(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent is not accepted: expected a folder of pictures"):
        find_folder(tmp_path / "absent")
    with pytest.raises(InputError, match="but it has nothing"):
        find_folder(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "scan.tiff").write_bytes(b"")
    (tmp_path / "a" / "README").write_bytes(b"")
    with pytest.raises(InputError, match=r"\.jpg, .*but it has \.tiff, README"):
        find_folder(tmp_path)


def test_broken_pictures_and_links_are_named(tmp_path: Path) -> None:
    draw_all(tmp_path, "a/1.png", "a/2.png", "b/1.png")
    os.symlink(tmp_path, tmp_path / "b" / "again")
    with pytest.raises(InputError, match="no folder nested as deep"):
        find_folder(tmp_path)
    (tmp_path / "b" / "again").unlink()
    (tmp_path / "b" / "2.png").write_bytes(b"GIF89a")
    with pytest.raises(InputError, match=r"b/2\.png is not accepted: expected a picture"):
        find_folder(tmp_path).read(silent)
    (tmp_path / "b" / "2.png").unlink()
    os.mkfifo(tmp_path / "b" / "2.png")
    with pytest.raises(InputError, match=r"b/2\.png is not accepted: expected a file or a folder"):
        find_folder(tmp_path)
    (tmp_path / "b" / "2.png").unlink()
    os.symlink("2.png", tmp_path / "b" / "2.png")  # to itself
    with pytest.raises(InputError, match=r"b/2\.png is not accepted: expected a file or a folder"):
        find_folder(tmp_path)
    (tmp_path / "b" / "2.png").unlink()
    os.symlink("1.png", tmp_path / "b" / "2.png")
    assert len(find_folder(tmp_path).paths) == 4


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    draw_all(tmp_path, "a/1.png", "b/1.png")
    try:
        os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    except OSError:
        pytest.skip("this file system has no such names")
    with pytest.raises(InputError, match=r"names of files in UTF-8, but there is '\\udcff'"):
        find_folder(tmp_path)


PLACES = st.sampled_from(["", "train", "test", "val", "a", "b", "train/a", "train/b", "test/a", "bo/a", "bo/b", "al/a"])


@settings(max_examples=60)
@given(places=st.lists(PLACES, max_size=8), sizes=st.lists(st.integers(1, 3), min_size=8, max_size=8))
def test_any_tree_is_read_whole_or_refused(
    tmp_path_factory: pytest.TempPathFactory, places: list[str], sizes: list[int]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    for number, (place, size) in enumerate(zip(places, sizes, strict=False)):
        draw(root / place / f"{number}.png", size=(size, 1))
    found: Decoded | str
    try:
        found = find_folder(root, image_size=2).read(silent)
    except InputError as error:
        found = str(error)
    if isinstance(found, str):
        assert str(root) in found
    else:
        left_out = sum(place.startswith("val") for place in places) if "test/a" in places else 0
        assert len(found.train.targets) + len(found.test.targets) == len(places) - left_out
        assert set(found.train.targets.tolist()) == set(range(len(found.classes)))
