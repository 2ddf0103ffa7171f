"""Text for a page that is given to others: names of files stay, the folders of the machine they lie on do not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any

# What comes before a file's name: a drive or a beginning such as ~ or .., and folders.
FOLDERS = re.compile(r"""(?:(?<![\w.])[A-Za-z]:(?=[\\/]))?(?:[^\s\\/:='"(,]*[\\/])+(?=[^\s\\/])""")


QUOTED = re.compile(r"""(['"])([^'"\n]*[\\/][^'"\n]*)\1""")


def without_folders(text: str, known: Iterable[str] = ()) -> str:
    """The text with each path in it reduced to its last name; `known` are paths that may be in it with spaces.

    >>> without_folders("csv:/far/away/patients.csv cannot be read"), without_folders("dirichlet(0.2)")
    ('csv:patients.csv cannot be read', 'dirichlet(0.2)')
    >>> without_folders("data='/my own/a b.csv' is missing"), without_folders("/my own/x is gone", known=["/my own/x"])
    ("data='a b.csv' is missing", 'x is gone')
    """
    for path in sorted(filter(None, known), key=len, reverse=True):
        text = text.replace(path, _last_name(path))
    text = QUOTED.sub(lambda found: f"{found[1]}{_last_name(found[2])}{found[1]}", text)
    return FOLDERS.sub("", text.rstrip("\\/") if len(text) > 1 else text)


def command_shown(command: str) -> str:
    """A command line, its paths as short.

    >>> command_shown("smofi run '/far away/a.yaml' --output=/far/runs/a --method 'fedprox(mu=0.1)'")
    "smofi run a.yaml --output=a --method 'fedprox(mu=0.1)'"
    """
    try:
        words = shlex.split(command)
    except ValueError:  # cut off inside a quotation
        words = command.split()
    return shlex.join(_last_name(word) for word in words)


def setting_shown(value: Any) -> str:
    """The value of a setting.

    >>> setting_shown(("fedavg", "smofi")), setting_shown(None), setting_shown("file:/far/runs/a"), setting_shown(True)
    ('fedavg, smofi', 'none', 'file:a', 'yes')
    """
    if isinstance(value, tuple):
        return ", ".join(map(setting_shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else _last_name(str(value))


def _last_name(word: str) -> str:
    """A single word, in which a path may have spaces.

    >>> _last_name("csv:/far away/a b.csv"), _last_name("--output=../x/"), _last_name("smofi")
    ('csv:a b.csv', '--output=x', 'smofi')
    """
    found = re.fullmatch(r"(-[^=]*=)?([A-Za-z][\w+.-]+:)?(.*)", word, re.DOTALL)
    if not found or not re.search(r"[\\/]", found[3]):
        return word
    return (found[1] or "") + (found[2] or "") + re.split(r"[\\/]", found[3].rstrip("\\/"))[-1]
