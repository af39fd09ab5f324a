"""A real Prometheus on this machine, for tests: it scrapes, and answers queries."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

TOOL = "prometheus"
UP_S = 30.0
CONFIG = """\
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs:
  - job_name: krucible
    static_configs: [{targets: [TARGETS]}]
"""

needs_prometheus = pytest.mark.skipif(
    shutil.which(TOOL) is None, reason="no Prometheus here: Debian's package 'prometheus' brings it"
)


class Prometheus:
    """A server that runs. ``url``: of its interface, without a slash at the end."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str) -> list[dict[str, str]]:
        """Evaluate an expression now; gives the labels of each series that has a number.

        Raises:
            urllib.error.HTTPError: The expression cannot be read, or cannot be evaluated.
        """
        with urlopen(f"{self.url}/api/v1/query?{urlencode({'query': expression})}") as answer:
            data: dict[str, Any] = json.load(answer)["data"]
        assert data["resultType"] == "vector"
        return [each["metric"] for each in data["result"] if each["value"][1] != "NaN"]


@contextmanager
def prometheus(folder: Path, targets: Sequence[str]) -> Iterator[Prometheus]:
    """Run a server that scrapes these targets, each ``HOST:PORT``, five times a second."""
    config, log = folder / "prometheus.yml", folder / "prometheus.log"
    listed = ", ".join(f'"{target}"' for target in targets)
    config.write_text(CONFIG.replace("TARGETS", listed), encoding="utf-8")
    argv = [TOOL, f"--config.file={config}", f"--storage.tsdb.path={folder / 'series'}"]
    with log.open("wb") as out:
        server = subprocess.Popen([*argv, "--web.listen-address=127.0.0.1:0"], stderr=out)
    try:
        yield Prometheus(_await_up(server, log))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(UP_S)


def _await_up(server: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the server answers; gives its URL, of which its log tells the port."""
    until = time.monotonic() + UP_S
    while time.monotonic() < until:
        told = log.read_text(encoding="utf-8")
        assert server.poll() is None, told
        if listening := re.search(r'msg="Listening on" address=(\S+)', told):
            with suppress(URLError), urlopen(f"http://{listening[1]}/-/ready", timeout=5):
                return f"http://{listening[1]}"  # it says 503 until it is ready
        time.sleep(0.05)
    raise AssertionError(f"not up in {UP_S:.0f} s: {log.read_text(encoding='utf-8')}")
