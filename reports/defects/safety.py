"""Sentences about the log and the quorum (S), taken apart."""

from __future__ import annotations

from typing import Final

from reports.defects.rule import N, rule

SAFETY: Final = (
    rule(
        "S1",
        rf"epoch (?P<epoch>\S+) has two leaders: (?P<one>{N})(?: names (?P<n1>{N}))?"
        rf" and (?P<other>{N})",
        "{one} and {other} both led epoch {epoch}",
        "One leader in epoch {epoch}",
    ),
    rule(
        "S2",
        rf"(?P<node>{N}) voted twice in epoch (?P<epoch>\S+): for (?P<one>{N}) and for"
        rf" (?P<two>{N})",
        "{node} voted twice in epoch {epoch}: for {one} and for {two}",
        "{node} gives one vote in epoch {epoch}, and {one} has it",
        "{node} voted for {one}, and then for {two}",
    ),
    rule(
        "S3",
        rf"(?P<node>{N}) forgot its (?P<what>.+?) at a restart: it had written (?P<written>.+),"
        r" and started from (?P<found>.+)",
        "{node} forgot its {what} at a restart, in epoch {epoch}",
        "{node} starts from what it had written: {written}",
        "{node} started from {found}",
    ),
    rule(
        "S3",
        rf"(?P<node>{N}) forgot in epoch (?P<epoch>\S+) that it had voted for (?P<cand>{N})",
        "{node} forgot in epoch {epoch} that it had voted for {cand}",
        "{node} keeps its vote for {cand} until epoch {epoch} is over",
        "{node} wrote down that it has not voted in epoch {epoch}",
    ),
    rule(
        "S3",
        rf"(?P<node>{N}) (?P<did>voted for {N}|asked for votes) in epoch (?P<epoch>\S+) before"
        r" that vote was on its disk; the disk had (?P<found>.+)",
        "{node} {did} in epoch {epoch} before its vote was on its disk",
        "The disk of {node} has the vote of epoch {epoch} first",
        "The disk had {found}",
    ),
    rule(
        "S4",
        rf"the epoch of (?P<node>{N}) fell from (?P<high>\d+) to (?P<low>\d+)",
        "{node} went back from epoch {high} to epoch {low}",
        "{node} stays in epoch {high} or goes to a later one",
    ),
    rule(
        "S5",
        rf"(?P<node>{N}) voted for (?P<cand>{N}) in epoch (?P<epoch>\S+), whose log ends at"
        r" (?P<end>\d+) of epoch (?P<of>\d+), its own at (?P<own>\d+) of epoch (?P<ownof>\d+)",
        "{node} voted in epoch {epoch} for {cand}, whose log is behind its own",
        "{node} refuses {cand}: it votes only for logs that end at {own} of epoch {ownof} or later",
        "{node} granted the vote; the log of {cand} ends at {end} of epoch {of}",
    ),
    rule(
        "S6",
        rf"(?P<node>{N}) won epoch (?P<epoch>\S+) with the votes of (?P<got>\[.*?\]) of the voters"
        r" (?P<all>\[.*?\]), and (?P<need>\d+) needed",
        "{node} won epoch {epoch} with {#got} of {#all} votes",
        "{need} votes of the voters {all}",
        "{#got} votes: {got}",
    ),
    rule(
        "S6",
        rf"(?P<node>{N}) counted the vote of (?P<voter>{N}) in epoch (?P<epoch>\S+), which",
        "{node} won epoch {epoch} with a vote that {voter} never gave",
        "{node} counts the votes that it was given in epoch {epoch}",
        "{node} counted {voter}, which gave it no vote in epoch {epoch}",
    ),
    rule(
        "S7",
        r"two contents at offset (?P<offset>\d+) of epoch (?P<epoch>\d+): (?P<one>.*),"
        r" (?P<other>(?:the|n\d).*)",
        "Two different records at offset {offset} of epoch {epoch}",
        "One record at offset {offset} of epoch {epoch}, the same in all logs",
    ),
    rule(
        "S8",
        r"logs differ below (?P<batch>offsets? \S+ of epoch \d+(?: \(crc \w+\))?): (?:on"
        r" )?(?P<one>.*?) it follows"
        r" (?P<a>.*?), (?:on )?(?P<other>.*?) it follows (?P<b>.*)",
        "The logs of {one} and {other} differ below {batch}",
        "Both logs have {batch}, so all that is below it is the same, too",
        "{one} has {a} below it, {other} has {b}",
    ),
    rule(
        "S8",
        rf"(?P<who>{N}) fetched at offset (?P<at>\d+) after a record of epoch (?P<epoch>\d+), and"
        rf" (?P<by>{N}) served it, which has (?P<found>.*?)(?: there)?$",
        "{by} served {who} from offset {at} on, and their logs differ before it",
        "{by} tells {who} where their logs part: {who} has a record of epoch {epoch} there",
        "{by} has {found}",
    ),
    rule(
        "S8",
        rf"(?P<who>{N}) fetched at offset (?P<at>\d+) after a record of epoch (?P<epoch>\d+), and"
        rf" (?P<by>{N}) called it diverging, which has (?P<found>.*?)(?: there)?$",
        "{by} told {who} to cut its log at offset {at}, and both have the same before it",
        "{by} serves {who}: both have a record of epoch {epoch} there",
        "{by} has {found}",
    ),
    rule(
        "S9",
        r"offset (?P<offset>\d+) was committed as (?P<one>.*?) by (?P<by>\S+), but (?P<who>.*?)"
        r" (?P<how>holds|has) (?P<other>.*?)(?: there)?$",
        "Offset {offset} was committed by {by}, and {who} {how} something else there",
        "{one}, as {by} committed it, in every log",
        "{who} {how} {other}",
    ),
    rule(
        "S10",
        rf"(?P<node>{N}) lost the committed (?P<batch>.*?) by a (?P<how>.*) to (?P<to>\d+)",
        "{node} cut committed {batch} off its log by a {how} to {to}",
        "{node} keeps {batch}: it is committed",
        "The log of {node} ends at {to}",
    ),
    rule(
        "S10",
        rf"(?P<node>{N}) truncated its log to (?P<to>\d+), below its high watermark (?P<hwm>\d+)",
        "{node} cut its log to {to}, below its high watermark {hwm}",
        "{node} keeps all below {hwm}: it is committed",
        "The log of {node} ends at {to}",
    ),
    rule(
        "S11",
        rf"(?P<node>{N}) won epoch (?P<epoch>\S+) without the committed (?P<batch>.*?) \(.*\); it"
        r" has (?P<has>.*)",
        "{node} leads epoch {epoch} without committed {batch}",
        "A leader of epoch {epoch} has {batch}: it is committed",
        "{node} has {has}",
    ),
    rule(
        "S11",
        rf"(?P<node>{N}) won epoch (?P<epoch>\S+) without the committed (?P<batch>.*?); it"
        r" has (?P<has>.*)",
        "{node} leads epoch {epoch} without committed {batch}",
        "A leader of epoch {epoch} has {batch}: it is committed",
        "{node} has {has}",
    ),
    rule(
        "S12",
        rf"(?P<node>{N}) wrote a batch of epoch (?P<epoch>\d+) at offset (?P<offset>\d+) without",
        "{node} wrote offset {offset} of epoch {epoch}, which it did not lead",
        "Only the leader of epoch {epoch} writes records of it",
    ),
    rule(
        "S12",
        r"the record at offset (?P<offset>\d+) in the log of (?P<node>\S+) has (?P<field>\S+)"
        r" (?P<got>.*?), not (?P<want>.*?): (?P<who>\S+) was elected for epoch (?P<epoch>\d+)",
        "The first record of epoch {epoch}, offset {offset} in the log of {node}, has"
        " wrong {field}",
        "{field} {want}, as {who} was elected",
        "{field} {got}",
    ),
    rule(
        "S12",
        rf"(?P<node>{N}) (?P<did>cut its log to \d+|installed a snapshot) while it led epoch"
        r" (?P<epoch>\d+)",
        "{node} {did} while it led epoch {epoch}",
        "{node}, the leader of epoch {epoch}, only appends to its log",
    ),
    rule(
        "S13",
        rf"(?P<node>{N}) raised the high watermark of epoch (?P<epoch>\S+) to (?P<hwm>\d+) with"
        r" (?P<sure>\d+) of (?P<all>\d+) voters holding those records on disk, and (?P<need>\d+)"
        r" needed; flushed: (?P<told>.*)",
        "{node} committed up to offset {hwm} in epoch {epoch} with {sure} of {all} voters",
        "{need} of {all} voters have all below {hwm} on their disks",
        "{sure} had. Flushed: {told}",
    ),
    rule(
        "S14",
        rf"(?P<node>{N}) exposed high watermark (?P<hwm>\d+) in epoch (?P<epoch>\S+), which it"
        r" began at offset (?P<start>\d+)(?:; the last record below it is of epoch (?P<last>\d+))?",
        "{node} committed up to {hwm} in epoch {epoch} before a record of that epoch was committed",
        "A high watermark above {start}, where epoch {epoch} begins, or none",
        "{node} exposed {hwm}; the last record below it is of epoch {last}",
    ),
    rule(
        "S15",
        rf"the high watermark of (?P<node>{N}) fell from (?P<high>\d+) to (?P<low>\d+)",
        "The high watermark of {node} fell from {high} to {low}",
        "{high} or more",
        "{low}",
    ),
    rule(
        "S16",
        rf"(?P<node>{N}) fetched at offset (?P<offset>\d+) with only (?P<flushed>\d+) on its disk",
        "{node} fetched at offset {offset}, but offset {flushed} was not yet on its disk",
        "{node} fetches at {flushed}, or has all below {offset} on its disk first",
        "{node} asked for {offset}, and a leader counts that as stored up to {offset}",
    ),
    rule(
        "S17",
        rf"(?P<node>{N}) acknowledged offset (?P<offset>\d+) at high watermark (?P<said>\S+);"
        r" the highest it had exposed was (?P<hwm>\S+)",
        "{node} acknowledged offset {offset} before it was committed",
        "{node} waits for a high watermark above {offset}",
        "{node} answered at high watermark {said}",
    ),
    rule(
        "S17",
        r"acknowledged (?P<what>.*?) \(op (?P<op>\d+)\) is not in the committed log",
        "The acknowledged {what} (op {op}) is lost",
        "{what} is in the committed log",
        "No record of it in the committed log",
    ),
    rule(
        "S18",
        r"(?P<what>.*) is committed at offset (?P<offset>\d+) .*and no client ever asked for it",
        "Nobody asked for {what}, and it is committed at offset {offset}",
        "Every committed write was asked for by a client",
    ),
    rule(
        "S19",
        r"topic (?P<topic>.*) was created in the batch (?P<batch>\S+) without a partition",
        "Topic {topic} was created in batch {batch} without a partition",
        "Topic {topic} and its partitions in one batch",
    ),
    rule(
        "S20",
        rf"(?P<node>{N}) applied records up to (?P<end>\d+) at high watermark (?P<hwm>\S+)",
        "{node} applied records up to {end}, which were not committed",
        "{node} applies what lies below its high watermark {hwm}",
    ),
    rule(
        "S20",
        rf"(?P<node>{N}) applied records from (?P<begin>\d+) to (?P<end>\d+), but (?P<had>.*)",
        "{node} applied offsets {begin} to {end} upon a state of another offset",
        "{node} has the state of all below {begin} when it applies offset {begin}",
        "On {node} {had}",
    ),
    rule(
        "S21",
        rf"the controller of (?P<node>{N}) became active in epoch (?P<epoch>\S+), which began at"
        r" offset (?P<start>\d+), having applied (?P<applied>\d+)",
        "The controller of {node} became active in epoch {epoch} before it had caught up",
        "It has applied offset {start}, where epoch {epoch} begins, and all before",
        "It had applied what lies below {applied}",
    ),
    rule(
        "S21",
        rf"the controller of (?P<node>{N}) became active in epoch (?P<epoch>\S+), which \S+ does",
        "The controller of {node} became active in epoch {epoch}, which {node} does not lead",
        "Only the leader of epoch {epoch} has the active controller",
    ),
    rule(
        "S21",
        rf"the controller of (?P<node>{N}) has renounced epoch (?P<epoch>\S+), and goes by"
        r" (?P<kept>\d+) changes",
        "The controller of {node} gave up epoch {epoch} and kept {kept} uncommitted changes",
        "It forgets what was not committed in epoch {epoch}",
        "It still goes by {kept} changes that were never committed",
    ),
    rule(
        "S22",
        rf"snapshot (?P<id>\S+) of (?P<node>{N}) names the voters (?P<got>\[.*?\]), but"
        r" (?P<want>\[.*?\]) were in force",
        "Snapshot {id} of {node} names the wrong voters",
        "The voters at its end: {want}",
        "{got}",
    ),
    rule(
        "S23",
        rf"the log of (?P<node>{N}) begins at (?P<start>\d+) without a snapshot that ends there;"
        r" its snapshots: (?P<snaps>.*)",
        "The log of {node} begins at {start}, and no snapshot has what was before",
        "A snapshot of {node} that ends at {start}",
        "Snapshots of {node}: {snaps}",
    ),
    rule(
        "S23",
        r"the final log of (?P<node>\S+) begins at (?P<start>\d+), and no snapshot",
        "The log of {node} begins at {start}, and no snapshot has what was before",
        "A snapshot on the disk of {node} that ends at {start}",
        "No snapshot there ends at {start}",
    ),
    rule(
        "S23",
        r"snapshot (?P<id>\S+) on (?P<node>\S+)'s disk is not whole: (?P<why>.*)",
        "Snapshot {id} on the disk of {node} is not whole",
        "A snapshot is whole, or is not there under its name",
        "{why}",
    ),
    rule(
        "S24",
        rf"(?P<node>{N}) installed a snapshot that ends at (?P<end>\d+), but went on at"
        rf" (?P<at>\d+)",
        "{node} installed a snapshot that ends at {end} and went on at {at}",
        "{node} goes on at {end}, where the snapshot ends",
        "{node} went on at {at}, with what its log had before",
    ),
    rule(
        "S25",
        rf"(?P<node>{N}) had flushed its log up to (?P<flushed>\d+), and found (?P<batch>.*?)"
        r" missing at a restart: its log ends at (?P<end>\d+)",
        "{node} lost flushed {batch} at a restart",
        "The log of {node} ends at {flushed} or later: that was on its disk",
        "Its log ends at {end}",
    ),
    rule(
        "S26",
        rf"(?P<node>{N}) leads epoch (?P<epoch>\S+) again after",
        "{node} led epoch {epoch} again after a restart",
        "{node} gives up epoch {epoch} when it restarts, and needs a later one to lead",
    ),
    rule(
        "S27",
        rf"(?P<leader>{N}) made (?P<node>{N}) a voter at offset (?P<offset>\d+), which had not"
        r" fetched to its log end in epoch (?P<epoch>\S+)",
        "{leader} made {node} a voter at offset {offset} before it had caught up",
        "{node} has fetched to the log end of {leader} in epoch {epoch} first",
        "{node} had not",
    ),
    rule(
        "S28",
        rf"(?P<node>{N}) goes by the voters (?P<got>\[.*?\]), but the newest in its log are"
        r" (?P<want>\[.*?\]), of offset (?P<offset>\S+)",
        "{node} goes by the voters {got}; its log says {want}",
        "The newest voters in its log: {want}",
        "{got}",
    ),
    rule(
        "S28",
        rf"(?P<node>{N}) went by the voters of offset (?P<offset>\d+) only when its high watermark"
        r" was (?P<hwm>\d+)",
        "{node} went by the voters of offset {offset} only when they were committed",
        "{node} goes by them as soon as they are in its log",
        "It did so at high watermark {hwm}",
    ),
    rule(
        "S28",
        rf"(?P<node>{N}) (?P<does>fetches|asks for votes).*? with the voters of offset"
        r" (?P<before>\S+), though its log has others at (?P<offset>\d+)",
        "{node} {does} by the voters of offset {before}; its log has newer ones",
        "{node} goes by those of offset {offset} as soon as they are in its log",
        "It went by those of offset {before}",
    ),
    rule(
        "S28",
        rf"(?P<node>{N}) is elected.*? by the voters of offset (?P<before>\S+), and those of"
        r" (?P<offset>\d+) are in its log",
        "{node} was elected by the voters of offset {before}, not by those of its log",
        "A majority of the voters of offset {offset}: these are in its log",
        "It counted those of offset {before}",
    ),
    rule(
        "S29",
        rf"(?P<node>{N}) counted (?P<who>\[.*?\]) as those that keep it leader, but (?P<why>.*)",
        "{node} counted {who} as the voters that keep it leader, and had no majority",
        "{node} counts voters that fetch from it, by id and disk",
        "But {why}",
    ),
    rule(
        "S31",
        rf"(?P<node>{N}) in epoch (?P<epoch>\S+) accepted a (?P<api>\S+) of epoch (?P<asked>\S+)"
        r"(?P<other> of another cluster)?",
        "{node} accepted a {api} of epoch {asked}{other}",
        "{node} in epoch {epoch} refuses it",
    ),
    rule(
        "S31",
        rf"(?P<node>{N}), the leader of epoch (?P<epoch>\S+), refused a (?P<api>\S+) with"
        r" (?P<code>\S+)",
        "{node} refused a {api} with {code} while it led epoch {epoch}",
        "{node} answers the {api}: it is the leader of epoch {epoch}",
    ),
    rule(
        "S31",
        rf"(?P<node>{N}) went from (?P<a>\S+) in epoch (?P<e>\S+) to (?P<b>\S+) in epoch"
        r" (?P<epoch>\S+) for a (?P<api>\S+), which (?P<why>.*)",
        "{node} went to epoch {epoch} for a {api}",
        "{node} stays in epoch {e}: a {api} {why}",
        "{node} became {b} in epoch {epoch}",
    ),
    rule(
        "S32",
        rf"(?P<node>{N}) granted (?P<cand>{N}) a pre-vote while it followed its leader",
        "{node} granted {cand} a pre-vote in epoch {epoch} while it heard from its leader",
        "{node} refuses pre-votes for as long as it hears from its leader",
        "{node} granted it",
    ),
    rule(
        "S33",
        rf"(?P<node>{N}) became (?P<role>\S+) in epoch (?P<epoch>\S+), but the voters in"
        rf" its log are"
        r" (?P<voters>.*)",
        "{node} became {role} in epoch {epoch}, and is no voter",
        "{node} never stands for election: the voters are {voters}",
        "{node} became {role}",
    ),
    rule(
        "S34",
        rf"(?P<node>{N}) answered a read that was asked for after its event \S+ of the voters"
        r" (?P<all>\[.*?\]) only (?P<got>\[.*?\]) have fetched since, and (?P<need>\d+) others",
        "{node} answered a read in epoch {epoch} without asking a majority whether it still leads",
        "After the read came, {need} more of the voters {all} confirm that {node} leads",
        "Those that did: {got}",
    ),
    rule(
        "S34",
        r"(?P<f>\S+) of (?P<key>\S+) \(op (?P<op>\d+)\) returned (?P<value>.*?)"
        r"(?: \(offset (?P<offset>\d+)\) (?P<ms>\S+) ms)? before that was committed",
        "{f} of {key} at {node} (op {op}) returned {value} before that was committed",
        "The last committed value of {key}: {committed}",
        "{value}, not yet committed",
    ),
    rule(
        "S34",
        rf"(?P<node>{N}) told of epoch (?P<epoch>\S+) \(op (?P<op>\d+)\) high watermark"
        r" (?P<got>\S+): it was (?P<low>\S+) to (?P=low)$",
        "{node} told high watermark {got} of epoch {epoch} (op {op}); it was {low}",
        "High watermark {low}",
        "High watermark {got}",
    ),
    rule(
        "S34",
        rf"(?P<node>{N}) told of epoch (?P<epoch>\S+) \(op (?P<op>\d+)\) high watermark"
        r" (?P<got>\S+): it was (?P<low>\S+) to (?P<high>\S+)",
        "{node} told high watermark {got} of epoch {epoch} (op {op}); it was {low} to {high}",
        "High watermark {low} to {high}",
        "High watermark {got}",
    ),
)
