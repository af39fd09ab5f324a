"""Pages in a real browser: Chromium by Playwright, and all that a page complains of."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tools.chromium import CHROMIUM, chromium

MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(
        shutil.which(CHROMIUM) is None,
        reason=f"no Chromium at {CHROMIUM}: apt-get install chromium, or set CHROMIUM",
    ),
]
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", e => violations.push(e.violatedDirective));
"""


@dataclass
class Opened:
    """A page, and everything that went wrong in it."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def refuse(self, dialog: Any) -> None:
        """A dialog of the page: something foreign ran."""
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def assert_calm(self) -> None:
        assert self.complaints == []
        assert self.page.evaluate("window.violations") == []
        assert len(self.requests) == 1, self.requests

    def window(self) -> str:
        """The visible span of time, as the page says it."""
        return str(self.page.locator("#window").text_content())

    def await_window(self, change: Callable[[], None]) -> str:
        """Do something that moves the window; returns the new one."""
        before = self.window()
        change()
        self.page.wait_for_function(
            "before => document.getElementById('window').textContent !== before", arg=before
        )
        return self.window()

    def track_y(self, share: float) -> float:
        """A height on the canvas."""
        return float(self.page.locator("#base").bounding_box()["height"]) * share

    def picture(self) -> str:
        """The canvas as a PNG in a data URL."""
        return str(self.page.evaluate("document.getElementById('base').toDataURL()"))

    def painted(self) -> int:
        """How many different colours the canvas shows."""
        script = """() => {
          const c = document.getElementById('base');
          const image = c.getContext('2d').getImageData(0, 0, c.width, c.height);
          return new Set(new Uint32Array(image.data.buffer)).size;
        }"""
        return int(self.page.evaluate(script))


@contextmanager
def launched() -> Iterator[Any]:
    """A browser; the test is skipped where Playwright is not installed."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with chromium(api) as browser:
        yield browser


class Visits:
    """Pages that are open, each in a context of its own."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._contexts: list[Any] = []

    def open(self, path: Path, **options: Any) -> Opened:
        """Open a file; ``options`` are those of a browser's context."""
        options.setdefault("viewport", {"width": 1300, "height": 900})
        context = self._browser.new_context(**options)
        self._contexts.append(context)
        context.add_init_script(WATCH)
        opened = Opened(context.new_page())
        page = opened.page
        page.on("console", lambda message: opened.complaints.append(message.text))
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.on("dialog", opened.refuse)
        page.on("request", lambda request: opened.requests.append(request.url))
        page.goto(path.as_uri())
        return opened

    def close(self) -> None:
        """Close them all."""
        for context in self._contexts:
            context.close()
