package driver;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Map;
import java.util.function.Function;

import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The commands of whatever Redisson has as an RLock. A lease of -1 is one that the watchdog renews. */
final class Locks {
    private Locks() {}

    /** Adds the commands of all kinds of locks. */
    static void register(Map<String, Command> commands, RedissonClient redisson) {
        register(commands, redisson, "plain", redisson::getLock);
        register(commands, redisson, "fair", redisson::getFairLock);
        register(commands, redisson, "read", name -> redisson.getReadWriteLock(name).readLock());
        register(commands, redisson, "write", name -> redisson.getReadWriteLock(name).writeLock());
        register(commands, redisson, "spin", redisson::getSpinLock);
        register(commands, redisson, "multi", names -> redisson.getMultiLock(
                Arrays.stream(names.split(",")).map(redisson::getLock).toArray(RLock[]::new)));
        registerNewer(commands, redisson, "nonReentrant", "getNonReentrantLock");
        registerNewer(commands, redisson, "nonReentrantFair", "getNonReentrantFairLock");
        Locks.<RFencedLock>register(commands, redisson, "fenced", redisson::getFencedLock)
                .ask("lockAndGetToken", (lock, of) -> lock.lockAndGetToken(of.ms(0), MILLISECONDS))
                .ask("tryLockAndGetToken", (lock, of) -> lock.tryLockAndGetToken(of.ms(0), of.ms(1), MILLISECONDS))
                .ask("getToken", (lock, of) -> lock.getToken());
    }

    /** Adds the commands of one kind of lock. */
    private static <L extends RLock> Kind<L> register(
            Map<String, Command> commands, RedissonClient redisson, String kind, Function<String, L> locks) {
        return new Kind<>(commands, kind, locks)
                .tell("lock", (lock, of) -> lock.lock(of.ms(0), MILLISECONDS))
                .tell("lockInterruptibly", (lock, of) -> lock.lockInterruptibly(of.ms(0), MILLISECONDS))
                .ask("tryLock", (lock, of) -> lock.tryLock(of.ms(0), of.ms(1), MILLISECONDS))
                .ask("tryLockOnce", (lock, of) -> lock.tryLock())
                .tell("unlock", (lock, of) -> lock.unlock())
                .ask("forceUnlock", (lock, of) -> lock.forceUnlock())
                .ask("isLocked", (lock, of) -> lock.isLocked())
                .ask("holdCount", (lock, of) -> lock.getHoldCount())
                .ask("remaining", (lock, of) -> lock.remainTimeToLive());
    }

    /**
     * Looks up a kind that Redisson has since 4.4.0. An older one gets no such commands, but the same driver compiles.
     */
    private static void registerNewer(
            Map<String, Command> commands, RedissonClient redisson, String kind, String method) {
        Method get;
        try {
            get = RedissonClient.class.getMethod(method, String.class);
        } catch (NoSuchMethodException e) {
            return;
        }
        register(commands, redisson, kind, name -> {
            try {
                return (RLock) get.invoke(redisson, name);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        });
    }
}
