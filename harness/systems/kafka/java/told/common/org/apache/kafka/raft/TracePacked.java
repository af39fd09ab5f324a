package org.apache.kafka.raft;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.List;

/** Packs records into one array of bytes: each has its length before it, in four bytes. */
final class TracePacked {
    private TracePacked() {
    }

    static byte[] of(List<byte[]> values) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte[] value : values) {
            out.writeBytes(ByteBuffer.allocate(4).putInt(value.length).array());
            out.writeBytes(value);
        }
        return out.toByteArray();
    }
}
