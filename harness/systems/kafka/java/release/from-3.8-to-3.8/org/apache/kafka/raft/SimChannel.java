package org.apache.kafka.raft;

import org.apache.kafka.common.network.ListenerName;

/** The network as the raft client of this release takes it: a request says where it goes. */
interface SimChannel extends SimSender {
    @Override
    default ListenerName listenerName() {
        return SimRaft.LISTENER;
    }
}
