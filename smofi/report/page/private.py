"""Text for a page that is given to others: names of files stay, the folders of the machine they lie on do not."""

from __future__ import annotations

import re
import shlex
from typing import Any

# What comes before a file's name: a drive or a beginning such as ~ or .., and folders.
FOLDERS = re.compile(r"""(?:(?<![\w.])[A-Za-z]:(?=[\\/]))?(?:[^\s\\/:='"(,]*[\\/])+(?=[^\s\\/])""")


def without_folders(text: str) -> str:
    """The text with each path in it reduced to its last name.

    >>> without_folders("csv:/far/away/patients.csv cannot be read"), without_folders("dirichlet(0.2)")
    ('csv:patients.csv cannot be read', 'dirichlet(0.2)')
    """
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
