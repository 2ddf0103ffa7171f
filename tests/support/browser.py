"""A real browser for tests: Chromium without a window, spoken to through two pipes in its DevTools protocol."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 60.0  # seconds: a loaded machine may take long to start it
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)

# Of all text that is seen, the contrast with the first background behind it that is not transparent.
CONTRASTS = """
(() => {
  const parse = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = colour => colour.slice(0, 3).map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = node => {
    for (let one = node; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some(one => one.nodeType === 3 && one.textContent.trim());
    if (!own || node.closest("script, noscript") || !node.getClientRects().length || node.disabled) continue;
    const style = getComputedStyle(node), svg = node.namespaceURI.endsWith("svg");
    const [one, two] = [light(parse(svg ? style.fill : style.color)), light(behind(node))].sort((a, b) => b - a);
    found.push([(one + 0.05) / (two + 0.05), node.textContent.trim().slice(0, 40)]);
  }
  return found.sort((a, b) => a[0] - b[0]);
})()
"""


def browser_path() -> str | None:
    """The browser of this machine, None if it has none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One tab. `console` has what a page said there or what broke in it, `asked` all addresses it wanted to load."""

    def __init__(self, program: str) -> None:
        self.home = tempfile.mkdtemp(prefix="smofi-browser-")
        requests, self.to = os.pipe()
        self.come, answers = os.pipe()
        sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
        null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (1, 2)]
        high = [os.dup(one) for one in (requests, answers)]  # 3 and 4 may be taken by the pipes themselves
        pipes = [(os.POSIX_SPAWN_DUP2, one, number) for one, number in zip(high, (3, 4), strict=True)]
        command = [program, *FLAGS, *sandbox, f"--user-data-dir={self.home}"]
        self.process = os.posix_spawn(program, command, dict(os.environ), file_actions=[*null, *pipes], setpgroup=0)
        for one in (requests, answers, *high):
            os.close(one)
        self.rest, self.number, self.session = b"", 0, ""
        self.console: list[str] = []
        self.asked: list[str] = []
        self.events: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.number:
            self._note(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.come], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(self.come, 2**20) if ready else b""
            assert piece, "the browser does not answer"
            self.rest += piece
        message, _, self.rest = self.rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        name, about = event.get("method", ""), event.get("params", {})
        self.events.append(name)
        if name == "Runtime.exceptionThrown":
            self.console.append(str(about["exceptionDetails"].get("exception", about)))
        elif name == "Runtime.consoleAPICalled":
            self.console.append(str(about["args"]))
        elif name == "Log.entryAdded":
            self.console.append(about["entry"]["text"])
        elif name == "Network.requestWillBeSent" and not about["request"]["url"].startswith("data:"):
            self.asked.append(about["request"]["url"])

    def open(
        self, page: Path | str, *, width: int = 1000, height: int = 900, dark: bool = False, scripts: bool = True
    ) -> None:
        """Load a page, a file or an address, and wait until it is drawn."""
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.console, self.asked = [], []
        self.resize(width, height)
        self.scheme(dark=dark)
        self.events = []
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        while "Page.loadEventFired" not in self.events:
            self._note(self._next())
        if scripts:
            self.settle()

    def settle(self) -> None:
        """Wait until what was changed is seen: two frames."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))")

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, *, dark: bool) -> None:
        value = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def run(self, code: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, code: str) -> None:
        """Wait until an expression in the page is true."""
        look = f"new Promise(done => {{ const look = () => ({code}) ? done() : setTimeout(look, 20); look(); }})"
        self.run(look)

    def press(self, key: str, *, shift: bool = False) -> None:
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowRight": 39}
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        about = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0), "modifiers": 8 * shift}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def mouse(self, kind: str, x: float, y: float, *, pressed: bool = False) -> None:
        button = "left" if pressed or kind != "mouseMoved" else "none"
        about = {"x": x, "y": y, "button": button, "buttons": int(pressed), "clickCount": int(kind != "mouseMoved")}
        self.call("Input.dispatchMouseEvent", type=kind, **about)

    def pdf(self) -> bytes:
        return base64.b64decode(
            self.call("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.7)["data"]
        )

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """A picture of the page as it is, for people."""
        if whole:
            height = self.run("document.scrollingElement.scrollHeight")
            self.resize(self.run("innerWidth"), min(height, 15_000))
            self.settle()
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.to)  # at which the browser ends
        os.close(self.come)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        shutil.rmtree(self.home, ignore_errors=True)
