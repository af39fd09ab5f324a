package org.apache.kafka.raft;

import java.util.LinkedHashSet;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** The voters as later releases of Kafka have them; here they are those of the settings. */
record VoterSet(Set<Integer> voterIds) {
    static VoterSet of(Set<Integer> ids) {
        return new VoterSet(new TreeSet<>(ids));
    }

    Set<ReplicaKey> voterKeys() {
        return voterIds.stream().map(ReplicaKey::of)
            .collect(Collectors.toCollection(LinkedHashSet::new));
    }
}
