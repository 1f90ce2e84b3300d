package driver;

import java.util.concurrent.locks.LockSupport;

import org.redisson.api.RBucket;

/**
 * A counter in Redis that holders of a lock increment, by reading and writing it: without the lock, increments get
 * lost.
 */
final class Contest {
    private Contest() {}

    /** Works for some ns between reading the counter and writing it. */
    static void increment(RBucket<String> counter, long work) {
        String before = counter.get();
        LockSupport.parkNanos(work);
        counter.set(String.valueOf(before == null ? 1 : Long.parseLong(before) + 1));
    }
}
