package org.apache.kafka.raft;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.image.MetadataImage;

/** Reads the settings and quotas of an image, which some releases keep to themselves. */
final class TraceSettings {
    private TraceSettings() {
    }

    static Map<ConfigResource, Map<String, String>> of(MetadataImage image) {
        Map<ConfigResource, Map<String, String>> all = new HashMap<>();
        map(image.configs(), "resourceData").forEach((resource, each) ->
            all.put((ConfigResource) resource, new TreeMap<>(TraceSettings.<String, String>map(each, "data"))));
        return all;
    }

    static Map<String, String> of(MetadataImage image, ConfigResource resource) {
        Object found = map(image.configs(), "resourceData").get(resource);
        return found == null ? Map.of() : new TreeMap<>(TraceSettings.<String, String>map(found, "data"));
    }

    /** The quotas of each entity, by its name. */
    static Map<String, Map<?, ?>> quotas(MetadataImage image) {
        return TraceDifferences.mapped(map(image.clientQuotas(), "entities"), each -> new TreeMap<>(map(each, "quotas")));
    }

    @SuppressWarnings("unchecked")
    private static <K, V> Map<K, V> map(Object of, String name) {
        return (Map<K, V>) TraceInside.call(of, name);
    }
}
