package org.apache.kafka.raft;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * The file of a live node's events. What is written is with the kernel after {@link #flush}, so that SIGKILL
 * loses none of it.
 */
final class LiveFile {
    private static final int KEPT_MAX = 1 << 15; // bytes

    private final FileOutputStream file;
    private final String who;
    private byte[] kept = new byte[2 * KEPT_MAX];
    private int size;
    private long seq;

    LiveFile(String path, int node, String directory, long incarnation) {
        try {
            this.file = new FileOutputStream(path, true);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        this.who = ",\"node\":" + node + ",\"dir\":\"" + directory + "\",\"inc\":" + incarnation;
    }

    /** Keep an event, stamped now by the steady clock of the host, which all its nodes share. */
    synchronized void write(String body) {
        seq++;
        String line = "{\"ts\":" + System.nanoTime() + ",\"seq\":" + seq + who + body;
        byte[] encoded = line.getBytes(StandardCharsets.UTF_8);
        if (size + encoded.length > kept.length) {
            kept = Arrays.copyOf(kept, size + encoded.length);
        }
        System.arraycopy(encoded, 0, kept, size, encoded.length);
        size += encoded.length;
        if (size > KEPT_MAX) {
            flush();
        }
    }

    /** Hand all that is kept to the kernel. */
    synchronized void flush() {
        if (size == 0) {
            return;
        }
        try {
            file.write(kept, 0, size);
        } catch (IOException e) {
            throw new UncheckedIOException("the event file cannot be written", e);
        }
        size = 0;
    }
}
