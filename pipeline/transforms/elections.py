"""S1 to S4 and S26: leaders, votes and epochs."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from pipeline.transforms.base import Tables, Wrong, transform


@transform("S1")
def election_safety(tables: Tables) -> Sequence[Wrong]:
    """In each epoch at most one replica leads, and all who name a leader name the same."""
    won = tables.events.where("type = 'elected' or (type = 'role' and role = 'leader')").selectExpr(
        "run_id", "epoch as of_epoch", "node", "dir", "ord", "time_ns"
    )
    wrote = tables.lives.where("opens").selectExpr(
        "run_id", "batch_epoch as of_epoch", "node", "dir", "ord", "time_ns"
    )
    leads = won.unionByName(wrote)
    named = tables.events.where(
        "type in ('start', 'qs', 'role') and leader is not null"
        " and not (type = 'role' and role = 'leader')"
    ).selectExpr(
        "run_id",
        "if(type = 'start', disk_epoch, epoch) as of_epoch",
        "concat('n', leader) as who",
        "ord",
        "time_ns",
        "'named' as how",
    )
    who = "stack(2, 'leads', concat('n', node, ' (dir ', dir, ')'), 'named', concat('n', node))"
    claims = leads.selectExpr("run_id", "of_epoch", "ord", "time_ns", f"{who} as (how, who)")
    two = (
        claims.unionByName(named)
        .where("of_epoch is not null")
        .groupBy("run_id", "how", "of_epoch", "who")
        .agg(F.min("ord").alias("ord"), F.min_by("time_ns", "ord").alias("time_ns"))
        .groupBy("run_id", "how", "of_epoch")
        .agg(F.sort_array(F.collect_list(F.struct("ord", "time_ns", "who"))).alias("firsts"))
        .where("size(firsts) > 1")
        .withColumn("time_ns", F.expr("firsts[1].time_ns"))
    )
    says = "concat('epoch ', of_epoch, ' has two leaders: ', firsts[0].who, ' and ', firsts[1].who)"
    return [Wrong(two, says)]


@transform("S2")
def one_vote(tables: Tables) -> Sequence[Wrong]:
    """In each epoch a replica votes for one candidate only, over all its incarnations."""
    whom = "case type when 'vote' then candidate when 'role' then node else voted end"
    whose = "case type when 'vote' then candidate_dir when 'role' then dir else voted_dir end"
    return [
        Wrong(
            tables.events,
            "concat('n', node, ' voted twice in epoch ', if(type = 'start', disk_epoch, epoch),"
            f" ': for n', first_whom, ' and for n', {whom})",
            f"first_whom != {whom} or first_whose != {whose}",
        )
    ]


@transform("S3")
def vote_durability(tables: Tables) -> Sequence[Wrong]:
    """A vote is on disk before anyone hears of it, and neither a restart nor a write takes it back.

    ``quorum_*`` is what quorum-state said just before the event, as far as the trace tells.
    """
    given = "quorum_voted <=> candidate and coalesce(quorum_voted_dir = candidate_dir, true)"
    own = "quorum_voted <=> node and coalesce(quorum_voted_dir = dir, true)"
    kept = "voted <=> quorum_voted and coalesce(voted_dir = quorum_voted_dir, true)"
    return [
        Wrong(
            tables.events,
            "concat('n', node, if(type = 'votereq', ' asked for votes',"
            " concat(' voted for n', candidate)), ' in epoch ', epoch,"
            " ' before that vote was on its disk')",
            "known and not pre and (type = 'votereq' or (type = 'vote' and ok)) and not"
            f" coalesce(quorum_epoch = epoch and if(type = 'votereq', {own}, {given}), false)",
        ),
        Wrong(
            tables.events,
            "concat('n', node, ' forgot at a restart that it had been in epoch ', quorum_epoch,"
            " ' with its vote and leader, and started from epoch ', disk_epoch)",
            "type = 'start' and (disk_epoch < quorum_epoch or (disk_epoch = quorum_epoch and ("
            f" (quorum_voted is not null and not ({kept}))"
            " or (quorum_leader is not null and not leader <=> quorum_leader))))",
        ),
        Wrong(
            tables.events,
            "concat('n', node, ' forgot in epoch ', epoch, ' that it had voted for n',"
            " quorum_voted)",
            "known and type = 'qs' and quorum_voted is not null and quorum_epoch = epoch"
            " and voted is null and coalesce(leader, -1) != quorum_voted",
        ),
    ]


@transform("S4")
def monotonic_epoch(tables: Tables) -> Sequence[Wrong]:
    """A replica's epoch never falls, nor do the epochs of the batches in its log."""
    return [
        Wrong(
            tables.events,
            "concat('the epoch of n', node, ' fell from ', epoch_before, ' to ', epoch)",
            "epoch < epoch_before",
        ),
        Wrong(
            tables.lives,
            "concat('n', node, ' is in epoch ', epoch, ' and appended a batch of epoch ',"
            " batch_epoch)",
            "batch_epoch > epoch",
        ),
        Wrong(
            tables.lives,
            "concat('n', node, ' appended a batch of epoch ', batch_epoch, ' behind one of epoch ',"
            " tail_epoch)",
            "known and tail_base < base and tail_epoch > batch_epoch",
        ),
        Wrong(
            tables.finals,
            "concat('the final log of ', node, ' has epoch ', batch_epoch, ' behind epoch ',"
            " tail_epoch)",
            "tail_epoch > batch_epoch",
        ),
    ]


@transform("S26", rest="that a reign is on disk before its first record")
def no_resumed_reign(tables: Tables) -> Sequence[Wrong]:
    """Tell who starts as the leader that it was before writes nothing in that epoch any more."""
    says = "concat('n', node, ' leads epoch ', {}, ' again after it was restarted as its leader')"
    return [
        Wrong(tables.events, says.format("epoch"), "resumed"),
        Wrong(tables.lives, says.format("batch_epoch"), "resumed"),
    ]
