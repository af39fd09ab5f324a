"""Every table of the pipeline: its columns, their types, and their units in their names.

A run is named by its folder below the store (``kraft-register/20260101T000000.000Z-7``). Times
``*_ns`` are nanoseconds on the clock of the run that the column's comment names. Offsets are
Kafka's: 0-based, and an end, a log end or a high watermark is exclusive. ``run_id`` is a hash of
the run's name: what joins and sorts by run compares a number, not a path.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

_STR, _INT, _BOOL, _F64 = pa.string(), pa.int64(), pa.bool_(), pa.float64()
_STRS, _INTS = pa.list_(_STR), pa.list_(_INT)

# What the store holds: one row per run folder, before anything in it is read.
LISTING: Final = pa.schema(
    [
        ("run", _STR),
        ("run_id", _INT),
        ("size_bytes", _INT),
        ("fingerprint", _STR),  # of sizes and times of all that is judged
        ("newest_s", _F64),  # when it was last written to, by the file system's clock
        ("judged", _BOOL),  # there is a results.json
    ]
)

_CHECKED: Final = pa.list_(pa.struct([("checker", _STR), ("valid", _STR), ("reason", _STR)]))

# One row per run that was read; what it comes to is only known when all parts are judged.
RUNS: Final = pa.schema(
    [
        ("run", _STR),
        ("run_id", _INT),
        ("fingerprint", _STR),
        ("size_bytes", _INT),
        ("readable", _BOOL),
        ("problem", _STR),  # why it is not readable
        ("seed", _INT),
        ("started", _STR),  # as its folder says
        ("system", _STR),
        ("env", _STR),
        ("workload", _STR),
        ("mutant", _STR),
        ("nemeses", _STRS),
        ("voters", _INT),
        ("observers", _INT),
        ("events", _INT),
        ("ops", _INT),
        ("lines_bad", _INT),  # cut off, or no JSON objects
        ("warnings", _STRS),
        ("duration_ns", _INT),  # of the history
        ("elections", _INT),
        ("outages", _INT),
        ("unavailable_ms", _F64),
        ("harness_ok", _BOOL),
        ("checked", _CHECKED),  # by the checkers that judge a run as a whole
        ("keyed", _STRS),  # checkers that judge key by key
        ("stored", _STR),  # the verdict on the system in results.json; null: it was not judged
        ("stored_coverage", _STR),
        ("stored_invariants", _STRS),
        ("stored_checked", _CHECKED),
    ]
)

# What the pipeline says of each run, and whether that is what results.json says.
VERDICTS: Final = pa.schema(
    [
        ("run", _STR),
        ("system_verdict", _STR),
        ("coverage_verdict", _STR),
        ("verdict", _STR),  # the one word for both
        ("invariants", _STRS),
        ("detected_ns", _INT),  # when the first anomaly became visible, by the harness's clock
        ("agrees", _BOOL),  # null: there is nothing to compare with
        ("differences", _STRS),  # in the verdict
        ("details", _STRS),  # in what single checkers say, and which invariants are broken
    ]
)

# A history, op by op.
OPS: Final = pa.schema(
    [
        ("run", _STR),
        ("run_id", _INT),
        ("index", _INT),
        ("time_ns", _INT),  # the harness's monotonic clock
        ("process", _STR),
        ("is_process_int", _BOOL),
        ("type", _STR),
        ("f", _STR),
        ("key", _STR),
        ("value", _STR),  # JSON
        ("error", _STR),
        ("node", _STR),
        ("latency_ns", _INT),  # of a completion: since its invocation
    ]
)

# The ops that are judged key by key, as their checker wants them: ``place`` is their order.
KEYED_OPS: Final = pa.schema([("checker", _STR), ("place", _INT), *OPS])

# What the nodes told, one row an event, but for appends, which are LIVES. Only events that some
# transform reads are kept, and of these the fields that one reads: the rest is judged where it is
# read, and nearly three quarters of all events.
_EVENT_COMMON: Final = [
    ("run", _STR),
    ("run_id", _INT),
    ("replica", _INT),  # a number within the run for its node and dir
    ("node", _INT),
    ("dir", _STR),  # the directory id of its disk
    ("ord", _INT),  # place in the one order of all events of the run
    ("epoch", _INT),
    ("time_ns", _INT),  # the harness's clock, on arrival
    ("known", _BOOL),  # its incarnation is told of from a start on, and nothing is missing
]
# What a replica was, and had, just before the event, as ``pipeline.replicas`` finds it.
_BEFORE: Final = [
    ("end_before", _INT),  # the end of its log
    ("leads_before", _INT),  # the epoch that its incarnation leads
    ("began", _INT),  # where the event's epoch begins, if the replica won that
    ("resumed", _BOOL),  # it has started as the leader of the event's epoch before
]
# A batch, and the one before it, which was the last one of that log.
BATCH: Final = ("base", "last", "batch_epoch", "crc")
TAIL: Final = ("tail_base", "tail_last", "tail_epoch", "tail_crc")

EVENTS: Final = pa.schema(
    [
        *_EVENT_COMMON,
        ("inc", _INT),  # incarnation
        ("type", _STR),
        *_BEFORE,
        ("start_before", _INT),  # where its log begins
        ("flushed_before", _INT),  # how much of its log is on disk
        ("hwm_before", _INT),  # the highest that its incarnation exposed
        ("epoch_before", _INT),  # its highest, since its disk was last made to forget
        ("quorum_epoch", _INT),  # what its quorum-state said
        ("quorum_leader", _INT),
        ("quorum_voted", _INT),
        ("quorum_voted_dir", _STR),
        ("first_whom", _INT),  # its first vote in the event's epoch
        ("first_whose", _STR),
        ("held_epoch", _INT),  # of the batch that it has below the first mark of its reign
        ("active", _BOOL),  # its controller was
        ("disk_epoch", _INT),  # of a start: the epoch in its quorum-state
        ("leader", _INT),
        ("voted", _INT),
        ("voted_dir", _STR),
        ("role", _STR),
        ("pre", _BOOL),
        ("ok", _BOOL),
        ("candidate", _INT),
        ("candidate_dir", _STR),
        ("truncated_to", _INT),
        ("high_watermark", _INT),
        ("exposed_as", _STR),
        ("offset", _INT),
        ("acknowledged_at", _INT),
        ("api", _STR),
        ("applied", _INT),
        ("log_end", _INT),
        ("snapshot_end", _INT),
    ]
)
# column -> (the event's field, the types of events that have it)
EVENT_FIELDS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "leader": ("leader", ("qs", "role")),
    "voted": ("voted", ("qs",)),
    "voted_dir": ("voted_dir", ("qs",)),
    "role": ("to", ("role",)),
    "pre": ("pre", ("votereq", "vote")),
    "ok": ("ok", ("vote",)),
    "candidate": ("cand", ("vote",)),
    "candidate_dir": ("cand_dir", ("vote",)),
    "truncated_to": ("to", ("trunc",)),
    "high_watermark": ("v", ("hwm",)),
    "exposed_as": ("as", ("hwm",)),
    "offset": ("off", ("ack",)),
    "acknowledged_at": ("hwm", ("ack",)),
    "api": ("api", ("ack",)),
    "applied": ("applied", ("claim",)),
    "log_end": ("leo", ("start",)),
    "base": ("base", ("append",)),
    "last": ("last", ("append",)),
    "batch_epoch": ("bep", ("append",)),
    "crc": ("h", ("append",)),
    "source": ("src", ("append",)),
    "control": ("ctl", ("append",)),
}

# Batches in the logs of replicas, one row an append: there from ``ord`` on, gone at ``until``.
LIVES: Final = pa.schema(
    [
        *_EVENT_COMMON,
        *_BEFORE,
        ("opens", _BOOL),  # the first that the replica appends as the leader of that epoch
        *((column, _INT) for column in TAIL),
        *((column, _INT) for column in BATCH),
        ("source", _STR),
        ("control", _BOOL),
        ("until", _INT),  # null: never
        ("committed", _INT),  # when the replica took it for committed; null: never
        ("committed_in", _INT),  # its epoch then
        ("committed_ns", _INT),
    ]
)

# The replicated logs that the run left on the disks, one row a batch.
BATCHES: Final = pa.schema(
    [
        ("run", _STR),
        ("run_id", _INT),
        ("node", _STR),
        ("place", _INT),  # from the beginning of that log
        ("final", _BOOL),  # false: the simulation was stopped in the middle of a fault
        *((column, _INT) for column in TAIL),
        *((column, _INT) for column in BATCH),
        ("covered", _BOOL),  # its node has told of a high watermark above it
    ]
)

FAULTS: Final = pa.schema(
    [
        ("run", _STR),
        ("run_id", _INT),
        ("fault", _STR),
        ("nemesis", _STR),
        ("start_ns", _INT),  # the harness's clock: its injection began
        ("end_ns", _INT),  # its heal was done; null: never
        ("outcome", _STR),
        ("evidence", _BOOL),
        ("heal_evidence", _BOOL),
        ("recovery_ms", _F64),  # from the heal until an op that was tried after it was ok
    ]
)

ANOMALIES: Final = pa.schema(
    [
        ("run", _STR),
        ("checker", _STR),
        ("by", _STR),  # run, key or transform: which part of the pipeline found it
        ("invariant", _STR),
        ("message", _STR),
        ("signature", _STR),  # invariant and message without the values that change by run
        ("time_ns", _INT),  # the harness's clock: when it became visible
        ("ops", _INTS),
        ("details", _STR),  # JSON
    ]
)

# How a checker judged one key of one run.
KEYS: Final = pa.schema(
    [
        ("run", _STR),
        ("key", _STR),
        ("checker", _STR),
        ("valid", _STR),  # null: there was nothing to decide
        ("reason", _STR),
        ("ops", _INT),
    ]
)

# How long ops took: a count for each run, f, fault and quarter of a power of two.
LATENCIES: Final = pa.schema(
    [
        ("run", _STR),
        ("f", _STR),
        ("nemesis", _STR),  # that may have been in force; "none" when there was no fault
        ("bucket", _INT),  # floor(4 * log2(latency in microseconds))
        ("count", _INT),
    ]
)

# What is analysed already; written last, and what is not named here does not count.
MANIFEST: Final = pa.schema([("run", _STR), ("fingerprint", _STR), ("batch", _INT)])

TABLES: Final[dict[str, pa.Schema]] = {
    "runs": RUNS,
    "verdicts": VERDICTS,
    "ops": OPS,
    "keyed_ops": KEYED_OPS,
    "events": EVENTS,
    "lives": LIVES,
    "batches": BATCHES,
    "faults": FAULTS,
    "anomalies": ANOMALIES,
    "keys": KEYS,
    "latencies": LATENCIES,
    "manifest": MANIFEST,
}


def spark_schema(schema: pa.Schema) -> StructType:
    """Give the same columns as Spark's types."""
    return from_arrow_schema(schema)
