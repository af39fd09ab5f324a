package org.apache.kafka.raft;

import org.apache.kafka.storage.internals.log.UnifiedLog;

/** The end of a log whose process was killed: files stay as they are. */
final class SimRealKill {
    private SimRealKill() {
    }

    static void end(UnifiedLog log) {
        log.closeHandlers();
    }
}
