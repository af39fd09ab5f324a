"""Lists what nodes of Kafka are known to do, by release; counted apart, and mostly no anomaly."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from harness.systems.kafka.known_crashes import CRASHES, ENDS_RENOUNCING, OF_LOSS, Signs
from harness.systems.kafka.releases import (
    AMENDS_SINCE,
    CHECKS_NAMES_SINCE,
    CHECKS_PRINCIPALS_SINCE,
    CLAIMS_CAUGHT_UP_SINCE,
    CLEARS_ELIGIBLE_UNTIL,
    CORDONS_SINCE,
    COUNTS_FETCHERS_SINCE,
    COUNTS_REMOVED_UNTIL,
    DRAWS_BACKOFFS_SINCE,
    ELECTS_EMPTY_UNTIL,
    FORGETS_TOPICS_SINCE,
    FREEZES_IMAGES_SINCE,
    FSYNCS_SNAPSHOTS_SINCE,
    HEARD_AT_ONCE_SINCE,
    JOINS_SINCE,
    KEEPS_CLOSED_SINCE,
    KEEPS_DELETED_UNTIL,
    KEEPS_ELIGIBLE_SINCE,
    KEEPS_EPOCHS_SINCE,
    KEEPS_MOVING_UNTIL,
    KEEPS_SETTINGS_UNTIL,
    LEADS_NOTHING_ANEW_SINCE,
    LEADS_WHEN_ELECTED_SINCE,
    LOADS_NEWEST_SINCE,
    LOSES_PASSWORDS_UNTIL,
    NAMES_EPOCHS_SINCE,
    PAUSES_SINCE,
    RAISES_KRAFT_VERSION_SINCE,
    TAKES_BACK_SINCE,
    VOTES_KEPT_SINCE,
    WRITES_NOTHING_REFUSED_SINCE,
    Line,
    Release,
)
from harness.verdict import Known


def _told(
    finding: str, *signs: tuple[str, str], red: bool = False, then: Signs = ()
) -> tuple[Known, ...]:
    """Make what tells of a finding."""
    return tuple(Known(invariant, text, finding, red=red, then=then) for invariant, text in signs)


# Without a leader a node of 4.1 asks for one again as soon as it was told that there is none.
KNOWN: Final = (
    Known("L12", "sent the same Fetch of epoch", "docs/kafka.md, a Fetch without end"),
    Known("L12", "without a pause as unattached", "docs/kafka.md, a Fetch without end"),
    Known("S13", " of 1 voters holding those", "docs/findings.md, a quorum of one"),
    Known("S11", " as the only voter", "docs/findings.md, a quorum of one", red=True, then=OF_LOSS),
    # It does not fsync a cut, so that a loss of power may take it back.
    *(
        Known(told, ", which it had cut", "docs/findings.md, a cut that a power failure takes back")
        for told in ("S25", "S35")
    ),
    *_told(
        "docs/findings.md, a cut that a power failure takes back",
        ("S25", ", where it had cut its log: "),
        red=True,
        then=OF_LOSS,
    ),
    # That it is then elected by the set of before, maybe by a minority, is not excused.
    *(
        Known(invariant, told, "docs/findings.md, a truncated voter misses changes", red=is_red)
        for invariant, told, is_red in (
            ("S28", ", though its log has others at ", False),
            ("S28", ", and those of ", True),
            ("S22", ", whose voters there are ", True),
        )
    ),
    Known(
        "C1",
        ", which is of an offset before its batch",
        "docs/findings.md, a broker's epoch is not its record's offset",
        red=True,
    ),
    *_told(
        "docs/findings.md, a repeated vote ignores",
        ("S5", ", as it had done when "),
        red=True,
        then=OF_LOSS,
    ),
    Known(
        "L11",
        " and it was started again",
        "docs/findings.md, a restart forgets how much",
        red=True,
    ),
    Known("S30", " its own removal ", "docs/findings.md, a removed leader leads on", red=True),
    Known(
        "S16",
        ", and has not flushed what it found when it started",
        "docs/findings.md, a restarted voter counts",
        red=True,
        then=OF_LOSS,
    ),
    Known(
        "C14",
        ", as the minimum that is set is 0",
        "docs/findings.md, a minimum that is no number",
        red=True,
    ),
    Known("C2", "shutting down, leads or is new", "docs/kafka.md, a broker that comes back"),
)


# Before 4.0 a follower writes the leader in the place of its vote: it needs it no more.
FORGETS: Final = Known(
    "S3", ", now that it follows n", "docs/kafka.md, a follower before 4.0 forgets its vote"
)
# Before 4.0 who registers anew, and has no session, leads on, and is in sync as before.
REGISTERS_LEADING: Final = tuple(
    Known("C2", told, "docs/kafka.md, a broker before 4.0 that registers anew")
    for told in (", fenced as it registers anew, leads ", ", and in sync in partition ")
)
# A snapshot of 3.x has a record more, of the migration from ZooKeeper.
OF_ZOOKEEPER: Final = tuple(
    Known("S22", told, "docs/kafka.md, snapshots of 3.x and 4.x")
    for told in (" has sha ", " has size ")
)


# Before 4.1 a follower hears of the high watermark with the answer to its next Fetch (KIP-1166).
HEARS_LATE: Final = Known(
    "L8", " did not hear in ", "docs/kafka.md, followers before 4.1 hear late"
)


# Before 4.2 a follower polls without a pause when it wants to tell its listeners (KAFKA-19605).
SPINS: Final = Known("L12", "without a pause as follower", "docs/kafka.md, a busy follower")

# Since then an observer does so while it has no answer after a fetch timeout.
OBSERVER_SPINS: Final = Known(
    "L12", "without a pause as observer", "docs/kafka.md, a cut-off observer"
)


# A voter that lost an election stands for it again when it restarts, though it knows who has won.
STANDS_AGAIN: Final = Known(
    "S31", ", so that it had lost that election", "docs/kafka.md, a loser that stands again"
)

# A voter that was moved is asked for its vote where it was, until a leader has committed the move.
MOVED_AWAY: Final = Known(
    "L1",
    ", which got none of these requests",
    "docs/findings.md, a moved voter cannot be asked",
    frozenset({"move-voter"}),
    red=True,
)

# Kafka's timers go by the wall clock, which may be set: a leader whose clock went back may wait for
# its next batch to be filled until the clock is there again, and append nothing.
WALL: Final = "docs/kafka.md, timers of the wall clock"
BY_THE_WALL: Final = tuple(
    Known(invariant, told, finding, frozenset({"clock-rate", "clock-jump", "clock-strobe"}), is_red)
    for invariant, told, finding, is_red in (
        ("L9", ", which is to be after ", WALL, False),
        ("L2", " leads and makes no progress: ", WALL, True),
        ("L5", " is not ready to receive requests", WALL, True),
        ("L6", " is not ready to receive requests", WALL, True),
        ("L4", ", though no majority of the ", "docs/findings.md, a leader whose clock went", True),
        ("L1", " resigned in epoch ", "docs/findings.md, a leader whose clock went", True),
        ("L8", ", resigned in epoch ", "docs/findings.md, a leader whose clock went", True),
        ("L8", ", prospective in epoch ", WALL, True),
        ("L2", " took none of the ", WALL, True),
        ("L8", " took none of the ", WALL, True),
    )
)


# Before 3.9 a leader that begins anew, resigned, tells its state machine that it leads.
CLAIMS_RESIGNED: Final = Known(
    "S21", ", which n", "docs/kafka.md, a resigned leader before 3.9 is told that it leads"
)
# Before 3.7 a leader counts nobody who fetches from it, and so leads on when it is cut off.
LEADS_ON: Final = Known(
    "L4", ", though no majority of the ", "docs/kafka.md, a cut-off leader before 3.7 leads on"
)
# Before 3.6 a leader is told that it leads before the first record of its epoch is committed, or
# even written; then its controller may write something before that.
CLAIMS_EARLY: Final = _told(
    "docs/kafka.md, a leader before 3.6 is told early",
    ("S21", ", but none of its own"),
    ("S12", " and no LeaderChange: "),
    ("S12", " does not begin the epoch, which is at offset "),
    ("S12", " began its reign with a batch of epoch "),
)
OF_NOBODY: Final = Known(
    "C17",
    ": it makes an ACL of a principal that has no type",
    "docs/kafka.md, an ACL of nobody",
)
# Before 3.5.2 a snapshot gets its name before its content is on the disk (KAFKA-15312).
NAMED_TOO_EARLY: Final = tuple(
    Known(
        invariant, told, "docs/kafka.md, a snapshot before 3.5.2 is named too early", faults, is_red
    )
    for invariant, told, faults, is_red in (
        ("S23", "'s disk is not whole: ", frozenset({"power"}), False),
        ("S35", " said that its snapshot at ", frozenset[str](), False),
        ("S36", ".checkpoint of ", frozenset[str](), False),
        # of a state machine that has begun with such a one
        ("S22", " has sha ", frozenset({"power"}), True),
        ("S22", " has size ", frozenset({"power"}), True),
    )
)
# Before 3.5 a leader that asks for an ISR does not say which processes it means (KAFKA-14617).
READMITS: Final = Known(
    "C5",
    ", which had already registered again, with ",
    "docs/kafka.md, a replica that restarted before 3.5",
    red=True,
)
# Before 3.4 a snapshot of a controller says who got the last producer ids, and a broker's does not.
NAMES_OWNERS: Final = Known(
    "S22", " has sha ", "docs/kafka.md, a controller's snapshots before 3.4"
)
# And it has what came later, where that was replaced while the snapshot was made (KAFKA-15271).
HAS_TOO_MUCH: Final = Known(
    "S22", " has size ", "docs/kafka.md, a controller's snapshots before 3.4", red=True
)
# Before 3.6 who starts reads its log from where that begins, and makes snapshots on the way.
FREEZES_AGAIN: Final = Known(
    "S22", ", and had one that ends at ", "docs/kafka.md, older snapshots before 3.6"
)
# Before 3.4 a topic that is refused leaves its settings (KAFKA-14612).
KEEPS_REFUSED: Final = tuple(
    Known(invariant, told, "docs/kafka.md, settings of a refused topic", red=True)
    for invariant, told in (
        ("C17", " was refused, and left "),
        ("C16", "settings of ConfigResource(type=TOPIC,"),
    )
)
# Before 4.0 who has a vote on disk begins unattached, though a newer release left a leader there.
FORGETS_LEADER: Final = Known(
    "S31", ", and now it has None", "docs/kafka.md, a vote beside a leader"
)
# A voter that knows no pre-votes is not asked for one: its peers stand at once (KIP-996).
WITHOUT_PRE_VOTE: Final = Known(
    "S32", " with the pre-votes of ", "docs/kafka.md, voters before 4.0 know no pre-votes"
)

# Before 3.9 a broker that registers again gets another epoch, though it is the same incarnation.
RENUMBERS: Final = _told(
    "docs/kafka.md, another epoch for the same incarnation",
    ("C1", ", and is the same incarnation"),
    ("C1", " in the incarnation that had got "),
    ("C6", ", which left it unfenced"),
)

# Before 3.7 it is fenced by that, and leads on.
FENCES_AGAIN: Final = Known(
    "C2",
    ", fenced as it registers again, leads ",
    "docs/kafka.md, another epoch for the same incarnation",
)
# Before 3.9.2 nothing of a backoff is random that is as long as can be (KAFKA-18345).
EQUAL_BACKOFFS: Final = Known(
    "L9", " elections in a row and waited exactly ", "docs/kafka.md, equal backoffs"
)

# A topic's settings stay with whoever reads its creation and its deletion at once. A release that
# nobody has looked at is not known to do so.
KEEPS_SETTINGS: Final = _told(
    "docs/findings.md, a deleted topic's settings",
    ("C8", ", the same but for settings of deleted topics: "),
    ("C8", ", the same but for settings that new topics have of deleted ones: "),
)
# A snapshot of such an image has them, too; why images differ C8 says.
SNAPSHOTS_OF_IMAGES: Final = Known(
    "S22", ", as the images do that they are of", "docs/findings.md, a deleted topic's settings"
)
# And so does a controller that loads them from the snapshot of one that did.
LOADS_SETTINGS: Final = Known(
    "C16",
    "settings of ConfigResource(type=TOPIC,",
    "docs/findings.md, a deleted topic's settings",
    red=True,
)

# Snapshots leave out who is eligible while eligible leaders are switched off.
LEAVES_OUT: Final = tuple(
    Known(
        invariant,
        f", the same but for eligible leaders, which {are} switched off",
        "docs/findings.md, a snapshot without who is eligible",
    )
    for invariant, are in (("C8", "are"), ("C9", "were"))
)
# From the next ClearElrRecord on, such a partition has two epochs.
COUNTS_APART: Final = (
    Known(
        "C8",
        ", as after a snapshot without eligible leaders, which were switched off",
        "docs/findings.md, a partition that has two epochs",
        red=True,
    ),
    Known(
        "C17",
        "; it is right after a snapshot without eligible leaders, which were switched off",
        "docs/findings.md, a partition that has two epochs",
        red=True,
    ),
)

# When they are switched off, who was eligible may lead no more, and nobody else.
SWITCHES_OFF: Final = tuple(
    Known(
        invariant,
        told,
        "docs/findings.md, nobody leads when eligible leaders are switched off",
        red=is_red,
    )
    for invariant, told, is_red in (
        ("C14", ", but eligible leaders were switched off", True),
        ("C17", "; eligible leaders are switched off", False),
    )
)

# When they are switched on again, who was eligible before still is.
KEEPS_CANDIDATES: Final = Known(
    "C13",
    ", and were eligible before the feature was taken back",
    "docs/findings.md, who was eligible before the feature was taken back",
    red=True,
)

# Who leads while they are switched off is not remembered, but whoever led before is.
KEEPS_LAST_LEADER: Final = Known(
    "C14",
    ", as before that one led",
    "docs/findings.md, another is taken for the last leader",
    red=True,
)

# A change of min.insync.replicas makes a partition without a leader forget who may lead it.
CLEARS_ELIGIBLE: Final = _told(
    "docs/findings.md, a partition that nobody may lead any more",
    ("C14", ", but nobody may lead it any more"),
    ("C17", "is ClearElrRecord, where PartitionChangeRecord is due"),
)

# Who fetched as a voter counts as one until the next majority, though it was removed.
COUNTS_REMOVED: Final = Known(
    "S29",
    ", of whom some are voters no more",
    "docs/findings.md, a removed voter keeps a leader",
)

# Two indexes of a controller keep partitions that are no more in what they are of.
KEEPS_DELETED: Final = tuple(
    Known("C16", told, "docs/findings.md, a deleted topic ends each controller")
    for told in (" brokersToElrs ", " directoriesToPartitions ")
)

# A node that reads at once that a user's password went, and that others came, loses some of these.
LOSES_PASSWORDS: Final = tuple(
    Known(invariant, told, "docs/findings.md, passwords are lost", red=True, also=lacking)
    for invariant, told, lacking in (
        ("C8", ", the same but for passwords", ""),
        ("C9", " credential ", ", not null"),  # it is the image that lacks them
        ("C16", " credential ", ", not null"),
    )
)

# A token is looked up in a cache that follows the log, so that one that is gone is renewed.
RENEWS_GONE: Final = Known(
    "C11", ", which was taken back, exists again", "docs/findings.md, a token comes back", red=True
)

# A broker that tells on which disk its new, empty replica is may lead again at once.
ELECTS_EMPTY: Final = Known(
    "C15",
    ", though the disk is gone that its replica was on",
    "docs/findings.md, who leads with an empty disk",
    red=True,
)

# A heartbeat that lets a broker in and tells of a failed disk is judged by the state before it.
LEADS_LOST: Final = Known(
    "C15",
    " by the request that tells of its failed disk, ",
    "docs/findings.md, who comes back without a disk",
    red=True,
)

# A replica that was moved away stays in the ELR.
KEEPS_MOVED: Final = _told(
    "docs/findings.md, who was moved away stays eligible",
    ("C3", " has members that are no replicas"),
    ("C17", "; some who are eligible are no replicas"),
)

# How many must be in sync goes by partition 0's replicas, whatever others of its topic have.
BY_THE_FIRST: Final = _told(
    "docs/findings.md, who is eligible goes by the replicas of partition 0",
    ("C14", ", where partition 0 of the topic has "),
    ("C17", "; partition 0 of the topic has another number of replicas"),
)

# What a reassignment wanted stays when another one takes its place; since 4.3 that may never end.
KEEPS_MOVING: Final = _told(
    "docs/findings.md, a reassignment that is taken back",
    ("C3", " has in one reassignment both added and removed "),
    ("C17", "; of a reassignment before it some are still added or removed"),
)

# Who gives up a reassignment with nobody in sync is refused, or gets an ISR of a fenced broker.
GIVES_UP: Final = _told(
    "docs/findings.md, a reassignment cannot be given up",
    ("C2", ", as a reassignment is given up with nobody in sync who was a replica before it"),
    ("C13", ", as a reassignment is given up with nobody in sync who was a replica before it"),
    ("C17", "; a reassignment is given up that leaves somebody eligible"),
    red=True,
)
# A topic that grows while it is moved counts those, too, that are to go.
GROWS_TOO_MUCH: Final = Known(
    "C3",
    ", where the topic's other partitions are to have ",
    "docs/findings.md, partitions that are added while a topic moves",
)

# Who registers anew is not cordoned until it says so again.
FORGETS_CORDONS: Final = Known(
    "C18",
    ", which its registration does not say: ",
    "docs/findings.md, a broker that registers anew is not cordoned",
)
# A reassignment is refused by a replica that is on a cordoned broker, and stays there.
STAYS_CORDONED: Final = Known(
    "C17",
    "; a replica is to stay on a cordoned broker",
    "docs/findings.md, a replica on a cordoned broker",
    also="error_code is 39, where 0 is due",
)
# In 4.3 who assigns replicas by hand may give them to a cordoned broker (KAFKA-20832).
PLACES_BY_HAND: Final = Known(
    "C18",
    ", though all its log directories are cordoned: ",
    "docs/kafka.md, a replica by hand on a cordoned broker",
    red=True,
)

# A refused change of levels raises kraft.version all the same.
RAISED_ALL_THE_SAME: Final = Known(
    "C17",
    ": it was refused, and kraft.version, which was ",
    "docs/findings.md, a refused change of levels",
    red=True,
)

# A quota that is refused, as its entity comes twice in a request, is set all the same.
SET_ALL_THE_SAME: Final = Known(
    "C17",
    ": it names an entity twice, refuses it, and sets its quota",
    "docs/findings.md, a refused quota is set",
    red=True,
)

# A reassignment that is listed may be one that nobody has committed, and one that is not, likewise.
LISTS_EARLY: Final = Known(
    "C17",
    " record(s) in its memory are not committed",
    "docs/findings.md, a reassignment is told of before it is committed",
    red=True,
)

# Before 4.3 a broker that tells of a directory makes a partition forget who may lead it.
FORGETS_ELIGIBLE: Final = Known(
    "C17",
    " answered AssignReplicasToDirsRequest ",
    "docs/kafka.md, a directory that makes nobody eligible",
    red=True,
)

# Before 4.2 who reads at once that a topic came, went, and ELRs were cleared fails (KAFKA-19497).
GHOST: Final = Known(
    "crash",
    "Error loading metadata log record",
    "docs/kafka.md, a topic that came and went",
    red=True,
    then=(("C8", " the committed log folds to "), ("C9", "whoever follows the deltas of ")),
)

# With auto-join a removed voter that runs asks for its place again (KAFKA-19850).
JOINS_AGAIN: Final = Known(
    "S17",
    "a voter again, which nobody asked for",
    "docs/kafka.md, a removed voter that adds itself",
)

# A broker sends a change again whose answer was lost, though it may have been made.
FORWARDS_AGAIN: Final = Known(
    "S17",
    " times: at offsets ",
    "docs/findings.md, a forwarded change is made twice",
    red=True,
    also=" ended as ",
    then=(("S34", ""), ("linearizability", "")),
)

# Levels are records, of whatever they are called: also of kraft.version, which stays as it was.
TAKEN_FOR_ONE, TAKEN_FOR_ANY = (
    Known(
        "C17",
        f".feature={feature}, ",
        f"docs/kafka.md, a level of {what}",
        also=": error_code is 0, where 95 is due",
    )
    for feature, what in (("kraft.version", "kraft.version"), ("no.such.version", "no feature"))
)

# By the line of a release: what older ones do, what it and newer ones do, what no newer one is
# known to do.
BEFORE: Final[tuple[tuple[Line, tuple[Known, ...]], ...]] = (
    (HEARD_AT_ONCE_SINCE, (HEARS_LATE,)),
    (PAUSES_SINCE, (SPINS,)),
    (FORGETS_TOPICS_SINCE, (GHOST,)),
    (LEADS_WHEN_ELECTED_SINCE, (CLAIMS_RESIGNED, OBSERVER_SPINS)),
    (DRAWS_BACKOFFS_SINCE, (EQUAL_BACKOFFS,)),
    (COUNTS_FETCHERS_SINCE, (LEADS_ON,)),
    (AMENDS_SINCE, (FENCES_AGAIN,)),
    (CLAIMS_CAUGHT_UP_SINCE, CLAIMS_EARLY),
    (FREEZES_IMAGES_SINCE, (NAMES_OWNERS,)),
    (FSYNCS_SNAPSHOTS_SINCE, NAMED_TOO_EARLY),
    (FREEZES_IMAGES_SINCE, (HAS_TOO_MUCH,)),
    (NAMES_EPOCHS_SINCE, (READMITS,)),
    (LOADS_NEWEST_SINCE, (FREEZES_AGAIN,)),
    (WRITES_NOTHING_REFUSED_SINCE, KEEPS_REFUSED),
    (KEEPS_ELIGIBLE_SINCE, (FORGETS_ELIGIBLE,)),
    (KEEPS_EPOCHS_SINCE, RENUMBERS),
    (KEEPS_CLOSED_SINCE, (PLACES_BY_HAND,)),
    (CHECKS_PRINCIPALS_SINCE, (OF_NOBODY,)),
    (VOTES_KEPT_SINCE, (FORGETS, FORGETS_LEADER)),
    (LEADS_NOTHING_ANEW_SINCE, REGISTERS_LEADING),
    (RAISES_KRAFT_VERSION_SINCE, (TAKEN_FOR_ONE,)),
    (CHECKS_NAMES_SINCE, (TAKEN_FOR_ANY,)),
    (TAKES_BACK_SINCE, (ENDS_RENOUNCING,)),
)
SINCE: Final[tuple[tuple[Line, tuple[Known, ...]], ...]] = (
    (PAUSES_SINCE, (OBSERVER_SPINS,)),
    (JOINS_SINCE, (JOINS_AGAIN,)),
    (CORDONS_SINCE, (FORGETS_CORDONS, STAYS_CORDONED)),
    (VOTES_KEPT_SINCE, (STANDS_AGAIN,)),
)
UNTIL: Final[tuple[tuple[Line, tuple[Known, ...]], ...]] = (
    (KEEPS_SETTINGS_UNTIL, (*KEEPS_SETTINGS, LOADS_SETTINGS, SNAPSHOTS_OF_IMAGES)),
    (
        CLEARS_ELIGIBLE_UNTIL,
        (
            *CLEARS_ELIGIBLE,
            *KEEPS_MOVED,
            *LEAVES_OUT,
            *COUNTS_APART,
            *SWITCHES_OFF,
            *BY_THE_FIRST,
            KEEPS_CANDIDATES,
            KEEPS_LAST_LEADER,
            LEADS_LOST,
        ),
    ),
    (
        KEEPS_MOVING_UNTIL,
        (
            *KEEPS_MOVING,
            GROWS_TOO_MUCH,
            *GIVES_UP,
            RAISED_ALL_THE_SAME,
            SET_ALL_THE_SAME,
            LISTS_EARLY,
        ),
    ),
    (COUNTS_REMOVED_UNTIL, (COUNTS_REMOVED,)),
    (ELECTS_EMPTY_UNTIL, (ELECTS_EMPTY,)),
    (KEEPS_DELETED_UNTIL, KEEPS_DELETED),
    (LOSES_PASSWORDS_UNTIL, (*LOSES_PASSWORDS, RENEWS_GONE)),
)


def known_of(releases: Collection[Release]) -> tuple[Known, ...]:
    """Tell what nodes of some releases are known to do."""
    lines = {release.line for release in releases}
    oldest, newest = min(lines), max(lines)
    found = [*KNOWN, MOVED_AWAY, *BY_THE_WALL, *CRASHES]
    found += [each for line, known in BEFORE if oldest < line for each in known]
    found += [each for line, known in SINCE if newest >= line for each in known]
    found += [each for line, known in UNTIL if oldest <= line for each in known]
    if oldest < VOTES_KEPT_SINCE <= newest:
        found += [*OF_ZOOKEEPER, WITHOUT_PRE_VOTE]
    return tuple(found)
