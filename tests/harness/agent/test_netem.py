"""The agent's netem where the tools are not what they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.agent import netem as netem_host


def test_a_host_without_tc_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netem_host, "_which", lambda name: None if name == "tc" else f"/bin/{name}")
    monkeypatch.setenv("PATH", "/nowhere")
    assert netem_host.remove(0x1234) == 0
    with pytest.raises(netem_host.TcError, match=r"it has no tc: apt-get install iproute2"):
        netem_host.statistics(0x1234)


def test_what_is_no_json_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "tc"
    old.write_text("#!/bin/sh\necho qdisc noqueue 0: dev lo root\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(netem_host.TcError, match="tc did not answer in JSON: 'qdisc noqueue"):
        netem_host.statistics(0x1234)
