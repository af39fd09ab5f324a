package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.common.protocol.ApiMessage;

/** What a raft client sends: where it goes, and how its answer comes. */
final class SimSent {
    private SimSent() {
    }

    static RaftResponse.Inbound answered(RaftRequest.Outbound request, ApiMessage data) {
        return new RaftResponse.Inbound(request.correlationId(), data, request.destination());
    }

    static Optional<SimPeer> destination(RaftRequest.Outbound request, Map<Integer, InetSocketAddress> voters) {
        return Optional.ofNullable(request.destination()).map(to -> new SimPeer(to.id(), to.host(), to.port()));
    }
}
