package org.apache.kafka.raft;

/** One event of a live node, written when it is ended. */
final class LiveEvents extends TraceEvents {
    private final LiveFile file;

    LiveEvents(LiveFile file) {
        this.file = file;
    }

    @Override
    void end() {
        super.end();
        file.write(take());
    }
}
