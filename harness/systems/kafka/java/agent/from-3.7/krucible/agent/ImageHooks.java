package krucible.agent;

import java.util.List;

import net.bytebuddy.asm.Advice;
import org.apache.kafka.raft.LiveImages;

/** Hooks into images of the metadata: the part that makes snapshots is told of each that is published. */
final class ImageHooks {
    static final List<Hook> ALL = List.of(
        Hook.of("org.apache.kafka.image.publisher.SnapshotGenerator", "onMetadataUpdate", 3, Published.class, "image", "delta")
    );

    private ImageHooks() {
    }

    static final class Published {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(0) Object delta, @Advice.Argument(1) Object image, @Advice.Argument(2) Object manifest) {
            LiveImages.published(delta, image, manifest);
        }
    }
}
