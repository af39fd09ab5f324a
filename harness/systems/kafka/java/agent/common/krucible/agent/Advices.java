package krucible.agent;

import net.bytebuddy.asm.Advice;

import org.apache.kafka.controller.LiveController;
import org.apache.kafka.raft.LiveHooks;

/** The code that is woven into Kafka's methods: calls of {@link LiveHooks}, and nothing else. */
final class Advices {
    private Advices() {
    }

    static final class Made {
        @Advice.OnMethodExit
        static void exit(@Advice.This Object client) {
            LiveHooks.made(client);
        }
    }

    static final class Begins {
        @Advice.OnMethodEnter
        static void enter(@Advice.This Object quorum) {
            LiveHooks.begins(quorum);
        }
    }

    static final class Transition {
        @Advice.OnMethodEnter
        static Object enter(@Advice.FieldValue("state") Object state) {
            return state;
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Argument(0) Object to, @Advice.Enter Object from) {
            LiveHooks.transition(to, from);
        }
    }

    static final class ElectionStateWritten {
        @Advice.OnMethodExit
        static void exit(@Advice.Argument(0) Object state) {
            LiveHooks.electionState(state);
        }
    }

    static final class AppendedAsLeader {
        @Advice.OnMethodExit
        static void exit(@Advice.Argument(0) Object records) {
            LiveHooks.appended(records, true);
        }
    }

    static final class AppendedAsFollower {
        @Advice.OnMethodExit
        static void exit(@Advice.Argument(0) Object records) {
            LiveHooks.appended(records, false);
        }
    }

    static final class Flushed {
        @Advice.OnMethodEnter
        static long enter() {
            return LiveHooks.end();
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter long end) {
            LiveHooks.flushed(end);
        }
    }

    static final class Cut {
        @Advice.OnMethodEnter
        static void enter(@Advice.This Object log, @Advice.Argument(0) long to) {
            LiveHooks.cut(log, to);
        }
    }

    static final class HighWatermark {
        @Advice.OnMethodExit
        static void exit() {
            LiveHooks.highWatermark();
        }
    }

    static final class Installed {
        @Advice.OnMethodExit
        static void exit(@Advice.Return boolean done) {
            if (done) {
                LiveHooks.installed();
            }
        }
    }

    static final class Cleaned {
        @Advice.OnMethodExit
        static void exit() {
            LiveHooks.cleaned();
        }
    }

    static final class Makes {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(0) Object snapshot) {
            LiveHooks.makes(snapshot);
        }
    }

    static final class Frozen {
        @Advice.OnMethodExit
        static void exit(@Advice.Argument(0) Object snapshot) {
            LiveHooks.frozen(snapshot);
        }
    }

    static final class Sent {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(0) Object request) {
            LiveHooks.sent(request);
        }
    }

    static final class Voters {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(0) long offset, @Advice.Argument(1) Object voters) {
            LiveHooks.voters(voters, offset);
        }
    }

    static final class NoQuorum {
        @Advice.OnMethodExit
        static void exit(@Advice.Return long remainingMs) {
            if (remainingMs == 0) {
                LiveHooks.noQuorum();
            }
        }
    }

    static final class Acknowledged {
        @Advice.OnMethodEnter
        static void enter(
            @Advice.Argument(0) Throwable error,
            @Advice.FieldValue("name") String name,
            @Advice.FieldValue("resultAndOffset") Object result
        ) {
            if (error == null) {
                LiveController.acknowledges(name, result);
            }
        }
    }

    static final class Claim {
        @Advice.OnMethodEnter
        static void enter(@Advice.This Object controller, @Advice.Argument(0) int epoch) {
            LiveController.claims(controller, epoch);
        }
    }

    static final class Renounce {
        @Advice.OnMethodEnter
        static int enter(@Advice.FieldValue("curClaimEpoch") int epoch) {
            return epoch;
        }

        @Advice.OnMethodExit
        static void exit(
            @Advice.This Object controller,
            @Advice.Enter int epoch,
            @Advice.FieldValue("snapshotRegistry") Object changes
        ) {
            LiveController.renounces(controller, epoch, changes);
        }
    }

    static final class Applied {
        @Advice.OnMethodExit
        static void exit(@Advice.Argument(0) Object batch) {
            LiveHooks.applied(batch);
        }
    }

    static final class Stopped {
        @Advice.OnMethodExit
        static void exit() {
            LiveHooks.stopped();
        }
    }
}
