package org.apache.kafka.raft;

import java.util.Collection;
import java.util.HexFormat;
import java.util.Optional;

import org.apache.kafka.common.Uuid;

/**
 * Protocol events (node/trace.py) as JSON lines without their heads, one begun after the other is ended;
 * {@link #take} empties it.
 */
class TraceEvents {
    private final StringBuilder out = new StringBuilder(256);
    private boolean first;
    private Runnable beginning; // tells the first event, if that is still to come

    /** Begin an event of an epoch. */
    TraceEvents event(int epoch, String type) {
        begin();
        out.append(",\"ep\":").append(epoch).append(",\"t\":\"").append(type).append('"');
        return this;
    }

    TraceEvents put(String name, long value) {
        out.append(",\"").append(name).append("\":").append(value);
        return this;
    }

    TraceEvents put(String name, boolean value) {
        out.append(",\"").append(name).append("\":").append(value);
        return this;
    }

    TraceEvents put(String name, String value) {
        out.append(",\"").append(name).append("\":");
        if (value == null) {
            out.append("null");
        } else {
            text(value);
        }
        return this;
    }

    /** A number, or null where it is negative: an id, an epoch or an offset that is not known. */
    TraceEvents known(String name, long value) {
        return value < 0 ? put(name, (String) null) : put(name, value);
    }

    TraceEvents directory(String name, Optional<Uuid> id) {
        return put(name, id.map(TraceEvents::hex).orElse(null));
    }

    /** A list of numbers. */
    TraceEvents ids(String name, Iterable<Integer> ids) {
        open(name, '[');
        for (int id : ids) {
            comma();
            out.append(id);
        }
        return close(']');
    }

    /** A list of texts. */
    TraceEvents texts(String name, Iterable<String> all) {
        open(name, '[');
        for (String each : all) {
            comma();
            text(each);
        }
        return close(']');
    }

    /** A list of keys: [id, directory or null]. */
    TraceEvents keys(String name, Collection<ReplicaKey> keys) {
        open(name, '[');
        for (ReplicaKey key : keys) {
            comma();
            key(key);
        }
        return close(']');
    }

    void key(ReplicaKey key) {
        out.append('[').append(key.id()).append(',');
        if (key.directoryId().isPresent()) {
            text(hex(key.directoryId().get()));
        } else {
            out.append("null");
        }
        out.append(']');
    }

    TraceEvents open(String name, char bracket) {
        out.append(",\"").append(name).append("\":").append(bracket);
        first = true;
        return this;
    }

    TraceEvents comma() {
        if (!first) {
            out.append(',');
        }
        first = false;
        return this;
    }

    TraceEvents raw(String json) {
        out.append(json);
        return this;
    }

    TraceEvents close(char bracket) {
        out.append(bracket);
        first = false;
        return this;
    }

    /** End the event. */
    void end() {
        out.append("}\n");
    }

    /** Have an event told in front of all others, and before the disk changes: no earlier, as more is known then. */
    void beginWith(Runnable event) {
        beginning = event;
    }

    /** Tell that event, if it is still to come. */
    void begin() {
        if (beginning != null) {
            Runnable event = beginning;
            beginning = null;
            event.run();
        }
    }

    String take() {
        begin();
        if (out.length() == 0) {
            return "";
        }
        String told = out.toString();
        out.setLength(0);
        return told;
    }

    static String hex(Uuid id) {
        HexFormat hex = HexFormat.of();
        return hex.toHexDigits(id.getMostSignificantBits()) + hex.toHexDigits(id.getLeastSignificantBits());
    }

    private void text(String value) {
        out.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
