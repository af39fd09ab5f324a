package krucible;

import java.lang.reflect.Field;
import java.lang.reflect.Method;

/** Takes out of the JVM what it draws at its start. */
public final class Chance {
    private Chance() {
    }

    /**
     * Let sets and maps of Set.of and Map.of have the same order in every JVM: their salt is drawn when the
     * JVM starts.
     */
    public static void fix() throws ReflectiveOperationException {
        Class<?> type = Class.forName("sun.misc.Unsafe");
        Field only = type.getDeclaredField("theUnsafe");
        only.setAccessible(true);
        Object unsafe = only.get(null);
        Method base = type.getMethod("staticFieldBase", Field.class);
        Method offset = type.getMethod("staticFieldOffset", Field.class);
        Class<?> salted = Class.forName("java.util.ImmutableCollections");
        Field salt = salted.getDeclaredField("SALT32L");
        Field reverse = salted.getDeclaredField("REVERSE");
        type.getMethod("putLong", Object.class, long.class, long.class)
            .invoke(unsafe, base.invoke(unsafe, salt), offset.invoke(unsafe, salt), 0L);
        type.getMethod("putBoolean", Object.class, long.class, boolean.class)
            .invoke(unsafe, base.invoke(unsafe, reverse), offset.invoke(unsafe, reverse), false);
        salt.setAccessible(true);
        reverse.setAccessible(true);
        if (salt.getLong(null) != 0 || reverse.getBoolean(null)) {
            throw new IllegalStateException("the salt of immutable collections cannot be fixed");
        }
    }
}
