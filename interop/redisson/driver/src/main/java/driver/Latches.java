package driver;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.Map;

import org.redisson.api.RCountDownLatch;
import org.redisson.api.RedissonClient;

/** The commands of count-down latches. */
final class Latches {
    private Latches() {}

    static void register(Map<String, Command> commands, RedissonClient redisson) {
        new Kind<RCountDownLatch>(commands, "latch", redisson::getCountDownLatch)
                .ask("trySetCount", (latch, of) -> latch.trySetCount(of.number(0)))
                .tell("countDown", (latch, of) -> latch.countDown())
                .ask("getCount", (latch, of) -> latch.getCount())
                .ask("await", (latch, of) -> latch.await(of.ms(0), MILLISECONDS))
                .ask("delete", (latch, of) -> latch.delete());
    }
}
