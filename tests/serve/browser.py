"""A Chromium without a window, driven by DevTools messages over a pipe."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER: Final = os.environ.get("BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
NO_BROWSER: Final = f"no browser is installed ({', '.join(NAMES)})"
_PATIENCE_S: Final = 60.0


class Browser:
    """One page. Each message of DevTools ends with a zero byte."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._left = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        context = self.ask("Target.createBrowserContext")["browserContextId"]
        target = self.ask("Target.createTarget", url="about:blank", browserContextId=context)
        attached = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a message, and return its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._message()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            data = os.read(self._from, 1 << 16)
            if not data:
                pytest.skip("the browser does not run here")
            self._left += data
        text, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        """Keep what the browser complains about: errors of scripts, and what a policy forbids."""
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(event["params"]["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded":
            entry = event["params"]["entry"]
            if entry["level"] == "error" and entry["source"] != "network":
                self.problems.append(entry["text"])

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Give the page a size, also one that a window cannot have."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=features)

    def open(self, url: str) -> None:
        """Load a page, and wait until its scripts have run."""
        self.ask("Page.navigate", url=url)
        self.until(f"location.href.startsWith({url!r}) && document.readyState == 'complete'")

    def value(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        done = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true in the page."""
        end = time.monotonic() + _PATIENCE_S
        while not self._tried(f"!!({script})"):
            text = self._tried("document.body.innerText")
            assert time.monotonic() < end, f"{script} does not become true; the page: {text}"
            time.sleep(0.05)

    def _tried(self, script: str) -> Any:
        """Return a value; None while a page is being replaced."""
        done = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        return None if "exceptionDetails" in done else done["result"].get("value")

    def fill(self, selector: str, text: str) -> None:
        """Write into a field."""
        self.value(f"document.querySelector({selector!r}).value = {text!r}")

    def click(self, selector: str) -> None:
        """Click an element."""
        self.value(f"document.querySelector({selector!r}).click()")

    def picture(self, path: Path) -> None:
        """Keep a picture of the page."""
        path.write_bytes(b64decode(self.ask("Page.captureScreenshot")["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser, which ends with the block."""
    if BROWSER is None:
        pytest.skip(NO_BROWSER)
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    options = "--headless --disable-gpu --disable-quic --no-first-run --disable-sync"
    options += " --disable-background-networking --disable-component-update --disable-dev-shm-usage"
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    # DevTools reads from file 3 and writes to file 4.
    script = f'exec "$0" "$@" 3<&{in_read} 4>&{out_write}'
    process = subprocess.Popen(
        ["bash", "-c", script, BROWSER, *options.split(), *sandbox,
         f"--user-data-dir={folder / 'browser'}", "--remote-debugging-pipe", "about:blank"],
        pass_fds=(in_read, out_write), env={**os.environ, "HOME": str(folder)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    os.close(in_read)
    os.close(out_write)
    try:
        yield Browser(in_write, out_read)
    finally:
        os.close(in_write)  # a browser whose pipe ends ends, too
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(out_read)
