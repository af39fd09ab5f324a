package org.apache.kafka.raft;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.image.MetadataImage;

/** Reads the settings of an image, which some releases keep to themselves. */
final class TraceSettings {
    private TraceSettings() {
    }

    static Map<ConfigResource, Map<String, String>> of(MetadataImage image) {
        Map<ConfigResource, Map<String, String>> all = new HashMap<>();
        map(image.configs(), "resourceData").forEach((resource, each) ->
            all.put((ConfigResource) resource, new TreeMap<>(TraceSettings.<String, String>map(each, "data"))));
        return all;
    }

    @SuppressWarnings("unchecked")
    private static <K, V> Map<K, V> map(Object of, String name) {
        return (Map<K, V>) TraceInside.call(of, name);
    }
}
