"""A configuration as YAML, and how two of them differ."""

from __future__ import annotations

from typing import Any

from smofi.config.config import Config
from smofi.config.lasting import written_out
from smofi.plain_yaml import as_yaml
from smofi.settings import RESUMABLE, SETTINGS, seeds_text


def config_yaml(config: Config) -> str:
    """The whole configuration as YAML, a comment above each setting; `read_config` reads it back.

    >>> print(config_yaml(Config()).splitlines()[1])
    data: digits
    """
    lasting = {name: getattr(config, name) for name in SETTINGS} | written_out(config)
    if config.seeds:  # in place of seed
        lasting["seed"] = None
    values = {name: value_as_yaml(name, value) for name, value in lasting.items()}
    return "\n".join(f"# {setting.help}\n{name}: {values[name]}\n" for name, setting in SETTINGS.items())


def value_as_yaml(name: str, value: Any) -> str:
    """The value of a setting, as plainly as it can be written.

    >>> value_as_yaml("cut", "1"), value_as_yaml("method", ("smofi",)), value_as_yaml("seeds", (0, 1, 2))
    ('1', 'smofi', '0-2')
    """
    if name == "seeds" and value is not None:
        value = seeds_text(value)
    if isinstance(value, tuple):
        value = list(value) if len(value) > 1 else value[0]
    if name == "cut" and value.isdecimal() and str(int(value)) == value:
        value = int(value)
    return as_yaml(value)


def changed_fields(old: Config, new: Config) -> list[str]:
    """A sentence for every setting that differs and may not, when a run is resumed.

    >>> changed_fields(Config(seed=0), Config(rounds=50, seed=1))
    ['seed=1 is not accepted: the run was started with seed=0, and a resumed run cannot change it']
    """
    return [
        f"{_given(name, new)} is not accepted: the run was started with {_given(name, old)}, and a resumed run cannot "
        "change it"
        for name in SETTINGS
        if name not in RESUMABLE and name != "seeds" and _value(name, old) != _value(name, new)
        if not (name == "data" and _moved(old.data, new.data))
    ]


def _moved(old: str, new: str) -> bool:
    """Whether both name the user's own data in the same form: where it lies may change, what it is may not."""
    return ":" in old and old.partition(":")[0] == new.partition(":")[0] != "python"


def _value(name: str, config: Config) -> Any:
    return config.each_seed if name == "seed" else getattr(config, name)


def _given(name: str, config: Config) -> str:
    """A setting and its value, several seeds as they are written."""
    if name == "seed" and config.seeds:
        return f"seeds={seeds_text(config.seeds)!r}"
    value = getattr(config, name)
    return f"{name}={list(value) if isinstance(value, tuple) else value!r}"
