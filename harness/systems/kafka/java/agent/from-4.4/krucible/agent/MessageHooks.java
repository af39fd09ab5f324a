package krucible.agent;

import java.util.List;
import java.util.concurrent.CompletableFuture;

import net.bytebuddy.asm.Advice;
import org.apache.kafka.raft.LiveAnswer;
import org.apache.kafka.raft.LiveHooks;

/** Hooks into messages of other nodes: in these releases each comes with a future of its answer. */
final class MessageHooks {
    static final int ANSWER_ARGUMENTS = 2; // of RequestChannel.sendResponse

    static final List<Hook> ALL = List.of(
        Hook.of("org.apache.kafka.raft.KafkaRaftClient", "handleInboundMessage", 3, Message.class,
            "fetch_rx", "quorum", "vote", "rpc_ok", "rpc_err")
    );

    private MessageHooks() {
    }

    static final class Message {
        @Advice.OnMethodEnter
        static void enter(
            @Advice.Argument(0) Object message,
            @Advice.Argument(value = 1, readOnly = false) CompletableFuture<?> future,
            @Advice.Argument(2) long currentTimeMs
        ) {
            LiveHooks.taken(message, currentTimeMs);
            future = LiveAnswer.to(message, future);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit() {
            LiveHooks.done();
        }
    }
}
