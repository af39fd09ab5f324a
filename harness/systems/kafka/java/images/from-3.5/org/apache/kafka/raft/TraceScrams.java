package org.apache.kafka.raft;

import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;

/** The passwords of images, by the mechanism and the user. */
final class TraceScrams {
    private TraceScrams() {
    }

    static Map<String, Object> of(MetadataImage image) {
        Map<String, Object> all = new TreeMap<>();
        image.scram().mechanisms().forEach((mechanism, users) ->
            users.forEach((user, data) -> all.put(mechanism + " " + user, data)));
        return all;
    }

    static Map<String, Optional<Object>> changes(MetadataDelta delta) {
        Map<String, Optional<Object>> all = new TreeMap<>();
        if (delta.scramDelta() != null) {
            delta.scramDelta().changes().forEach((mechanism, users) ->
                users.forEach((user, data) -> all.put(mechanism + " " + user, data.map(each -> each))));
        }
        return all;
    }
}
