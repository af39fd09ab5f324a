package org.apache.kafka.raft;

import java.util.ArrayList;
import java.util.List;

import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.server.common.KRaftVersion;

/** The versions of Kafka's requests that this release knows. */
public final class SimApis {
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
            .setName(KRaftVersion.FEATURE_NAME)
            .setMinVersion((short) 0)
            .setMaxVersion(KRaftVersion.LATEST_PRODUCTION.featureLevel()));
        return answer;
    }

    /** Whether a request is for the raft client. */
    static boolean isOfQuorum(short key) {
        return switch (ApiKeys.forId(key)) {
            case FETCH, VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, DESCRIBE_QUORUM, FETCH_SNAPSHOT,
                ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, UPDATE_RAFT_VOTER -> true;
            default -> false;
        };
    }

    /** API key, oldest and latest stable version of each, one after the other. */
    public static int[] versions() {
        List<Integer> found = new ArrayList<>();
        for (ApiKeys key : ApiKeys.values()) {
            if (!key.hasValidVersion()) {
                continue;
            }
            found.add((int) key.id);
            found.add((int) key.oldestVersion());
            found.add((int) key.latestVersion(false));
        }
        return found.stream().mapToInt(Integer::intValue).toArray();
    }
}
