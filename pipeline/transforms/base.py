"""The base of transforms: the registry, and the tables that they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.schemas import BATCH, TAIL

READ: Final = ("events", "lives", "batches")  # the tables that they are given
REPLICA: Final = ("run_id", "replica")
SMALL: Final = "shuffle_hash"  # a hint: this side of a join is looked up, nothing is sorted
IS_BATCH: Final = "concat('offsets ', base, '-', last, ' of epoch ', batch_epoch)"


class Wrong(NamedTuple):
    """Rows that break an invariant: those for which ``where`` holds, each as it ``says``.

    Both are SQL. The rows have ``run_id`` and ``time_ns``. Of equal sentences of a run the first
    is told.
    """

    rows: DataFrame
    says: str
    where: str = "true"


@dataclass(frozen=True, slots=True)
class Transformed:
    """An invariant that is judged by a transform.

    ``whole``: the transform judges all of it. Otherwise ``rest`` says what is left to the checker
    of single runs, and both are heard.
    """

    name: str
    says: str
    judge: Callable[[Tables], Sequence[Wrong]]
    rest: str | None = None

    @property
    def whole(self) -> bool:
        """Tell whether nothing is left to the checker of single runs."""
        return self.rest is None


TRANSFORMS: dict[str, Transformed] = {}
_Judge = Callable[["Tables"], Sequence[Wrong]]


def transform(name: str, *, rest: str | None = None) -> Callable[[_Judge], _Judge]:
    """Register a function that judges the invariant of that name."""

    def add(function: _Judge) -> _Judge:
        says = (function.__doc__ or "").splitlines()[0]
        TRANSFORMS[name] = Transformed(name, says, function, rest)
        return function

    return add


class Tables:
    """The input of transforms: buckets in which all rows of a run are together; nothing is moved.

    ``events`` and ``lives`` as they are, ``finals`` of the final logs. ``keep`` writes what many
    read.
    """

    def __init__(
        self,
        events: DataFrame,
        lives: DataFrame,
        batches: DataFrame,
        keep: Callable[[DataFrame], DataFrame],
    ) -> None:
        self.events = events
        self.lives = lives
        self.finals = batches.where("final").withColumn("time_ns", F.lit(None).cast("long"))
        self._keep = keep

    @cached_property
    def contents(self) -> DataFrame:
        """Every batch that any log of a run ever held, kept.

        ``time_ns``: when first; null: only a final log has it. ``committed``: when a replica first
        took it for that, in ``committed_in``, at ``committed_ns``; null: none did. ``covered``: it
        is in a final log below the high watermark of that node. ``tails``: how many batches are
        before it in the logs, the last one from ``tails_ns`` on.
        """
        before = "known and tail_last + 1 = base"
        held = self.lives.selectExpr(
            *("run_id", "time_ns", "committed", "committed_in", "committed_ns", "false as covered"),
            *BATCH,
            *(f"if({before}, {column}, null) as {column}" for column in TAIL),
        )
        final = self.finals.select("run_id", "covered", *BATCH, *TAIL)
        folded: Mapping[str, str] = {
            "time_ns": "min(time_ns)",
            # of numbers, which are aggregated by hash; the least struct would be found by a sort
            "committed_in": "min_by(committed_in, committed)",
            "committed": "min(committed)",
            "committed_ns": "min(committed_ns)",
            "covered": "bool_or(covered)",
        }
        by_tail = _folded(
            held.unionByName(final, allowMissingColumns=True), ("run_id", *BATCH, *TAIL), folded
        )
        tails = {
            "tails": "count(tail_base)",
            "tails_ns": "max(if(tail_base is null, null, time_ns))",
        }
        return self._keep(_folded(by_tail, ("run_id", *BATCH), {**folded, **tails}))


def _folded(rows: DataFrame, by: Iterable[str], folds: Mapping[str, str]) -> DataFrame:
    return rows.groupBy(*by).agg(*(F.expr(sql).alias(name) for name, sql in folds.items()))


def before(*by: str, order: Sequence[str]) -> WindowSpec:
    """Make a window from the first row of a group to the row before the present one."""
    return Window.partitionBy(*by).orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)


def judge_all(tables: Tables) -> DataFrame:
    """All that any transform finds: (run_id, invariant, message, time_ns).

    What several look for in the same rows is found in one pass.
    """
    by_rows: dict[int, list[tuple[str, Wrong]]] = {}
    for name, each in sorted(TRANSFORMS.items()):
        for wrong in each.judge(tables):
            by_rows.setdefault(id(wrong.rows), []).append((name, wrong))
    found = reduce(DataFrame.unionByName, map(_in_one_pass, by_rows.values()))
    return found.groupBy("run_id", "invariant", "message").agg(F.min("time_ns").alias("time_ns"))


def _in_one_pass(wrongs: Sequence[tuple[str, Wrong]]) -> DataFrame:
    """(run_id, invariant, message, time_ns) for what is wrong with the same rows."""
    rows = wrongs[0][1].rows
    sentences = ", ".join(
        f"if({wrong.where}, struct('{name}' as invariant, {wrong.says} as message), null)"
        for name, wrong in wrongs
    )
    any_ = " or ".join(f"({wrong.where})" for _, wrong in wrongs)
    told = rows.where(any_).selectExpr("run_id", "time_ns", f"explode(array({sentences})) as told")
    return told.where("told is not null").selectExpr(
        "run_id", "told.invariant", "told.message", "time_ns"
    )
