"""S1 to S4 and S26: leaders, votes and epochs."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from checkers.invariants.trace import VOTE_LOST
from pipeline.transforms.base import Tables, told, transform
from pipeline.transforms.base import together as union
from pipeline.transforms.windows import REPLICA, SMALL, before, newest, so_far

# A disk that was made to forget: what was known of its vote and epoch does not count any more.
_LOST = f"type = 'disk' and damage in ({', '.join(map(repr, sorted(VOTE_LOST)))})"


def _lives(events: DataFrame) -> DataFrame:
    """Number the lives of each replica's vote: another one begins when its disk forgets."""
    lost = F.expr(f"count_if({_LOST})")
    return events.withColumn("life", lost.over(so_far()))


@transform("S1")
def election_safety(tables: Tables) -> DataFrame:
    """In each epoch at most one replica leads, and all who name a leader name the same."""
    leads = (
        tables.events.where(
            "type = 'elected' or (type = 'role' and role = 'leader')"
            " or (type = 'append' and source = 'leader')"
        )
        .withColumn("of_epoch", F.expr("if(type = 'append', batch_epoch, epoch)"))
        .groupBy(*REPLICA, "node", "dir", "of_epoch")
        .agg(F.min_by("time_ns", "ord").alias("time_ns"), F.min("ord").alias("ord"))
        .selectExpr(
            "run_id",
            "of_epoch",
            "concat('n', node, ' (dir ', dir, ')') as who",
            "concat('n', node) as name",
            "ord",
            "time_ns",
        )
    )
    names = tables.events.where(
        "type in ('start', 'qs', 'role') and leader is not null"
        " and not (type = 'role' and role = 'leader')"
    ).selectExpr(
        "run_id",
        "if(type = 'start', disk_epoch, epoch) as of_epoch",
        "concat('n', leader) as who",
        "ord",
        "time_ns",
    )
    named = leads.withColumn("who", F.col("name")).drop("name").unionByName(names)
    claims = union(
        [
            leads.drop("name").withColumn("how", F.lit("leads")),
            named.withColumn("how", F.lit("named")),
        ]
    )
    two = (
        claims.where("of_epoch is not null")
        .groupBy("run_id", "how", "of_epoch", "who")
        .agg(F.expr("min(struct(ord, time_ns, who))").alias("first"))
        .groupBy("run_id", "how", "of_epoch")
        .agg(F.sort_array(F.collect_list("first")).alias("firsts"))
        .where("size(firsts) > 1")
        .withColumn("time_ns", F.expr("firsts[1].time_ns"))
    )
    return told(
        two,
        "concat('epoch ', of_epoch, ' has two leaders: ', firsts[0].who, ' and ', firsts[1].who)",
    )


@transform("S2")
def one_vote(tables: Tables) -> DataFrame:
    """In each epoch a replica votes for one candidate only, over all its incarnations."""
    votes = (
        _lives(tables.of("start", "disk", "vote", "qs", "role"))
        .where(
            "(type = 'vote' and not pre and ok) or (type = 'role' and role = 'candidate')"
            " or (type in ('start', 'qs') and voted is not null)"
        )
        .withColumns(
            {
                "of_epoch": F.expr("if(type = 'start', disk_epoch, epoch)"),
                "whom": F.expr(
                    "case type when 'vote' then candidate when 'role' then node else voted end"
                ),
                "whose": F.expr(
                    "case type when 'vote' then candidate_dir when 'role' then dir"
                    " else voted_dir end"
                ),
            }
        )
        .where("of_epoch is not null")
    )
    first = so_far(*REPLICA, "life", "of_epoch")
    second = votes.withColumns(
        {"first_whom": F.first("whom").over(first), "first_whose": F.first("whose").over(first)}
    ).where("whom != first_whom or whose != first_whose")
    once = second.dropDuplicates([*REPLICA, "of_epoch", "whom", "whose"])
    return told(
        once,
        "concat('n', node, ' voted twice in epoch ', of_epoch, ': for n', first_whom,"
        " ' and for n', whom)",
    )


@transform("S3")
def vote_durability(tables: Tables) -> DataFrame:
    """A vote is on disk before anyone hears of it, and neither a restart nor a write takes it back.

    ``disk_*`` is what quorum-state said just before the event, as far as the trace tells.
    """
    events = _lives(tables.of("start", "disk", "qs", "vote", "votereq"))
    written = F.expr(
        "if(type in ('start', 'qs') and if(type = 'start', disk_epoch, epoch) is not null,"
        " struct(if(type = 'start', disk_epoch, epoch) as epoch, leader, voted, voted_dir), null)"
    )
    known = events.withColumn("disk", newest(written, before(*REPLICA, "era", "life")))
    asked = known.where(
        "known and ((type = 'votereq' and not pre) or (type = 'vote' and not pre and ok))"
    ).withColumns(
        {
            "whom": F.expr("if(type = 'votereq', node, candidate)"),
            "whose": F.expr("if(type = 'votereq', dir, candidate_dir)"),
        }
    )
    names = "disk.voted <=> whom and coalesce(disk.voted_dir = whose, true)"
    early = (
        asked.where(f"not coalesce(disk.epoch = epoch and {names}, false)")
        .groupBy(*REPLICA, "node", "inc", "epoch", "type", "whom")
        .agg(F.min("time_ns").alias("time_ns"))
    )
    lost = known.where("type = 'start' and disk is not null and disk_epoch is not null").where(
        "disk_epoch < disk.epoch or (disk_epoch = disk.epoch and ("
        " (disk.voted is not null and not (voted <=> disk.voted"
        "   and coalesce(voted_dir = disk.voted_dir, true)))"
        " or (disk.leader is not null and not leader <=> disk.leader)))"
    )
    back = known.where(
        "known and type = 'qs' and disk.voted is not null and disk.epoch = epoch and voted is null"
    )
    return union(
        [
            told(
                early,
                "concat('n', node, if(type = 'votereq', ' asked for votes',"
                " concat(' voted for n', whom)), ' in epoch ', epoch,"
                " ' before that vote was on its disk')",
            ),
            told(
                lost,
                "concat('n', node, ' forgot at a restart that it had been in epoch ', disk.epoch,"
                " ' with its vote and leader, and started from epoch ', disk_epoch)",
            ),
            told(
                back,
                "concat('n', node, ' forgot in epoch ', epoch, ' that it had voted for n',"
                " disk.voted)",
            ),
        ]
    )


@transform("S4")
def monotonic_epoch(tables: Tables) -> DataFrame:
    """A replica's epoch never falls, nor do the epochs of the batches in its log."""
    states = _lives(tables.of("disk", "qs", "role")).where("type != 'disk'")
    highest = F.max("epoch").over(before(*REPLICA, "life"))
    fell = states.withColumn("highest", highest).where("epoch < highest")
    ahead = tables.of("append").where("batch_epoch > epoch")
    behind = tables.appends.where("known and tail.base < base and tail.batch_epoch > batch_epoch")
    return union(
        [
            told(fell, "concat('the epoch of n', node, ' fell from ', highest, ' to ', epoch)"),
            told(
                ahead,
                "concat('n', node, ' is in epoch ', epoch, ' and appended a batch of epoch ',"
                " batch_epoch)",
            ),
            told(
                behind,
                "concat('n', node, ' appended a batch of epoch ', batch_epoch,"
                " ' behind one of epoch ', tail.batch_epoch)",
            ),
            told(
                tables.final_pairs.where("before.batch_epoch > batch_epoch"),
                "concat('the final log of ', node, ' has epoch ', batch_epoch, ' behind epoch ',"
                " before.batch_epoch)",
            ),
        ]
    )


@transform("S26")
def no_resumed_reign(tables: Tables) -> DataFrame:
    """Who starts as the leader that it was before writes nothing in that epoch any more."""
    over = tables.of("start").where("leader = node and disk_epoch is not null")
    ends = over.groupBy(*REPLICA, F.col("disk_epoch").alias("of_epoch")).agg(
        F.min("ord").alias("ended")
    )
    goes_on = (
        tables.events.where("type = 'elected' or (type = 'append' and source = 'leader')")
        .withColumn("of_epoch", F.expr("if(type = 'elected', epoch, batch_epoch)"))
        .join(ends.hint(SMALL), [*REPLICA, "of_epoch"])
        .where("ord > ended")
        .groupBy(*REPLICA, "node", "of_epoch")
        .agg(F.min("time_ns").alias("time_ns"))
    )
    return told(
        goes_on,
        "concat('n', node, ' leads epoch ', of_epoch, ' again after it was restarted as its"
        " leader')",
    )
