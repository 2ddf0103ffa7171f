"""Run `smofi` as `python -m smofi`."""

import sys

from smofi.cli import main

sys.exit(main())
