package krucible;

/** Kinds of inputs and outputs of a {@link Replica}; the same numbers are in {@code packed.py}. */
public final class Kinds {
    // inputs
    public static final byte REQUEST = 1; // a: number, b: -, d: version << 8 | api key; body
    public static final byte ANSWER = 2; // a: correlation; body of the answer
    public static final byte UNANSWERED = 3; // a: correlation, b: error code, d: 1 if it was not sent yet
    public static final byte APPEND = 4; // a: token, b: epoch; values, each with its length (int)
    public static final byte SNAPSHOT = 5; // b: epoch, c: end offset; values likewise
    public static final byte SHUTDOWN = 6; // a: timeout in ms
    public static final byte RESIGN = 7; // b: epoch
    // outputs
    public static final byte WAIT = 20; // c: ms until the next turn is due
    public static final byte EVENT = 21; // lines of JSON without their heads
    public static final byte LOG = 22; // a: level (10, 20, 30, 40); text
    public static final byte SEND = 23; // a: correlation, b: port, c: node, d: as above; host, 0, body
    public static final byte REPLY = 24; // a: number; body
    public static final byte APPENDED = 25; // a: token, c: last offset
    public static final byte REFUSED = 26; // a: token; why
    public static final byte COMMITTED = 27; // a: how many offsets, b: epoch, c: base offset; size of the batch (int), values
    public static final byte LOADED = 28; // b: epoch, c: end offset of a snapshot; values
    public static final byte LEADER = 29; // a: node or -1, b: epoch
    public static final byte FATAL = 30; // what ended the process
    public static final byte STOPPED = 31; // in good order
    public static final byte REJECTED = 32; // a: number of a request that cannot be read; why
    public static final byte IMAGE = 33; // a: 1 if it is full, b: epoch, c: end offset; values
    public static final byte ENDLESS = 34; // where a turn was ended that would never have come back
    // outputs, too: changes of a disk on which none fails, in the order in which they are to be made
    public static final byte CREATE = 40; // path
    public static final byte WRITE = 41; // at the end of a file; path, 0, what is written
    public static final byte TRUNCATE = 42; // c: size; path
    public static final byte FSYNC = 43; // path
    public static final byte RENAME = 44; // source, 0, target
    public static final byte UNLINK = 45; // path
    public static final byte FSYNC_NAMES = 46;

    private Kinds() {
    }
}
