package krucible;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;

/**
 * Ends a turn that never comes back: a loop without end in Kafka, say. It goes by the CPU time of this
 * process, which a busy host does not make run faster; a loop that fills the heap keeps others busy.
 * Java 20 and newer end no thread; there such a turn goes on.
 */
public final class Watchdog extends Thread {
    /** No turn of a healthy run takes a tenth of it. */
    private static final long LIMIT_NS = Long.getLong("krucible.turn.cpu.ms", 30_000) * 1_000_000;
    private static final long LOOKS_MS = 1_000;
    private static final int FRAMES = 3;

    private static Watchdog only;

    private final Thread turns = Thread.currentThread();
    private volatile long turn; // the number of the present one, 0 between turns
    private volatile String place; // at which a turn was ended
    private long begun;

    private Watchdog() {
        super("krucible-watchdog");
        setDaemon(true);
    }

    /** A turn begins in this thread. */
    public static void begin() {
        if (only == null || only.turns != Thread.currentThread()) {
            only = new Watchdog();
            only.start();
        }
        only.turn = ++only.begun;
    }

    /** It is over; where it was when it was ended, null if nobody ended it. */
    public static String end() {
        only.turn = 0;
        String ended = only.place;
        only.place = null;
        return ended;
    }

    @Override
    public void run() {
        OperatingSystemMXBean process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long seen = 0;
        long sinceNs = 0;
        while (turns.isAlive()) {
            try {
                Thread.sleep(LOOKS_MS);
            } catch (InterruptedException e) {
                return;
            }
            long nowNs = process.getProcessCpuTime();
            long now = turn;
            if (now == 0 || now != seen) {
                seen = now;
                sinceNs = nowNs;
            } else if (nowNs - sinceNs >= LIMIT_NS) {
                sinceNs = nowNs;
                stop(now);
            }
        }
    }

    @SuppressWarnings({"deprecation", "removal"})
    private void stop(long number) {
        StringBuilder at = new StringBuilder();
        StackTraceElement[] stack = turns.getStackTrace();
        for (int i = 0; i < Math.min(FRAMES, stack.length); i++) {
            at.append(i == 0 ? "" : ", called by ").append(stack[i]);
        }
        if (turn != number) {
            return;
        }
        place = at.toString();
        try {
            turns.stop();
        } catch (UnsupportedOperationException e) {
            place = null;
        }
    }
}
