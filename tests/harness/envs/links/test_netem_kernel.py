"""The tests that want netem, in a kernel that has it: wherever this one has none.

By hand: ``pytest tests/harness/envs/links/test_netem_kernel.py``; needs ``apt-get install
user-mode-linux kmod``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.agent import netem as netem_host
from tests.support.live.uml import needs_uml, run_in_uml, shell
from tests.support.places import ROOT

TIMEOUT_S = 300.0  # a slow kernel on a busy machine

pytestmark = pytest.mark.slow


def test_links_by_netem_in_a_kernel_that_has_it(tmp_path: Path) -> None:
    if netem_host.lacking() is None:
        pytest.skip("this kernel has netem: test_netem_links has tried it")
    needs_uml()
    argv = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    argv += ["--durations=5", "tests/harness/envs/links/test_netem_links.py"]
    job = shell(argv, PYTHONPATH=str(ROOT))
    code, said = run_in_uml(job, tmp_path, cwd=ROOT, timeout_s=TIMEOUT_S)
    assert code == 0, said
    assert "skipped" not in said, said
    assert " passed" in said, said
