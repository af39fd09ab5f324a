package krucible;

/** Ends what a process does: it is gone. No {@code Exception}, so that nobody goes on after it. */
public final class PowerFailure extends Error {
    public PowerFailure() {
        super("the power failed", null, false, false);
    }
}
