package org.apache.kafka.raft;

import java.util.OptionalLong;

/** How far a leader knows a voter's log to go. */
record TraceAck(ReplicaKey key, OptionalLong end) { }
