package org.apache.kafka.raft;

import java.util.Optional;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData;
import org.apache.kafka.common.message.AlterUserScramCredentialsResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;

/** Hands requests about passwords to a controller, which has some since 3.5. */
final class SimScrams {
    private SimScrams() {
    }

    /** The answer to come; empty: the request is about something else. */
    static Optional<CompletableFuture<ApiMessage>> serve(
        SimSecurity.Caller caller, QuorumController controller, short key, ControllerRequestContext context, ApiMessage request
    ) {
        CompletableFuture<ApiMessage> answer = null;
        if (request instanceof AlterUserScramCredentialsRequestData asked) {
            answer = caller.done(key, () -> controller.alterUserScramCredentials(context, asked)).handle((results, e) -> {
                if (e == null) {
                    return results;
                }
                AlterUserScramCredentialsResponseData made = new AlterUserScramCredentialsResponseData();
                made.results().add(new AlterUserScramCredentialsResponseData.AlterUserScramCredentialsResult()
                    .setErrorCode(SimController.code(e)).setErrorMessage(SimController.message(e)));
                return made;
            });
        }
        return Optional.ofNullable(answer);
    }
}
