package org.apache.kafka.raft;

import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.PartitionRegistration;

/**
 * Tells what a controller has in memory, to be compared with the image that MetadataLoader has made of the same
 * records, and compares each index of the controller with what it is an index of. The image is judged elsewhere.
 */
final class TraceMemory {
    private static final int LEADER_FLAG = 0x8000_0000; // of BrokersToIsrs, on a partition
    private static final int NO_LEADER = -1;
    private static final String GONE = ", whose topic is gone";
    private static final String PARTITION = "partition";
    private static final String TOPIC = "topic";
    private static final String BROKER = "broker";
    private static final String CONTROLLER = "controller";
    private static final String SETTINGS = "settings of";
    private static final String FEATURE = "feature";
    private static final String ACL = "ACL";
    private static final String QUOTAS = "quotas of";
    private static final String CREDENTIAL = "credential";
    private static final String PRODUCER_IDS = "producer ids";

    private final Object replication;
    private final Object cluster;
    private final Object configs;
    private final Object features;
    private final Object acls;
    private final Object quotas;
    private final Map<Object, Object> passwords;
    private final Object producerIds;
    private final Map<Uuid, Object> topics;
    private final TraceDifferences found = new TraceDifferences(place -> isGone(place) ? GONE : "");

    TraceMemory(QuorumController controller) {
        replication = TraceInside.get(controller, "replicationControl");
        cluster = TraceInside.get(controller, "clusterControl");
        configs = TraceInside.get(controller, "configurationControl");
        features = TraceInside.get(controller, "featureControl");
        acls = TraceInside.get(controller, "aclControlManager");
        quotas = TraceInside.get(controller, "clientQuotaControlManager");
        passwords = TraceInside.has(QuorumController.class, "scramControlManager")
            ? map(TraceInside.get(controller, "scramControlManager"), "credentials") : Map.of();
        producerIds = TraceInside.get(controller, "producerIdControlManager");
        topics = map(replication, "topics");
    }

    /**
     * What a controller had in memory at one moment: what an image has, too, by its kind and its name, and how
     * indexes differed, in words.
     */
    record Taken(Map<String, Map<String, ?>> state, List<String> wrongIndexes) {
        /** What differs from an image, in words, and in the same order always; then the wrong indexes. */
        List<String> differences(MetadataImage image) {
            TraceDifferences found = new TraceDifferences(place -> "");
            Map<String, Map<?, ?>> wanted = parts(image);
            state.forEach((kind, all) -> {
                Map<?, ?> due = wanted.get(kind);
                if (due != null) {
                    found.compare(kind, all, due);
                }
            });
            List<String> wrong = found.taken();
            wrong.addAll(wrongIndexes);
            return wrong;
        }
    }

    /** Copy what is in memory now, and look at the indexes. Only the controller's own thread may ask. */
    Taken taken() {
        Map<String, Map<String, ?>> state = new LinkedHashMap<>();
        Map<String, Object> partitions = new TreeMap<>();
        topics.forEach((id, topic) -> partitionsOf(topic).forEach((index, each) -> partitions.put(id + "-" + index, each)));
        state.put(PARTITION, partitions);
        state.put(TOPIC, copied(map(replication, "topicsByName")));
        state.put(BROKER, copied(map(cluster, "brokerRegistrations")));
        if (TraceInside.has(cluster.getClass(), "controllerRegistrations")) {
            state.put(CONTROLLER, copied(map(cluster, "controllerRegistrations")));
        }
        state.put(SETTINGS, filled(map(configs, "configData")));
        state.put(FEATURE, copied(map(features, "finalizedVersions")));
        state.put(ACL, copied(map(acls, "idToAcl")));
        state.put(QUOTAS, filled(map(quotas, "clientQuotaData")));
        Map<String, Object> known = new TreeMap<>();
        passwords.forEach((key, value) ->
            known.put(TraceInside.get(key, "mechanism") + " " + TraceInside.get(key, "username"), true));
        state.put(CREDENTIAL, known);
        Object block = TraceInside.call(TraceInside.get(producerIds, "nextProducerBlock"), "get");
        state.put(PRODUCER_IDS, Map.of("next", TraceInside.call(block, "firstProducerId")));
        ofPartitions();
        ofOthers();
        return new Taken(state, found.taken());
    }

    /** The parts of an image that a controller has in memory, too. */
    private static Map<String, Map<?, ?>> parts(MetadataImage image) {
        Map<String, Map<?, ?>> parts = new HashMap<>();
        Map<String, Object> partitions = new TreeMap<>();
        image.topics().topicsById().forEach((id, topic) ->
            topic.partitions().forEach((index, each) -> partitions.put(id + "-" + index, each)));
        parts.put(PARTITION, partitions);
        parts.put(TOPIC, image.topics().topicNameToIdView());
        parts.put(BROKER, image.cluster().brokers());
        if (TraceInside.has(image.cluster().getClass(), "controllers")) {
            parts.put(CONTROLLER, (Map<?, ?>) TraceInside.call(image.cluster(), "controllers"));
        }
        Map<ConfigResource, Object> settings = new HashMap<>();
        TraceSettings.of(image).forEach((resource, each) -> {
            boolean isOrphan = resource.type() == ConfigResource.Type.TOPIC && image.topics().getTopic(resource.name()) == null;
            if (!isOrphan) { // an image may keep settings of deleted topics, which C8 tells of
                settings.put(resource, each);
            }
        });
        parts.put(SETTINGS, settings);
        parts.put(FEATURE, image.features().finalizedVersions());
        parts.put(ACL, image.acls().acls());
        parts.put(QUOTAS, TraceSettings.quotas(image));
        parts.put(CREDENTIAL, TraceDifferences.mapped(TraceScrams.of(image), each -> true));
        long next = (Long) TraceInside.get(image.producerIds(), "nextProducerId");
        if (next >= 0) {
            parts.put(PRODUCER_IDS, Map.of("next", next));
        }
        return parts;
    }

    private static Map<String, Object> copied(Map<Object, Object> all) {
        return TraceDifferences.mapped(all, each -> each);
    }

    /** Tell how indexes of topics and partitions differ from what these say. */
    private void ofPartitions() {
        Map<String, Uuid> names = new TreeMap<>();
        Map<String, Set<String>> isrs = new TreeMap<>();
        Map<String, Set<String>> elrs = new TreeMap<>();
        Map<String, Set<String>> directories = new TreeMap<>();
        Map<String, Set<String>> reassigning = new TreeMap<>();
        Set<String> imbalanced = new TreeSet<>();
        topics.forEach((id, topic) -> {
            names.put((String) TraceInside.get(topic, "name"), id);
            partitionsOf(topic).forEach((index, partition) -> {
                String place = id + "-" + index;
                for (int broker : partition.isr) {
                    add(isrs, broker, place + (broker == partition.leader ? " led" : ""));
                }
                if (partition.leader == NO_LEADER) {
                    add(isrs, NO_LEADER, place + " led");
                }
                for (int broker : TraceReplicas.eligible(partition)) {
                    add(elrs, broker, place);
                }
                TraceReplicas.directories(partition).forEach(directory -> add(directories, directory, place));
                if (partition.addingReplicas.length + partition.removingReplicas.length > 0) {
                    add(reassigning, id, "" + index);
                }
                if (!partition.hasPreferredLeader()) {
                    imbalanced.add(place);
                }
            });
        });
        found.compare("name of topic", map(replication, "topicsByName"), names);
        found.compare("brokersToIsrs of", places(map(TraceInside.get(replication, "brokersToIsrs"), "isrMembers")), isrs);
        if (TraceInside.has(replication.getClass(), "brokersToElrs")) {
            found.compare("brokersToElrs of", places(map(TraceInside.get(replication, "brokersToElrs"), "elrMembers")), elrs);
        }
        if (TraceInside.has(replication.getClass(), "directoriesToPartitions")) {
            found.compare("directoriesToPartitions of",
                TraceDifferences.mapped(map(replication, "directoriesToPartitions"), TraceMemory::named), directories);
        }
        found.compare("reassigningTopics of",
            TraceDifferences.mapped(map(replication, "reassigningTopics"), each -> numbers((int[]) each)), reassigning);
        found.compare("imbalancedPartitions of", Map.of("all", named(TraceInside.get(replication, "imbalancedPartitions"))),
            Map.of("all", imbalanced));
    }

    /** Tell how indexes of brokers, settings and ACLs differ from what these say. */
    private void ofOthers() {
        Map<String, Object> homes = new TreeMap<>();
        this.<Integer, BrokerRegistration>map(cluster, "brokerRegistrations").forEach((id, broker) ->
            TraceReplicas.directories(broker).forEach(directory -> homes.put(directory.toString(), id)));
        if (TraceInside.has(cluster.getClass(), "directoryToBroker")) {
            found.compare("directoryToBroker of", map(cluster, "directoryToBroker"), homes);
        }
        Object heartbeats = TraceInside.get(cluster, "heartbeatManager"); // of an active controller
        if (heartbeats != null) {
            found.compare("fenced in heartbeats", TraceDifferences.mapped(map(heartbeats, "brokers"), each -> TraceInside.call(each, "fenced")),
                TraceDifferences.mapped(this.<Integer, BrokerRegistration>map(cluster, "brokerRegistrations"), BrokerRegistration::fenced));
        }
        Map<Uuid, Object> listed = map(acls, "idToAcl");
        found.compare("existingAcls of", Map.of("all", named(TraceInside.get(acls, "existingAcls"))),
            Map.of("all", named(listed.values())));
        if (TraceInside.has(configs.getClass(), "brokersWithConfigs")) {
            Set<String> brokers = new TreeSet<>();
            this.<ConfigResource, Object>map(configs, "configData").forEach((resource, each) -> {
                if (resource.type() == ConfigResource.Type.BROKER && !resource.name().isEmpty() && !((Map<?, ?>) each).isEmpty()) {
                    brokers.add(resource.name());
                }
            });
            found.compare("brokersWithConfigs of", Map.of("all", named(TraceInside.get(configs, "brokersWithConfigs"))),
                Map.of("all", brokers));
        }
    }

    @SuppressWarnings("unchecked")
    private <K, V> Map<K, V> map(Object of, String name) {
        return (Map<K, V>) TraceInside.get(of, name);
    }

    @SuppressWarnings("unchecked")
    private static Map<Integer, PartitionRegistration> partitionsOf(Object topic) {
        return (Map<Integer, PartitionRegistration>) TraceInside.get(topic, "parts");
    }

    private static void add(Map<String, Set<String>> to, Object key, String value) {
        to.computeIfAbsent(key.toString(), k -> new TreeSet<>()).add(value);
    }

    /** Of an index of BrokersToIsrs: the places of each broker's partitions. */
    private static Map<String, Set<String>> places(Map<Object, Map<Uuid, int[]>> index) {
        Map<String, Set<String>> all = new TreeMap<>();
        index.forEach((broker, topics) -> topics.forEach((id, partitions) -> {
            for (int each : partitions) {
                add(all, broker, id + "-" + (each & ~LEADER_FLAG) + ((each & LEADER_FLAG) == 0 ? "" : " led"));
            }
        }));
        return all;
    }

    private static Set<String> named(Object collection) {
        Set<String> all = new TreeSet<>();
        for (Object each : (Collection<?>) collection) {
            all.add(place(each));
        }
        return all;
    }

    /** A partition by its topic's id, whatever class names it in a release. */
    private static String place(Object each) {
        return TraceInside.has(each.getClass(), "partitionId")
            ? TraceInside.call(each, "topicId") + "-" + TraceInside.call(each, "partitionId") : each.toString();
    }

    private static Set<String> numbers(int[] all) {
        Set<String> found = new TreeSet<>();
        for (int each : all) {
            found.add("" + each);
        }
        return found;
    }

    /** Those that have anything, as plain maps. */
    private static Map<String, Object> filled(Map<Object, Map<Object, Object>> all) {
        Map<String, Object> made = new TreeMap<>();
        all.forEach((key, value) -> {
            if (!value.isEmpty()) {
                made.put(key.toString(), new TreeMap<>(value));
            }
        });
        return made;
    }

    /** Whether it is a partition of a topic that is not there. */
    private boolean isGone(String place) {
        int end = place.lastIndexOf('-');
        return end > 0 && topics.keySet().stream().noneMatch(id -> id.toString().equals(place.substring(0, end)));
    }
}
