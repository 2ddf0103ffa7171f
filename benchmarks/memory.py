"""How much memory a process takes that trains for a round, and how much of it `smofi plan` accounts for.

Prints one line of JSON: bytes with nothing but torch and smofi loaded, at the peak, and as planned. A process has one
peak, so this is a program of its own that other benchmarks start, once for each method.

    python benchmarks/memory.py resnet8 smofi --clients 20
"""

from __future__ import annotations

import json
from typing import Any

import torch
from shared.internals import first_plan, one_round, planned_bytes
from shared.options import parser_for, positive
from shared.peak import peak_memory
from shared.settings import SETTINGS


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("method")
    parser.add_argument("--clients", type=positive, help="of random images or texts")
    parser.add_argument("--steps", type=positive, help="of each client")
    parser.add_argument("--batch", type=positive, help="samples in a step")
    given = parser.parse_args()
    torch.set_num_threads(1)
    idle = peak_memory()
    sizes: dict[str, Any] = {name: value for name in ("clients", "steps", "batch") if (value := getattr(given, name))}
    session = SETTINGS[given.setting](**sizes).session(given.method)
    one_round(session)()
    peak = peak_memory()
    clients = len(first_plan(session).clients)
    print(json.dumps({"idle": idle, "peak": peak, "planned": planned_bytes(session), "clients": clients}))


if __name__ == "__main__":
    main()
