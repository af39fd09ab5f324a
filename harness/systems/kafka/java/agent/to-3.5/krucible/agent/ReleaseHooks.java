package krucible.agent;

import java.util.List;

import net.bytebuddy.asm.Advice;

import org.apache.kafka.raft.LiveHooks;

/** Hooks into what is not there, or has another name, in other releases: here the controller itself keeps what is committed. */
final class ReleaseHooks {
    static final List<Hook> ALL = List.of(
        Hook.of("org.apache.kafka.controller.QuorumController", "updateLastCommittedState", -1, Committed.class, "apply"),
        Hook.of("org.apache.kafka.raft.QuorumState", "transitionToResigned", 1, Resigns.class, "role")
    );

    private ReleaseHooks() {
    }

    /** Here this transition is one of its own, which writes nothing. */
    static final class Resigns {
        @Advice.OnMethodEnter
        static Object enter(@Advice.FieldValue("state") Object state) {
            return state;
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter Object from, @Advice.FieldValue("state") Object to) {
            LiveHooks.transition(to, from);
        }
    }

    static final class Committed {
        @Advice.OnMethodExit
        static void exit(@Advice.Argument(0) long offset, @Advice.Argument(1) int epoch) {
            LiveHooks.appliedTo(offset, epoch);
        }
    }
}
