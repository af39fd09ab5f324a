"""Gives handlers their node, and the ways to hold an answer until it is true."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final, TypeVar

from node.controller.broker_operations import ClusterBroker
from node.controller.controller import QuorumController
from node.controller.errors import ApiError, ControllerError
from node.controller.operations import ControllerResult
from node.controller.slices import Slices
from node.core.types import Endpoint
from node.driver.apis.call import Answer, Call
from node.driver.apis.home import Home
from node.driver.held import HeldRead, HeldWrite
from node.metadata.state import BrokerState, ControllerState, Listener
from node.wire.api import ApiKey, ApiTable
from node.wire.errors import LocalProtocolError
from node.wire.payloads import encode as to_bytes

T = TypeVar("T")

# A client may rely on these words: with them, NOT_CONTROLLER means that nothing was written.
NOTHING_WRITTEN: Final = "not the active controller; nothing was written"
OUTCOME_UNKNOWN: Final = (
    "leadership was lost before the commit; the operation may still take effect"
)
FAULT: Final = "the controller failed unexpectedly; nothing was written"

NO_ID: Final = -1
# Whose answers are traced with what was asked: those that follow from the metadata alone.
TOLD: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UPDATE_FEATURES,
    }
)


class Serving:
    """One listener of a node, as its handlers see it.

    Args:
        node: Whose requests these are.
        now_ms: The clock that the controller's sessions run on.
        listener_name: The listener that asks, whose endpoints clients are told; None = any.
        is_controller: Whether it is a listener of the controller role.
        table: What the listener serves.
        dispatch: Answers a call that came in another one.
    """

    def __init__(
        self,
        node: Home,
        *,
        now_ms: Callable[[], int],
        listener_name: str | None,
        is_controller: bool,
        table: ApiTable,
        dispatch: Callable[[Call], None],
    ) -> None:
        self.node = node
        self.now_ms = now_ms
        self.listener_name = listener_name
        self.is_controller = is_controller
        self.table = table
        self.dispatch = dispatch
        self._refusal: tuple[ApiError, str] | None = None
        # Reads of committed state need no leadership, so brokers use the same code.
        own = node.controller or QuorumController(rng=node.rng, image=node.machine.image)
        self.reader = own

    def refusing(self, error: ApiError, message: str) -> Serving:
        """Give a copy that refuses every write and read with that error."""
        other = copy(self)
        other._refusal = (error, message)  # noqa: SLF001 - of this class
        return other

    # ------------------------------------------------------------------ writes

    def write(
        self,
        call: Call,
        operate: Callable[[QuorumController], ControllerResult[T] | Slices[ControllerResult[T]]],
        refused: Callable[[ApiError, str], T],
        encode: Callable[[T], Any],
    ) -> None:
        """Do an operation of the active controller and answer when it is committed.

        Args:
            call: What to answer.
            operate: Works out the records, and the reply to be held back; what may take long, in
                slices.
            refused: The reply that refuses all of the request with that error.
            encode: The response of a reply, or its bytes; called when it is true, not before.
        """
        if self._refusal is not None:
            call.reply(encode(refused(*self._refusal)))
            return

        def refer() -> None:
            call.refer(encode(refused(ApiError.NOT_CONTROLLER, NOTHING_WRITTEN)))

        def abandoned() -> None:
            call.reply(encode(refused(ApiError.NOT_CONTROLLER, OUTCOME_UNKNOWN)))

        node = self.node

        def fail(error: Exception) -> None:
            if isinstance(error, ControllerError):
                raise error
            node.fault(call.name, error)
            answer = encode(refused(ApiError.UNKNOWN_SERVER_ERROR, FAULT))
            node.later(lambda: call.reply(answer))

        def propose(result: ControllerResult[T], turns: int = 1) -> None:
            self._propose(call, result, encode, (refer, abandoned), large=turns > 1)

        def work() -> None:
            controller = node.controller
            if controller is None or not controller.active:
                node.later(refer)
                return
            try:
                result = operate(controller)
            except Exception as error:
                fail(error)
                return
            if isinstance(result, ControllerResult):
                propose(result)
            else:
                node.long_work.begin(result, propose, fail, lambda: node.later(refer))

        node.long_work.when_free(work)

    def _propose(
        self,
        call: Call,
        result: ControllerResult[T],
        encode: Callable[[T], Any],
        otherwise: tuple[Callable[[], None], Callable[[], None]],
        *,
        large: bool,
    ) -> None:
        """Propose a result's records, and answer when they are committed."""
        node = self.node
        refer, abandoned = otherwise
        kraft_version = node.replica.kraft_version  # as the operation found it: it may rise now

        def failed(error: Exception) -> None:
            if not isinstance(error, LocalProtocolError):
                node.fault(call.name, error)
            node.later(lambda: call.reject(f"its answer cannot be encoded: {error}"))

        def done() -> None:
            if large:  # its bytes come after its trace
                node.long_work.aside(
                    lambda: _to_bytes(encode(result.reply)),
                    lambda body: node.later(lambda: call.reply(body)),
                    failed,
                )
            else:
                answer = encode(result.reply)
                self._tell(call, write, answer, kraft_version)
                call.reply(answer)

        if result.entries:
            write = HeldWrite(call.name, done, refer, abandoned, result.notes)
            node.propose(result.entries, write)
            return

        # With nothing to write the answer is a look at the state ("exists already"), which would
        # be stale at a leader that was replaced unawares: it is held to what reads are held to.
        def look() -> None:
            node.read(HeldRead(call.name, done, refer))

        settled = look if node.config.read_barrier else done
        write = HeldWrite(call.name, settled, refer, refer, result.notes)
        node.propose((), write)

    def _tell(self, call: Call, write: HeldWrite, answer: Answer, kraft_version: int) -> None:
        """Trace an answer, and by how much of the log it was decided."""
        if call.api_key not in TOLD:
            return
        try:
            asked, said = to_bytes(call.body), _to_bytes(answer)
        except LocalProtocolError:
            return  # there is no such answer: its connection ends
        stand_ins = self.node.config.brokers
        is_of_levels = call.api_key == ApiKey.UPDATE_FEATURES
        self.node.trace(
            "answered",
            api=call.api_key,
            ver=call.version,
            off=write.base,
            n=max(0, write.wait_for + 1 - write.base),
            ours=True,
            **({} if stand_ins is None else {"stand_ins": list(stand_ins)}),
            **({"kraft": kraft_version} if is_of_levels else {}),
            req=b64encode(asked).decode(),
            res=b64encode(said).decode(),
        )

    def accepts(self, operate: Callable[[QuorumController], ControllerResult[Any]]) -> bool:
        """Tell whether the active controller is here and would do an operation without error."""
        controller = self.node.controller
        if self._refusal is not None or controller is None or not controller.active:
            return False
        return not operate(controller).reply.error

    # ------------------------------------------------------------------ reads

    def read(
        self,
        call: Call,
        look: Callable[[], T],
        refused: Callable[[ApiError, str], T],
        encode: Callable[[T], Any],
    ) -> None:
        """Look at committed state and answer; on a controller behind the read barrier, if on."""
        if self._refusal is not None:
            call.reply(encode(refused(*self._refusal)))
            return
        node = self.node

        def done() -> None:
            entity = encode(look())
            node.later(lambda: call.reply(entity))

        def refer() -> None:
            call.refer(encode(refused(ApiError.NOT_CONTROLLER, NOTHING_WRITTEN)))

        if self.is_controller and node.controller is not None and node.config.read_barrier:
            node.read(HeldRead(api=call.name, done=done, refused=refer))
            return

        def look_here() -> None:
            node.trace("read", api=call.name, off=node.machine.applied)
            done()

        if self.is_controller:
            look_here()
        elif not node.when_published(look_here):
            call.reject("too many requests wait for this node to catch up")

    def answer(self, call: Call, entity: Any, *, then_close: str | None = None) -> None:
        """Answer with what needs no state."""
        self.node.later(lambda: call.reply(entity, then_close=then_close))

    # ------------------------------------------------------------------ who is where

    @property
    def controller_id(self) -> int:
        """The leader of the quorum as far as this node knows, -1 if it does not."""
        leader = self.node.replica.leader_id
        return NO_ID if leader is None else leader

    def some_broker(self, ids: Sequence[int]) -> int:
        """Choose whom a broker names as the controller: any broker, for all forward. -1 of none.

        Itself, if it can: Kafka draws one by lot.
        """
        own = self.node.config.node_id
        return own if own in ids else next(iter(ids), NO_ID)

    def brokers(self, *, include_fenced: bool = False) -> tuple[ClusterBroker, ...]:
        """The registered brokers that have this listener, by id.

        A broker that runs without any registration names itself, for it is there to be asked.
        """
        found = self._registered(self.node.machine.image.brokers, include_fenced=include_fenced)
        if not found and not self.is_controller:
            config = self.node.config
            named = [x.advertised for x in config.listeners if x.name == self.listener_name]
            own = named[0] if named else config.advertised
            found = (ClusterBroker(config.node_id, *_address(own), config.rack),)
        return found

    def controllers(self) -> tuple[ClusterBroker, ...]:
        """The voters, and the registered controllers that have this listener, by id.

        Kafka names registered ones only, so that right after a start it knows none.
        """
        found = {v.key.id: ClusterBroker(v.key.id, *_address(v.endpoint)) for v in self.node.voters}
        found |= {each.id: each for each in self._registered(self.node.machine.image.controllers)}
        return tuple([found[id_] for id_ in sorted(found)])

    def _registered(
        self, nodes: Mapping[int, BrokerState | ControllerState], *, include_fenced: bool = False
    ) -> tuple[ClusterBroker, ...]:
        found = []
        for node in sorted(nodes.values(), key=lambda each: each.id):
            fenced = isinstance(node, BrokerState) and node.fenced
            listener = self.listener_of(node)
            if listener is not None and (include_fenced or not fenced):
                rack = node.rack if isinstance(node, BrokerState) else None
                found.append(ClusterBroker(node.id, listener.host, listener.port, rack, fenced))
        return tuple(found)

    def listener_of(self, node: BrokerState | ControllerState) -> Listener | None:
        """Find where a node listens for those who ask here; None when it does not."""
        for listener in node.listeners:
            if self.listener_name is None or listener.name == self.listener_name:
                return listener
        return None


def _to_bytes(answer: Answer) -> bytes:
    return answer if isinstance(answer, bytes) else to_bytes(answer)


def _address(endpoint: Endpoint) -> tuple[str, int]:
    return endpoint.host, endpoint.port
