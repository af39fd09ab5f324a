"""Cut links that are firewall rules: what nets by a packet filter share, wherever the rules lie."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from harness.contracts.environment import Link
from harness.healing.journal import Journal


class Cuts:
    """The part of a ``Net`` that knows which links are cut; a net of its own installs the rules."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._cuts: dict[Link, int] = {}  # cut link -> its journal entry
        self._changing = asyncio.Lock()

    async def cut(self, links: Iterable[Link]) -> None:
        """Drop all packets on these directed links; journalled before it takes effect."""
        async with self._changing:
            fresh = [link for link in dict.fromkeys(links) if link not in self._cuts]
            for link in fresh:
                self._check(link)
            if fresh:
                entry = await self._announce(fresh)
                self._cuts.update(dict.fromkeys(fresh, entry))
                await self._install(destination for _, destination in fresh)

    async def heal(self, links: Iterable[Link] | None = None) -> None:
        """Let packets through again: on these links, or on all. Idempotent."""
        async with self._changing:
            wanted = list(self._cuts) if links is None else list(dict.fromkeys(links))
            for link in wanted:
                self._check(link)
            chosen = [link for link in wanted if link in self._cuts]
            kept = {link: self._cuts.pop(link) for link in chosen}
            try:
                await self._install(destination for _, destination in chosen)
            except BaseException:
                self._cuts.update(kept)
                raise
            for entry in set(kept.values()) - set(self._cuts.values()):
                await asyncio.to_thread(self._journal.undone, entry)

    def cuts(self) -> frozenset[Link]:
        """The links cut at present."""
        return frozenset(self._cuts)

    async def _forget(self) -> None:
        """The rules are gone with what held them."""
        for entry in set(self._cuts.values()):
            await asyncio.to_thread(self._journal.undone, entry)
        self._cuts.clear()

    def _check(self, link: Link) -> None:
        """Raise EnvError for a link of nodes that there are not."""
        raise NotImplementedError

    async def _announce(self, links: Iterable[Link]) -> int:
        """Journal that rules for these links are about to be installed; the entry."""
        raise NotImplementedError

    async def _install(self, nodes: Iterable[str]) -> None:
        """Make the rules of these nodes what is cut now."""
        raise NotImplementedError
