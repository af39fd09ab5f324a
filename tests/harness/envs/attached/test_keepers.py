"""Keepers over ssh: a node there is hurt, and mended as soon as the session breaks."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.agent import foreign
from harness.envs.attached.file import Reach
from harness.envs.attached.keepers import Keeper, keeper
from harness.envs.ssh.hosts import load
from tests.support.ssh.hosts import SshdHost, sshd_hosts

pytestmark = pytest.mark.slow

CHAIN = "KRUCIBLE-of-a-test"
RULE = "-s 10.9.9.9/32 -p tcp --dport 9093 -j DROP"


def until(state: str, target: dict[str, object]) -> None:
    deadline = time.monotonic() + 20.0
    while foreign.look(target)["state"] != state:
        assert time.monotonic() < deadline, foreign.look(target)
        time.sleep(0.02)


async def hurt(reach: Reach, host: SshdHost) -> Keeper:
    hand, _ = await keeper(reach, lambda _state: None, "node 1")
    begun = await hand.call("begin", target=reach.target(), silence_s=30.0)
    assert begun["signal"] is None
    assert begun["filter"] is None
    await hand.call("signal", number=int(signal.SIGSTOP))
    await hand.call("rules", chain=CHAIN, rules=[RULE])
    until("T", reach.target())
    assert any("10.9.9.9" in rule for rule in host.chains)
    return hand


def test_a_node_over_ssh_is_mended_when_the_session_breaks(tmp_path: Path) -> None:
    with sshd_hosts(tmp_path, 1) as hosts:
        (there,) = hosts.hosts
        (login,) = load(hosts.file(tmp_path))
        inside = ["ip", "netns", "exec", there.name, "sleep", "600"]
        with subprocess.Popen(inside) as node:
            try:
                reach = Reach(1, pid=node.pid, host=login, allow=frozenset({"pause"}))

                async def hurt_and_break() -> None:
                    hand = await hurt(reach, there)
                    await hand.close()

                asyncio.run(hurt_and_break())
                until("S", reach.target())
                deadline = time.monotonic() + 20.0
                while there.chains:
                    assert time.monotonic() < deadline, there.chains
            finally:
                node.kill()
