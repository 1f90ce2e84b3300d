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

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Threads that acquire one lock again and again for some time. It tells how often they were granted it, and how long they waited. */
final class Rush {
    private final AtomicLong grants = new AtomicLong();
    private final AtomicLong longest = new AtomicLong(); // wait, in ns
    private final AtomicLong refused = new AtomicLong();

    /** Adds a command for each way to acquire. Its arguments: name, threads, time in ms, hold in microseconds. */
    static void register(Map<String, Command> commands, RedissonClient redisson) {
        commands.put("plain.rush", of -> new Rush().run(redisson.getLock(of.get(0)), Rush::lock, of));
        commands.put("plain.rushTry", of -> new Rush().run(redisson.getLock(of.get(0)), Rush::tryFor, of));
        commands.put("plain.rushPoll", of -> new Rush().run(redisson.getLock(of.get(0)), Rush::poll, of));
        commands.put("fair.rush", of -> new Rush().run(redisson.getFairLock(of.get(0)), Rush::lock, of));
        commands.put("read.rush", of -> new Rush().run(redisson.getReadWriteLock(of.get(0)).readLock(), Rush::lock, of));
        commands.put("spin.rush", of -> new Rush().run(redisson.getSpinLock(of.get(0)), Rush::lock, of));
    }

    private static boolean lock(RLock lock) {
        lock.lock();
        return true;
    }

    private static boolean tryFor(RLock lock) throws InterruptedException {
        return lock.tryLock(5, SECONDS);
    }

    private static boolean poll(RLock lock) throws InterruptedException {
        while (!lock.tryLock()) {
            MILLISECONDS.sleep(10);
        }
        return true;
    }

    private interface Way {
        boolean acquire(RLock lock) throws InterruptedException;
    }

    private String run(RLock lock, Way way, List<String> arguments) throws Exception {
        int threads = Integer.parseInt(arguments.get(1));
        long end = System.nanoTime() + MILLISECONDS.toNanos(Long.parseLong(arguments.get(2)));
        long hold = Long.parseLong(arguments.get(3)) * 1000;
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<Void>> running = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                running.add(pool.submit(() -> rush(lock, way, end, hold)));
            }
            for (Future<Void> one : running) {
                one.get();
            }
        } finally {
            pool.shutdownNow();
        }
        return grants + " " + NANOSECONDS.toMillis(longest.get()) + " " + refused;
    }

    private Void rush(RLock lock, Way way, long end, long hold) throws InterruptedException {
        for (long asked = System.nanoTime(); asked < end;) {
            boolean granted = way.acquire(lock);
            longest.accumulateAndGet(System.nanoTime() - asked, Math::max);
            if (!granted) {
                refused.incrementAndGet();
                continue; // it has waited since it asked first
            }
            LockSupport.parkNanos(hold);
            lock.unlock();
            grants.incrementAndGet();
            asked = System.nanoTime();
        }
        return null;
    }
}
