"""YAML as plain settings: read without surprises, written value by value."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import yaml

from smofi.errors import InputError
from smofi.files import read_regular

LARGEST = 256 * 1024


class _Loader(yaml.SafeLoader):  # type: ignore[misc, unused-ignore]
    """Safe, and without what settings never need: keys given twice, and aliases, which can explode."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.constructor.ConstructorError(None, None, "expected the value itself, not an alias (*name)", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{name!r} is given twice", key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


# PyYAML takes 1e-3 for a word unless told otherwise; by the standard it is a number.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def read_text(path: Path) -> str:
    """Read the text of a YAML file; refuse anything else in a sentence that names the file."""
    return _text_in(read_regular(path, LARGEST, "a YAML file of settings"), str(path))


def settings_in(content: bytes, name: str) -> dict[str, Any]:
    """Read the settings in the bytes of a YAML file; `name` is what an error calls it."""
    return parse_settings(_text_in(content, name), name)


def _text_in(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not text: byte {error.start + 1} is not UTF-8; expected a YAML file") from None


def parse_settings(text: str, name: str) -> dict[str, Any]:
    """Read the settings in a YAML text; `name` is what an error calls it.

    >>> parse_settings("rounds: 5\\nmethod: [fedavg, smofi]", "a.yaml")
    {'rounds': 5, 'method': ['fedavg', 'smofi']}
    """
    try:
        settings = yaml.load(text, Loader=_Loader)  # a SafeLoader: builds plain values only
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:  # of 2001-99-99
        what = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
            what = f"line {mark.line + 1}: " + ", ".join(text for text in (error.context, error.problem) if text)
        raise InputError(f"{name} cannot be read as YAML: {what}") from None
    if not isinstance(settings, dict):
        found = "is empty" if settings is None else f"contains a {type(settings).__name__}"
        raise InputError(f"{name} {found}: expected settings, one per line, such as rounds: 50")
    for key in settings:
        if not isinstance(key, str):
            raise InputError(f"{name}: {key!r} is not accepted as a key: expected the name of a setting")
    return settings


def line_of(key: str, text: str) -> int | None:
    """Find the line that a setting is given in, counted from 1."""
    tree = yaml.compose(text, Loader=_Loader)
    keys = tree.value if isinstance(tree, yaml.MappingNode) else []
    return next((one.start_mark.line + 1 for one, _ in keys if one.value == key), None)


def as_yaml(value: Any) -> str:
    """Write a number, a line of text or a list of them as YAML on one line.

    >>> as_yaml("fedprox(mu=0.01)+smofi"), as_yaml([1, "1"]), as_yaml(None)
    ('fedprox(mu=0.01)+smofi', "[1, '1']", 'null')
    """
    # A bare word is a whole document, which PyYAML ends with dots.
    return str(yaml.safe_dump(value, default_flow_style=True, width=math.inf)).removesuffix("...\n").rstrip("\n")
