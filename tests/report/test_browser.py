"""The page in a real browser: nothing breaks, nothing is loaded, and it is usable by mouse, by keyboard and small."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.report.page import write_page
from support.browser import Browser, browser_path
from support.crash import TINY_RUN
from support.pages import write_result, write_seeds

pytestmark = pytest.mark.skipif(browser_path() is None, reason="no Chromium: install the package chromium")

HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = browser_path()
    assert program
    with Browser(program) as one:
        yield one


@pytest.fixture(scope="module")
def clocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about a real run with a clock and diagnostics."""
    folder = tmp_path_factory.mktemp("clocked")
    asked = ["--method", "fedavg", "smofi", "--rounds", "3", "--clock", "full", "--diagnose"]
    assert main(["run", *TINY_RUN, *asked, "--output", str(folder / "run")]) == 0
    return write_page([folder / "run"], folder / "page.html")


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about two setups, one of them with seeds, and a hostile name wherever a name can be."""
    folder = tmp_path_factory.mktemp("seeds")
    write_seeds(folder / "runs")
    about = {"metrics": {"top1": HOSTILE}, "command": HOSTILE}
    write_result(folder / "runs" / "<b onclick=hacked=1>", partition="shards(2)", about=about)
    return write_page([folder / "runs"], folder / "page.html", title=HOSTILE)


def centre(browser: Browser, selector: str) -> tuple[float, float, float, float]:
    """Left, right, and the middle of an element, which is scrolled into view."""
    left, right, top, bottom = browser.run(f"""(() => {{
      const one = document.querySelector({selector!r});
      one.scrollIntoView({{ block: "center", behavior: "instant" }});
      const box = one.getBoundingClientRect();
      return [box.left, box.right, box.top, box.bottom];
    }})()""")
    return left, right, (left + right) / 2, (top + bottom) / 2


def test_nothing_is_loaded_nothing_breaks_and_names_stay_text(browser: Browser, seeds: Path, clocked: Path) -> None:
    for page in (clocked, seeds):
        browser.open(page, height=6000)
        assert browser.console == []
        assert browser.asked == [page.as_uri()]
        assert browser.run("document.querySelectorAll('.setup:not([data-drawn])').length") == 0
    assert browser.run("document.querySelectorAll('.curve').length") > 2
    assert (
        browser.run("typeof hacked + document.images.length + document.querySelectorAll('[onclick]').length")
        == "undefined00"
    )
    assert browser.run("document.querySelector('h1').textContent") == HOSTILE
    assert (
        browser.run(
            "[...document.querySelectorAll('option')].map(one => one.textContent).filter(one => one.includes('hacked'))"
        )[0]
        == HOSTILE
    )
    # what may be loaded: nothing, by the page's own rules
    browser.run("new Promise(done => Object.assign(new Image(), { onerror: done, src: 'http://localhost:1/x.png' }))")
    assert "Content Security Policy" in " ".join(browser.console)


def test_pictures_are_there_without_a_script_and_at_any_height(browser: Browser, clocked: Path) -> None:
    browser.open(clocked, height=300)
    drawn = "['curves', 'diagnostics', 'partition', 'timeline'].map(kind => document.querySelectorAll({}).length)"
    figures = drawn.format("`[data-figure=${kind}] .plot svg`")
    assert min(browser.run(figures)) > 0  # nobody has scrolled
    browser.open(clocked, scripts=False)
    size = "[...document.images].map(one => one.naturalWidth > 300 && one.clientHeight > 100)"
    assert browser.run(size) == [True] * 4
    assert browser.run(figures) == [0] * 4
    assert "script is switched off" in browser.run("document.querySelector('noscript').innerText")


def test_a_table_is_sorted_by_mouse_and_by_keyboard(browser: Browser, seeds: Path) -> None:
    browser.open(seeds)
    names = "[...document.querySelectorAll('#setup-0 tbody tr')].map(row => row.cells[0].textContent.trim())"
    sort = "document.querySelectorAll('#setup-0 thead th')[1].getAttribute('aria-sort')"
    assert browser.run(names) == ["fedavg", "smofi"]
    browser.run("document.querySelectorAll('#setup-0 thead button')[1].focus()")
    browser.press("Enter")
    assert (browser.run(names), browser.run(sort)) == (["smofi", "fedavg"], "descending")
    browser.press(" ")
    assert (browser.run(names), browser.run(sort)) == (["fedavg", "smofi"], "ascending")
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    *_, x, y = centre(browser, "#setup-0 thead th:first-child button")
    for kind in ("mousePressed", "mouseReleased", "mousePressed", "mouseReleased"):
        browser.mouse(kind, x, y, pressed=kind == "mousePressed")
    assert (browser.run(names), browser.run(sort)) == (["smofi", "fedavg"], "none")


def test_methods_are_switched_values_are_read_and_curves_are_zoomed(browser: Browser, clocked: Path) -> None:
    browser.open(clocked)
    figure, seen = '[data-figure="curves"]', "document.querySelectorAll('[data-figure=\"curves\"] .curve').length"
    legend = f"document.querySelector('{figure} .legend button')"
    in_legend = 2  # a piece of the line stands in each button
    assert browser.run(seen) == 2 + in_legend
    browser.run(f"{legend}.focus()")
    browser.press(" ")
    assert (browser.run(seen), browser.run(f"{legend}.getAttribute('aria-pressed')")) == (1 + in_legend, "false")
    assert (
        browser.run('document.querySelectorAll(\'[data-figure="diagnostics"] .series[data-method="fedavg"]\').length')
        == 0
    )
    browser.press("Enter")
    assert browser.run(f"{legend}.getAttribute('aria-pressed')") == "true"

    _, right, x, y = centre(browser, f"{figure} .sensor")
    tip = f"document.querySelector('{figure} .tip')"
    assert browser.run(f"{tip}.hidden")
    browser.mouse("mouseMoved", x, y)
    text = browser.run(f"{tip}.textContent")
    assert re.match(r"round 2(fedavg|smofi)\d+\.\d%(fedavg|smofi)\d+\.\d%$", text), text
    assert not browser.run(f"{tip}.hidden")

    ticks = f"[...document.querySelectorAll('{figure} .axis')[0].querySelectorAll('text')].map(one => one.textContent)"
    assert browser.run(ticks) == ["1", "2", "3"]
    browser.mouse("mousePressed", x, y, pressed=True)
    browser.mouse("mouseMoved", right - 3, y, pressed=True)
    browser.mouse("mouseReleased", right - 3, y)
    assert browser.run(ticks) == ["2"]
    everything = f"document.querySelector('{figure} [data-zoom=\"all\"]')"
    assert browser.run(f"{everything}.disabled") is False
    browser.run(f"{everything}.click()")
    assert browser.run(ticks) == ["1", "2", "3"]

    browser.run(f"document.querySelector('{figure} [data-axis=\"time\"]').click()")
    assert "on the clients' devices" in browser.run(
        f"document.querySelector('{figure} svg:not(button svg)').parentNode.textContent"
    )
    assert browser.console == []


@pytest.mark.parametrize("figure", ["curves", "partition", "timeline", "diagnostics"])
def test_a_figure_is_read_from_the_keyboard(browser: Browser, clocked: Path, figure: str) -> None:
    browser.open(clocked)
    browser.run(f"document.querySelector('[data-figure=\"{figure}\"] [tabindex]').focus()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    said = browser.run("document.activeElement.querySelector('[aria-live]').textContent")
    assert said.startswith({"partition": "client ", "timeline": "client "}.get(figure, "round 2: fedavg")[:7])
    assert browser.run("document.activeElement.getAttribute('aria-label')").count("Arrow keys") == 1
    browser.press("Escape")
    assert browser.run("document.activeElement.querySelector('.tip').hidden")
