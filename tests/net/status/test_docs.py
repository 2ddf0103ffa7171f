"""docs/status.md says what there is: its metrics are those that are served."""

import logging
import re
from itertools import count
from pathlib import Path

import yaml

import smofi
from smofi.engine.events import Record, RoundDone, RunStarted
from smofi.net.logs import LOGGERS
from smofi.net.status import STATES, Board
from smofi.net.status.metrics import exposition, registry_of

PAGE = (Path(__file__).parents[3] / "docs/status.md").read_text("utf-8")


def test_the_page_names_every_metric_and_no_other() -> None:
    board = Board(timer=count().__next__)
    board.callback(RunStarted("smofi", 2, 1, 1, 1, 10))
    board.callback(RoundDone(Record(1, 0.5, 1.0, 1.0, 1.0, [0], [1], 0.1, "1")))
    board.joined("a", 0, 1, "")
    board.step("a", 1, 2)
    board.step("a", 2, 2)
    text = exposition(registry_of(board), "")[0].decode()
    served = set(re.findall(r"^(smofi_\w+)", text, re.MULTILINE))
    named = set(re.findall(r"(smofi_[a-z_]+)", PAGE))
    assert named <= served
    untold = {"smofi_round_duration_seconds_count", "smofi_run_info", "smofi_run_start_timestamp_seconds"}
    assert served - named == untold


def test_states_and_loggers_are_those_of_the_code() -> None:
    for state in STATES:
        assert f"`{state}`" in PAGE
    assert logging.getLogger(LOGGERS[1]).name in PAGE


def test_every_event_of_the_logs_is_listed() -> None:
    """But for what is logged for developers only."""
    package = Path(smofi.__file__).parent
    code = "".join(path.read_text("utf-8") for part in ("net", "serving") for path in (package / part).rglob("*.py"))
    calls = re.findall(
        r"\blog\(\s*logger,(.*?)(?:level|client|reason|clients|method|address|round|at_a_time)=", code, re.DOTALL
    )
    logged = {name for call in calls for name in re.findall(r'"(\w+)"', call)} | {"ended", "interrupted", "diverged"}
    assert {"listening", "joined", "left", "refused", "back", "connected", "round_done", "trying_again"} <= logged
    rows = PAGE.split("## Logs")[1]
    assert {name for name in logged if f"`{name}`" not in rows} == {"stream_broke"}


def test_the_scrape_configuration_can_be_read() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (job,) = yaml.safe_load(block)["scrape_configs"]
    assert job["static_configs"][0]["targets"] == ["train.example.org:8080"]
