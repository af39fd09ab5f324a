"""``krucible analyze``: all runs of a store that are new, in Spark, from folders to a summary.

Listing, reading, judging and adding up all happen in executors; to the driver come totals, and the
most frequent signatures. The stages of one batch:

1. list the runs; those that the manifest knows, and those being written, are left out;
2. read and judge each run as a whole and key by key, and write its rows (``ingest``);
3. judge big keys, one by one (``keyed``), and all events by transforms (``transforms``);
4. put the verdicts together and compare them with results.json (``verdicts``);
5. write the manifest: only now the batch counts;
6. when many small batches have come together, make one of them (``merging``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from harness.errors import UsageError
from harness.store.folder import write_json
from harness.store.signatures import CHANGES, MESSAGE_MAX
from pipeline.buckets import BY, Buckets
from pipeline.ingest import DONE, ingest
from pipeline.judging import CONSENSUS
from pipeline.keyed import JUDGED_KEYS, SPREAD_OPS, judge_group
from pipeline.layout import Layout
from pipeline.listing import is_little, listing, shares
from pipeline.merging import Sizes, due, merge
from pipeline.schemas import KEYS, LISTING, TABLES, spark_schema
from pipeline.spark import for_little
from pipeline.summary import readings, summarise
from pipeline.transforms import READ, REPLACED, Tables, judge_all
from pipeline.transforms.base import SMALL
from pipeline.verdicts import verdicts_of

TABLES_FOLDER = ".analysis"  # in the store, when no other place is named
QUIET_S = 600.0  # a run without results.json that was not written to for so long is at its end
TASK_BYTES = 128 << 20  # of run folders: some ten seconds of work
LITTLE_TASK_BYTES = 16 << 20
TASKS_MAX = 20_000
TASK_OPS = 100_000
LITTLE_EVENTS = 2_000_000
SHARES_PER_TASK = 4  # of the listing, when it is compared with the manifest: 8,000 runs

Say = Callable[[str], None]  # is told what the pipeline does now


@dataclass(frozen=True, slots=True)
class Options:
    """The source of an analysis, and the place of its tables."""

    store: Path
    out: Path
    top: int = 20  # signatures in the summary
    quiet_s: float = QUIET_S
    spread_ops: int = SPREAD_OPS
    sizes: Sizes = field(default_factory=Sizes)  # of batches that are merged

    @property
    def is_little(self) -> bool:
        """Tell whether it seems that little is new: worth a look, for it is cheap to be wrong."""
        return is_little(self.store, Layout(self.out).since_ns)


def analyse(spark: SparkSession, options: Options, say: Say = lambda _: None) -> dict[str, Any]:
    """Analyse what is new in a store; gives the summary of all that was ever analysed.

    Raises:
        UsageError: No such store, or tables that cannot be written.
    """
    if not options.store.is_dir():
        raise UsageError(
            f"{options.store}: no such folder; name one with runs, as run --store does"
        )
    layout = Layout(options.out)
    with layout.locked() as now_ns:
        batch = layout.begin()
        job = _Batch(spark, options, layout, batch, now_ns, say)
        told = job.analyse()
        summary = summarise(spark, layout, options.top) | told
        write_json(layout.summary, summary)
        small = due(layout, options.sizes)
        if small:
            say(f"make one batch of {len(small)} small ones")
            merge(spark, layout, small, options.sizes)
        return summary


class _Batch:
    """The analysis of the runs that are new."""

    def __init__(
        self,
        spark: SparkSession,
        options: Options,
        layout: Layout,
        batch: int,
        now_ns: int,
        say: Say,
    ) -> None:
        self._spark = spark
        self._options = options
        self._layout = layout
        self._batch = batch
        self._now_ns = now_ns
        self._say = say
        self._buckets = 1
        self._parts = 1  # of what has a row for each run of the store

    def analyse(self) -> dict[str, Any]:
        """List, read, judge, and let the batch count; gives what was done, in figures."""
        self._say("list the runs")
        for_little(self._spark)  # a row a run
        listed = self._listed().persist()
        try:
            new = listed.where("not pending")
            count, size, pending = self._sizes(listed)
            done = dict.fromkeys(DONE.names, 0)
            if count:
                done = self._read(new, size)
                self._suit(done["events"])
                self._judge(done["spread"])
                self._commit(new)
        finally:
            listed.unpersist()
        del done["spread"]
        return {
            "new": {**done, "batch": self._batch if count else None},
            "pending": pending,
        }

    def _listed(self) -> DataFrame:
        """Runs that are not in the manifest as they are now; ``pending`` ones are being written."""
        store = self._options.store.absolute()
        of = shares(store)
        self._parts = max(1, len(of) // SHARES_PER_TASK)
        self._spread(self._parts)

        numbers = self._spark.range(0, len(of), numPartitions=max(1, len(of)))
        found = numbers.mapInArrow(listing(store, of), spark_schema(LISTING))
        batches = self._layout.batches()
        if batches:
            known = readings(self._spark, self._layout, batches).select("run", "fingerprint")
            found = found.join(known.hint(SMALL), ["run", "fingerprint"], "left_anti")
        fresh = F.lit(self._now_ns / 1e9) - F.col("newest_s") < self._options.quiet_s
        return found.withColumn("pending", ~F.col("judged") & fresh)

    @staticmethod
    def _sizes(listed: DataFrame) -> tuple[int, int, int]:
        """Tell how many runs are new, how many bytes those have, and how many are pending."""
        row = listed.agg(
            F.expr("count_if(not pending)").alias("count"),
            F.expr("coalesce(sum(if(pending, 0, size_bytes)), 0)").alias("size"),
            F.expr("count_if(pending)").alias("pending"),
        ).first()
        assert row is not None, "an aggregate has a row"  # noqa: S101
        return row["count"], row["size"], row["pending"]

    def _read(self, new: DataFrame, size: int) -> dict[str, int]:
        """Read and judge each run as a whole; a task's runs become one bucket of each table."""
        self._say("read and judge the runs")
        at_once = self._spark.sparkContext.defaultParallelism
        # a little more than can be done at once, where that is worth it: runs are not alike
        little = max(at_once, min(2 * at_once, size // LITTLE_TASK_BYTES))
        self._buckets = int(min(TASKS_MAX, max(little, size // TASK_BYTES)))
        work = ingest(
            self._options.store.absolute(),
            self._options.out.absolute(),
            self._batch,
            REPLACED,
            self._options.spread_ops,
        )
        told = (
            new.select(*LISTING.names)
            .repartition(self._buckets, BY)
            .sortWithinPartitions(BY)
            .mapInArrow(work, spark_schema(DONE))
            .agg(*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in DONE.names))
            .first()
        )
        assert told is not None, "an aggregate has a row"  # noqa: S101
        return dict(told.asDict())

    def _suit(self, events: int) -> None:
        """Give what is moved nevertheless at least as many tasks as there are buckets."""
        self._spread(max(self._buckets, self._parts))
        for_little(self._spark, little=events < LITTLE_EVENTS)

    def _spread(self, tasks: int) -> None:
        """Into how many parts what is moved goes."""
        least = self._spark.sparkContext.defaultParallelism
        self._spark.conf.set("spark.sql.shuffle.partitions", str(max(tasks, least)))

    def _judge(self, spread: int) -> None:
        if spread:
            self._say("judge big keys")
            self._keys(spread)
        self._say("judge events by transforms")
        buckets = Buckets(self._spark, self._layout.scratch, self._buckets)
        try:
            self._transform(buckets)
        finally:
            buckets.close()
        self._spread(self._parts)
        self._say("compare with what was judged before")
        verdicts = verdicts_of(self._new("runs"), self._new("keys"), self._new("anomalies"))
        self._write("verdicts", verdicts)

    def _transform(self, buckets: Buckets) -> None:
        """Judge events by all transforms, side by side."""
        events, lives, batches = (self._bucketed(buckets, each) for each in READ)
        names = self._new("runs").select("run", "run_id")
        judged = (
            judge_all(Tables(events, lives, batches, buckets.keep))
            .join(names, "run_id")
            .selectExpr("*", f"'{CONSENSUS}' as checker", "'transform' as by")
            .withColumn("signature", _signature())
        )
        self._write("anomalies", judged, mode="append")

    def _keys(self, ops: int) -> None:
        """Judge each of the big keys by itself; ``ops`` is how many these have."""
        tasks = max(self._spark.sparkContext.defaultParallelism, ops // TASK_OPS)
        judged = (
            self._new("keyed_ops")
            .repartition(int(tasks), "run", "checker", "key")
            .groupBy("run", "checker", "key")
            .applyInArrow(judge_group, spark_schema(JUDGED_KEYS))
            .persist()
        )
        try:
            self._write("keys", judged.select(*KEYS.names), "append")
            self._write(
                "anomalies",
                judged.select(F.explode("anomalies").alias("a")).select("a.*"),
                "append",
            )
        finally:
            judged.unpersist()

    def _commit(self, new: DataFrame) -> None:
        self._say("write the manifest")
        rows_ = new.select("run", "fingerprint", F.lit(self._batch).cast("long").alias("batch"))
        rows_.coalesce(1).write.mode("overwrite").parquet(str(self._layout.draft.absolute()))
        self._layout.commit(self._batch, self._now_ns)

    def _new(self, table: str) -> DataFrame:
        """Tell what this batch has of a table."""
        path = self._layout.table(table, self._batch).absolute()
        path.mkdir(parents=True, exist_ok=True)
        return self._spark.read.schema(spark_schema(TABLES[table])).parquet(str(path))

    def _bucketed(self, buckets: Buckets, table: str) -> DataFrame:
        """Read a table by buckets that was written where the runs were read, a bucket a task."""
        path = self._layout.table(table, self._batch)
        return buckets.at(path, spark_schema(TABLES[table]))

    def _write(self, table: str, found: DataFrame, mode: str = "overwrite") -> None:
        """Write rows of a table; columns that ``found`` lacks are null."""
        schema = spark_schema(TABLES[table])
        have = set(found.columns)
        columns = [
            (F.col(f.name) if f.name in have else F.lit(None)).cast(f.dataType).alias(f.name)
            for f in schema
        ]
        path = self._layout.table(table, self._batch).absolute()
        found.select(*columns).write.mode(mode).parquet(str(path))


def _signature() -> Column:
    """The signature of an anomaly, as ``harness.store.signatures`` says it."""
    plain = F.col("message")
    for pattern, text in CHANGES:
        plain = F.regexp_replace(plain, pattern, text)
    return F.concat(F.col("invariant"), F.lit(": "), F.substring(plain, 1, MESSAGE_MAX))
