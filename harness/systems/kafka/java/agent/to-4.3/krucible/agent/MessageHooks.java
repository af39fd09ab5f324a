package krucible.agent;

import java.util.List;
import java.util.concurrent.CompletableFuture;

import net.bytebuddy.asm.Advice;
import org.apache.kafka.raft.LiveAnswer;
import org.apache.kafka.raft.LiveHooks;

/** Hooks into messages of other nodes: in these releases a request has a future of its answer. */
final class MessageHooks {
    static final int ANSWER_ARGUMENTS = 3; // of RequestChannel.sendResponse

    static final List<Hook> ALL = List.of(
        Hook.of("org.apache.kafka.raft.KafkaRaftClient", "handleInboundMessage", 2, Message.class, "fetch_rx", "quorum"),
        Hook.of("org.apache.kafka.raft.RaftRequest$Inbound", "<init>", -1, Answer.class, "fetch_rx", "vote", "rpc_ok", "rpc_err")
    );

    private MessageHooks() {
    }

    static final class Message {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(0) Object message, @Advice.Argument(1) long currentTimeMs) {
            LiveHooks.taken(message, currentTimeMs);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit() {
            LiveHooks.done();
        }
    }

    static final class Answer {
        @Advice.OnMethodExit
        static void exit(
            @Advice.This Object request,
            @Advice.FieldValue(value = "completion", readOnly = false) CompletableFuture<?> completion
        ) {
            completion = LiveAnswer.to(request);
        }
    }
}
