package org.apache.kafka.raft;

import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * The end of a log whose process was killed. This release can close files only in good order: nothing is
 * flushed by that, but indexes are cut to the size that they need, as those of a real process would not be.
 */
final class SimRealKill {
    private SimRealKill() {
    }

    static void end(UnifiedLog log) {
        log.closeQuietly();
    }
}
