package org.apache.kafka.raft;

import java.util.Map;

/** The settings of a quorum, whose class takes numbers. */
final class SimSettings {
    private SimSettings() {
    }

    static int number(Map<String, String> settings, String name, int otherwise) {
        String text = settings.get(name);
        return text == null ? otherwise : Integer.parseInt(text);
    }
}
