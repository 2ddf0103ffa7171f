"""A new folder for a run, of its own even if several runs start at the same moment."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from smofi.errors import InputError

RUNS = Path("runs")
"""Where `smofi run` makes a folder, unless told otherwise."""


@contextmanager
def claimed_folder(data: str) -> Iterator[Path]:
    """A folder below runs/, named after the time and the data set; removed again if this block fails."""
    first = not RUNS.exists()
    folder = _claim(RUNS / f"{time.strftime('%Y%m%d-%H%M%S')}-{_plain(data)}")
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if first:
            with suppress(OSError):  # another run has come in the meantime
                folder.parent.rmdir()
        raise


def _claim(wanted: Path) -> Path:
    """Make this folder; if it is taken, the same with -2, -3, ... at its end."""
    for number in count(1):
        folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            if not folder.exists():  # what exists is a file called runs
                raise InputError(f"output={str(folder)!r} is not accepted: expected runs to be a folder") from None
        except OSError as error:
            raise InputError(f"output={str(folder)!r} is not accepted: {error.strerror}") from None
    return folder


def _plain(name: str) -> str:
    """A data set as a part of a folder's name.

    >>> _plain("folder:/data/x rays")
    'folder-data-x-rays'
    """
    return re.sub(r"[^\w.]+", "-", name).strip("-.")
