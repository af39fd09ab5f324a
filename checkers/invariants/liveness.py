"""Promises of liveness in words: ``liveness`` judges them all, others some of them."""

from __future__ import annotations

from harness.contracts.meaning import Meaning

L1 = Meaning(
    "L1",
    title="a leader is elected",
    promise="When all faults are healed and a majority of the voters runs, one of them soon leads.",
    why=(
        "Without a leader nobody can create a topic, replace a failed partition leader or let a "
        "broker in. The cluster goes on as it is, until the next broker fails."
    ),
    source="KIP-595; Raft paper, 5.2; KRaft TLA+ specification (EventuallyLeaderElected)",
)
L2 = Meaning(
    "L2",
    title="progress",
    promise=(
        "A leader that a majority follows commits: its high watermark grows, in an idle cluster by "
        "a NoOp record every half second."
    ),
    why=(
        "A leader that commits nothing looks healthy from outside, but every admin request times "
        "out, and no broker is fenced or let in."
    ),
    source="KIP-835 (NoOpRecord); KRaft TLA+ specification (ValuesEventuallyAcked); KAFKA-13104",
)
L3 = Meaning(
    "L3",
    title="stable leader",
    promise="While nothing is wrong, leader and epoch stay as they are.",
    why=(
        "Each needless election stops changes of the metadata for about a second, and every broker "
        "has to find the controller again."
    ),
    source="KIP-996; RaftEventSimulationTest (StableLeadership)",
)
L5 = Meaning(
    "L5",
    title="ops end",
    promise=(
        "Once the cluster has recovered, each request is answered within two seconds. A controller "
        "that is not the active one says so at once, and the active one does not say it."
    ),
    why=(
        "A request without an answer holds up a client until its timeout, and nobody knows whether "
        "the change was made."
    ),
    source="KRaft's QuorumController; KAFKA-13104; KAFKA-16286",
)
L6 = Meaning(
    "L6",
    title="voter changes end",
    promise="Every change of the voters ends: it is committed, or no living node goes by it.",
    why=(
        "While one change is open no other can begin. A broken controller cannot be replaced, and "
        "the next failure may cost the majority."
    ),
    source="KIP-853; KRaft TLA+ specification (ReconfigurationNotStuck); KAFKA-20661",
)
L7 = Meaning(
    "L7",
    title="no stuck prospective",
    promise=(
        "No voter stays in an election: within twice the election timeout it stands, wins, or "
        "gives up and follows. A follower that hears no more of its leader stands, too."
    ),
    why=(
        "A voter that is stuck neither leads nor follows. It is as good as dead though its process "
        "runs, and a quorum of three survives no other failure."
    ),
    source="KIP-595; KIP-996; KRaft TLA+ specification (NotStuckInProspective)",
)
L8 = Meaning(
    "L8",
    title="convergence",
    promise=(
        "When all faults are healed, all nodes come to the same high watermark, and hear of each "
        "commit soon."
    ),
    why=(
        "A node that stays behind serves old metadata though nothing is wrong any more: its "
        "clients do not find new topics and go to old partition leaders."
    ),
    source="KIP-595; KIP-1166; KAFKA-14145; KAFKA-19354",
)
L10 = Meaning(
    "L10",
    title="broker lifecycle",
    promise=(
        "A living broker is registered, also when it comes back after a silence, and unfenced once "
        "it has caught up; one that wants to stop is let go. Each happens within a known time. "
        "A controller that asks to be registered is answered."
    ),
    why=(
        "A broker that stays fenced serves nobody though it runs. One that may not stop holds up a "
        "rolling restart until somebody kills it."
    ),
    source="KIP-631; KRaft TLA+ specification (EventuallyUnfenced); KAFKA-14292; KAFKA-19047",
)
L11 = Meaning(
    "L11",
    title="bounded log",
    promise=(
        "A node takes a snapshot when it has as many bytes of new records as its setting says. It "
        "keeps none that ends before its log begins, and no more than the newest where log and "
        "snapshots are larger than they may be."
    ),
    why=(
        "Without snapshots the metadata log grows for ever: disks fill, and each restart takes "
        "longer than the one before."
    ),
    source=(
        "KIP-630 (metadata.log.max.record.bytes.between.snapshots, metadata.max.retention.bytes); "
        "KAFKA-14300"
    ),
)
L12 = Meaning(
    "L12",
    title="no spinning",
    promise="An idle node does little, and a node pauses before it repeats a request that failed.",
    why=(
        "A node that spins uses up a CPU and floods the others with requests, which slows down all "
        "that has to be done."
    ),
    source="controller.quorum.retry.backoff.ms; KAFKA-17751; KAFKA-19605",
)
L13 = Meaning(
    "L13",
    title="fetches are answered",
    promise=(
        "A leader answers each fetch that it accepted: at once if it has records for it, else "
        "within the time that the fetch may wait. Who got records asks for more at once."
    ),
    why=(
        "A follower has one fetch open at a time. Without an answer it hears neither of commits "
        "nor of a new leader, so it falls behind and elections take longer."
    ),
    source="KIP-227 (max.wait); KIP-595 (Fetch); KAFKA-10677",
)
