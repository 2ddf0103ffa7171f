"""Texts of one's own: a file or a folder per client, over the alphabet that they have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from smofi.cli import main
from smofi.config import Config
from smofi.config.federation import gather
from smofi.data import load
from smofi.data.decoded import silent
from smofi.data.readers.folder import OTHER, Alphabet, find_folder
from smofi.errors import InputError

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
    assert source.owner is not None
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
    assert source.remarks[2] == (
        f"alphabet: the {source.classes - 1} characters of the training texts, and one for all others"
    )


def test_the_first_four_fifths_are_trained_on_and_the_rest_is_tested(tmp_path: Path) -> None:
    text = "".join(chr(0x4E00 + k % 200) for k in range(1000))
    (tmp_path / "one.txt").write_text(text)
    source = load(f"folder:{tmp_path / 'one.txt'}")
    assert (len(source.train), len(source.test), source.owners) == (800 - 80, 200 - 80, ("one",))
    assert source.class_names[1:] == tuple(text[:200])


def test_a_folder_of_texts_per_client_and_folders_train_and_test(tmp_path: Path) -> None:
    write(
        tmp_path, train__anna__1="ab " * 50, train__anna__2="cd " * 60, train__ben__1="ef " * 70, train__ben__2="short"
    )
    write(tmp_path, test__anna__1="abé " * 40)
    decoded = find_folder(tmp_path).read(silent)
    assert (decoded.owners, decoded.classes) == (("anna", "ben"), (OTHER, *" abcdefhorst"))
    assert decoded.train.owner is not None
    assert np.bincount(decoded.train.owner).tolist() == [150 - 80 + 180 - 80, 210 - 80]
    assert (len(decoded.test.targets), decoded.about["test"]) == (160 - 80, "folder test/")
    assert decoded.about["left_out"] == "1 text too short for 80 characters and the next one"
    assert decoded.about["remark"].endswith("which replaces 40 of 705 characters, such as é")


def test_more_characters_than_are_read_become_one(tmp_path: Path) -> None:
    common, rare = "".join(chr(0x4E00 + k) for k in range(255)), "".join(chr(0x5E00 + k) for k in range(50))
    write(tmp_path, a=common * 8 + rare + common * 2)
    decoded = find_folder(tmp_path).read(silent)
    assert decoded.classes == (OTHER, *common)
    assert "which replaces 50 of 2,600 characters" in decoded.about["remark"]
    assert decoded.raw_input is not None
    assert (decoded.raw_input["alphabet"], decoded.raw_input["unknown"]) == (OTHER + common, OTHER)


def test_numbers_are_places_in_the_alphabet() -> None:
    alphabet = Alphabet.of(["cab\n", "c\ufffd"])
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
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, texts: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        find_folder(write(tmp_path, **texts)).read(silent)


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("é".encode("latin-1") * 500)
    with pytest.raises(InputError, match=r"a\.txt is not accepted: expected text in UTF-8, but byte 0 is not"):
        find_folder(tmp_path).read(silent)


def test_natural_clients_and_a_model_for_the_alphabet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, homer=GREEK, proust=FRENCH)
    config = Config(data=f"folder:{tmp_path}", partition="natural", model="transformer", width=8)
    federation = gather(config)
    model = config.build_model(federation.source)
    inputs, _ = federation.clients[0].tensors()
    assert tuple(model(inputs[:2]).shape) == (2, federation.source.classes)
    assert main(["data", f"folder:{tmp_path}", "--partition", "natural", "--image-size", "8"]) == 2
    assert "image_size=8 is not accepted: folder:" in capsys.readouterr().err
