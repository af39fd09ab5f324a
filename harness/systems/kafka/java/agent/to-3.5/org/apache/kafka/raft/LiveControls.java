package org.apache.kafka.raft;

import org.apache.kafka.common.record.RecordBatch;

/** Control batches in a live node's log: these releases hand them over to nobody. */
public final class LiveControls {
    private LiveControls() {
    }

    /** Where data goes on that is committed: an offset itself, or behind the control batches that lie there. */
    public static long behind(long offset) {
        Object log = TraceInside.get(TraceInside.field(KafkaRaftClient.class, "log"), LiveNode.client());
        long end = offset;
        for (RecordBatch batch : ((ReplicatedLog) log).read(offset, Isolation.COMMITTED).records.batches()) {
            if (!batch.isControlBatch()) {
                break;
            }
            end = batch.nextOffset();
        }
        return end;
    }
}
