"""Starts Chromium without a window (Debian's ``chromium``, or ``$CHROMIUM``) by Playwright."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

CHROMIUM: Final = os.environ.get("CHROMIUM", "/usr/bin/chromium")
_ARGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium(api: Any) -> Iterator[Any]:
    """A browser; ``api`` is the module ``playwright.sync_api``."""
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_ARGS))
        yield browser
        browser.close()
