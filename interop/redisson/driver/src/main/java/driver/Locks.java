package driver;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Map;
import java.util.function.Function;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The commands of whatever Redisson has as an RLock. Their first argument is the name of the lock, the others are numbers. */
final class Locks {
    private Locks() {}

    /** Adds the commands of one kind of lock. Their names begin with the kind. */
    static void register(Map<String, Command> commands, RedissonClient redisson, String kind, Function<String, RLock> locks) {
        put(commands, kind + ".lock", locks, (lock, of) -> {
            lock.lock(of[0], MILLISECONDS); // -1 is a lease that the watchdog renews
            return "";
        });
        put(commands, kind + ".lockInterruptibly", locks, (lock, of) -> {
            lock.lockInterruptibly(of[0], MILLISECONDS);
            return "";
        });
        put(commands, kind + ".tryLock", locks, (lock, of) -> lock.tryLock(of[0], of[1], MILLISECONDS));
        put(commands, kind + ".unlock", locks, (lock, of) -> {
            lock.unlock();
            return "";
        });
        put(commands, kind + ".forceUnlock", locks, (lock, of) -> lock.forceUnlock());
        put(commands, kind + ".isLocked", locks, (lock, of) -> lock.isLocked());
        put(commands, kind + ".holdCount", locks, (lock, of) -> lock.getHoldCount());
        put(commands, kind + ".remaining", locks, (lock, of) -> lock.remainTimeToLive());
        commands.put(kind + ".contend", words -> new Contest(redisson, words.get(1)).run(
                locks.apply(words.get(0)), Integer.parseInt(words.get(2)), Integer.parseInt(words.get(3))));
    }

    private static void put(Map<String, Command> commands, String name, Function<String, RLock> locks, Action action) {
        commands.put(name, words -> {
            long[] numbers = words.stream().skip(1).mapToLong(Long::parseLong).toArray();
            return String.valueOf(action.run(locks.apply(words.get(0)), numbers));
        });
    }

    private interface Action {
        Object run(RLock lock, long[] numbers) throws Exception;
    }
}
