"""Sentences about the controller (C) and about what must happen in time (L), taken apart."""

from __future__ import annotations

from typing import Final

from reports.defects.rule import N, rule

SERVICE: Final = (
    rule(
        "C1",
        r"broker (?P<broker>\S+) is registered at offset (?P<offset>\d+) with epoch (?P<epoch>\S+),"
        r" before it had (?P<old>[^\s,]+)(, and is the same incarnation)?",
        "Broker {broker} got epoch {epoch} at offset {offset} though it had {old}",
        "The same process keeps broker epoch {old}",
        "Epoch {epoch}",
    ),
    rule(
        "C2",
        r"broker (?P<broker>\S+), (?P<state>[^,]+), leads or is new in sync: partition"
        r" (?P<partition>\S+) after offset (?P<offset>\d+)",
        "Broker {broker}, {state}, leads or came in sync in partition {partition} at"
        " offset {offset}",
        "No broker that is {state} leads or joins the ISR",
    ),
    rule(
        "C5",
        r"the change of partition (?P<partition>\S+) by op (?P<op>\d+) (?P<what>.*)",
        "The change of partition {partition} by op {op} was granted, and is out of date",
        "The change is refused: it goes by something that has changed since",
        "It {what}",
    ),
    rule(
        "C8",
        rf"the image of (?P<node>{N}) at offset (?P<offset>\d+) is (?P<got>\w+), but the committed"
        r" log folds to (?P<want>\w+)",
        "The image of {node} at offset {offset} is not what the log says",
        "The state that the committed log comes to: digest {want}",
        "{node} has a state with digest {got}",
    ),
    rule(
        "C8",
        rf"local read of (?P<key>\S+) at (?P<node>{N}) \(op (?P<op>\d+)\) went back to"
        r" (?P<now>\S+) \(offset (?P<off>\S+)\) after op (?P<by>\d+) had returned (?P<was>\S+)"
        r" \(offset (?P<high>\S+)\)",
        "Local reads of {key} at {node} went back from offset {high} to offset {off} (op {op})",
        "{was} of offset {high}, which op {by} had returned, or something newer",
        "{now}, of offset {off}",
    ),
    rule(
        "C10",
        rf"(?P<node>{N}) published an image of offset (?P<offset>\d+); the high watermark it knew"
        r" was (?P<hwm>.*)",
        "{node} published its image at offset {offset} before it had caught up",
        "{node} publishes nothing before it has reached the high watermark it was told",
        "It knew high watermark {hwm}",
    ),
    rule(
        "C11",
        r"producer ids (?P<low>\d+) to (?P<high>\d+) were given away twice, by ops (?P<a>\d+) and"
        r" (?P<b>\d+)",
        "Producer ids {low} to {high} were given away twice, to ops {a} and {b}",
        "Each block of producer ids goes to one broker, once",
    ),
    rule(
        "C12",
        r"broker (?P<broker>\S+) \(op (?P<op>\d+)\) was silent after that, and not fenced for"
        r" (?P<for>\S+) s in which a controller worked; its session is (?P<session>\S+) s",
        "Broker {broker} was silent for {for} s (after op {op}) and not fenced",
        "It is fenced after a session of {session} s",
        "Not fenced after {for} s",
    ),
    rule(
        "C12",
        r"broker (?P<broker>\S+) \(op (?P<op>\d+)\) was heard of, and was fenced \(offset"
        r" (?P<offset>\d+)\) (?P<after>\S+) s after that was sent; its session is (?P<session>\S+)"
        r" s",
        "Broker {broker} was fenced at offset {offset}, {after} s after a heartbeat (op {op})",
        "Not before a session of {session} s without a heartbeat",
        "Fenced after {after} s",
    ),
    rule(
        "L2",
        r"(?P<node>\S+) leads and has committed nothing in (?P<s>\S+) s of peace",
        "{node} leads and committed nothing in {s} s of peace",
        "The high watermark rises as soon as no fault is in force",
    ),
    rule(
        "L3",
        r"(?P<node>\S+) became (?P<role>\S+) in epoch (?P<epoch>\S+) \((?P<why>.*)\) although",
        "{node} became {role} in epoch {epoch} though nothing was wrong any more",
        "The leader of epoch {epoch} stays",
        "{why}",
    ),
    rule(
        "L4",
        rf"(?P<node>{N}) still leads epoch (?P<epoch>\S+), though no majority of the voters"
        r" (?P<all>\[.*?\]) has fetched from it for (?P<s>\S+) s",
        "{node} still leads epoch {epoch} after {s} s without a majority",
        "{node} steps down when no majority of {all} fetches from it",
    ),
    rule(
        "L8",
        r"(?P<node>\S+) ended at high watermark (?P<got>\S+), but (?P<want>\d+) was committed by"
        r" (?P<by>\S+), (?P<s>\S+) s before the end",
        "{node} ended at high watermark {got} of {want}",
        "High watermark {want}, as {by} had committed {s} s before the end",
        "High watermark {got}",
    ),
    rule(
        "L8",
        r"(?P<s>\d+) ms after the last fault was healed not all have what (?P<by>\S+) has"
        r" committed,"
        r" (?P<want>\d+): (?P<far>.*)",
        "Not all nodes caught up with {by}, which had committed up to {want}: {far}",
        "All nodes reach high watermark {want} once no fault is in force",
        "{s} ms after the last fault: {far}",
    ),
    rule(
        "L8",
        r"(?P<node>\S+) has ended \((?P<how>.*)\), (?P<heard>.*): for that the wait for the cluster"
        r" was given up, (?P<s>\d+) ms after the last fault was healed",
        "{node} has ended, and does not come back",
        "All nodes run once no fault is in force",
        "{how}, {heard}; {s} ms after the last fault nobody waited for the others any more",
    ),
    rule(
        "L8",
        r"(?P<node>\S+) did not hear in (?P<s>\S+) s of peace that (?P<by>\S+) had committed"
        r" (?P<want>\d+)",
        "{node} did not hear within {s} s that {by} had committed up to {want}",
        "{node} hears of high watermark {want} within {s} s",
    ),
    rule(
        "L9",
        r"voters stood (?P<n>\d+) times in a row and nobody won, .*?\((?P<told>.*)\)",
        "{n} elections in a row, and nobody won",
        "One of the voters wins soon when a majority is up",
        "Who stood: {told}",
    ),
    rule(
        "L9",
        rf"(?P<node>{N}) put off its election from (?P<a>\S+) to (?P<b>\S+) ms for a (?P<kind>.*?)"
        rf" of (?P<cand>{N}) in epoch (?P<epoch>\S+)",
        "{node} put off its election for a {kind} of {cand} in epoch {epoch}, which it refused",
        "An election at {a} ms: what is refused puts off nothing",
        "An election at {b} ms",
    ),
    rule(
        "L9",
        rf"(?P<node>{N}) stands (?P<waits>\S+) ms after the end of epoch (?P<epoch>\S+), and should"
        r" after (?P<right>\S+) ms: the order is (?P<order>.*)",
        "{node} stood for election {waits} ms after the end of epoch {epoch}, out of turn",
        "After {right} ms: the order is {order}",
        "After {waits} ms",
    ),
    rule(
        "L1",
        r"(?P<s>\d+) ms after the last fault was healed nobody leads: (?P<roles>.*)",
        "Nobody leads, {s} ms after the last fault was healed",
        "One of the voters leads once no fault is in force",
        "{roles}",
    ),
    rule(
        "L2",
        r"(?P<s>\d+) ms after the last fault was healed (?P<node>\S+) leads and makes no progress:"
        r" (?P<told>.*)",
        "{node} leads and makes no progress: {told}",
        "{node} commits and applies new records once no fault is in force",
        "{s} ms after the last fault: {told}",
    ),
    rule(
        "L11",
        r"(?P<node>\S+) has (?P<n>\d+) batches after its newest snapshot, at (?P<at>\S+);"
        r" one is due"
        r" after (?P<due>\S+) bytes",
        "{node} made no snapshot for {n} batches, from offset {at} on",
        "A snapshot after {due} bytes",
    ),
    rule(
        "L11",
        r"(?P<node>\S+) still has the snapshots of (?P<old>.*), though its log begins at"
        r" (?P<at>\S+)",
        "{node} did not delete the snapshots of {old}, which its log has left behind",
        "A log that begins at {at} has no snapshot before that",
    ),
    rule(
        "L10",
        r"(?P<node>\S+) wants to stop and was told to wait for more than (?P<s>\S+) s",
        "{node} wanted to stop and was not let go for {s} s",
        "The controller lets {node} go when it has all it needs",
    ),
    rule("L12", r"in \S+ s of peace", "", "A few events a second when nothing happens"),
    rule(
        "C12",
        rf"the controller (?P<node>{N}) fenced broker (?P<broker>{N}) (?P<ms>\d+) ms after"
        r" (?P<since>.*), when its session of (?P<session>\d+) ms had not begun",
        "{node} fenced broker {broker} {ms} ms after a heartbeat",
        "Not before {session} ms without a heartbeat",
        "Fenced after {ms} ms",
    ),
    rule(
        "crash",
        r"(?P<node>\S+) printed the sign of a crash, (?P<kind>.*?), in line"
        r" (?P<line>\d+): (?P<text>.*)",
        "{node} crashed: {text}",
        "{node} goes on, or stops with a reason",
        "A {kind} in line {line} of its log: {text}",
    ),
    rule(
        "L12",
        r"(?P<node>\S+) sent the same (?P<what>\S+) of epoch (?P<epoch>\S+) over (?P<n>\d+) times",
        "{node} sent the same {what} of epoch {epoch} over {n} times in a second",
        "{node} waits between tries",
    ),
    rule(
        "L13",
        rf"(?P<node>{N}) accepted a Fetch of (?P<by>{N}) at offset (?P<offset>\d+), and"
        rf" (?P<s>\S+) s"
        r" later",
        "{node} never answered a Fetch of {by} at offset {offset}",
        "{node} answers it, if only that it has no more",
        "After {s} s {by} still waited",
    ),
)
