"""What stands below a command's help: examples, and how options are written."""

from __future__ import annotations

SEVERAL = "Options marked with dots take one or more values: --method fedavg smofi.\n"
SWITCHES = "Those without a value are on or off: --compile, --compile false, --no-compile.\n"
OPTIONAL = "An optional setting is left out with null: --max-train null.\n\n"

OPTIONS = dict.fromkeys(("run", "plan", "advise", "config", "tune"), SEVERAL + SWITCHES + OPTIONAL) | {
    "serve": SEVERAL + OPTIONAL  # it refuses the settings that are on or off
}

EXAMPLES = {
    "run": """\
smofi run --method fedavg smofi --rounds 50 --output first
smofi run cifar10 --scale small
smofi run my.yaml --seeds 0-2
smofi run --resume first""",
    "plan": """\
smofi plan cifar10 --workers 2
smofi plan my.yaml --method smofi --seeds 0-2""",
    "advise": """\
smofi advise cifar10 --scale small --output cuts.png""",
    "sweep": """\
smofi sweep mine.yaml --dry-run
smofi sweep mine.yaml --output runs/mine --jobs 2""",
    "tune": """\
smofi tune fedprox fashion-mnist --scale small
smofi tune "smofi(alpha=-0.1)" my.yaml --grid global_momentum=0.1,0.3,0.5""",
    "config": """\
smofi config cifar10 --scale small > my.yaml""",
    "show": """\
smofi show first""",
    "compare": """\
smofi compare runs/first runs/second
smofi compare sweep --target 1.0 --output table.tex
smofi compare sweep --format csv --per-seed > runs.csv""",
    "plot": """\
smofi plot runs/first -o curves.pdf
smofi plot sweep --by partition --hours -o panels.pdf
smofi plot sweep --kind bars --by model --value accuracy rounds -o bars.pdf
smofi plot sweep --over alpha --value accuracy rounds -o alpha.pdf""",
    "timeline": """\
smofi timeline first --round 3 --output round.png""",
    "report": """\
smofi report first -o report.html
smofi report first second --title "Two partitions" -o both.html""",
    "export": """\
smofi export first exported --format safetensors onnx
smofi export first --part client""",
    "serve": """\
smofi serve run.yaml --certs pki/server --status 127.0.0.1:8080
smofi serve run.yaml --certs pki/server --allow clients.txt --min-clients 5 --output runs/served
smofi serve --resume runs/served --certs pki/server""",
    "join": """\
smofi join train.example.org:7443 --certs pki/hospital-a --data folder:scans --dry-run
smofi join train.example.org:7443 --certs pki/hospital-a --data folder:scans --allow-labels""",
    "certs init": """\
smofi certs init pki""",
    "certs issue": """\
smofi certs issue pki --server train.example.org 10.0.0.5
smofi certs issue pki --client hospital-a
smofi certs issue pki --client hospital-a --days 90 --renew""",
    "certs revoke": """\
smofi certs revoke pki hospital-a""",
    "certs list": """\
smofi certs list pki""",
    "data": """\
smofi data
smofi data cifar10 --fetch
smofi data digits --clients 20 --partition "shards(2)" --output clients.png""",
    "models": """\
smofi models
smofi models resnet18 --input-shape 3,64,64""",
}


def epilogue(command: str) -> str | None:
    """The text below a command's help, if there is any.

    >>> epilogue("show")
    'Example:\\nsmofi show first'
    """
    if command not in EXAMPLES:
        return None
    lines = EXAMPLES[command].splitlines()
    return OPTIONS.get(command, "") + "\n".join([f"Example{'s' * (len(lines) > 1)}:", *lines])
