package org.apache.kafka.raft;

/** A listener, as the raft client of this release calls it. */
interface SimHearer<T> extends RaftClient.Listener<T> { }
