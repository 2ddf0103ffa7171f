"""`smofi export`: what it refuses, in the words of the command line."""

from pathlib import Path

import pytest

from smofi.cli import main


def test_a_format_that_does_not_exist_is_named_by_its_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tmp_path), "--format", "tflite"]) == 2
    said = capsys.readouterr().err
    assert "--format tflite is not accepted: expected one of safetensors, torch, onnx" in said
    assert "formats" not in said.replace("safetensors", "")
