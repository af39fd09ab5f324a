package krucible;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.security.Provider;
import java.security.SecureRandomSpi;
import java.security.Security;
import java.util.Random;

/** Takes out of the JVM what it draws at its start. */
public final class Chance {
    public static Random random; // of the node whose turn it is

    private Chance() {
    }

    /** Let all random numbers of SecureRandom, and so ids, be of the node whose turn it is. */
    private static void seed() {
        Provider provider = new Provider("krucible", "1", "random numbers of a simulation") {
            private static final long serialVersionUID = 1L;
        };
        provider.put("SecureRandom.krucible", Source.class.getName());
        Security.insertProviderAt(provider, 1);
    }

    /** Draws from it. */
    public static final class Source extends SecureRandomSpi {
        private static final long serialVersionUID = 1L;

        @Override
        protected void engineSetSeed(byte[] seed) {
        }

        @Override
        protected void engineNextBytes(byte[] bytes) {
            (random == null ? new Random(0) : random).nextBytes(bytes);
        }

        @Override
        protected byte[] engineGenerateSeed(int count) {
            byte[] seed = new byte[count];
            engineNextBytes(seed);
            return seed;
        }
    }

    /**
     * Let sets and maps of Set.of and Map.of have the same order in every JVM: their salt is drawn when the
     * JVM starts.
     */
    public static void fix() throws ReflectiveOperationException {
        seed();
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
