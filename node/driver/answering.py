"""Works out what an active controller answers to a request, from the metadata alone.

Nothing is written and nobody waits: the answer, and the records that would be appended, are those
of a controller that was elected just now and has the image that it is given. Requests whose answer
depends on more than that (who was heard of when) are not for this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from node.config import NodeConfig
from node.controller.context import ControllerConfig
from node.controller.controller import QuorumController
from node.controller.operations import payload_values
from node.core.messages import Error, Records, VoterChangeResponse
from node.core.types import VoterSet
from node.driver.apis.dispatch import Apis
from node.driver.held import HeldRead, HeldWrite
from node.driver.long_work import LongWork
from node.metadata.image import MetadataImage
from node.wire.errors import RemoteProtocolError, UnsupportedVersionError
from node.wire.payloads import api_schema, decode

T = TypeVar("T")

CONTROLLER = "controller"
_EPOCH = 0  # in which it is active
_LATER_MS = 1 << 40  # since it was elected: it takes nobody for heard of
_SEED = 0  # of placement and ids, which nobody may compare


class AnsweringError(Exception):
    """Raised when a request has no answer here: it is of another API, version, or no request."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The response (kio's), and the values of the records that it comes with."""

    response: Any
    records: Sequence[bytes]


class Answering:
    """Answers by an image that somebody else applies records to.

    Args:
        image: The metadata.
        config: The settings of the controllers.
        kraft_version: The level in force.
    """

    def __init__(
        self, image: MetadataImage, config: ControllerConfig, kraft_version: int = 0
    ) -> None:
        self._home = home = _Home(image, config, kraft_version)
        self._apis = Apis(home, roles=(CONTROLLER,), now_ms=lambda: _LATER_MS)  # type: ignore[arg-type] # see _Home

    def answer(self, api_key: int, version: int, body: bytes, offset: int) -> Outcome:
        """Answer a request's body; the first record with it would get the offset.

        Raises:
            AnsweringError: It cannot be answered here.
        """
        home = self._home
        if not self._apis.handles(api_key):
            raise AnsweringError(f"API {api_key} is not served")
        try:
            schema = api_schema(api_key, version)
            asked = _Asked(api_key, version, decode(schema.request, body))
        except (UnsupportedVersionError, RemoteProtocolError) as error:
            raise AnsweringError(str(error)) from error
        home.begin(offset)
        try:
            self._apis.handle(asked)
        finally:
            home.end()
        if asked.answer is None:
            raise AnsweringError(f"{schema}: {asked.rejected or 'it was not answered'}")
        answer = asked.answer
        if isinstance(answer, bytes):
            answer = decode(schema.response, answer)
        return Outcome(answer, home.records)


class _Asked:
    """A request that came over no connection."""

    client_id = None
    connection = 0
    peer = ("", 0)

    def __init__(self, api_key: int, version: int, body: Any) -> None:
        self.api_key = api_key
        self.version = version
        self.body = body
        self.answer: Any = None
        self.rejected: str | None = None

    def reply(self, answer: Any, *, then_close: str | None = None) -> None:
        """Keep the answer."""
        del then_close
        self.answer = answer

    def reject(self, reason: str) -> None:
        """Keep the reason."""
        self.rejected = reason


class _AtOnce(LongWork):
    """Runs all slices of an operation at once."""

    def __init__(self) -> None:
        super().__init__(lambda go_on: go_on())

    def aside(
        self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        """Do it here."""
        del failed
        done(work())


class _Home:
    """A node without a quorum, a network and a clock; see ``Home``."""

    producer_ids = None
    storage = None  # whose cluster id nobody asks a controller for
    voters = ()

    def __init__(self, image: MetadataImage, config: ControllerConfig, kraft_version: int) -> None:
        self.config = NodeConfig(
            node_id=config.node_id,
            roles=frozenset((CONTROLLER,)),
            voters=VoterSet.of(),
            listeners=(),
            log_dir=Path(),
        )
        self.image = image
        self.applied = 0
        self.machine = self
        self.leader_id = config.node_id
        self.kraft_version = kraft_version
        self.replica = self
        self.rng = Random(_SEED)
        self.controller = QuorumController(rng=self.rng, image=image, config=config)
        self.long_work = _AtOnce()
        self.records: list[bytes] = []
        self._end = 0

    def begin(self, offset: int) -> None:
        """Become active."""
        self.records, self._end = [], offset
        self.controller.claim(_EPOCH, 0)

    def end(self) -> None:
        """Forget what would be written."""
        self.controller.renounce()

    def later(self, send: Callable[[], None]) -> None:
        """Do it now."""
        send()

    def propose(self, entries: Sequence[Records], write: HeldWrite) -> None:
        """Keep the records, and take them for committed."""
        for entry in entries:
            self.records += payload_values(entry.payload, self._end + len(self.records))
        if entries:
            self.controller.appended(self._end, self._end + len(self.records) - 1)
        write.done()

    def upgrade_quorum(
        self, level: int, *, validate_only: bool, told: Callable[[VoterChangeResponse], None]
    ) -> None:
        """Agree to the level in force; any other needs a quorum, which is not here."""
        del validate_only
        if level != self.kraft_version:
            raise AnsweringError(f"kraft.version {level} is the quorum's to change")
        told(VoterChangeResponse(Error.NONE, _EPOCH, self.leader_id))

    def fault(self, operation: str, error: Exception) -> None:
        """Raise what the operation raised."""
        del operation
        raise error

    def read(self, pending: HeldRead) -> None:
        """Look at once."""
        pending.done()

    def when_published(self, look: Callable[[], None]) -> bool:
        """Look at once."""
        look()
        return True

    def trace(self, type_: str, **fields: object) -> None:
        """Tell nobody."""
