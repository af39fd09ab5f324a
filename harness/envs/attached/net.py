"""The links of a foreign cluster: cut by iptables beside its nodes, as far as its file allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.contracts.environment import Address, Link, Probe
from harness.envs.attached.file import Reach
from harness.envs.attached.heal import RULES_ENTRY, entry
from harness.envs.attached.keepers import Keeper
from harness.envs.attached.warden import Warden
from harness.envs.links.filtered import FilteredNet
from harness.envs.ssh.net import SshFilters
from harness.errors import EnvError
from harness.healing.journal import Journal


class AttachedFilters:
    """``Filters`` by the keepers: rules name addresses and ports, and nothing else is touched."""

    def __init__(
        self,
        keepers: Mapping[str, Keeper],
        reaches: Mapping[str, tuple[Reach, str]],
        journal: Journal,
        chain: str,
    ) -> None:
        """Order nothing yet.

        Args:
            keepers: By node.
            reaches: By node, how it is reached, and by which Python its keeper runs.
            journal: Of the run.
            chain: The run's own, in each network.
        """
        self._keepers = keepers
        self._reaches = reaches
        self._journal = journal
        self._chain = chain
        self._by_port = SshFilters({}, journal)

    async def order(self, node: str, do: str, **arguments: Any) -> Mapping[str, Any]:
        """See ``Filters``."""
        if node not in self._keepers:
            raise EnvError(f"nobody can give orders beside {node}: the file does not reach it")
        if do in ("rules", "counters"):
            arguments["chain"] = self._chain
        return await self._keepers[node].call(do, **arguments)

    def rules(self, source: Address, destination: Address, does: str) -> list[str]:
        """See ``SshFilters``."""
        return self._by_port.rules(source, destination, does)

    def match(self, source: Address, destination: Address) -> list[list[str]]:
        """See ``SshFilters``."""
        return self._by_port.match(source, destination)

    async def announce(self, links: Sequence[Link]) -> int:
        """See ``Filters``; names the nodes whose networks get rules."""
        nodes = sorted({receiver for _, receiver in links})
        return await self._journal.announce(
            RULES_ENTRY,
            links=[list(link) for link in links],
            nodes=[entry(*self._reaches[node], chain=self._chain) for node in nodes],
        )


class AttachedNet:
    """``Net`` that asks the warden first; it shapes nothing."""

    def __init__(self, warden: Warden, inner: FilteredNet) -> None:
        """Cut nothing yet."""
        self._warden = warden
        self._inner = inner

    async def cut(self, links: Iterable[Link]) -> None:
        """See ``Net``; raises EnvError for what is not allowed."""
        wanted = list(links)
        if (reason := self._warden.why_not_cut(wanted)) is not None:
            raise EnvError(f"links are not cut: {reason}")
        self._warden.cut(wanted)
        try:
            await self._inner.cut(wanted)
        except BaseException:
            self._warden.mend(set(wanted) - self._inner.cuts())
            raise

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """See ``Net``."""
        wanted = list(self._inner.cuts() if links is None else links)
        await self._inner.heal(wanted)
        self._warden.mend(wanted)

    def cuts(self) -> frozenset[Link]:
        """See ``Net``."""
        return self._inner.cuts()

    async def probe(self, source: str, destination: str, *, timeout_s: float = 0.5) -> Probe:
        """See ``Net``."""
        return await self._inner.probe(source, destination, timeout_s=timeout_s)

    async def stats(self) -> Mapping[Link, Mapping[str, int]]:
        """See ``Net``."""
        return await self._inner.stats()
