package org.apache.kafka.raft;

import java.io.IOException;
import java.io.UncheckedIOException;

import org.apache.kafka.common.errors.KafkaStorageException;

import krucible.Disk;

/** The simulated disk, with the events told before each change; errors as Kafka's own classes raise them. */
final class SimFiles {
    /** A change of the disk. */
    interface Change {
        void make(String told) throws IOException;
    }

    private final Disk disk;
    private final TraceEvents events;

    SimFiles(Disk disk, TraceEvents events) {
        this.disk = disk;
        this.events = events;
    }

    Disk disk() {
        return disk;
    }

    /** As the log: what fails is a KafkaStorageException. */
    void ofLog(Change change) {
        try {
            change.make(events.take());
        } catch (IOException e) {
            throw new KafkaStorageException("Error while writing to the metadata log: " + e.getMessage(), e);
        }
    }

    /** As a snapshot or quorum-state: what fails is an UncheckedIOException. */
    void ofFile(Change change) {
        try {
            change.make(events.take());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    byte[] read(String path) {
        try {
            return disk.read(path);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    String[] list() {
        try {
            return disk.list();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
