"""What a server and its clients log: events with a few fields, as lines of text or as lines of JSON.

    log(logger, "joined", client="hospital-a", samples=120)

    22:30:16 info joined client=hospital-a samples=120
    {"time":"2026-03-01T22:30:16.120Z","level":"info","logger":"smofi.net","event":"joined","client":"hospital-a",...}

Fields are words and numbers. Of anything else, such as a tensor, its type is logged and never its content.
"""

from __future__ import annotations

import json
import logging
import math
from datetime import datetime, timezone
from numbers import Integral, Real
from typing import Any, TextIO

from smofi.errors import check_choice
from smofi.net.plain import plain_text

LOGGERS = ("smofi.net", "smofi.serving")
logging.getLogger("smofi").addHandler(logging.NullHandler())  # silent, unless a program asks for its logs
FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")


def log(
    logger: logging.Logger,
    event: str,
    *,
    level: str = "info",
    client: str | None = None,
    exc_info: bool = False,
    **fields: Any,
) -> None:
    """Log an event, of a client where there is one; `exc_info`: with the error that is being handled."""
    number = _number(level)
    if logger.isEnabledFor(number):
        logger.log(number, "%s", event, extra={"client": client, "fields": fields}, exc_info=exc_info, stacklevel=2)


def _number(level: str) -> int:
    return int(getattr(logging, check_choice("level", level, LEVELS).upper()))


def configure_logs(format: str = "text", level: str = "info", stream: TextIO | None = None) -> logging.Handler:
    """Write what the loggers of server and client say to a stream, the standard error stream if none is given. Called
    again, it replaces what it did before.

    >>> import io
    >>> stream = io.StringIO()
    >>> handler = configure_logs("json", stream=stream)
    >>> log(logging.getLogger("smofi.net"), "joined", client="hospital-a", samples=120)
    >>> {key: value for key, value in json.loads(stream.getvalue()).items() if key != "time"}
    {'level': 'info', 'logger': 'smofi.net', 'event': 'joined', 'client': 'hospital-a', 'samples': 120}
    >>> remove_logs()
    """
    check_choice("log_format", format, FORMATS)
    number = _number(check_choice("log_level", level, LEVELS))
    remove_logs()
    handler = _Ours(stream)
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(number)
        logger.propagate = False
    for name, one in list(logging.root.manager.loggerDict.items()):
        if isinstance(one, logging.Logger) and name.startswith(LOGGERS):
            one.disabled = False  # other packages' configurations disable what they do not know
    return handler


def remove_logs() -> None:
    """Undo `configure_logs`."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        for handler in [one for one in logger.handlers if isinstance(one, _Ours)]:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
            logger.propagate = True


class _Ours(logging.StreamHandler):  # type: ignore[type-arg]  # takes no argument before Python 3.11
    """A handler that `configure_logs` made."""


class JsonLines(logging.Formatter):
    """One JSON object a line: time (ISO 8601, UTC), level, logger, event, client, then the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_described(record), separators=(",", ":"))


class TextLines(logging.Formatter):
    """The same for people: local time, level, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        known = _described(record)
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        level, event = known.pop("level"), known.pop("event")
        del known["time"], known["logger"]
        fields = "".join(f" {key}={_quoted(value)}" for key, value in known.items())
        return f"{time} {level} {event}{fields}"


def _described(record: logging.LogRecord) -> dict[str, Any]:
    time = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
    known: dict[str, Any] = {
        "time": time.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": plain_text(record.getMessage()),
    }
    if (client := getattr(record, "client", None)) is not None:
        known["client"] = plain_text(client)
    for key, value in getattr(record, "fields", {}).items():
        known[f"{key}_" if key in known else key] = loggable(value)
    if record.exc_info and record.exc_info[0]:
        known["error"] = plain_text(f"{record.exc_info[0].__name__}: {record.exc_info[1]}")
        known["traceback"] = plain_text(logging.Formatter().formatException(record.exc_info), most=8000)
    return known


def loggable(value: Any) -> str | int | float | bool | None:
    """A field as it is logged.

    >>> loggable(3), loggable("two\\nlines"), loggable(b"secret"), loggable([0.5, 0.25])
    (3, 'two\\\\nlines', '<bytes>', '<list>')
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else str(float(value))
    return f"<{type(value).__name__}>"


def _quoted(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    simple = isinstance(value, str) and value and not set(value) & set(' "=\\')
    return str(value) if simple else text
