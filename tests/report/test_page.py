"""The page as text: what is said, what is drawn from it, and what never stands in it."""

from __future__ import annotations

import json
import re
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest

from smofi.cli import main
from smofi.errors import InputError
from smofi.report.page import MOST_POINTS, write_page
from support.pages import write_result, write_seeds


@pytest.fixture(autouse=True)
def without_stills(monkeypatch: pytest.MonkeyPatch) -> None:
    """Still pictures take most of a page's time, and say nothing more."""
    monkeypatch.setattr("smofi.report.style.Drawing.content", lambda drawing, suffix=".svg": b"<svg/>")


def made(paths: list[Path], tmp_path: Path, **more: Any) -> str:
    return write_page(paths, tmp_path / "page.html", **more).read_text("utf-8")


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def texts_of(page: str) -> str:
    """What is read on the page: neither scripts nor tags."""
    body = page[page.index("<body>") :]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"<script.*?</script>", "", body, flags=re.DOTALL)))


def test_a_page_has_the_means_over_seeds_their_bands_and_the_result_in_a_sentence(tmp_path: Path) -> None:
    page = made([write_seeds(tmp_path / "runs")], tmp_path)
    (setup,) = data_of(page)
    fedavg, smofi = setup["charts"][0]["series"]
    values = [0.9 - 0.8 * 2.718281828459045 ** -(0.3 + 0.02 * seed) for seed in range(3)]
    assert smofi["mean"][0] == pytest.approx(sum(values) / 3, abs=1e-5)
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    assert (smofi["low"][0], smofi["high"][0]) == pytest.approx((mean - deviation, mean + deviation), abs=1e-5)
    assert fedavg["round"] == list(range(1, 21))
    assert fedavg["seeds"] == [3] * 20
    text = texts_of(page)
    assert "smofi has the highest mean accuracy over rounds: " in text
    assert re.search(r"It reaches the target \(90% of fedavg&#x27;s best\) in [\d.]+ rounds, fedavg in", text)
    assert "Means ± standard deviations over 3 seeds." in text
    assert re.search(r"Seed by seed, it is \d+\.\d points ahead of fedavg, the next; 95% interval \d", text)
    assert "The line is the mean over seeds, the band one standard deviation either side of it." in text
    assert setup["time"] is None  # no clock ran


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        # differences .02, .03, -.01: mean .01333, deviation .020817, half 4.3027 x .020817 / sqrt(3) = .05171
        ([0.52, 0.53, 0.49], "fedavg, the next, is no difference to rely on: 1.3 points, 95% interval -3.8 to 6.5."),
        # .02, .03, .025: half 4.3027 x .005 / sqrt(3) = .01242
        ([0.52, 0.53, 0.525], "Seed by seed, it is 2.5 points ahead of fedavg, the next; 95% interval 1.3 to 3.7."),
        ([0.52], "Its lead over fedavg is that of one seed: no difference to rely on. A single seed."),
    ],
)
def test_a_lead_that_may_be_chance_is_called_so(seeds: list[float], words: str, tmp_path: Path) -> None:
    for seed, value in enumerate(seeds):
        write_result(tmp_path / f"runs/a-{seed}", "fedavg", seed, [0.5, 0.5])
        write_result(tmp_path / f"runs/b-{seed}", "smofi", seed, [value - 0.1, value + 0.1])
    assert words in texts_of(made([tmp_path / "runs"], tmp_path))


def test_a_section_for_each_setup(tmp_path: Path) -> None:
    write_result(tmp_path / "runs" / "even", "fedavg")
    write_result(tmp_path / "runs" / "uneven", "fedavg", partition="shards(2)")
    page = made([tmp_path / "runs"], tmp_path)
    assert re.findall(r"<h2>(.*?)</h2>", page) == ["partition iid", "partition shards(2)", "Runs"]
    assert '<a href="#setup-1">partition shards(2)</a>' in page
    assert "partition" in re.findall(r'<th scope="row">(.*?)</th>', page)  # among the settings that differ


def test_runs_that_are_not_finished_and_whole_are_marked(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_result(runs / "a", "fedavg")
    write_result(runs / "b", "smofi", values=[0.5, 0.6], rounds=3)
    write_result(runs / "c", "fedprox(mu=0.1)", values=[0.5, float("nan"), None], diverged=True)
    (write_result(runs / "d", "sflv1") / "metrics.jsonl").unlink()
    (write_result(runs / "e", "fednag") / "model.safetensors").write_bytes(b"?")
    text = texts_of(made([runs], tmp_path))
    assert "Interrupted, figures so far: runs/b" in text
    assert "Diverged, curves end where a value is no number: runs/c" in text
    assert "Damaged, not shown: runs/d" in text
    assert "Damaged in files that this page does not need: runs/e" in text
    assert "smofi unfinished, 67% done" in text
    assert "fedprox(mu=0.1) diverged" in text
    assert "d: metrics.jsonl lacks rounds that were saved" in text
    assert "Of the 2 methods that can be compared so far," in text  # fedavg and fednag


def test_what_cannot_be_compared_is_left_out_and_said(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_result(runs / "a", "fedavg", 0)
    write_result(runs / "b", "smofi", 0)
    write_result(runs / "c", "smofi", 1)
    write_result(runs / "d", "smofi", 0, executor="vmap")
    text = texts_of(made([runs], tmp_path))
    assert "1 run left out: the same method and seed ran more than once with this setup." in text
    assert "Left out of the table, since fedavg has no result with the same seed: smofi (seed 1)." in text


def test_names_are_text_wherever_they_stand(tmp_path: Path) -> None:
    hostile = "</script><script>hacked=1</script><img src=x onerror=hacked=1>"
    folder = tmp_path / "<b onclick=alert(1)>&"
    about = {"metrics": {"top1": hostile}, "command": f"smofi run '{hostile}'", "smofi": hostile}
    page = made([write_result(folder, about=about)], tmp_path, title=hostile)
    assert page.count("<script") == 3 == page.count("</script>")
    assert "<img src=x" not in page
    assert "<b onclick" not in page
    assert data_of(page)[0]["charts"][0]["title"] == hostile
    assert "&lt;b onclick=alert(1)&gt;&amp;" in page


def test_a_page_says_nothing_about_the_machine(tmp_path: Path) -> None:
    run = tmp_path / "hidden-away folder" / "run"
    command = f"smofi run '--output={run}' --data 'csv:{tmp_path}/hidden-away folder/a.csv'"
    write_result(run, about={"command": command}, data_folder=str(tmp_path / "hidden-away folder" / "files"))
    (run / "model.safetensors").unlink()
    page = made([run], tmp_path)
    assert "hidden-away" not in page
    assert str(tmp_path) not in page
    assert "smofi run --output=run --data csv:a.csv" in page
    assert "<dt>data folder</dt><dd>files</dd>" in page


def test_where_the_data_is_missing_sizes_are_shown_without_classes(tmp_path: Path) -> None:
    run = write_result(tmp_path / "run", data=f"csv:{tmp_path}/gone.csv")
    page = made([run], tmp_path)
    (setup,) = data_of(page)
    assert setup["partition"]["sizes"] == [387, *[150] * 7]
    assert setup["partition"]["classes"] == []
    assert "The data cannot be read here, so the mix of classes is not shown: " in page
    assert str(tmp_path) not in page


def test_long_histories_are_thinned_and_keep_their_extremes(tmp_path: Path) -> None:
    values = [0.5 + 0.3 * ((number * 7919) % 1000) / 1000 for number in range(3000)]
    (setup,) = data_of(made([write_result(tmp_path / "run", values=values)], tmp_path))
    (curve,) = setup["charts"][0]["series"]
    assert len(curve["round"]) <= MOST_POINTS + 2
    assert (min(curve["mean"]), max(curve["mean"])) == pytest.approx((min(values), max(values)), abs=1e-5)
    assert (curve["round"][0], curve["round"][-1]) == (1, 3000)


def test_a_page_is_the_same_bytes_again_and_overwrites_only_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # still pictures too
    run, page = write_result(tmp_path / "run"), tmp_path / "page.html"
    first = write_page([run], page).read_bytes()
    assert write_page([run], page).read_bytes() == first
    page.write_text("a letter to a friend")
    with pytest.raises(InputError, match=r"page\.html.*expected a new file, or a page that smofi wrote; --force"):
        write_page([run], page)
    assert page.read_text() == "a letter to a friend"
    assert write_page([run], page, force=True).read_bytes() == first


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "'nowhere' is not accepted: expected the folder of a run, but there is none"),
        (["run", "-o", "page.pdf"], "--output='page.pdf' is not accepted: expected a file name that ends in .html"),
        (["run", "-o", "far/page.html"], "--output='far/page.html' is not accepted: expected a file in a folder"),
        (["run", "-o", "letter.html"], "expected a new file, or a page that smofi wrote; --force replaces any other"),
        (["empty"], "is not accepted: expected the folder of a run, or one with runs below it"),
        (["broken"], "expected at least one run that can be read"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_result(Path("run"))
    shutil.copytree("run", "broken")
    Path("broken/metrics.jsonl").unlink()
    Path("empty").mkdir()
    Path("letter.html").write_text("Dear friend")
    assert main(["report", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert Path("letter.html").read_text() == "Dear friend"
    assert not Path("report.html").exists()
