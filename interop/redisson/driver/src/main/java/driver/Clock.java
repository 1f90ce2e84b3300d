package driver;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

import java.lang.invoke.MethodHandles;

import org.redisson.Redisson;

/** The clocks of machines that are ahead of others, for Redisson's fair lock: it writes its own time into Redis. */
public final class Clock {
    private static final ThreadLocal<Long> AHEAD = ThreadLocal.withInitial(() -> 0L);

    private Clock() {}

    /** Replaces the method of System of the same name, see install. */
    public static long currentTimeMillis() {
        return System.currentTimeMillis() + AHEAD.get();
    }

    /** Sets how far the clock of this thread is ahead, in ms. */
    static void ahead(long ms) {
        AHEAD.set(ms);
    }

    /** Loads Redisson's fair lock, with the name of this class in place of that of System. */
    static void install() throws Exception {
        try (var code = Redisson.class.getResourceAsStream("RedissonFairLock.class")) {
            String text = new String(code.readAllBytes(), ISO_8859_1);
            byte[] changed = text.replace(constant("java/lang/System"), constant("driver/Clock")).getBytes(ISO_8859_1);
            MethodHandles.privateLookupIn(Redisson.class, MethodHandles.lookup()).defineClass(changed);
        }
    }

    /** A short name, as a constant of a class. */
    private static String constant(String name) {
        return "\u0001\0" + (char) name.length() + name;
    }
}
