package driver;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.NANOSECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiConsumer;
import java.util.function.Function;

import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * Threads that acquire one thing again and again, for some time. It tells how often they were granted it, and how long
 * they waited.
 */
final class Rush {
    private final RBucket<String> counter; // or null
    private final AtomicLong grants = new AtomicLong();
    private final AtomicLong longest = new AtomicLong(); // wait, in ns
    private final AtomicLong refused = new AtomicLong();
    private final AtomicLong granted = new AtomicLong(System.nanoTime()); // when it was last
    private final AtomicLong without = new AtomicLong(); // the longest time that none of them was granted it, in ns
    private final AtomicLong served = new AtomicLong(); // threads that were granted it at least once

    /**
     * Adds a command for each way to acquire. Its arguments: name, threads, time in ms, hold in microseconds, and maybe
     * a counter that each holder increments.
     */
    static void register(Map<String, Command> commands, RedissonClient redisson) {
        BiConsumer<String, Function<String, Way>> add = (command, way) ->
                commands.put(command, of -> new Rush(counter(redisson, of)).run(way.apply(of.get(0)), of));
        BiConsumer<String, Function<String, RLock>> locks = (kind, get) -> {
            add.accept(kind + ".rush", name -> lock(get.apply(name)));
            add.accept(kind + ".rushTry", name -> tryFor(get.apply(name)));
            add.accept(kind + ".rushPoll", name -> poll(10, tryOnce(get.apply(name))));
        };
        locks.accept("plain", redisson::getLock);
        locks.accept("fair", redisson::getFairLock);
        locks.accept("fenced", redisson::getFencedLock);
        locks.accept("spin", redisson::getSpinLock);
        locks.accept("read", name -> redisson.getReadWriteLock(name).readLock());
        locks.accept("write", name -> redisson.getReadWriteLock(name).writeLock());
        add.accept("plain.rushSpin", name -> lock(redisson.getSpinLock(name)));
        add.accept("semaphore.rush", name -> acquire(redisson.getSemaphore(name)));
        add.accept("semaphore.rushPoll", name -> poll(50, tryOnce(redisson.getSemaphore(name))));
        add.accept("permits.rush", name -> acquire(redisson.getPermitExpirableSemaphore(name)));
        add.accept("permits.rushPoll", name -> poll(50, tryOnce(redisson.getPermitExpirableSemaphore(name))));
    }

    private static RBucket<String> counter(RedissonClient redisson, List<String> arguments) {
        return arguments.size() > 4 ? redisson.getBucket(arguments.get(4), StringCodec.INSTANCE) : null;
    }

    private Rush(RBucket<String> counter) {
        this.counter = counter;
    }

    private interface Way {
        /** Returns what gives back what was acquired, or null if nothing was. */
        Runnable acquire() throws InterruptedException;
    }

    private static Way lock(RLock lock) {
        return () -> {
            lock.lock();
            return lock::unlock;
        };
    }

    private static Way tryFor(RLock lock) {
        return () -> lock.tryLock(5, SECONDS) ? lock::unlock : null;
    }

    private static Way tryOnce(RLock lock) {
        return () -> lock.tryLock() ? lock::unlock : null;
    }

    private static Way acquire(RSemaphore semaphore) {
        return () -> {
            semaphore.acquire();
            return semaphore::release;
        };
    }

    private static Way acquire(RPermitExpirableSemaphore permits) {
        return () -> {
            String id = permits.acquire();
            return () -> permits.release(id);
        };
    }

    private static Way tryOnce(RSemaphore semaphore) {
        return () -> semaphore.tryAcquire() ? semaphore::release : null;
    }

    private static Way tryOnce(RPermitExpirableSemaphore permits) {
        return () -> {
            String id = permits.tryAcquire();
            return id == null ? null : () -> permits.release(id);
        };
    }

    /** Tries again and again, with pauses of so many ms. */
    private static Way poll(long pause, Way tryOnce) {
        return () -> {
            Runnable release = tryOnce.acquire();
            for (; release == null; release = tryOnce.acquire()) {
                MILLISECONDS.sleep(pause);
            }
            return release;
        };
    }

    private String run(Way way, List<String> arguments) throws Exception {
        int threads = Integer.parseInt(arguments.get(1));
        long end = System.nanoTime() + MILLISECONDS.toNanos(Long.parseLong(arguments.get(2)));
        long hold = Long.parseLong(arguments.get(3)) * 1000;
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<Void>> running = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                running.add(pool.submit(() -> rush(way, end, hold)));
            }
            for (Future<Void> one : running) {
                one.get();
            }
        } finally {
            pool.shutdownNow();
        }
        return grants + " " + NANOSECONDS.toMillis(longest.get()) + " " + refused
                + " " + NANOSECONDS.toMillis(without.get()) + " " + served;
    }

    private Void rush(Way way, long end, long hold) throws InterruptedException {
        boolean first = true;
        for (long asked = System.nanoTime(); first || asked < end;) {
            Runnable release = way.acquire();
            long now = System.nanoTime();
            longest.accumulateAndGet(now - asked, Math::max);
            if (release == null) {
                refused.incrementAndGet();
                continue; // it has waited since it asked first
            }
            without.accumulateAndGet(now - granted.getAndSet(now), Math::max);
            if (counter == null) {
                LockSupport.parkNanos(hold);
            } else {
                Contest.increment(counter, hold);
            }
            release.run();
            grants.incrementAndGet();
            if (first) {
                served.incrementAndGet();
                first = false;
            }
            asked = System.nanoTime();
        }
        return null;
    }
}
