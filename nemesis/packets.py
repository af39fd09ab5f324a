"""Bad links: slow, lossy, narrow, jammed, or with messages that come twice or out of order.

Order within a connection is kept, as TCP keeps it; between connections it is not, so requests of
one node overtake each other. The links of the harness's clients stay as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, ClassVar

from harness.contracts.environment import Link, Net, Probe
from harness.contracts.hosts import Packets, Repeats, Shape
from harness.contracts.nemesis import Cluster, Fault, Injection
from harness.errors import HarnessError, NotShapedError
from harness.registry import environments, nemeses
from harness.spec import SIM, RunSpec
from nemesis.common.evidence import sample_links
from nemesis.common.hosts import why_not
from nemesis.common.targets import choose_or_one, draw_target, fault_rng

_TARGETS = {"leader": 3, "follower": 1, "one": 1, "minority": 2, "majority": 1, "all": 2}
_WAYS = ("out", "in", "both")
MESSAGE_BYTES = 150  # the least that a message counts
_NO_PACKETS = "the simulated network has messages and no packets"
_COUNTED = ("passed", "lost", "repeated", "kept_back")
_PROBED = 3
_PROBE_TIMEOUT_S = 2.0
_TRIES_MAX = 40  # of a probe, until it tells: a share of packets is lost by chance


@dataclass(frozen=True, slots=True)
class _Undo:
    """The links we shaped."""

    links: tuple[Link, ...]


class BadLinks:
    """The base of all; a kind says how a link behaves."""

    links: ClassVar[tuple[type, ...]] = (Packets,)  # what its links have to be able to
    of_packets: ClassVar[bool] = False  # not of messages, which is all that the simulator has
    family = "packets"

    def shape(self, params: Mapping[str, Any]) -> Shape:
        """Tell how the links behave."""
        raise NotImplementedError

    def draw(self, rng: Random) -> Mapping[str, Any]:
        """Draw how the links behave."""
        raise NotImplementedError

    def shows(self, before: Mapping[str, Any], after: Mapping[str, Any], probe: Probe) -> bool:
        """Tell whether a probe, with the link before and after it, shows the fault."""
        raise NotImplementedError

    def misfit(self, spec: RunSpec) -> str | None:
        """Tell why the run's environment cannot shape links in this way; None when it can."""
        if spec.env == SIM:
            return _NO_PACKETS if self.of_packets else None
        traits = environments.traits(spec.env)
        if Packets not in traits.links:
            return f"environment {spec.env!r} cannot shape its links"
        return next((why for each in self.links if (why := traits.why_not(each))), None)

    def available(self, cluster: Cluster) -> str | None:
        """Links must be there, and something that shapes them."""
        if self.of_packets and cluster.environment.name == SIM:
            return _NO_PACKETS
        if not isinstance(cluster.environment.net, Packets):
            return f"environment {cluster.environment.name!r} cannot shape its links"
        if len(cluster.system.nodes) == 1:
            return "needs 2 nodes, there is 1"
        reasons = (why_not(each, cluster.environment) for each in self.links)
        return next(filter(None, reasons), None)

    def params(self, rng: Random) -> Mapping[str, Any]:
        """Draw whose links, which way, and how they behave."""
        return {
            "target": draw_target(rng, _TARGETS),
            "way": rng.choice(_WAYS),
            **self.draw(rng),
        }

    async def inject(self, fault: Fault, cluster: Cluster) -> Injection:
        """Shape the links of the targets; evidence: what probes saw of some of them."""
        net: Net = cluster.environment.net
        if not isinstance(net, Packets) or self.available(cluster) is not None:
            return Injection("skipped", reason=self.available(cluster))
        rng = fault_rng(fault)
        target, way = str(fault.params.get("target", "one")), str(fault.params.get("way", "both"))
        choice = await choose_or_one(target, rng, cluster)
        links = tuple(_links(choice.nodes, cluster.system.nodes, way))
        shape = self.shape(fault.params)
        try:
            await net.shape(fault.id, links, shape)
        except NotShapedError as error:
            return Injection("skipped", choice.nodes, str(error))
        cuts = cluster.environment.net.cuts()
        usable = [link for link in links if link not in cuts and link[::-1] not in cuts]
        watched = sample_links(usable, _PROBED, rng, cluster)
        seen = await asyncio.gather(*(self._probe(link, net, cluster) for link in watched))
        evidence = (
            choice.evidence(target),
            {"saw": "links", "way": way, "links": len(links), **asdict(shape)},
            {"saw": "shaped link", **await net.shaped(links[0])},
            *seen,
        )
        undo = _Undo(links)
        if seen and all(e["passed"] and not e["told"] for e in seen):
            return Injection("failed", choice.nodes, "no probe noticed the fault", evidence, undo)
        return Injection("installed", choice.nodes, None, evidence, undo)

    async def heal(self, fault: Fault, injection: Injection, cluster: Cluster) -> Mapping[str, Any]:
        """Restore the links; evidence: how they are now, and what they lost meanwhile."""
        undo, net = injection.undo, cluster.environment.net
        if not isinstance(undo, _Undo) or not isinstance(net, Packets):
            raise HarnessError(f"fault {fault.id} left no links to heal")
        await net.shape(fault.id, undo.links, None)
        after = [await net.shaped(link) for link in undo.links]  # which counts all that was before
        return {
            "healed_links": len(undo.links),
            **{kind: sum(link[kind] for link in after) for kind in _COUNTED},
            "now": after[0],
        }

    async def _probe(self, link: Link, net: Packets, cluster: Cluster) -> dict[str, Any]:
        tries = 0
        while True:
            tries += 1
            before = await net.shaped(link)
            probe = await cluster.environment.net.probe(*link, timeout_s=_PROBE_TIMEOUT_S)
            told = self.shows(before, await net.shaped(link), probe)
            if told or not probe.passed or tries == _TRIES_MAX:
                return {"saw": "probe", **probe.to_json(), "told": told, "tries": tries}


@nemeses.register("slow-links")
class SlowLinks(BadLinks):
    """Delay messages of nodes by a varying time: 20 ms to 1 s, or more."""

    def draw(self, rng: Random) -> Mapping[str, Any]:
        """Draw the delay and how much it varies."""
        delay_ms = rng.choice((20, 100, 250, 500, 1_000, 2_000))
        return {"delay_ms": delay_ms, "jitter_ms": rng.choice((0, delay_ms // 2, delay_ms * 2))}

    def shape(self, params: Mapping[str, Any]) -> Shape:
        """Slow."""
        return Shape(
            delay_ms=int(params.get("delay_ms", 250)), jitter_ms=int(params.get("jitter_ms", 0))
        )

    def shows(self, before: Mapping[str, Any], after: Mapping[str, Any], probe: Probe) -> bool:
        """A request and its answer take longer than the delay of the link."""
        del before
        return bool(probe.elapsed_ms >= min(after["latency_ms"], _PROBE_TIMEOUT_S * 1e3 - 1))


@nemeses.register("lossy-links")
class LossyLinks(BadLinks):
    """Lose some packets; TCP sends them again after 200 ms, 400 ms, ..., so they arrive late."""

    def draw(self, rng: Random) -> Mapping[str, Any]:
        """Draw the share."""
        return {"loss": rng.choice((0.05, 0.1, 0.2, 0.4, 0.6))}

    def shape(self, params: Mapping[str, Any]) -> Shape:
        """Lossy."""
        return Shape(loss=float(params.get("loss", 0.2)))

    def shows(self, before: Mapping[str, Any], after: Mapping[str, Any], probe: Probe) -> bool:
        """A packet was lost on the link meanwhile."""
        del probe
        return bool(after["lost"] > before["lost"])


@nemeses.register("jam-links")
class JamLinks(BadLinks):
    """Jam links repeatedly: messages queue up and then arrive in one burst."""

    def draw(self, rng: Random) -> Mapping[str, Any]:
        """Draw how often the queue is let through."""
        return {"jam_ms": rng.choice((100, 300, 700, 1_500))}

    def shape(self, params: Mapping[str, Any]) -> Shape:
        """Jammed."""
        return Shape(jam_ms=int(params.get("jam_ms", 300)))

    def shows(self, before: Mapping[str, Any], after: Mapping[str, Any], probe: Probe) -> bool:
        """Connecting and asking are two messages: the second waits for a whole turn."""
        del before
        return bool(probe.elapsed_ms >= min(after["jam_ms"] / 2, _PROBE_TIMEOUT_S * 1e3 - 1))


@nemeses.register("repeating-links")
class RepeatingLinks(BadLinks):
    """Deliver requests of replicas twice, up to seconds apart, as a stray proxy would."""

    links = (Packets, Repeats)

    def draw(self, rng: Random) -> Mapping[str, Any]:
        """Draw the share, and how late."""
        return {
            "repeat": rng.choice((0.05, 0.2, 0.5)),
            "late_ms": rng.choice((10, 200, 1_500, 5_000)),
        }

    def shape(self, params: Mapping[str, Any]) -> Shape:
        """Repeating."""
        return Shape(
            repeat=float(params.get("repeat", 0.2)), late_ms=int(params.get("late_ms", 1_500))
        )

    def shows(self, before: Mapping[str, Any], after: Mapping[str, Any], probe: Probe) -> bool:
        """A request was repeated on the link meanwhile."""
        del probe
        return bool(after["repeated"] > before["repeated"])


@nemeses.register("reordering-links")
class ReorderingLinks(BadLinks):
    """Hold some messages back while later ones of other connections overtake them."""

    def draw(self, rng: Random) -> Mapping[str, Any]:
        """Draw the share, and for how long."""
        return {
            "keep_back": rng.choice((0.02, 0.1, 0.3)),
            "late_ms": rng.choice((50, 400, 1_500, 4_000)),
        }

    def shape(self, params: Mapping[str, Any]) -> Shape:
        """Reordering."""
        return Shape(
            keep_back=float(params.get("keep_back", 0.1)), late_ms=int(params.get("late_ms", 400))
        )

    def shows(self, before: Mapping[str, Any], after: Mapping[str, Any], probe: Probe) -> bool:
        """A message was kept back on the link meanwhile."""
        del probe
        return bool(after["kept_back"] > before["kept_back"])


@nemeses.register("narrow-links")
class NarrowLinks(BadLinks):
    """Limit links to some kilobytes per second, so that messages queue up."""

    def draw(self, rng: Random) -> Mapping[str, Any]:
        """Draw how many."""
        return {"bytes_per_s": rng.choice((1_000, 4_000, 20_000, 100_000))}

    def shape(self, params: Mapping[str, Any]) -> Shape:
        """Narrow."""
        return Shape(bytes_per_s=int(params.get("bytes_per_s", 4_000)))

    def shows(self, before: Mapping[str, Any], after: Mapping[str, Any], probe: Probe) -> bool:
        """Connecting and asking take as long as their bytes need."""
        del before
        return bool(probe.elapsed_ms >= 1e3 * MESSAGE_BYTES / after["bytes_per_s"])


def _links(targets: Sequence[str], nodes: Sequence[str], way: str) -> list[Link]:
    """The links that the targets send on, get things from, or both."""
    if way not in _WAYS:
        raise ValueError(f"way is {way!r}, want one of {', '.join(_WAYS)}")
    out = [(a, b) for a in targets for b in nodes if a != b]
    into = [(b, a) for a, b in out]
    wanted = {"out": out, "in": into, "both": [*out, *into]}[way]
    return list(dict.fromkeys(wanted))
