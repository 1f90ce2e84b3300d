package driver;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Map;

import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** The commands of semaphores. Several ids of permits have commas between them; a lease of -1 does not end. */
final class Semaphores {
    private Semaphores() {}

    static void register(Map<String, Command> commands, RedissonClient redisson) {
        new Kind<RSemaphore>(commands, "semaphore", redisson::getSemaphore)
                .ask("trySetPermits", (semaphore, of) -> semaphore.trySetPermits(of.number(0)))
                .tell("addPermits", (semaphore, of) -> semaphore.addPermits(of.number(0)))
                .tell("acquire", (semaphore, of) -> semaphore.acquire(of.number(0)))
                .ask("tryAcquire", (semaphore, of) -> semaphore.tryAcquire(of.number(0), of.ms(1), MILLISECONDS))
                .tell("release", (semaphore, of) -> semaphore.release(of.number(0)))
                .ask("drainPermits", (semaphore, of) -> semaphore.drainPermits())
                .ask("availablePermits", (semaphore, of) -> semaphore.availablePermits())
                .ask("delete", (semaphore, of) -> semaphore.delete());
        new Kind<RPermitExpirableSemaphore>(commands, "permits", redisson::getPermitExpirableSemaphore)
                .ask("trySetPermits", (permits, of) -> permits.trySetPermits(of.number(0)))
                .tell("setPermits", (permits, of) -> permits.setPermits(of.number(0)))
                .tell("addPermits", (permits, of) -> permits.addPermits(of.number(0)))
                .ask("acquire", (permits, of) -> String.join(",",
                        permits.acquire(of.number(0), of.ms(1), MILLISECONDS)))
                .ask("tryAcquire", (permits, of) -> String.join(",",
                        permits.tryAcquire(of.number(0), of.ms(1), of.ms(2), MILLISECONDS)))
                .tell("release", (permits, of) -> permits.release(of.text(0)))
                .ask("tryRelease", (permits, of) -> permits.tryRelease(of.texts(0)))
                .ask("updateLeaseTime", (permits, of) -> permits.updateLeaseTime(of.text(0), of.ms(1), MILLISECONDS))
                .ask("availablePermits", (permits, of) -> permits.availablePermits())
                .ask("acquiredPermits", (permits, of) -> permits.acquiredPermits())
                .ask("getPermits", (permits, of) -> permits.getPermits())
                .ask("delete", (permits, of) -> permits.delete());
    }
}
