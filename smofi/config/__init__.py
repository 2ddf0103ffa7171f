"""What a run is, as one typed object, whether it comes from YAML, from flags or from Python.

Public: the names in `__all__`.
"""

from smofi.config.presets import Preset, presets
from smofi.config.settings import RESUMABLE, Config, Settings, changed_fields, config_yaml, read_config, sentence_of

__all__ = [
    "RESUMABLE",
    "Config",
    "Preset",
    "Settings",
    "changed_fields",
    "config_yaml",
    "presets",
    "read_config",
    "sentence_of",
]
