package krucible.agent;

import java.util.List;

import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;

import org.apache.kafka.controller.LiveController;
import org.apache.kafka.raft.LiveWrong;

/** What Kafka is made to do wrong, to prove that it is seen. */
final class Wrong {
    private Wrong() {
    }

    /** The hooks that a proof needs beside the others. */
    static List<Hook> hooks(String name) {
        return switch (name) {
            case "vote-twice" -> List.of(
                Hook.of("org.apache.kafka.raft.QuorumState", "canGrantVote", 3, GrantsAll.class),
                Hook.of("org.apache.kafka.raft.KafkaRaftClient", "handleVoteRequest", 1, AsksAgain.class));
            case "early-acknowledgement" -> List.of(
                Hook.of("org.apache.kafka.deferred.DeferredEventQueue|org.apache.kafka.controller.ControllerPurgatory", "add", 2, Completes.class));
            case "forgotten-setting" -> List.of(
                Hook.of("org.apache.kafka.image.ConfigurationsDelta", "replay", 1, Forgets.class));
            case "forgotten-in-memory" -> List.of(
                Hook.of("org.apache.kafka.controller.ConfigurationControlManager", "replay", 1, Forgets.class));
            case "needless-refusal" -> List.of(
                Hook.of("org.apache.kafka.controller.ReplicationControlManager", "validateAlterPartitionData", -1, Refuses.class));
            default -> List.of(); // is done by LiveWrong alone
        };
    }

    static final class GrantsAll {
        @Advice.OnMethodExit
        static void exit(@Advice.Argument(2) boolean isPreVote, @Advice.Return(readOnly = false) boolean granted) {
            granted = granted || !isPreVote;
        }
    }

    static final class AsksAgain {
        @Advice.OnMethodExit
        static void exit(@Advice.Argument(0) Object request) {
            LiveWrong.askAgain(request);
        }
    }

    static final class Refuses {
        @Advice.OnMethodExit
        static void exit(@Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object error) {
            error = LiveWrong.refusal(error);
        }
    }

    static final class Forgets {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter() {
            return LiveWrong.forgets();
        }
    }

    static final class Completes {
        @Advice.OnMethodExit
        static void exit(@Advice.Argument(1) Object write) {
            LiveController.answersEarly(write);
        }
    }
}
