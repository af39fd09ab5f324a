"""The origin of a stored run, ``run.json``: which command made it, when, and of which run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1


@dataclass(frozen=True, slots=True)
class Origin:
    """The command that made a run, and the run that it repeated.

    Attributes:
        by: ``run``, ``sim``, ``repro`` or ``shrink``; "" when nothing tells, as in older stores.
        of: The id of the run that was replayed or shrunk, else None.
        begun: The moment at which the run's folder was made, ISO 8601, UTC; "" when nothing tells.
        hosts: The file that names the hosts of its nodes, where the environment needs one.
        host: The name of the machine that ran the harness; "" in older stores, as what follows.
        version: Of krucible.
        commit: The commit of krucible's checkout, 40 hex digits; "" outside of one.
    """

    by: str
    of: str | None = None
    begun: str = ""
    hosts: str | None = None
    host: str = field(default="", compare=False)
    version: str = field(default="", compare=False)
    commit: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.by if self.of is None else f"{self.by} of {self.of}"

    def to_json(self) -> dict[str, Any]:
        """Give it as a JSON object."""
        told = asdict(self)
        return {**told, "krucible": told.pop("version"), "version": VERSION}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Origin:
        """Read ``to_json``'s object; unknown fields are passed over.

        Raises:
            KeyError: It does not say which command made the run.
            TypeError: It is no object.
        """
        by, of, begun, hosts = (told[name] for name in ("by", "of", "begun", "hosts"))
        made = [str(told.get(name, "")) for name in ("host", "krucible", "commit")]
        return cls(
            str(by), None if of is None else str(of), str(begun), hosts and str(hosts), *made
        )
