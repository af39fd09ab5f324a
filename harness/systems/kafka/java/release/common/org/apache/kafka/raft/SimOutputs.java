package org.apache.kafka.raft;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;

/** Outputs of a turn, packed; see {@link krucible.Replica}. */
final class SimOutputs {
    private static final int HEAD_BYTES = 23;

    private final ByteArrayOutputStream out = new ByteArrayOutputStream();
    private final byte[] bytes = new byte[HEAD_BYTES];
    private final ByteBuffer head = ByteBuffer.wrap(bytes);

    void put(byte kind, int a, int b, long c, short d, byte[] data) {
        head.clear();
        head.put(kind).putInt(a).putInt(b).putLong(c).putShort(d).putInt(data.length);
        out.write(bytes, 0, HEAD_BYTES);
        out.write(data, 0, data.length);
    }

    /** Take over outputs that are packed already. */
    void add(byte[] packed) {
        out.write(packed, 0, packed.length);
    }

    boolean isEmpty() {
        return out.size() == 0;
    }

    void clear() {
        out.reset();
    }

    /** All of them; none is left. */
    byte[] take() {
        byte[] all = out.toByteArray();
        out.reset();
        return all;
    }
}
