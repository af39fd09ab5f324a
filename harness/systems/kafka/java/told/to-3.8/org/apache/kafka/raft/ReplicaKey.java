package org.apache.kafka.raft;

import java.util.Optional;

import org.apache.kafka.common.Uuid;

/** A replica as later releases of Kafka name it; here it is known by its id alone. */
record ReplicaKey(int id, Optional<Uuid> directoryId) {
    static ReplicaKey of(int id) {
        return new ReplicaKey(id, Optional.empty());
    }
}
