from __future__ import annotations

import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from smofi.data.decoded import silent
from smofi.data.readers.tiny_imagenet import find_tiny_imagenet
from smofi.errors import InputError
from support.real_data import shared

CLASSES = ("n00000007", "n00000003", "n00000005")
PER_CLASS, TEST_SIZE = 4, 6


def brightness(train: bool, label: int, number: int) -> int:
    """Every picture has one colour of its own, far enough from the others' for JPEG."""
    return (0 if train else 120) + 10 * (4 * label + number if train else number)


def write(root: Path, *, inner: bool = True, words: bool = True, size: int = 64) -> None:
    """Three classes in the official folders."""
    for label, name in enumerate(CLASSES):
        folder = root / "train" / name / ("images" if inner else "")
        folder.mkdir(parents=True)
        (root / "train" / name / f"{name}_boxes.txt").write_text("")
        for number in range(PER_CLASS):
            shade = brightness(True, label, number)
            grey = number == 0
            picture = Image.new("L" if grey else "RGB", (size, size), shade if grey else (shade,) * 3)
            picture.save(folder / f"{name}_{number}.JPEG")
    (root / "val" / "images").mkdir(parents=True)
    lines = []
    for number in range(TEST_SIZE):
        Image.new("RGB", (size, size), (brightness(False, 0, number),) * 3).save(
            root / "val" / "images" / f"val_{number}.JPEG"
        )
        lines.append(f"val_{number}.JPEG\t{CLASSES[number % 3]}\t0\t0\t62\t62\n")
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    (root / "wnids.txt").write_text("\n".join(CLASSES))
    if words:
        (root / "words.txt").write_text("n00000003\tcrane, bird\nn00000005\tcrane\nn00000007\tgoldfish, Carassius\n")


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("place", ["", "tiny-imagenet-200"])
def test_official_folders(tmp_path: Path, inner: bool, place: str) -> None:
    write(tmp_path / place, inner=inner)
    told: list[tuple[int, int]] = []
    found = find_tiny_imagenet(tmp_path).read(lambda done, total: told.append((done, total)))
    assert found.classes == ("crane (n00000003)", "crane (n00000005)", "goldfish")
    assert (found.train.inputs.shape, found.test.inputs.shape) == ((12, 64, 64, 3), (6, 64, 64, 3))
    assert (found.train.inputs.dtype, found.train.targets.dtype, found.test.targets.dtype) == (
        np.uint8,
        np.int64,
        np.int64,
    )
    # Labels count the classes in the order of their names: n…3 is 0, n…5 is 1, n…7 is 2.
    expected = {brightness(True, label, k): [2, 0, 1][label] for label in range(3) for k in range(PER_CLASS)}
    shades = (found.train.inputs.reshape(12, -1).mean(1) / 10).round().astype(int) * 10
    assert dict(zip(shades.tolist(), found.train.targets.tolist(), strict=True)) == expected
    expected = {brightness(False, 0, k): [2, 0, 1][k % 3] for k in range(TEST_SIZE)}
    shades = (found.test.inputs.reshape(6, -1).mean(1) / 10).round().astype(int) * 10
    assert dict(zip(shades.tolist(), found.test.targets.tolist(), strict=True)) == expected
    assert told[-1] == (18, 18)
    assert told == sorted(told)


def test_shuffled_the_same_way_every_time(tmp_path: Path) -> None:
    write(tmp_path)
    one, two = find_tiny_imagenet(tmp_path).read(silent), find_tiny_imagenet(tmp_path).read(silent)
    np.testing.assert_array_equal(one.train.inputs, two.train.inputs)
    np.testing.assert_array_equal(one.test.targets, two.test.targets)
    assert one.train.targets.tolist() != sorted(one.train.targets.tolist())


def test_the_files_that_are_read(tmp_path: Path) -> None:
    write(tmp_path)
    names = {str(path.relative_to(tmp_path)) for path in find_tiny_imagenet(tmp_path).paths}
    assert len(names) == 3 + 12 + 6
    assert {"wnids.txt", "words.txt", "val/val_annotations.txt", "val/images/val_5.JPEG"} <= names
    assert "train/n00000003/images/n00000003_2.JPEG" in names
    (tmp_path / "words.txt").unlink()
    assert len(find_tiny_imagenet(tmp_path).paths) == 2 + 12 + 6
    assert find_tiny_imagenet(tmp_path).read(silent).classes == tuple(sorted(CLASSES))


def test_missing_pieces_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"wnids\.txt, train and val, or these in tiny-imagenet-200"):
        find_tiny_imagenet(tmp_path)
    (tmp_path / "wnids.txt").write_text("n00000001\nn00000002\n")
    with pytest.raises(InputError, match=r"expected val/val_annotations\.txt as well"):
        find_tiny_imagenet(tmp_path)
    (tmp_path / "val").mkdir()
    (tmp_path / "val" / "val_annotations.txt").write_text("")
    with pytest.raises(InputError, match="expected a folder train as well"):
        find_tiny_imagenet(tmp_path)
    (tmp_path / "train").mkdir()
    with pytest.raises(InputError, match="n00000001 is not accepted: expected a folder that can be read"):
        find_tiny_imagenet(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("wnids.txt", b"../../etc\nn00000003\n", "n and eight digits, but there is '../../etc'"),
        ("wnids.txt", b"n00000003\n" * 2, "each once, but it has 2, of which 1 are different"),
        ("wnids.txt", b"n00000003\n", "two classes or more"),
        ("wnids.txt", b"n00000003\nn00000005\n", "n00000007 is not accepted: expected a class that wnids.txt names"),
        ("wnids.txt", b"\xff\xfe", "in UTF-8"),
        ("val/val_annotations.txt", b"../secret.JPEG\tn00000003\n", "in line 1 a picture of"),
        ("val/val_annotations.txt", b"images/val_1.JPEG\tn00000003\n", "in line 1 a picture of"),
        ("val/val_annotations.txt", b"val_1.JPEG\tn00000003\n" * 2, "in line 2 a picture of"),
        ("val/val_annotations.txt", b"val_1.JPEG\tn99999999\n", "in line 1 a class that wnids.txt names"),
        ("val/val_annotations.txt", b"val_1.JPEG\n", "in line 1 a class that wnids.txt names, but there is ''"),
        ("val/val_annotations.txt", b"val_1.JPEG\tn00000003\n", "but 'val_0.JPEG' has none"),
        ("val/images/val_3.JPEG", b"broken", "val_3.JPEG is not accepted: expected a picture"),
        ("train/n00000005/images/n00000005_1.JPEG", b"", "n00000005_1.JPEG is not accepted: expected a picture"),
        ("words.txt", b"\xff", "words.txt is not accepted: expected a class and its names per line, in UTF-8"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    write(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        find_tiny_imagenet(tmp_path).read(silent)
    assert said in str(caught.value)


def test_pictures_of_another_size_and_empty_classes_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", size=32)
    with pytest.raises(InputError, match=r"JPEG is not accepted: expected a picture of 64 x 64, but it has 32 x 32"):
        find_tiny_imagenet(tmp_path / "a").read(silent)
    write(tmp_path / "b")
    for path in (tmp_path / "b" / "train" / "n00000005" / "images").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="n00000005 is not accepted: expected pictures in it or in its folder images"):
        find_tiny_imagenet(tmp_path / "b")


def test_a_link_to_nowhere_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    os.symlink(tmp_path / "nowhere", tmp_path / "train" / "n00000005" / "images" / "n00000005_9.JPEG")
    with pytest.raises(
        InputError, match=r"n00000005_9\.JPEG is not accepted: expected a file or a folder that can be read"
    ):
        find_tiny_imagenet(tmp_path)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny-imagenet")
    write(folder)
    return folder


@settings(max_examples=40)
@given(data=st.data())
def test_no_damage_is_a_crash(root: Path, data: st.DataObject) -> None:
    names = ("wnids.txt", "words.txt", "val/val_annotations.txt", "val/images/val_0.JPEG")
    path = root / data.draw(st.sampled_from(names))
    whole = path.read_bytes()
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=3)) if damaged else []:
        damaged[place] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    try:
        sizes = len(find_tiny_imagenet(root).read(silent).train.targets)
    except InputError:
        sizes = 12
    finally:
        path.write_bytes(whole)
    assert sizes == 12


def test_a_part_of_the_real_one(tmp_path: Path) -> None:
    with tarfile.open(shared("tiny-imagenet-mini.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    found = find_tiny_imagenet(folder).read(silent)
    assert (found.train.inputs.shape, found.test.inputs.shape) == ((1200, 64, 64, 3), (300, 64, 64, 3))
    assert np.bincount(found.train.targets).tolist() == [60] * 20
    assert np.bincount(found.test.targets).tolist() == [15] * 20
    # A beginning is a fair sample, and some pictures are grey: their channels are alike.
    assert len(set(found.train.targets[:100].tolist())) > 15
    grey = (np.ptp(found.train.inputs.astype(np.int16), axis=3) == 0).all(axis=(1, 2))
    assert 0 < grey.sum() < 120
