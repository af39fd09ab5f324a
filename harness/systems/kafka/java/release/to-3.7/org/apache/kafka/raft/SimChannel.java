package org.apache.kafka.raft;

/** The network as the raft client of this release takes it: it is told where voters are, as their setting says. */
interface SimChannel extends SimSender {
    @Override
    default void updateEndpoint(int id, RaftConfig.InetAddressSpec address) {
    }
}
