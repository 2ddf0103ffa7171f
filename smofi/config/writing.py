"""A configuration as YAML, and how two of them differ."""

from __future__ import annotations

from typing import Any

from smofi.config.config import Config
from smofi.config.lasting import written_out
from smofi.plain_yaml import as_yaml
from smofi.settings import RESUMABLE, SETTINGS


def config_yaml(config: Config) -> str:
    """The whole configuration as YAML, a comment above each setting; `read_config` reads it back.

    >>> print(config_yaml(Config()).splitlines()[1])
    data: digits
    """
    lasting = {name: getattr(config, name) for name in SETTINGS} | written_out(config)
    values = {name: value_as_yaml(name, value) for name, value in lasting.items()}
    return "\n".join(f"# {setting.help}\n{name}: {values[name]}\n" for name, setting in SETTINGS.items())


def value_as_yaml(name: str, value: Any) -> str:
    """The value of a setting, as plainly as it can be written.

    >>> value_as_yaml("cut", "1"), value_as_yaml("method", ("smofi",))
    ('1', 'smofi')
    """
    if isinstance(value, tuple):
        value = list(value) if len(value) > 1 else value[0]
    if name == "cut" and value.isdecimal() and str(int(value)) == value:
        value = int(value)
    return as_yaml(value)


def changed_fields(old: Config, new: Config) -> list[str]:
    """A sentence for every setting that differs and may not, when a run is resumed.

    >>> changed_fields(Config(), Config(rounds=50, seed=1))
    ['seed=1 is not accepted: the run was started with seed=0, and a resumed run cannot change it']
    """
    return [
        f"{name}={_plain(getattr(new, name))!r} is not accepted: the run was started with "
        f"{name}={_plain(getattr(old, name))!r}, and a resumed run cannot change it"
        for name in SETTINGS
        if name not in RESUMABLE and getattr(old, name) != getattr(new, name)
        if not (name == "data" and _moved(old.data, new.data))
    ]


def _moved(old: str, new: str) -> bool:
    """Whether both name the user's own data in the same form: where it lies may change, what it is may not."""
    return ":" in old and old.partition(":")[0] == new.partition(":")[0] != "python"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
