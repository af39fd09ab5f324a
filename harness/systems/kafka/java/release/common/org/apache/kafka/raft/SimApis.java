package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;

/** The versions of Kafka's requests that this release knows. */
public final class SimApis {
    private static final Set<String> OF_QUORUM = Set.of("FETCH", "VOTE", "BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH",
        "DESCRIBE_QUORUM", "FETCH_SNAPSHOT", "ADD_RAFT_VOTER", "REMOVE_RAFT_VOTER", "UPDATE_RAFT_VOTER");

    private SimApis() {
    }

    /** What a controller's server answers to ApiVersions, as far as the quorum looks at it. */
    static ApiVersionsResponseData answer() {
        ApiVersionsResponseData answer = new ApiVersionsResponseData();
        int[] known = versions();
        for (int i = 0; i < known.length; i += 3) {
            answer.apiKeys().add(new ApiVersionsResponseData.ApiVersion()
                .setApiKey((short) known[i]).setMinVersion((short) known[i + 1]).setMaxVersion((short) known[i + 2]));
        }
        answer.supportedFeatures().add(new ApiVersionsResponseData.SupportedFeatureKey()
            .setName("kraft.version")
            .setMinVersion((short) 0)
            .setMaxVersion(SimQuorum.KRAFT_VERSION));
        return answer;
    }

    /**
     * Write a request or an answer of one version in another one; null where it cannot be said in that, as
     * a NetworkClient finds out when it builds a request.
     */
    public static byte[] recode(boolean isRequest, short key, short was, short wanted, byte[] body) {
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        ApiMessage message = isRequest ? type.newRequest() : type.newResponse();
        message.read(new ByteBufferAccessor(ByteBuffer.wrap(body)), was);
        try {
            return SimReplica.bytes(SimVersions.told(message, wanted), wanted);
        } catch (UnsupportedVersionException e) {
            return null;
        }
    }

    /** Whether a request is for the raft client. */
    static boolean isOfQuorum(short key) {
        return OF_QUORUM.contains(ApiKeys.forId(key).name());
    }

    /** API key, oldest and latest stable version of each, one after the other. */
    public static int[] versions() {
        List<Integer> found = new ArrayList<>();
        for (ApiKeys key : ApiKeys.values()) {
            if (key.oldestVersion() > key.latestVersion()) {
                continue;
            }
            found.add((int) key.id);
            found.add((int) key.oldestVersion());
            found.add((int) SimVersions.latest(key));
        }
        return found.stream().mapToInt(Integer::intValue).toArray();
    }
}
