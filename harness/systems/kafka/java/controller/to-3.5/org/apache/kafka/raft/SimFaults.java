package org.apache.kafka.raft;

import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.server.fault.FaultHandler;

/** Says what becomes of a controller's faults, which are all fatal before 3.6. */
final class SimFaults {
    private SimFaults() {
    }

    static QuorumController.Builder handled(QuorumController.Builder builder, FaultHandler fatal, FaultHandler other) {
        return builder.setFatalFaultHandler(fatal);
    }
}
