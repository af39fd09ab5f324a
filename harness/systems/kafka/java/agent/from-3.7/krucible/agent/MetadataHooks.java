package krucible.agent;

import java.util.List;

import net.bytebuddy.asm.Advice;
import org.apache.kafka.controller.LiveDecisions;
import org.apache.kafka.raft.LiveImages;
import org.apache.kafka.raft.LiveMemory;

/**
 * Hooks into the metadata. The part that makes snapshots is told of each image that is published. A request is
 * followed from its handler into the controller's queue, and from there to its answer. What the controller has in
 * memory is looked at when it has handled what came from its log.
 */
final class MetadataHooks {
    private static final String WRITE = "org.apache.kafka.controller.QuorumController$ControllerWriteEvent";

    static final List<Hook> ALL = List.of(
        Hook.of("org.apache.kafka.image.publisher.SnapshotGenerator", "onMetadataUpdate", 3, Published.class, "image", "delta", "memory"),
        Hook.of("org.apache.kafka.controller.QuorumController$ControllerEvent", "run", 0, Applied.class, "memory"),
        Hook.of("kafka.server.ControllerApis", "handle", 2, Handled.class, "answered"),
        Hook.of(WRITE, "<init>", 4, Queued.class, "answered"),
        Hook.of(WRITE, "complete", 1, Decided.class, "answered"),
        Hook.of("kafka.network.RequestChannel", "sendResponse", MessageHooks.ANSWER_ARGUMENTS, Answered.class, "answered")
    );

    private MetadataHooks() {
    }

    static final class Published {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(0) Object delta, @Advice.Argument(1) Object image, @Advice.Argument(2) Object manifest) {
            LiveImages.published(delta, image, manifest);
        }
    }

    static final class Applied {
        @Advice.OnMethodExit
        static void exit(@Advice.FieldValue("this$0") Object controller) {
            LiveMemory.handled(controller);
        }
    }

    static final class Handled {
        @Advice.OnMethodEnter
        static Object enter(@Advice.Argument(0) Object request) {
            return LiveDecisions.handles(request);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object before) {
            LiveDecisions.handles(before);
        }
    }

    static final class Queued {
        @Advice.OnMethodExit
        static void exit(@Advice.This Object write) {
            LiveDecisions.queued(write);
        }
    }

    static final class Decided {
        @Advice.OnMethodEnter
        static void enter(
            @Advice.This Object write,
            @Advice.FieldValue("this$0") Object controller,
            @Advice.FieldValue("resultAndOffset") Object result
        ) {
            LiveDecisions.decided(write, controller, result);
        }
    }

    static final class Answered {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(0) Object request, @Advice.Argument(1) Object response) {
            LiveDecisions.answers(request, response);
        }
    }
}
