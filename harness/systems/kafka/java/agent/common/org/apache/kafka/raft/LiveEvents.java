package org.apache.kafka.raft;

import java.util.Set;

/**
 * One event of a live node. Those of which nobody hears before the next answer, request or acknowledgement are
 * kept until then; all others are written at once.
 */
final class LiveEvents extends TraceEvents {
    private static final Set<String> KEPT = Set.of("append", "flush", "hwm", "fetch_rx", "fetch_tx", "apply", "ack");

    private final LiveFile file;
    private final boolean isKept;

    LiveEvents(LiveFile file, String type) {
        this.file = file;
        this.isKept = KEPT.contains(type);
    }

    @Override
    void end() {
        super.end();
        file.write(take());
        if (!isKept) {
            file.flush();
        }
    }
}
