package krucible;

import java.io.IOException;

/**
 * The simulated disk of one node; Python implements it. Paths are within the folder of the metadata
 * partition. {@code told} are the events so far, as lines of JSON without their heads: they are seen
 * before the disk changes, for the power may fail in the change ({@link PowerFailure}).
 */
public interface Disk {
    /** The content of a file; null when there is none. */
    byte[] read(String path) throws IOException;

    /** How many bytes at its beginning no loss of power can change. */
    long durable(String path);

    /** Names of all files, sorted. */
    String[] list() throws IOException;

    /** Make an empty file, in the place of one that is there. */
    void create(String told, String path) throws IOException;

    /** Write at the end of a file. */
    void append(String told, String path, byte[] data) throws IOException;

    /** Drop everything from a size on. */
    void truncate(String told, String path, long size) throws IOException;

    /** Make the content of a file durable. */
    void fsync(String told, String path) throws IOException;

    /**
     * The thread of the raft client is about to wait for an fsync; what other threads have done by then
     * ({@code outputs}, as of a turn) does not wait with it. Also called before the disk is read, with the
     * changes that were put off.
     */
    void release(byte[] outputs);

    /** Put a file in the place of another one. */
    void rename(String told, String source, String target) throws IOException;

    /** Remove a file. */
    void unlink(String told, String path) throws IOException;

    /** Make the names durable. */
    void fsyncNames(String told) throws IOException;
}
