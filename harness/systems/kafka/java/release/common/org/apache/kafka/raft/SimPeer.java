package org.apache.kafka.raft;

/** The place where a request goes. */
record SimPeer(int id, String host, int port) { }
