package org.apache.kafka.raft;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.PartitionRegistration;

/**
 * Follows the deltas that MetadataLoader publishes, as the parts of a broker do, and compares what they come
 * to with the image that is published with the last of them.
 */
final class TraceDeltas {
    private static final String ELR = "eligible.leader.replicas.version";

    private final Map<Uuid, Map<Integer, PartitionRegistration>> topics = new HashMap<>();
    private final Map<Integer, BrokerRegistration> brokers = new HashMap<>();
    private final Map<ConfigResource, Map<String, String>> settings = new HashMap<>();
    private final Map<Object, Object> acls = new HashMap<>();
    private final Map<Object, Object> tokens = new HashMap<>();
    private final Map<Object, Object> credentials = new HashMap<>();
    private final Map<Object, Map<String, Double>> quotas = new HashMap<>();
    private boolean elrWasOff;
    private final TraceDifferences found = new TraceDifferences(each -> "");

    /** Do what a delta says. */
    void follow(MetadataDelta delta, MetadataImage image) {
        if (delta.topicsDelta() != null) {
            delta.topicsDelta().deletedTopicIds().forEach(topics::remove);
            delta.topicsDelta().changedTopics().forEach((id, topic) ->
                topics.computeIfAbsent(id, k -> new TreeMap<>()).putAll(topic.partitionChanges()));
        }
        if (delta.clusterDelta() != null) {
            put(brokers, delta.clusterDelta().changedBrokers());
        }
        if (delta.configsDelta() != null) { // who listens looks the settings up in the image
            delta.configsDelta().changes().keySet().forEach(resource ->
                settings.put(resource, TraceSettings.of(image, resource)));
        }
        if (delta.aclsDelta() != null) {
            put(acls, delta.aclsDelta().changes());
        }
        put(tokens, TraceTokens.changes(delta));
        put(credentials, TraceScrams.changes(delta));
        if (delta.clientQuotasDelta() != null) {
            delta.clientQuotasDelta().changes().forEach((entity, changes) -> changes.changes().forEach((name, value) -> {
                Map<String, Double> all = quotas.computeIfAbsent(entity, k -> new TreeMap<>());
                value.ifPresentOrElse(each -> all.put(name, each), () -> all.remove(name));
            }));
        }
    }

    private static <K, V> void put(Map<? super K, ? super V> all, Map<K, Optional<V>> changes) {
        changes.forEach((key, value) -> value.ifPresentOrElse(each -> all.put(key, each), () -> all.remove(key)));
    }

    /**
     * Tell apart, and take out, the partitions that differ by their eligible leaders only: a new publisher is
     * given the image as it is written, without these while they are switched off.
     */
    private void onlyByElr(Map<String, Object> partitions, Map<String, Object> ofImage) {
        Map<String, Object> own = new TreeMap<>();
        Map<String, Object> theirs = new TreeMap<>();
        partitions.forEach((name, each) -> {
            Object other = ofImage.get(name);
            if (other != null && !each.equals(other) && withoutElr(each).equals(withoutElr(other))) {
                own.put(name, each);
                theirs.put(name, other);
            }
        });
        found.compare("partition, the same but for eligible leaders, which were switched off,", own, theirs);
        partitions.keySet().removeAll(own.keySet());
        ofImage.keySet().removeAll(own.keySet());
    }

    private static String withoutElr(Object partition) {
        return partition.toString().replaceAll("(elr|lastKnownElr)=\\[[^\\]]*\\]", "");
    }

    /** What differs from an image, in words. */
    List<String> differences(MetadataImage image) {
        Map<String, Object> partitions = new TreeMap<>();
        topics.forEach((id, of) -> of.forEach((index, each) -> partitions.put(id + "-" + index, each)));
        Map<String, Object> ofImage = new TreeMap<>();
        image.topics().topicsById().forEach((id, topic) ->
            topic.partitions().forEach((index, each) -> ofImage.put(id + "-" + index, each)));
        elrWasOff |= image.features().finalizedVersions().getOrDefault(ELR, (short) 0) == 0;
        if (elrWasOff) {
            onlyByElr(partitions, ofImage);
        }
        found.compare("partition", partitions, ofImage);
        found.compare("broker", brokers, image.cluster().brokers());
        found.compare("ACL", acls, image.acls().acls());
        found.compare("token", tokens, TraceTokens.of(image));
        found.compare("credential", credentials, TraceScrams.of(image));
        settings.values().removeIf(Map::isEmpty);
        found.compare("settings of", settings, TraceSettings.of(image));
        quotas.values().removeIf(Map::isEmpty);
        found.compare("quotas of", quotas, TraceSettings.quotas(image));
        return found.taken();
    }
}
