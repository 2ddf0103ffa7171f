"""The user's own folder: pictures, recordings and texts, by the folders they lie in or by a list."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smofi.cli import main
from smofi.data import folder as module
from smofi.data import load
from smofi.data.decoded import Decoded, Split, silent
from smofi.data.folder import OTHER, alphabet_of, find_folder
from smofi.data.speech_commands import find_speech_commands
from smofi.errors import InputError
from support.sounds import tone, write_wav

HELD_OUT = "a fifth of the pictures, held out; to choose the test set yourself, add a folder test beside a folder train"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path_factory.mktemp("home")))


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


def whose(found: Decoded) -> dict[int, str]:
    """The client, or nothing, and the class of every picture, by its shade."""
    said = {}
    for part in (found.train, found.test):
        owners = [""] * len(part.targets) if part.owner is None else [found.owners[k] + " " for k in part.owner]
        rows = zip(shades(part), owners, part.targets, strict=True)
        said |= {shade: owner + found.classes[target] for shade, owner, target in rows}
    return said


# ----------------------------------------------------------------------------------------------------- classes, clients


def test_a_folder_per_class_of_which_a_fifth_is_the_test(tmp_path: Path) -> None:
    names = draw_all(tmp_path, *(f"cat/{k}.png" for k in range(20)), *(f"dog/{k}.BMP" for k in range(10)), "emu/1.gif")
    (tmp_path / "dog" / "notes.txt").write_text("")
    (tmp_path / ".hidden").mkdir()
    draw(tmp_path / "cat" / "._5.png")
    told: list[tuple[int, int]] = []
    found = find_folder(tmp_path).read(lambda done, total: told.append((done, total)))
    assert (found.kind, found.classes, found.owners, found.train.owner) == ("image", ("cat", "dog", "emu"), (), None)
    assert (found.train.inputs.shape, found.train.inputs.dtype) == ((25, 5, 6, 3), np.uint8)
    assert (Counter(found.train.targets.tolist()), Counter(found.test.targets.tolist())) == (
        {0: 16, 1: 8, 2: 1},
        {0: 4, 1: 2},
    )
    assert whose(found) == {shade: name.split("/")[0] for shade, name in enumerate(names)}
    assert told == sorted(told)
    assert told[-1] == (62, 62)
    assert sorted(find_folder(tmp_path).paths) == sorted(tmp_path / name for name in names)
    again = find_folder(tmp_path).read(silent)
    assert (shades(found.train), shades(found.test)) == (shades(again.train), shades(again.test))
    assert shades(found.train) != sorted(shades(found.train))


@pytest.mark.parametrize(("train", "test"), [("train", "test"), ("Training", "val"), ("train", "Validation")])
def test_folders_for_training_and_testing(tmp_path: Path, train: str, test: str) -> None:
    draw_all(tmp_path, f"{train}/a/1.png", f"{train}/b/1.png", f"{train}/b/2.png", f"{test}/b/3.png")
    found = find_folder(tmp_path).read(silent)
    assert whose(found) == {0: "a", 1: "b", 2: "b", 3: "b"}
    assert (shades(found.test), found.about) == ([3], {"test": f"folder {test}/"})


def test_a_folder_for_training_alone_and_a_class_called_train(tmp_path: Path) -> None:
    draw_all(tmp_path / "one", *(f"train/{label}/{k}.png" for label in "ab" for k in range(5)))
    assert Counter(find_folder(tmp_path / "one").read(silent).test.targets.tolist()) == {0: 1, 1: 1}
    draw_all(tmp_path / "two", *(f"{label}/{k}.png" for label in ("train", "bus") for k in range(2)))
    assert find_folder(tmp_path / "two").read(silent).classes == ("bus", "train")


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    draw_all(tmp_path / "one", *(f"{label}/{k}.png" for label in "ab" for k in range(5)))
    for name in ("Thumbs.db", "desktop.ini", ".DS_Store", ".hidden.dcm"):
        (tmp_path / "one" / "a" / name).write_text("")
    assert find_folder(tmp_path / "one").read(silent).about == {"test": HELD_OUT}
    for name in ("a/1.dcm", "a/2.DCM", "b/3.dcm", "b/notes.txt", "LICENSE"):
        (tmp_path / "one" / name).write_text("")
    left_out = find_folder(tmp_path / "one").read(silent).about["left_out"]
    assert left_out == "5 files that are not pictures: .dcm (3), LICENSE (1), .txt (1)"
    draw_all(tmp_path / "two", "train/a/1.png", "train/b/1.png", "test/a/1.png", "val/a/1.png", "cover.png")
    for name in ("train/a/1.dcm", "test/a/1.dcm", "labels.csv", "desktop.ini"):
        (tmp_path / "two" / name).write_text("")
    outside = "2 files outside the folders: .png (1), .csv (1)"
    about = find_folder(tmp_path / "two").read(silent).about
    assert about["test"] == "folder test/"  # test comes before val
    assert about["left_out"] == f"folder val/; 2 files that are not pictures: .dcm (2); {outside}"


def test_clients_with_classes(tmp_path: Path) -> None:
    names = draw_all(tmp_path, *(f"{who}/{label}/{k}.png" for who in ("bo", "al") for label in "xy" for k in range(5)))
    (tmp_path / "al" / "x" / "notes.txt").write_text("")
    found = find_folder(tmp_path).read(silent)
    assert (found.owners, found.classes, found.train.owner.dtype) == (("al", "bo"), ("x", "y"), np.int32)
    assert whose(found) == {shade: " ".join(name.split("/")[:2]) for shade, name in enumerate(names)}
    assert Counter(found.test.targets.tolist()) == {0: 2, 1: 2}


def test_no_client_is_left_without_training(tmp_path: Path) -> None:
    # All but the first two clients have one picture, which is not taken from them.
    draw_all(tmp_path, *(f"client {k}/{'ab'[k % 2]}/1.png" for k in range(10)), "client 0/a/2.png", "client 1/b/2.png")
    found = find_folder(tmp_path).read(silent)
    assert sorted(found.train.owner.tolist()) == list(range(10))
    assert sorted(found.test.owner.tolist()) == [0, 1]


def test_a_test_part_that_is_undivided_or_has_clients_of_its_own(tmp_path: Path) -> None:
    draw_all(tmp_path / "one", "train/bo/x/1.png", "train/al/y/1.png", "train/al/y/2.png", "test/x/1.png")
    (tmp_path / "one" / "train" / "al" / "x").mkdir()  # a client may have nothing of a class
    found = find_folder(tmp_path / "one").read(silent)
    assert (found.owners, found.test.owner) == (("al", "bo"), None)
    draw_all(tmp_path / "two", "train/bo/x/1.png", "train/cy/y/1.png", "test/al/x/1.png", "test/bo/y/1.png")
    found = find_folder(tmp_path / "two").read(silent)
    assert found.owners == ("bo", "cy", "al")
    assert whose(found) == {0: "bo x", 1: "cy y", 2: "al x", 3: "bo y"}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a/1.png", "a/2.png"], "two classes or more, a sub-folder each, but there is only 'a'"),
        (["al/x/1.png", "bo/x/2.png"], "each in the folders of the clients, but there is only 'x'"),
        (["a/1.png", "b/c/2.png"], r"b/c/2\.png is not accepted: expected a picture as deep as .*a/1\.png"),
        (["1.png", "2.png"], r"1\.png is not accepted: expected a picture in a sub-folder"),
        (["a/b/c/1.png", "a/b/d/1.png"], "expected a picture in a sub-folder of .* per class"),
        (["a/b/c/d/e/1.png"], "a/b/c/d is not accepted: expected no folder nested as deeply as this one"),
        (["a/1.png", "b/1.png"], "expected at least two pictures of some class"),
        (["train/a/1.png", "test/a/1.png", "more/a/1.png"], "expected only train and test, but there is more too"),
        (["test/a/1.png", "val/a/1.png"], "expected a folder train beside test"),
        (["train/a/1.png", "train/b/1.png", "test/c/1.png"], r"test/c/1\.png is not accepted: .*'c' is not"),
        (["train/a/1.png", "train/b/1.png", "test/al/a/1.png"], r"al/a/1\.png .* expected a picture in a class folder"),
        (["a/1.png", "a/2.png", "b/1.png", "c/"], "c is not accepted: expected pictures in this folder"),
        (["bo/x/1.png", "bo/x/2.png", "al/y/1.png", "bo/z/"], "z is not accepted: expected pictures in this folder"),
        (["bo/x/1.png", "bo/x/2.png", "al/y/1.png", "cy/x/"], "x is not accepted: expected pictures in this folder"),
        ([], r"\.jpg, .*but it has nothing"),
    ],
)
def test_layouts_that_cannot_be_understood(tmp_path: Path, names: list[str], said: str) -> None:
    draw_all(tmp_path, *(name for name in names if not name.endswith("/")))
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if name.endswith("/"):
            (tmp_path / name).mkdir(exist_ok=True)
    with pytest.raises(InputError, match=said):
        find_folder(tmp_path)


# --------------------------------------------------------------------------------------------------------------- a list


def listed(root: Path, lines: str, *names: str) -> Path:
    draw_all(root, *names)
    (root / "clients.csv").write_text(lines)
    return root


def test_classes_by_folder_and_clients_by_list(tmp_path: Path) -> None:
    names, speakers = [f"{label}/{number}.png" for label in "xy" for number in range(5)], ["bo", "al"]
    lines = "file,speaker\n" + "".join(f"{name},{speakers[k % 2]}\n" for k, name in enumerate(names))
    found = find_folder(listed(tmp_path, lines, *names)).read(silent)
    assert whose(found) == {k: f"{speakers[k % 2]} {name[0]}" for k, name in enumerate(names)}
    assert (found.owners, found.classes, len(found.test.targets)) == (("al", "bo"), ("x", "y"), 2)
    assert found.about["test"].endswith("to choose the test set yourself, add a column split to clients.csv")


def test_everything_by_list(tmp_path: Path) -> None:
    lines = "split;client;label;file\ntrain;al;cat;a.png\ntrain;bo;dog;./deep/b.png\nTest;al;dog;c.png\n"
    found = find_folder(listed(tmp_path, lines, "a.png", "deep/b.png", "c.png", "d.png")).read(silent)
    assert (whose(found), shades(found.test)) == ({0: "al cat", 1: "bo dog", 2: "al dog"}, [2])
    test = "what clients.csv or a folder says is for the test"
    assert found.about == {"test": test, "left_out": "1 file not in the list: .png (1)"}
    assert tmp_path / "clients.csv" in find_folder(tmp_path).paths


def test_folders_train_and_test_count_where_the_list_does_not_say_and_texts_are_listed_too(tmp_path: Path) -> None:
    names = ["train/x/1.png", "train/y/1.png", "test/y/1.png"]
    lines = "file,client\n" + "".join(f"{name},al\n" for name in names)
    found = find_folder(listed(tmp_path / "one", lines, *names)).read(silent)
    assert (whose(found), shades(found.test)) == ({0: "al x", 1: "al y", 2: "al y"}, [2])
    (tmp_path / "text").mkdir()
    for number in range(4):
        (tmp_path / "text" / f"{number}.txt").write_text("so it goes, " * 60)
    (tmp_path / "text" / "clients.csv").write_text("file,user\n0.txt,al\n1.txt,bo\n2.txt,al\n3.txt,al\n")
    found = find_folder(tmp_path / "text").read(silent)
    assert found.owners == ("al", "bo")
    assert np.bincount(found.train.owner)[0] == 3 * np.bincount(found.train.owner)[1]
    (tmp_path / "text" / "clients.csv").write_text("file,client,label\n0.txt,al,x\n")
    with pytest.raises(InputError, match="no column label: a text has no class"):
        find_folder(tmp_path / "text")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("name,client\nx/1.png,a\n", "a column file and a column client, .* but the columns are 'name', 'client'"),
        ("file,client,site\nx/1.png,a,b\n", "one column of client, .* but there are 'client', 'site': leave the oth"),
        ("file,client\n", "a line for each file below the names of the columns, but there is none"),
        ("file,client\nx/1.png\n", "2 fields in line 2, as in the first line, but it has 1"),
        ("file,client\nx/1.png,\n", "a value in column 'client' of line 2, but it is empty"),
        ("file,client\nx/1.png,a\nx/9.png,a\n", r"files that are in .*, but 'x/9\.png' of line 3 is not"),
        ("file,client\nx/1.png,a\nx/1.png,b\n", r"every file once, but 'x/1\.png' is in line 2 and in line 3"),
        ("file,client\nx/1.png,a\nnotes.txt,b\n", r"pictures only, but 'notes\.txt' of line 3 is something else"),
        ("file,client\nx/1.png,a\nloose.png,b\n", r"a column label, as .*loose\.png lies in no folder"),
        ("file,client,split\nx/1.png,a,no\n", "train or test in column 'split' of line 2, but it is 'no'"),
        ("file,client,split\nx/1.png,a,test\n", "files to train on, but all are for the test"),
    ],
)
def test_what_is_wrong_with_a_list_is_said(tmp_path: Path, lines: str, said: str) -> None:
    listed(tmp_path, lines, "x/1.png", "y/1.png", "loose.png")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(InputError, match=rf"clients\.csv is not accepted: expected {said}"):
        find_folder(tmp_path)


# ---------------------------------------------------------------------------------------------------- sizes of pictures


def test_pictures_of_many_sizes_need_image_size_and_only_grey_ones_have_one_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png"):
        draw(tmp_path / name, 77, mode="L")
    found = find_folder(tmp_path).read(silent)
    assert (found.train.inputs.shape, set(shades(found.train))) == ((2, 5, 6, 1), {77})
    draw(tmp_path / "b" / "3.png", 9, size=(30, 20))
    with pytest.raises(InputError, match=r"(6 x 5|30 x 20) pixels as in .*\.png, but it has .*: set image_size"):
        find_folder(tmp_path).read(silent)
    found = find_folder(tmp_path, image_size=4).read(silent)
    assert found.train.inputs.shape[1:] == (4, 4, 3)
    assert sorted(shades(found.train) + shades(found.test)) == [9, 77, 77, 77, 77]
    monkeypatch.setattr(module, "LARGE", 0)  # decoded by threads
    np.testing.assert_array_equal(find_folder(tmp_path, image_size=4).read(silent).train.inputs, found.train.inputs)
    with pytest.raises(InputError, match="image_size=0 is not accepted"):
        find_folder(tmp_path, image_size=0)


# ----------------------------------------------------------------------------------------------------------- recordings


def test_all_have_the_median_length_and_what_was_done_is_said(tmp_path: Path) -> None:
    for label in "ab":
        for number, length in enumerate((0.5, 1.5, 1.5, 4.0)):
            write_wav(tmp_path / "train" / label / f"{number}.wav", tone(500, 16_000, length))
    stereo = np.stack([tone(500, 32_000, 1.5)] * 2, axis=1)
    write_wav(tmp_path / "test" / "a" / "1.wav", stereo, 32_000)
    told: list[tuple[int, int]] = []
    decoded = find_folder(tmp_path).read(lambda done, total: told.append((done, total)))
    assert decoded.train.inputs.shape == (8, (24_000 - 480) // 320 + 1, 40, 1)
    assert decoded.about["remark"] == (
        "recordings: 1.5 s each, the median length; 2 longer: their middle is used; 2 shorter: with silence on either "
        "side; resampled to 16,000 Hz: 32,000 Hz (1); 1 with several channels: mixed to one"
    )
    assert decoded.raw_input is not None
    assert (decoded.raw_input["samples"], decoded.raw_input["rate"]) == (24_000, 16_000)
    assert told == sorted(told)
    assert told[-1] == (18, 18)
    source = load(f"folder:{tmp_path}")
    assert source.remarks[-1] == "not tested: 'b', of which the test set has no sample; add some to it"
    assert load(f"folder:{tmp_path}", image_size=16).input_shape == (1, 16, 16)


def test_no_more_than_ten_seconds_of_a_recording_are_used(tmp_path: Path) -> None:
    for name in ("a/1.wav", "a/2.wav", "b/1.wav"):
        write_wav(tmp_path / name, np.zeros(12 * 8_000), 8_000)
    decoded = find_folder(tmp_path).read(silent)
    assert decoded.train.inputs.shape[1] == 499
    assert "10 s each, the most that is used of one; 3 longer" in decoded.about["remark"]


def test_clips_of_speech_commands_come_out_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for word in ("yes", "no"):
        for number in range(5):
            noise = rng.normal(size={0: 15_000, 4: 17_000}.get(number, 16_000)) / 10
            write_wav(tmp_path / word / f"0a1b{number}_nohash_0.wav", noise)
    (tmp_path / "testing_list.txt").write_text("yes/0a1b0_nohash_0.wav\n")
    official, own = (find(tmp_path).read(silent) for find in (find_speech_commands, find_folder))
    images = [sorted(image.tobytes() for split in (one.train, one.test) for image in split.inputs)
              for one in (official, own)]  # fmt: skip
    assert images[0] == images[1]


def test_speakers_are_folders_and_natural_needs_no_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for speaker in ("anna", "ben"):
        for label in ("yes", "no"):
            for number in range(6):
                write_wav(tmp_path / speaker / label / f"{number}.wav", tone(300, 4_000, 0.2), 4_000)
    assert main(["data", f"folder:{tmp_path}", "--partition", "natural", "--batch-size", "4"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "natural, 2 clients" in shown
    assert "tested on: a fifth of the recordings, held out; to choose" in shown
    assert load(f"folder:{tmp_path}").owners == ("anna", "ben")
    draw(tmp_path / "anna" / "yes" / "cover.png")
    with pytest.raises(InputError, match=r"pictures or recordings, but there are both, such as .*/cover\.png and .*"):
        find_folder(tmp_path)


# ---------------------------------------------------------------------------------------------------------------- texts

GREEK = "μῆνιν ἄειδε θεὰ Πηληϊάδεω Ἀχιλῆος\n" * 20
FRENCH = "Longtemps, je me suis couché de bonne heure.\r\n" * 20


def write(root: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = root / f"{name.replace('__', '/')}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return root


def test_a_file_per_client(tmp_path: Path) -> None:
    write(tmp_path, homer=GREEK, proust=FRENCH, README="All about these texts. " * 50)
    source = load(f"folder:{tmp_path}")
    assert (source.kind, source.owners, source.input_shape) == ("text", ("homer", "proust"), (80,))
    assert set(source.class_names) == {OTHER, "\\n", *GREEK.strip(), *FRENCH.strip()} - {"\n", "\r"}
    # every sample and the character after it are a piece of its owner's text
    texts = [GREEK, FRENCH.replace("\r\n", "\n")]
    for samples, owner in ((source.train, source.owner), (source.test, source.test_owner)):
        inputs, targets = samples.tensors()
        assert owner is not None
        for row in range(0, len(targets), 97):
            letters = [source.class_names[k] for k in (*inputs[row].tolist(), int(targets[row]))]
            assert "".join(letters).replace("\\n", "\n") in texts[owner[row]]
    assert source.remarks[0].startswith("tested on: the last fifth of every text; to choose the test set yourself, add")
    assert source.remarks[1] == "left out: 1 file that is not a text: .txt (1)"
    assert source.remarks[2].startswith(f"alphabet: the {source.classes - 1} characters of the training texts")


def test_the_first_four_fifths_are_trained_on_and_the_rest_is_tested(tmp_path: Path) -> None:
    text = "".join(chr(0x4E00 + k % 200) for k in range(1000))
    (tmp_path / "one.txt").write_text(text)
    source = load(f"folder:{tmp_path / 'one.txt'}")
    assert (len(source.train), len(source.test), source.owners) == (800 - 80, 200 - 80, ("one",))
    assert source.class_names[1:] == tuple(text[:200])


def test_a_folder_of_texts_per_client_and_folders_train_and_test(tmp_path: Path) -> None:
    trained = {"train__anna__1": "ab " * 50, "train__anna__2": "cd " * 60, "train__ben__1": "ef " * 70}
    write(tmp_path, **trained, train__ben__2="short", test__anna__1="abé " * 40)
    decoded = find_folder(tmp_path).read(silent)
    assert (decoded.owners, decoded.classes) == (("anna", "ben"), (OTHER, *" abcdefhorst"))
    assert np.bincount(decoded.train.owner).tolist() == [150 - 80 + 180 - 80, 210 - 80]
    assert (len(decoded.test.targets), decoded.about["test"]) == (160 - 80, "folder test/")
    assert decoded.about["left_out"] == "1 text too short for 80 characters and the next one"
    assert decoded.about["remark"].endswith("which replaces 40 of 705 characters, such as é")


def test_more_characters_than_are_read_become_one(tmp_path: Path) -> None:
    common, rare = "".join(chr(0x4E00 + k) for k in range(255)), "".join(chr(0x5E00 + k) for k in range(50))
    decoded = find_folder(write(tmp_path, a=common * 8 + rare + common * 2)).read(silent)
    assert decoded.classes == (OTHER, *common)
    assert "which replaces 50 of 2,600 characters" in decoded.about["remark"]
    assert decoded.raw_input is not None
    assert (decoded.raw_input["alphabet"], decoded.raw_input["unknown"]) == (OTHER + common, OTHER)
    alphabet = alphabet_of(["cab\n", "c\ufffd"])
    assert (alphabet.letters, alphabet.names) == (OTHER + "\nabc", (OTHER, "\\n", "a", "b", "c"))
    assert alphabet.numbers("b\n?\ufffdc").tolist() == [3, 1, 0, 0, 4]
    assert alphabet.replaced == {"?": 1, OTHER: 1}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"a": "too short"}, "a text with 81 characters in its first 80 % and in the rest, but there is none"),
        ({"a": "x" * 300, "b__1": "x" * 300}, r"b/1\.txt is not accepted: expected a text as deep as .*a\.txt"),
        ({"a": OTHER * 500}, f"texts to train on with other characters than {OTHER}, which stands for unknown ones"),
        ({"a__b__1": "x" * 300}, r"expected a text in a sub-folder of .* per client"),
        ({"a": "\udce9" * 500}, r"a\.txt is not accepted: expected text in UTF-8, but byte 0 is not"),
    ],
)
def test_texts_that_cannot_be_used_are_refused(tmp_path: Path, texts: dict[str, str], said: str) -> None:
    for name, text in texts.items():
        path = tmp_path / f"{name.replace('__', '/')}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=said):
        find_folder(tmp_path).read(silent)
