"""Headless Chromium for the tests of the review page, driven over its own DevTools pipe: no package, no driver, no port.

The pipe speaks JSON messages that end with a zero byte, on file descriptors 3 (to the browser) and 4 (from it):
https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions", "--mute-audio", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip
KEYS = {"Enter": ("\r", 13), "Escape": ("", 27), "ArrowLeft": ("", 37), "ArrowRight": ("", 39), "Tab": ("", 9), " ": (" ", 32)}
LIMIT_S = 30


def find() -> str:
    """The browser's program; skips the test without one, or fails it where GRPO_RLVR_TEST_BROWSER=required."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        words = f"no Chromium on this machine (looked for {', '.join(NAMES)}; on Debian: apt install chromium)"
        if os.environ.get("GRPO_RLVR_TEST_BROWSER") == "required":
            pytest.fail(words + ", and GRPO_RLVR_TEST_BROWSER=required")
        pytest.skip(words)
    return found


class Page:
    """One tab: opens addresses, presses keys, reads the document."""

    def __init__(self, browser: Browser, session: str):
        self.browser, self.session = browser, session
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict:
        return self.browser.call(method, self.session, **params)

    def open(self, url: str) -> None:
        answer = self.call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        self.wait("document.readyState === 'complete'")

    def reload(self) -> None:
        self.eval("window.old = true")
        self.call("Page.reload")
        self.wait("!window.old && document.readyState === 'complete'")

    def eval(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until a JavaScript expression is true; asks again, since a page can be replaced while it is asked."""
        end = time.monotonic() + LIMIT_S
        while True:
            answer = self.call("Runtime.evaluate", expression=f"Boolean({condition})", returnByValue=True)
            if answer.get("result", {}).get("value") is True:
                return
            assert time.monotonic() < end, f"never true: {condition}\n{self.browser.said[-10:]}"
            self.browser.listen(0.01)

    def press(self, key: str) -> None:
        """One key, as the keyboard sends it."""
        text, code = KEYS.get(key, (key, ord(key.upper()) if len(key) == 1 else 0))
        event = {"key": key, "text": text, "windowsVirtualKeyCode": code, "code": key if len(key) > 1 else ""}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def text(self, selector: str) -> str:
        return self.eval(f"document.querySelector({json.dumps(selector)}).innerText")

    def size(self, width: int, height: int, scheme: str = "light", mobile: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


class Browser:
    """A running Chromium with a fresh profile."""

    def __init__(self, process: subprocess.Popen, write_fd: int, read_fd: int):
        self.process, self.write_fd, self.read_fd = process, write_fd, read_fd
        self.numbers, self.buffer, self.answers = itertools.count(1), b"", {}
        self.said: list[str] = []  # what pages wrote to their console, and what their policy refused

    def call(self, method: str, session: str | None = None, **params: Any) -> dict:
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + LIMIT_S
        while number not in self.answers:
            assert time.monotonic() < end, f"the browser does not answer {method}"
            self.listen(1)
        answer = self.answers.pop(number)
        assert "error" not in answer or method == "Runtime.evaluate", (method, answer)
        return answer.get("result", {})

    def listen(self, seconds: float) -> None:
        """Take in what the browser says within so many seconds."""
        if not select.select([self.read_fd], [], [], seconds)[0]:
            return
        data = os.read(self.read_fd, 1 << 20)
        assert data, "the browser is gone"
        *messages, self.buffer = (self.buffer + data).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self.answers[message["id"]] = message
            elif message["method"] in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                self.said.append(json.dumps(message["params"]))

    def page(self) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        return Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])

    def downloads(self, folder: Path) -> None:
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))


# Puts the pipe where the browser looks for it. A program of its own: subprocess's preexec_fn is not safe beside threads.
PIPE_TO_3_AND_4 = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"


@contextlib.contextmanager
def started(profile: Path) -> Iterator[Browser]:
    program = find()
    (read, to_browser), (from_browser, write) = os.pipe(), os.pipe()
    theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (read, write)]  # clear of 3 and 4
    process = subprocess.Popen(
        [sys.executable, "-c", PIPE_TO_3_AND_4, *map(str, theirs), program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=theirs, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    for fd in (read, write, *theirs):
        os.close(fd)
    try:
        yield Browser(process, to_browser, from_browser)
    finally:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            os.write(to_browser, b'{"id": 0, "method": "Browser.close"}\0')
            process.wait(10)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its own session: the browser's helpers too
            process.wait()
        os.close(to_browser)
        os.close(from_browser)
