package krucible;

/**
 * One process of a Kafka node. It has no thread and no clock: whatever it does, it does in
 * {@link #turn}, and there it is told the time. Made by a release's {@code SimReplica}, in a class
 * loader of its own; so only types of the JDK pass here.
 *
 * <p>Inputs and outputs are packed, one after the other: kind (byte), a, b (int), c (long), d
 * (short), length (int), bytes. What the fields mean is said beside the kinds in {@link Kinds}.
 */
public interface Replica {
    /** Open the log and join the quorum; outputs as of a turn. */
    byte[] start(long steadyNs, long wallMs, boolean isSound);

    /**
     * Take inputs, and do everything that is to be done now; the outputs, the wait last.
     *
     * @param isSound no change of the disk can fail in this turn: then they are outputs, not calls
     */
    byte[] turn(long steadyNs, long wallMs, boolean isSound, byte[] inputs);

    /** Let go of what the JVM would keep. */
    void close();
}
