package org.apache.kafka.raft;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** The file of a live node's events: each is handed to the kernel at once, so that SIGKILL loses none. */
final class LiveFile {
    private final FileOutputStream file;
    private final String who;
    private long seq;

    LiveFile(String path, int node, String directory, long incarnation) {
        try {
            this.file = new FileOutputStream(path, true);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        this.who = ",\"node\":" + node + ",\"dir\":\"" + directory + "\",\"inc\":" + incarnation;
    }

    /** Write one event, stamped now: the steady clock of the host, which all its nodes share. */
    synchronized void write(String body) {
        seq++;
        String line = "{\"ts\":" + System.nanoTime() + ",\"seq\":" + seq + who + body;
        try {
            file.write(line.getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw new UncheckedIOException("the event file cannot be written", e);
        }
    }
}
