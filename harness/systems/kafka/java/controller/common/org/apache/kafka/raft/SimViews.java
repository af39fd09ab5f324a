package org.apache.kafka.raft;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.DescribeConfigsRequestData;
import org.apache.kafka.common.message.DescribeConfigsResponseData;
import org.apache.kafka.common.message.MetadataRequestData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.TopicImage;
import org.apache.kafka.metadata.PartitionRegistration;

/**
 * Answers from a node's newest image, as KRaftMetadataCache and ConfigHelper do: without a barrier. Of
 * settings it tells only those that somebody set.
 */
final class SimViews {
    private static final byte OF_TOPIC = 1;
    private static final byte OF_BROKER = 2;
    private static final byte OF_ALL_BROKERS = 3;
    private static final byte OF_CLIENT_METRICS = 7;

    private SimViews() {
    }

    static DescribeConfigsResponseData configs(MetadataImage image, DescribeConfigsRequestData asked) {
        DescribeConfigsResponseData answer = new DescribeConfigsResponseData();
        for (DescribeConfigsRequestData.DescribeConfigsResource each : asked.resources()) {
            DescribeConfigsResponseData.DescribeConfigsResult result = new DescribeConfigsResponseData.DescribeConfigsResult()
                .setResourceType(each.resourceType()).setResourceName(each.resourceName());
            ConfigResource resource = new ConfigResource(ConfigResource.Type.forId(each.resourceType()), each.resourceName());
            boolean isTopic = resource.type() == ConfigResource.Type.TOPIC;
            if (isTopic && image.topics().getTopic(resource.name()) == null) {
                result.setErrorCode(Errors.UNKNOWN_TOPIC_OR_PARTITION.code());
            } else {
                List<String> wanted = each.configurationKeys();
                Map<String, String> set = TraceSettings.of(image, resource);
                set.forEach((name, value) -> {
                    if (wanted == null || wanted.contains(name)) {
                        result.configs().add(new DescribeConfigsResponseData.DescribeConfigsResourceResult()
                            .setName(name).setValue(value).setConfigSource(source(resource)));
                    }
                });
            }
            answer.results().add(result);
        }
        return answer;
    }

    private static byte source(ConfigResource resource) {
        return switch (resource.type()) {
            case TOPIC -> OF_TOPIC;
            case BROKER -> resource.isDefault() ? OF_ALL_BROKERS : OF_BROKER;
            default -> OF_CLIENT_METRICS;
        };
    }

    static MetadataResponseData topics(MetadataImage image, MetadataRequestData asked) {
        MetadataResponseData answer = new MetadataResponseData();
        for (MetadataRequestData.MetadataRequestTopic each : asked.topics()) {
            TopicImage topic = image.topics().getTopic(each.name());
            MetadataResponseData.MetadataResponseTopic row = new MetadataResponseData.MetadataResponseTopic().setName(each.name());
            if (topic == null) {
                row.setErrorCode(Errors.UNKNOWN_TOPIC_OR_PARTITION.code());
            } else {
                row.setTopicId(topic.id());
                new TreeMap<>(topic.partitions()).forEach((index, partition) -> row.partitions().add(row(index, partition)));
            }
            answer.topics().add(row);
        }
        return answer;
    }

    private static MetadataResponseData.MetadataResponsePartition row(int index, PartitionRegistration partition) {
        return new MetadataResponseData.MetadataResponsePartition()
            .setPartitionIndex(index)
            .setErrorCode((partition.leader < 0 ? Errors.LEADER_NOT_AVAILABLE : Errors.NONE).code())
            .setLeaderId(partition.leader)
            .setLeaderEpoch(partition.leaderEpoch)
            .setReplicaNodes(list(partition.replicas))
            .setIsrNodes(list(partition.isr));
    }

    private static List<Integer> list(int[] ids) {
        List<Integer> found = new ArrayList<>();
        for (int id : ids) {
            found.add(id);
        }
        return found;
    }
}
