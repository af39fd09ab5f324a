package org.apache.kafka.raft;

import java.io.IOException;
import java.nio.charset.StandardCharsets;

import krucible.Disk;
import krucible.Kinds;

/**
 * The simulated disk as the replica uses it. As long as no change of it can fail, changes are outputs of
 * the turn, in their order with all others: to call Python for each costs more than all that Kafka does
 * between them. A disk that is out of order, or is about to lose its power, is called at once.
 */
final class SimDisk implements Disk {
    private static final byte[] NOTHING = new byte[0];

    private final Disk disk;
    private final SimOutputs changes = new SimOutputs();
    private boolean putsOff;

    SimDisk(Disk disk) {
        this.disk = disk;
    }

    /** A turn begins; {@code isSound}: no change can fail in it. */
    void begin(boolean isSound) {
        putsOff = isSound;
    }

    /** What was put off, and then outputs. */
    byte[] before(byte[] outputs) {
        if (changes.isEmpty()) {
            return outputs;
        }
        changes.add(outputs);
        return changes.take();
    }

    private void putOff(byte kind, String told, long c, byte[] data) {
        if (!told.isEmpty()) {
            changes.put(Kinds.EVENT, 0, 0, 0, (short) 0, utf8(told));
        }
        changes.put(kind, 0, 0, c, (short) 0, data);
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] both(String path, byte[] data) {
        byte[] name = utf8(path);
        byte[] both = new byte[name.length + 1 + data.length];
        System.arraycopy(name, 0, both, 0, name.length);
        System.arraycopy(data, 0, both, name.length + 1, data.length);
        return both;
    }

    /** Have made what was put off: the disk is to be read. */
    private void settle() {
        if (!changes.isEmpty()) {
            disk.release(changes.take());
        }
    }

    @Override
    public byte[] read(String path) throws IOException {
        settle();
        return disk.read(path);
    }

    @Override
    public long durable(String path) {
        settle();
        return disk.durable(path);
    }

    @Override
    public String[] list() throws IOException {
        settle();
        return disk.list();
    }

    @Override
    public void create(String told, String path) throws IOException {
        if (putsOff) {
            putOff(Kinds.CREATE, told, 0, utf8(path));
        } else {
            disk.create(told, path);
        }
    }

    @Override
    public void append(String told, String path, byte[] data) throws IOException {
        if (putsOff) {
            putOff(Kinds.WRITE, told, 0, both(path, data));
        } else {
            disk.append(told, path, data);
        }
    }

    @Override
    public void truncate(String told, String path, long size) throws IOException {
        if (putsOff) {
            putOff(Kinds.TRUNCATE, told, size, utf8(path));
        } else {
            disk.truncate(told, path, size);
        }
    }

    @Override
    public void fsync(String told, String path) throws IOException {
        if (putsOff) {
            putOff(Kinds.FSYNC, told, 0, utf8(path));
        } else {
            disk.fsync(told, path);
        }
    }

    @Override
    public void release(byte[] outputs) {
        if (putsOff) {
            changes.add(outputs);
        } else {
            disk.release(outputs);
        }
    }

    @Override
    public void rename(String told, String source, String target) throws IOException {
        if (putsOff) {
            putOff(Kinds.RENAME, told, 0, both(source, utf8(target)));
        } else {
            disk.rename(told, source, target);
        }
    }

    @Override
    public void unlink(String told, String path) throws IOException {
        if (putsOff) {
            putOff(Kinds.UNLINK, told, 0, utf8(path));
        } else {
            disk.unlink(told, path);
        }
    }

    @Override
    public void fsyncNames(String told) throws IOException {
        if (putsOff) {
            putOff(Kinds.FSYNC_NAMES, told, 0, NOTHING);
        } else {
            disk.fsyncNames(told);
        }
    }
}
