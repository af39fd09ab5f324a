"""Orders that the agent obeys: JSON ``{"do", ...}``, answered by ``{"ok"}`` or ``{"error"}``.

A supervisor takes them over its session, numbered; in a holder each is a process of its own, for
the Engine starts one in a moment and nothing has to be kept in there between two of them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

from harness.agent import firewall, netem
from harness.agent.firewall import Refused
from harness.agent.probe import probe


def answer(work: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
    """Do it; returns ``{"ok": what it returned}`` or ``{"error": why it could not be done}``."""
    try:
        return {"ok": work() or {}}
    except (Refused, OSError, subprocess.SubprocessError) as error:
        return {"error": str(error)}


def do_probe(request: str, **asked: Any) -> dict[str, Any]:
    """Do what ``probe`` does; the request is in hexadecimal."""
    return probe(request=bytes.fromhex(request), **asked)


def do_rules(chain: str, rules: list[str]) -> dict[str, Any]:
    """Make our chain so; returns the counters ``before``."""
    return {"before": firewall.set_rules(chain, rules)}


def do_counters(chain: str) -> dict[str, Any]:
    """Count what our chain has dropped: ``before``, as iptables lists it."""
    return {"before": firewall.counters(chain)}


def do_netem(order: dict[str, Any]) -> dict[str, Any]:
    """Do what ``netem.obey`` does; its ``answer``."""
    return {"answer": netem.obey(order)}


def do_remove(chain: str, qdisc: int) -> dict[str, Any]:
    """Take out our chain and our roots of netems, as far as they are there; what was."""
    return {"chain": firewall.remove_chain(chain), "qdiscs": netem.remove(qdisc)}


def do_filter() -> dict[str, Any]:
    """Tell why links cannot be cut here; ``problem`` is None when they can."""
    return {"problem": firewall.filter_problem()}


def do_unrule(chain: str) -> dict[str, Any]:
    """Take our chain out; whether it was there."""
    return {"chain": firewall.remove_chain(chain)}


_ORDERS: dict[str, Callable[..., dict[str, Any]]] = {
    "probe": do_probe,
    "rules": do_rules,
    "counters": do_counters,
    "netem": do_netem,
    "remove": do_remove,
    "filter": do_filter,
    "unrule": do_unrule,
}


def obey(asked: dict[str, Any]) -> dict[str, Any]:
    """Do what an order says; raises as that does."""
    work = _ORDERS[asked.pop("do")]
    return work(**asked)


def run(text: str) -> None:
    """Obey one order; prints the answer as a line."""
    asked = json.loads(text)
    print(json.dumps(answer(lambda: obey(asked))))  # noqa: T201 - the answer
