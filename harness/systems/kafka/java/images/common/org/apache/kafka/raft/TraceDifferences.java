package org.apache.kafka.raft;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/** Tells in words how maps differ from others, and in the same order always. */
final class TraceDifferences {
    private final UnaryOperator<String> remark;
    private List<String> found = new ArrayList<>();

    /** The remark is what is to be said of a member of a set that should not be there. */
    TraceDifferences(UnaryOperator<String> remark) {
        this.remark = remark;
    }

    /** What was found since the last call. */
    List<String> taken() {
        List<String> taken = found;
        found = new ArrayList<>();
        return taken;
    }

    /** Tell what one map lacks, and what it has beside another; of sets, by member. */
    void compare(String what, Map<?, ?> has, Map<?, ?> wanted) {
        Map<String, Object> mine = mapped(has, each -> each);
        Map<String, Object> due = mapped(wanted, each -> each);
        Set<String> keys = new TreeSet<>(mine.keySet());
        keys.addAll(due.keySet());
        for (String key : keys) {
            Object one = mine.get(key);
            Object other = due.get(key);
            if (Objects.equals(one, other)) {
                continue;
            }
            if (one instanceof Set<?> || other instanceof Set<?>) {
                members(other).stream().filter(each -> !members(one).contains(each))
                    .forEach(each -> found.add(what + " " + key + " lacks " + each));
                members(one).stream().filter(each -> !members(other).contains(each))
                    .forEach(each -> found.add(what + " " + key + " has " + each + remark.apply(each)));
            } else {
                found.add(what + " " + key + " is " + one + ", not " + other);
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static Set<String> members(Object set) {
        return set == null ? Set.of() : (Set<String>) set;
    }

    static <K, V, R> Map<String, R> mapped(Map<K, V> all, Function<V, R> to) {
        Map<String, R> made = new TreeMap<>();
        all.forEach((key, value) -> made.put(key.toString(), to.apply(value)));
        return made;
    }
}
