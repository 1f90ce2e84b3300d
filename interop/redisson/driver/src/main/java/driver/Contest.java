package driver;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

import org.redisson.api.RBucket;
import org.redisson.api.RedissonClient;
import org.redisson.api.RLock;
import org.redisson.client.codec.StringCodec;

/**
 * Threads that increment a counter in Redis under a lock, by reading and writing it: without the lock, increments get lost.
 * A process counts itself out of COUNTER:left when it has made its share. All go on until nobody is left.
 */
final class Contest {
    private final RBucket<String> counter;
    private final RedissonClient redisson;
    private final String left;
    private final AtomicLong made = new AtomicLong();

    Contest(RedissonClient redisson, String counter) {
        this.redisson = redisson;
        this.counter = redisson.getBucket(counter, StringCodec.INSTANCE);
        this.left = counter + ":left";
    }

    /** Returns how many increments the threads have made together. */
    String run(RLock lock, int threads, int share) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<?>> running = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                running.add(pool.submit(() -> increment(lock, share)));
            }
            for (Future<?> one : running) {
                one.get();
            }
        } finally {
            pool.shutdownNow();
        }
        return made.toString();
    }

    /** Works for some ns between reading the counter and writing it. */
    static void increment(RBucket<String> counter, long work) {
        String before = counter.get();
        LockSupport.parkNanos(work);
        counter.set(String.valueOf(before == null ? 1 : Long.parseLong(before) + 1));
    }

    private void increment(RLock lock, int share) {
        do {
            lock.lock();
            try {
                increment(counter, 0);
            } finally {
                lock.unlock();
            }
            if (made.incrementAndGet() == share) {
                redisson.getAtomicLong(left).decrementAndGet();
            }
        } while (redisson.getAtomicLong(left).get() > 0);
    }
}
