"""Nothing but `fork` ties smofi to POSIX: it can be imported where the modules of POSIX are missing."""

import subprocess
import sys

from support.processes import ENVIRONMENT

IMPORTING = """
import signal, sys
import torch, numpy, sklearn, matplotlib, yaml, cyclopts, rich.console, safetensors.torch, pydantic, subprocess
for name in ("fcntl", "resource", "pwd", "grp", "termios", "pty"):
    sys.modules[name] = None
del signal.SIGHUP
import smofi, smofi.cli, smofi.experiment
"""


def test_it_can_be_imported_without_the_modules_of_posix() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING], env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
