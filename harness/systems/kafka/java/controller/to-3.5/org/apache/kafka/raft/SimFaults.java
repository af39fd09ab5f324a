package org.apache.kafka.raft;

import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.server.fault.FaultHandler;

/** Says what becomes of a controller's faults, which are all fatal before 3.6. */
final class SimFaults {
    private static final String OF_METADATA = "metadataFaultHandler";

    private SimFaults() {
    }

    static QuorumController.Builder handled(QuorumController.Builder builder, FaultHandler fatal, FaultHandler other) {
        if (TraceInside.has(QuorumController.Builder.class, OF_METADATA)) { // 3.3.1 has another one, which logs
            TraceInside.set(TraceInside.field(QuorumController.Builder.class, OF_METADATA), builder, other);
        }
        return builder.setFatalFaultHandler(fatal);
    }
}
