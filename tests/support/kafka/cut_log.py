"""Has Kafka's own log class cut its log on a real folder, and open it after a loss of power.

    python -m tests.support.kafka.cut_log JARS FOLDER

A program of its own: a JVM cannot be started twice in a process. A segment is cut just where the
next one begins; the power that fails takes that cut back, which Kafka has not fsynced. Prints what
the log reads before and after, as JSON: batches as [base offset, epoch].
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from harness.systems.kafka.simulated.bridge import bridge

# signals are Python's, and without them a JVM has a socket in /tmp unless it is told not to
OPTIONS: Final = ("-Xmx256m", "-Xrs", "-XX:+DisableAttachMechanism")
SEGMENT_BYTES: Final = 2048
OLD: Final = range(15)  # offsets of the old leader's
CUT: Final = 10  # where the new leader's begin
NEW: Final = range(CUT, 13)
OLD_BYTES, NEW_BYTES = 50, 1000  # all of the old fit in a segment, and none of the new beside them


class Logs:
    """Opens metadata logs, and reads them."""

    def __init__(self) -> None:
        self._class = bridge().JClass
        self._scheduler = self._class("org.apache.kafka.server.util.KafkaScheduler")(
            1, True, "log-"
        )
        self._scheduler.startup()
        try:  # from 4.3 on
            self._make = self._class("org.apache.kafka.raft.internals.KafkaRaftLog").createLog
            self._more: tuple[int, ...] = (1 << 20,)
            self._records = "org.apache.kafka.common.record.internal."
        except TypeError:
            self._make, self._more = self._class("kafka.raft.KafkaMetadataLog").apply, ()
            self._records = "org.apache.kafka.common.record."

    def opened(self, folder: Path) -> Any:
        """Open the log of a folder, as a controller does when it starts."""
        settings = self._class("java.util.HashMap")()
        settings.put("internal.metadata.log.segment.bytes", str(SEGMENT_BYTES))
        kind = self._class("org.apache.kafka.raft.MetadataLogConfig")
        known = self._class("org.apache.kafka.common.config.AbstractConfig")
        return self._make(
            self._class("org.apache.kafka.common.TopicPartition")("__cluster_metadata", 0),
            self._class("org.apache.kafka.common.Uuid").METADATA_TOPIC_ID,
            self._class("java.io.File")(str(folder)),
            self._class("org.apache.kafka.common.utils.Time").SYSTEM,
            self._scheduler,
            kind(known(kind.CONFIG_DEF, settings, False)),
            1,
        )

    def append(self, log: Any, offset: int, epoch: int, size: int) -> None:
        """Append a record, as a follower does."""
        jpype = bridge()
        value = jpype.JArray(jpype.JByte)(bytes(size))
        record = self._class(f"{self._records}SimpleRecord")(value)
        none = self._class("org.apache.kafka.common.compress.Compression").NONE
        records = self._class(f"{self._records}MemoryRecords")
        log.appendAsFollower(records.withRecords(offset, none, epoch, record), epoch)

    def commit(self, log: Any, end: int) -> None:
        """Let the high watermark be there."""
        log.updateHighWatermark(self._class("org.apache.kafka.raft.LogOffsetMetadata")(end))

    def committed(self, log: Any, offset: int) -> list[tuple[int, int]]:
        """What a state machine is given that has applied all below an offset."""
        isolation = self._class("org.apache.kafka.raft.Isolation").COMMITTED
        found = log.read(offset, isolation, *self._more).records.batches()
        return [(int(batch.baseOffset()), int(batch.partitionLeaderEpoch())) for batch in found]

    def close(self) -> None:
        """End the threads."""
        self._scheduler.shutdown()


def main() -> None:
    """Cut the log, lose the power, and tell."""
    jars, folder = sys.argv[1], Path(sys.argv[2])
    bridge().startJVM(*OPTIONS, classpath=[f"{jars}/*"], convertStrings=True)
    logs = Logs()
    before = folder / "before" / "__cluster_metadata-0"
    before.mkdir(parents=True)
    log = logs.opened(before)
    for offset in OLD:
        logs.append(log, offset, 1, OLD_BYTES)
    log.flush(False)
    first = before / f"{0:020}.log"
    whole = first.read_bytes()
    log.truncateTo(CUT)
    for offset in NEW:
        logs.append(log, offset, 2, NEW_BYTES)
    log.flush(False)
    logs.commit(log, NEW.stop)
    told = {"before": [*logs.committed(log, 0), *logs.committed(log, CUT)]}
    after = folder / "after" / before.name
    shutil.copytree(before, after)
    (after / first.name).write_bytes(whole)  # all else was fsynced
    log = logs.opened(after)
    logs.commit(log, NEW.stop)
    told["after"] = logs.committed(log, 0)
    sys.stdout.write(json.dumps({**told, "end": int(log.endOffset().offset())}) + "\n")
    logs.close()


if __name__ == "__main__":
    main()
