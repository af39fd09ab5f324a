"""Judges what an active controller answers, yes and no: it follows from the metadata (C17).

Controllers tell of each answer, with the request and how many records of the log they had gone by.
A new controller of ours is asked the same by the same records: what both say must agree, and so
must the records that they write. One of the two is wrong where they differ. Where both agree,
``reasons`` compares what is said of topics and brokers with the metadata, and ``fulfilled`` what is
granted with the metadata that comes of it: these know nothing of our controller.
Answers of APIs that our controller does not serve are judged by ``security_answers``.

Some of an answer is nobody's business: words, ids that are drawn, and on which brokers a new
replica lies. Requests are left out whose answer depends on more than the metadata: heartbeats of
brokers, and the registration of a broker whose last process may be heard of still.
Source: KIP-631; QuorumController, ReplicationControlManager and the other managers of Kafka 4.
"""

from __future__ import annotations

from base64 import b64decode
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from heapq import heappop, heappush
from typing import Any, Final
from uuid import UUID

import msgspec

from checkers.committed.left_out import BareImages
from checkers.committed.reference import Reference
from checkers.invariants import security_answers
from checkers.invariants.fulfilled import Before, unfulfilled
from checkers.invariants.reasons import unfounded
from checkers.invariants.turned_away import DUPLICATE_BROKER_REGISTRATION, TurnedAway
from checkers.replay.trace import Event, label
from harness.contracts.evidence import LogBatch
from harness.contracts.meaning import Meaning
from harness.verdict import Anomaly
from node.controller.context import ControllerConfig
from node.controller.errors import ApiError
from node.driver.answering import Answering, AnsweringError
from node.metadata.features import ELR_VERSION
from node.metadata.fold import apply_record
from node.metadata.image import BROKER, TOPIC, ImageError, MetadataImage, PartitionState
from node.metadata.records import MetadataRecord, RecordError, decode_record, from_json
from node.metadata.schemas import ConfigRecord, PartitionChangeRecord, TopicRecord
from node.metadata.snapshot import image_of_records
from node.metadata.transactions import Transactions
from node.wire.api import ApiKey
from node.wire.errors import RemoteProtocolError, UnsupportedVersionError
from node.wire.payloads import api_schema, decode

C17: Final = Meaning(
    "C17",
    title="a controller's answer follows from its metadata",
    promise=(
        "An active controller decides each request by the records before it, and tells only of "
        "those that are committed. It refuses one only for a reason that these records give, with "
        "the error for that reason. It writes the records that a request calls for, and what it "
        "grants is so after them."
    ),
    why=(
        "Who is refused without a reason cannot do what they need, and retries for ever or gives "
        "up; who is granted what must be refused gets a state that no other part expects."
    ),
    source="KIP-631; QuorumController; ReplicationControlManager; ConfigurationControlManager",
)
JUDGED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UPDATE_FEATURES,
    }
)
# Kafka's records for them are not compared: they say what is so already, or take an eligible broker
# off its partitions when it goes (ours) or when it comes back (Kafka's). Some are made by lot.
BY_ANSWER_ALONE: Final = frozenset(
    {
        *(ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.UPDATE_FEATURES),
        *(ApiKey.BROKER_REGISTRATION, ApiKey.UNREGISTER_BROKER),
    }
)
UNJUDGED: Final = frozenset({"throttle_time", "error_message", "topic_id", "configs", "version"})
OF_SETTINGS: Final = frozenset({ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS})
PLACED: Final = frozenset({ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS})
OF_RECORDS: Final = frozenset({"version"})
BY_LOT: Final = frozenset({"topic_id", "replicas", "isr", "leader", "directories"})
UNTOLD: Final = frozenset({"timeout"})  # of requests
UNJUDGED_IF_REFUSED: Final = frozenset({"producer_id_start"})  # zero or nothing
CONFIGURABLE: Final = frozenset({TOPIC, BROKER})  # types of resources that we know
# No decision, or one that failed, which the controller says in its log.
NOT_DECIDED: Final = frozenset(
    {ApiError.NOT_CONTROLLER, ApiError.REQUEST_TIMED_OUT, ApiError.UNKNOWN_SERVER_ERROR}
)
# Kafka looks for a topic's id first, and says so when that is gone by the time that it deletes it.
LOOKED_UP: Final = frozenset({ApiError.UNKNOWN_TOPIC_ID})
NO_REPLICAS: Final = "some who are eligible are no replicas"
BOTH_WAYS: Final = "of a reassignment before it some are still added or removed"
STILL_ELIGIBLE: Final = "a reassignment is given up that leaves somebody eligible"
BY_THE_FIRST: Final = "partition 0 of the topic has another number of replicas"
UNCOMMITTED: Final = "record(s) in its memory are not committed"
STAYS_CORDONED: Final = "a replica is to stay on a cordoned broker"
LEFT_OUT: Final = "it is right after a snapshot without eligible leaders, which were switched off"
SWITCHED_OFF: Final = "eligible leaders are switched off"
LAG_NS: Final = 1_000_000_000  # between a commit and an answer that waited for it
_DIFFERENCES_MAX: Final = 3

_Flat = Mapping[str, object]


class AnswerChecks:
    """Judges answers as the log grows; ``checked`` counts those that could be judged.

    Args:
        known: The log's beginning, which may be a snapshot.
        settings: Those of all nodes.
    """

    def __init__(self, known: Reference, settings: Mapping[str, str]) -> None:
        self.checked = 0
        self._settings = settings
        self._turned_away = TurnedAway.of(settings)
        newest = ControllerConfig(
            num_partitions=int(settings.get("num.partitions", 1)),
            default_replication_factor=int(settings.get("default.replication.factor", 1)),
            static=settings,
        )
        # Releases differ on purpose: what any of them may answer is an answer.
        self._configs = (
            newest,
            replace(newest, full_targets=True),
            replace(newest, cordons_by_number_only=True),
            replace(newest, trusts_whom_it_goes_back_to=True),
        )
        self._answering: dict[tuple[int, object], Answering] = {}  # made when they are needed
        self._snapshot = known.snapshot  # until it is loaded
        self._image = MetadataImage()
        self._bare = BareImages()
        self._gate = Transactions()
        self._is_lost = known.begin is None
        self._records: deque[tuple[int, int, MetadataRecord]] = deque()  # offset, epoch
        self._batches: deque[LogBatch] = deque()  # that are no records yet
        self._end = known.begin or 0  # of what is committed
        self._at = self._end  # of what the image has
        self._epoch = -1  # of its newest record
        # By how much of the log they went by, and how much they wrote.
        self._waiting: list[tuple[int, int, int, Event]] = []
        self._cluster: str | None = None  # its id, as the first registration that is granted has it
        self._count = 0

    def batch(self, batch: LogBatch) -> None:
        """Take in the next committed batch."""
        self._end = batch.last + 1
        if not batch.control:
            self._batches.append(batch)

    def feed(self, event: Event) -> None:
        """Take in an answer; it is judged when all is committed that it went by."""
        if event["t"] == "contact":
            self._turned_away.contact(event)
            return
        if event["api"] in JUDGED or event["api"] in security_answers.JUDGED:
            self._count += 1
            heappush(self._waiting, (event["off"], event["n"], self._count, event))

    def settle(self, now_ns: int | None = None) -> Iterator[Anomaly]:
        """Judge the answers of which all is committed, and before which no other can come.

        A controller answers in the order of its records, but for what it refuses at once. None: it
        is the end.
        """
        waiting = self._waiting
        while waiting and not self._is_lost:
            offset, written, _, event = waiting[0]
            is_young = now_ns is not None and now_ns - event["ts"] < LAG_NS
            if is_young or offset + written > self._end:
                return
            heappop(waiting)
            try:
                yield from self._judge(event)
            except (RecordError, ImageError):
                self._is_lost = True  # which C8 tells

    def _judge(self, event: Event) -> Iterator[Anomaly]:
        offset = event["off"]
        self._fold(offset)
        if self._at != offset or self._epoch > event["ep"] or self._gate.open:
            return  # of a log that was not committed, or in the midst of a transaction
        asked, said = b64decode(event["req"]), b64decode(event["res"])
        try:
            schema = api_schema(event["api"], event["ver"])
            request, response = decode(schema.request, asked), decode(schema.response, said)
            answer = flat(response)
            wrong = _left_by_refusal(event, answer) or self._kept_out(event, request, answer)
            wrong = wrong or self._left_by_topics(event, response)
            is_open = not wrong and self._is_open(event, request, answer)
            if not wrong and not is_open:
                if event["api"] in security_answers.JUDGED:
                    found = self._of_security(event, request, response)
                    if found is None:
                        return
                    wrong = found
                else:
                    wrong = self._unlike_ours(event, asked, request, answer)
                wrong = wrong or unfounded(event["api"], request, response, self._image)
        except (AnsweringError, RemoteProtocolError, UnsupportedVersionError):
            return  # a version that we do not serve, or what Kafka refuses to read
        wrong = wrong or self._unfulfilled(event, request, response)
        self._learn(event, request, answer)
        self.checked += bool(wrong) or not is_open
        if wrong:
            yield Anomaly(
                C17.name,
                f"n{event['node']} answered {schema} ({label(event)}, {event['n']} record(s) after"
                f" offset {offset}) to {told(request)}: {'; '.join(wrong[:_DIFFERENCES_MAX])}",
            )

    def _unlike_ours(self, event: Event, asked: bytes, request: Any, answer: _Flat) -> list[str]:
        """Tell what differs from what a controller of ours answers, as any of the releases."""
        wrong: list[str] = []
        for answering in self._answerers(event, request):
            wrong = self._wrong(event, asked, request, answer, answering)
            if not wrong:
                return []
        if self._is_of_bare(event, asked, request, answer):
            wrong = [*wrong[: _DIFFERENCES_MAX - 1], LEFT_OUT]
        return wrong

    def _unfulfilled(self, event: Event, request: Any, response: Any) -> list[str]:
        """Tell what is granted and not so after the records that came with the answer."""
        before = Before.of(event["api"], request, self._image)
        self._fold(event["off"] + event["n"])
        if self._gate.open:
            return []  # these records count only when their transaction ends
        return unfulfilled(event["api"], request, response, before, self._image)

    def _learn(self, event: Event, request: Any, answer: _Flat) -> None:
        """Learn the cluster's id, which no record tells."""
        if event["api"] == ApiKey.BROKER_REGISTRATION and ApiError.NONE in errors_of(answer):
            self._cluster = self._cluster or request.cluster_id

    def _kept_out(self, event: Event, request: Any, answer: _Flat) -> list[str]:
        """A fenced broker is not refused for long because of the session of a process before."""
        if event["api"] != ApiKey.BROKER_REGISTRATION:
            return []
        broker = int(request.broker_id)
        known = self._image.brokers.get(broker)
        refused = DUPLICATE_BROKER_REGISTRATION in errors_of(answer)
        if not refused or known is None or not known.fenced:
            self._turned_away.forget(broker)
            return []
        since = self._turned_away.refused(broker, event, (event["node"], event["ep"]))
        if since is None or not self._turned_away.hears:
            return []
        lasts_s = (event["ts"] - since["ts"]) / 1e9
        return [f"it is fenced, and refused because of a session for {lasts_s:.3f} s now"]

    def _left_by_topics(self, event: Event, response: Any) -> list[str]:
        """Nothing is written of a topic that is not created."""
        if event["api"] != ApiKey.CREATE_TOPICS or not event["n"]:
            return []
        decided = {ApiError.NONE, *NOT_DECIDED}
        refused = {each.name for each in response.topics if each.error_code not in decided}
        return [
            f"topic {name!r} was refused, and left {type(record).__name__}"
            for record in self._written(event)
            if (name := _topic_of(record)) in refused
        ]

    def _is_open(self, event: Event, request: Any, answer: _Flat) -> bool:
        """Tell whether an answer does not follow from what is known here."""
        api, errors = event["api"], errors_of(answer)
        if (
            api == ApiKey.ALTER_PARTITION
        ):  # of a partition NOT_CONTROLLER says that who asks is ahead
            errors = [answer.get(".error_code")]
        if not NOT_DECIDED.isdisjoint(errors):
            return True
        if api == ApiKey.DELETE_TOPICS:
            return not LOOKED_UP.isdisjoint(errors)
        if api == ApiKey.CREATE_PARTITIONS and any(map(self._is_uneven, request.topics)):
            return True
        if api in PLACED:  # whom a controller knows to stop, it forgets when it is elected again
            return any(broker.in_controlled_shutdown for broker in self._image.brokers.values())
        if api in OF_SETTINGS:
            return any(int(each.resource_type) not in CONFIGURABLE for each in request.resources)
        if api == ApiKey.UPDATE_FEATURES:
            return event["node"] not in self._image.controllers
        if api == ApiKey.BROKER_REGISTRATION:
            if self._cluster is None and ApiError.INCONSISTENT_CLUSTER_ID in errors:
                return True
            return DUPLICATE_BROKER_REGISTRATION in errors  # by a session
        return False

    def _is_uneven(self, topic: Any) -> bool:
        """Tell whether partitions of a topic are, or are to be, on numbers of brokers that differ.

        One of them says how many a new one gets. Of one that moves Kafka counts all replicas; what
        comes of that C3 judges.
        """
        found = self._image.topics.get(topic.name)
        parts = () if found is None else found.partitions.values()
        return any(each.adding or each.removing for each in parts) or (
            len({len(each.replicas) for each in parts}) > 1
        )

    def _answerers(self, event: Event, request: Any) -> Iterator[Answering]:
        """Give controllers that answer as one of the releases does."""
        more, stand_ins = self._more(event, request), event.get("stand_ins")
        # Brokers that are there though they are not registered, which only nodes of ours have.
        there = None if stand_ins is None else tuple(stand_ins)
        for place, of_release in enumerate(self._configs):
            key, config = (place, there), replace(of_release, static_broker_ids=there, **more)
            if more:
                yield Answering(self._image, config, kraft_version=event.get("kraft", 0))
                continue
            if key not in self._answering:
                self._answering[key] = Answering(self._image, config)
            yield self._answering[key]

    def _more(self, event: Event, request: Any) -> dict[str, Any]:
        """Give what else a controller knows that answers a request of a kind."""
        if event["api"] == ApiKey.BROKER_REGISTRATION:
            return {"cluster_id": self._cluster or request.cluster_id}
        if event["api"] == ApiKey.UPDATE_FEATURES:
            node = event["node"]
            return {"node_id": node, "supported_features": self._image.controllers[node].features}
        return {}

    def _wrong(
        self, event: Event, asked: bytes, request: Any, answer: _Flat, answering: Answering
    ) -> list[str]:
        """Tell what differs from the answer that is due."""
        api = event["api"]
        due = answering.answer(api, event["ver"], asked, event["off"])
        expected = flat(due.response)
        if api in OF_SETTINGS and _is_for_brokers(answer, expected):
            return []
        told_: _Flat = answer
        if api == ApiKey.UPDATE_FEATURES:  # before KIP-1022 each feature had its own error
            told_, expected = _whole(answer), _whole(expected)
        wrong, why = differences(told_, expected), self._told_apart(event, request)
        if event.get("ours") or api not in BY_ANSWER_ALONE:
            ours, theirs = list(map(decode_record, due.records)), self._written(event)
            left_out = OF_RECORDS | BY_LOT if api in PLACED else OF_RECORDS
            wrong += differences(*(flat(each, unjudged=left_out) for each in (theirs, ours)))
            if wrong and why is None:
                why = self._oddity(theirs, ours)
        if wrong and why is not None:
            wrong = [*wrong[: _DIFFERENCES_MAX - 1], why]
        if api == ApiKey.BROKER_REGISTRATION:  # C1 judges epochs
            wrong = [each for each in wrong if "broker_epoch is " not in each]
        return wrong

    def _is_of_bare(self, event: Event, asked: bytes, request: Any, answer: _Flat) -> bool:
        """Tell whether a controller answers so that began with a snapshot without the eligible."""
        return any(
            not self._wrong(event, asked, request, answer, Answering(image, self._configs[0]))
            for image in self._bare.images
        )

    def _of_security(self, event: Event, request: Any, answer: Any) -> list[str] | None:
        """Tell what differs from the answer that is due; None: that is not known."""
        written = self._written(event)
        return security_answers.judge(
            security_answers.Asked(
                event["api"], self._image, request, answer, written, self._settings
            )
        )

    def _told_apart(self, event: Event, request: Any) -> str | None:
        """Say what is special about a request, by which a wrong answer to it is told apart."""
        if event.get("held"):
            return f"{event['held']} {UNCOMMITTED}"
        if event["api"] == ApiKey.UPDATE_FEATURES and _switches_off(request):
            return SWITCHED_OFF
        if event["api"] == ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            for wanted, state in self._moved(request):
                if wanted is None and _stays_eligible(state):
                    return STILL_ELIGIBLE
                for broker in set(wanted or ()) & set(state.replicas):
                    if broker in self._image.brokers and self._image.brokers[broker].is_cordoned:
                        return STAYS_CORDONED
        return None

    def _moved(self, request: Any) -> Iterator[tuple[Sequence[int] | None, PartitionState]]:
        """Give the replicas that are asked for, and the state that each partition is in."""
        for topic in request.topics:
            found = self._image.topics.get(topic.name)
            for each in topic.partitions if found is not None else ():
                state = found and found.partitions.get(int(each.partition_index))
                if state:
                    yield each.replicas, state

    def _oddity(
        self, theirs: Iterable[MetadataRecord], ours: Iterable[MetadataRecord]
    ) -> str | None:
        """Tell what C3 judges, if changes of partitions make, keep, or would end that.

        A controller whose partitions are so goes on with that, and ours does not.
        """
        written = {_place(each): each for each in theirs if isinstance(each, PartitionChangeRecord)}
        due = {_place(each): each for each in ours if isinstance(each, PartitionChangeRecord)}
        for topic_id, index in {**written, **due}:
            state = topic_id and self._image.partition(topic_id, index)
            if not topic_id or not state:
                continue
            changes = [each.get((topic_id, index)) for each in (written, due)]
            for change in filter(None, changes):
                eligible = {*state.eligible_leaders, *(change.eligible_leader_replicas or ())}
                replicas = state.replicas if change.replicas is None else change.replicas
                if not eligible <= set(replicas):
                    return NO_REPLICAS
            if set(state.adding) & set(state.removing) or _keeps_moving(*changes):
                return BOTH_WAYS
            first = self._image.partition(topic_id, 0)
            uneven = first is not None and len(first.replicas) != len(state.replicas)
            if uneven and only_eligible_differ(*changes):
                return BY_THE_FIRST
        return None

    def _written(self, event: Event) -> list[MetadataRecord]:
        """Give the records that came with an answer."""
        end = event["off"] + event["n"]
        self._read(end)
        return [record for offset, _, record in self._records if offset < end]

    def _fold(self, offset: int) -> None:
        """Apply all below an offset that is committed."""
        if self._snapshot is not None:
            known, self._snapshot = self._snapshot, None
            self._image = image_of_records(
                [from_json({"version": 0, **record}) for record in known.records], known.end
            )
        self._read(offset)
        while self._records and self._records[0][0] < offset:
            at, self._epoch, record = self._records.popleft()
            for each, place in self._gate.feed(record, at):
                apply_record(self._image, each, place)
                self._bare.apply(each, place, self._image)
        self._at = max(self._at, offset)

    def _read(self, end: int) -> None:
        """Decode the records below an offset."""
        batches = self._batches
        while batches and batches[0].base < end:
            batch = batches.popleft()
            for place, record in enumerate(batch.records):
                at = record.get("offset", batch.base + place)
                self._records.append((at, batch.epoch, from_json({"version": 0, **record})))


def flat(value: object, path: str = "", unjudged: frozenset[str] = UNJUDGED) -> dict[str, object]:
    """Give the leaves of a response, or of records, by their paths; what nobody judges is left out.

    Lists are sets here: who answers may sort as they like.
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = {each.name: getattr(value, each.name) for each in fields(value)}
    elif isinstance(value, msgspec.Struct):
        named = {"is": type(value).__name__, **msgspec.structs.asdict(value)}
    elif isinstance(value, list | tuple):
        parts = [flat(each, unjudged=unjudged) for each in value]
        parts.sort(key=lambda part: repr(sorted(part.items())))
        return {
            f"{path}[{place}]{name}": leaf
            for place, part in enumerate(parts)
            for name, leaf in part.items()
        }
    else:
        return {path: int(value) if isinstance(value, int) else value}
    is_refused = named.get("error_code", ApiError.NONE) != ApiError.NONE
    return {
        name: leaf
        for field, part in named.items()
        if field not in unjudged and not (is_refused and field in UNJUDGED_IF_REFUSED)
        for name, leaf in flat(part, f"{path}.{field}", unjudged).items()
    }


def _left_by_refusal(event: Event, answer: _Flat) -> list[str]:
    """Tell what a refusal changed all the same, beside the metadata."""
    before = event.get("kraft")
    after = event.get("kraft_after", before)
    if before != after and any(error != ApiError.NONE for error in errors_of(answer)):
        return [f"it was refused, and kraft.version, which was {before}, is {after}"]
    return []


def _topic_of(record: MetadataRecord) -> str | None:
    """Give the topic that a record names, which makes it or its settings."""
    if isinstance(record, ConfigRecord):
        return record.resource_name if record.resource_type == TOPIC else None
    return record.name if isinstance(record, TopicRecord) else None


def errors_of(answer: _Flat) -> list[object]:
    """Give the error codes in an answer."""
    return [leaf for path, leaf in answer.items() if path.endswith(".error_code")]


def _place(change: PartitionChangeRecord) -> tuple[UUID | None, int]:
    return change.topic_id, change.partition_id


def _keeps_moving(written: PartitionChangeRecord | None, due: PartitionChangeRecord | None) -> bool:
    """Tell whether replicas stay added or removed who are not any more."""
    return due is not None and any(
        getattr(due, name) is not None and (written is None or getattr(written, name) is None)
        for name in ("adding_replicas", "removing_replicas")
    )


def only_eligible_differ(
    written: PartitionChangeRecord | None, due: PartitionChangeRecord | None
) -> bool:
    """Tell whether two changes of a partition are the same but for who is eligible."""
    if written is None or due is None:
        return False
    wrong = differences(*(flat(each, unjudged=OF_RECORDS) for each in (written, due)))
    return all(each.startswith("eligible_leader_replicas") for each in wrong)


def _stays_eligible(state: PartitionState) -> bool:
    """Tell whether giving up a reassignment leaves nobody in sync, and somebody eligible."""
    stays = set(state.replicas) - set(state.adding)
    return not stays & set(state.isr) and bool(stays & set(state.eligible_leaders))


def _switches_off(request: Any) -> bool:
    """Tell whether eligible leaders are to be switched off."""
    return any(
        update.feature == ELR_VERSION and update.max_version_level == 0
        for update in request.feature_updates
    )


def _is_for_brokers(answer: _Flat, due: _Flat) -> bool:
    """Tell whether values are refused here that Kafka's controllers leave to brokers to judge."""
    kinds = {leaf for path, leaf in answer.items() if path.endswith(".resource_type")}
    return kinds == {BROKER} and ApiError.INVALID_CONFIG in errors_of(due)


def _whole(answer: _Flat) -> dict[str, object]:
    """Give the one error of an answer of which all is refused, or nothing."""
    return {".error_code": next(filter(None, errors_of(answer)), 0)}


def differences(answer: _Flat, due: _Flat) -> list[str]:
    """Tell where an answer is not what is due, in its own order."""
    return [
        f"{path.lstrip('.')} is {answer.get(path)}, where {due.get(path)} is due"
        for path in dict.fromkeys([*answer, *due])
        if answer.get(path) != due.get(path)
    ]


def told(request: object) -> str:
    """Tell a request in one line."""
    return ", ".join(
        f"{path.lstrip('.')}={leaf}"
        for path, leaf in flat(request, unjudged=UNTOLD).items()
        if leaf not in (None, "")
    )
