"""The live page in a real browser: it follows the run, comes back by itself, and shows names as text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from smofi import Record, RoundDone, RoundStarted, RunStarted, TickDone
from smofi.net.status import Board, StatusServer
from support.browser import Browser, browser_path

pytestmark = pytest.mark.skipif(browser_path() is None, reason="no Chromium: install the package chromium")


HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>"


ROWS = "[...document.querySelectorAll('tbody tr')].map(row => row.cells[0].querySelector('span').textContent)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = browser_path()
    assert program
    with Browser(program) as one:
        yield one


def board_of_a_run(rounds: int = 12) -> Board:
    board = Board()
    board.callback(RunStarted("smofi", 40, 3, 3, 3, 10, metrics={"top1": "accuracy", "mine": "my measure"}))
    for number in range(1, rounds + 1):
        accuracy = 0.9 - 0.7 / number
        measured = {"mine": 3.0 * number}
        board.callback(RoundDone(Record(number, accuracy, 1 - accuracy, 1.5, 2.0, [0], [9], 0.1, "1", measured)))
    for number, name in enumerate(("ward-10", "ward-9", "ward-1")):
        board.joined(name, number, 100 * (number + 1), f"10.0.0.{number}:5000")
        board.state(name, "training")
        board.bytes(name, 1_234_567 * (number + 1), 1000)
    board.callback(RoundStarted(rounds + 1, [0, 1, 2], [9, 9, 9]))
    board.callback(TickDone(rounds, 2))
    board.step("ward-9", 3, 9)
    return board


def text(browser: Browser, selector: str) -> str:
    return str(browser.run(f"document.querySelector({selector!r}).innerText"))


def watch(browser: Browser, url: str, **how: bool | int) -> None:
    browser.open(url, **how)  # type: ignore[arg-type]
    browser.until("document.getElementById('connection').textContent === 'live' && document.querySelector('tbody tr')")
    browser.settle()


def test_it_shows_the_run_and_follows_it(browser: Browser) -> None:
    board = board_of_a_run()
    with StatusServer(board, "127.0.0.1:0") as url:
        watch(browser, url)
        assert text(browser, "#headline") == "smofi is in round 13 of 40. Accuracy 84.2% after round 12."
        assert browser.run("document.title") == "12/40 · 84.2% · smofi"
        facts = text(browser, "#facts")
        for fact in ("12 of 40", "step 3 of 9", "84.2%", "3 of 3", "7.41 MB", "2 s"):
            assert fact in facts
        assert browser.run("document.querySelector('.curve[d]').getAttribute('d').split('L').length") == 12
        assert browser.run(ROWS) == ["ward-10", "ward-9", "ward-1"]
        board.left("ward-0", "it is not on the list", refused=True)
        browser.until("document.querySelectorAll('tbody tr').length === 4")
        assert "3 of 3" in text(browser, "#facts")  # it has never been one of the clients
        row = re.split(r"\s*\t\s*|\n", text(browser, "tbody tr:nth-child(2)"))
        assert row[:6] == ["ward-9", "10.0.0.1:5000", "training", "3 of 9", "-", "2.47 MB"]
        board.callback(RoundDone(Record(13, 0.95, 0.1, 0.2, 2.0, [0], [9], 0.1, "1")))
        board.left("ward-9", "it was switched off")
        board.paused("2 of 3 clients are connected")
        browser.until("document.getElementById('headline').textContent.includes('is paused')")
        assert text(browser, "#headline").startswith("smofi is paused in round 13 of 40: 2 of 3 clients are connected.")
        assert text(browser, "tbody tr:nth-child(2) td").split("\n") == ["left", "it was switched off"]
        assert "2 of 3 clients are connected" in text(browser, "#happened li:first-child")
        assert browser.run("document.querySelector('.curve[d]').getAttribute('d').split('L').length") == 13
        assert browser.console == []
        assert {address.removeprefix(url) for address in browser.asked if not address.startswith("data:")} == {
            "",
            "events",
        }


def test_names_and_texts_are_never_html(browser: Browser) -> None:
    board = Board()
    board.callback(RunStarted(HOSTILE, 2, 1, 1, 1, 10, metrics={HOSTILE: HOSTILE}))
    board.joined(HOSTILE, 0, 1, HOSTILE)
    board.left(HOSTILE, HOSTILE)
    board.event(HOSTILE, "error")
    board.callback(RoundDone(Record(1, None, None, 1.0, 1.0, [0], [1], 0.1, "1", {HOSTILE: 0.5})))
    with StatusServer(board, "127.0.0.1:0") as url:
        watch(browser, url)
        assert browser.run("typeof hacked + document.images.length + document.scripts.length") == "undefined01"
        assert browser.run(ROWS) == [HOSTILE]
        assert HOSTILE in text(browser, "#happened")
        assert browser.run("document.querySelector('#measure option').textContent") == HOSTILE
        assert browser.console == []
        # and the page's own rules forbid what would be needed
        browser.run(
            "document.body.append(Object.assign(document.createElement('script'), { textContent: 'hacked=1' }))"
        )
        assert browser.run("typeof hacked") == "undefined"
        assert "Content Security Policy" in " ".join(browser.console)


def test_it_says_that_the_server_is_gone_and_comes_back_by_itself(browser: Browser) -> None:
    server = StatusServer(board_of_a_run(), "127.0.0.1:0")
    watch(browser, server.start())
    server.stop()
    browser.until("document.getElementById('connection').textContent === 'connection lost'")
    assert re.fullmatch(
        r"The connection to the server was lost at \d\d:\d\d:\d\d. What is below is from then. "
        r"This page comes back by itself.",
        text(browser, "#lost"),
    )
    assert len(browser.run(ROWS)) == 3
    board = board_of_a_run(rounds=5)
    board.joined("another", 3, 1, "")
    with StatusServer(board, f"127.0.0.1:{server.port}"):
        browser.until("document.getElementById('connection').textContent === 'live'")
        browser.until("document.querySelectorAll('tbody tr').length === 4")
        browser.settle()
        assert browser.run("document.getElementById('lost').hidden")
        assert "round 6 of 40" in text(browser, "#headline")
        assert browser.run("document.querySelector('.curve[d]').getAttribute('d').split('L').length") == 5
        assert browser.run("document.querySelectorAll('#happened li').length") == len(board.snapshot()["events"])


def test_a_token_in_the_address_opens_the_page_and_leaves_it(browser: Browser) -> None:
    board = board_of_a_run()
    server = StatusServer(board, "0.0.0.0:0")
    with server as url:
        watch(browser, url.replace("0.0.0.0", "127.0.0.1"))
        assert browser.run("location.href") == f"http://127.0.0.1:{server.port}/"
        assert browser.run("document.cookie") == ""
        assert browser.console == []
    browser.until("document.getElementById('connection').textContent === 'connection lost'")
    with StatusServer(board, f"0.0.0.0:{server.port}"):  # with another token
        browser.until("document.getElementById('lost').textContent.includes('asks for its token')")
