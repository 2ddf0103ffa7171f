"""A picture in a file: which names are accepted, and the one way every picture is saved."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smofi.errors import InputError, refuse
from smofi.files import read_regular, write_atomically
from smofi.report.style import MATPLOTLIB_STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Without the date, which would make two files of the same picture differ.
METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": "smofi"},
    ".svg": {"Date": None, "Creator": "smofi"},
    ".pdf": {"CreationDate": None, "Creator": "smofi"},
}
OURS = {".png": b"Software\0smofi", ".svg": b"<dc:title>smofi</dc:title>", ".pdf": b"/Creator (smofi)"}
"""What these leave in a file."""
WIDE = (11.0, 5.6)
LARGEST = 64 * 2**20  # bytes of a picture that is looked into
PADDING: dict[str, Any] = {"w_pad": 0.1, "h_pad": 0.08, "wspace": 0.03}


def check_picture(path: str | Path, field: str = "path") -> Path:
    """A file that a picture can be saved in, refused before any work is done for it; `field` is what named it.

    >>> check_picture("picture.gif")
    Traceback (most recent call last):
    smofi.errors.InputError: path='picture.gif' is not accepted: expected a file name that ends in .png, .svg or .pdf
    """
    path = Path(path)
    if path.suffix.lower() not in METADATA:
        refuse(field, str(path), "a file name that ends in .png, .svg or .pdf")
    try:
        writable = path.parent.is_dir() and not path.is_dir()
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero byte
        raise InputError(f"{field}={str(path)!r} is not accepted: {getattr(error, 'strerror', error)}") from None
    if not writable:
        refuse(field, str(path), "a file in a folder that exists")
    return path


def check_replaceable(path: Path, field: str, force: bool) -> Path:
    """A file that a picture can be saved in, which does not exist yet or is a picture of ours, unless `force`."""
    check_picture(path, field)
    if path.exists() and not force and OURS[path.suffix.lower()] not in _content(path):
        refuse(field, str(path), "a new file, or a picture that smofi drew; --force replaces any other")
    return path


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, LARGEST, "a picture")
    except InputError:
        return b""


def save_picture(
    path: str | Path,
    compose: Callable[[Figure], None],
    size: tuple[float, float] = WIDE,
    padding: dict[str, Any] | None = None,
    dpi: int = 160,
    style: Mapping[Any, Any] | None = None,
) -> Path:
    """Save the figure that `compose` fills, in our style with what `style` changes of it; matplotlib is loaded here and
    not before."""
    path = check_picture(path)
    try:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as missing:
        raise InputError("saving a picture needs matplotlib: pip install matplotlib") from missing

    with matplotlib.rc_context({**MATPLOTLIB_STYLE, **(style or {})}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a name may be in any script
        layout = ConstrainedLayoutEngine(**PADDING if padding is None else padding)
        figure = Figure(figsize=size, dpi=dpi, facecolor="white", layout=layout)
        compose(figure)
        drawn, suffix = io.BytesIO(), path.suffix.lower()
        try:
            figure.savefig(drawn, format=suffix[1:], metadata=METADATA[suffix])
            write_atomically(path, drawn.getvalue())
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from None
    return path
