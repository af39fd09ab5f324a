package krucible.agent;

import java.util.List;

/**
 * A method of Kafka's into which calls of ours are woven.
 *
 * @param type where it is: the name of its class, or those that it has in different releases
 * @param method its name, or those that it has in different releases; {@code <init>}: all constructors
 * @param arguments how many it takes; -1: any number
 * @param advice the calls
 * @param tells the types of events (node/trace.py) that nobody tells without it
 */
record Hook(List<String> type, List<String> method, int arguments, Class<?> advice, List<String> tells) {
    static Hook of(String type, String method, int arguments, Class<?> advice, String... tells) {
        return new Hook(List.of(type.split("\\|")), List.of(method.split("\\|")), arguments, advice, List.of(tells));
    }

    /** Its name in what is told of it. */
    String name() {
        String last = type.get(0);
        return last.substring(last.lastIndexOf('.') + 1) + "." + method.get(0);
    }
}
