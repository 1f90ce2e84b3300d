package driver;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.LockSupport;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;
import org.redisson.misc.ReclosableLatch;

/**
 * Runs the commands that it reads from standard input, each on the thread that the command names, because the owner of a
 * lock of Redisson is a thread. README.md describes the lines. The process ends when its input does.
 */
public final class Main {
    private final Map<String, Command> commands;
    private final Map<String, Worker> workers = new HashMap<>();
    private final PrintStream out;

    private Main(Map<String, Command> commands, PrintStream out) {
        this.commands = commands;
        this.out = out;
    }

    /** Arguments: the watchdog timeout in ms, "single", "cluster" or "classic", and the addresses. */
    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // whoever prints must not disturb the answers
        Config config = new Config();
        config.setLockWatchdogTimeout(Long.parseLong(args[0]));
        String[] addresses = Arrays.copyOfRange(args, 2, args.length);
        BaseConfig<?> servers = switch (args[1]) {
            case "cluster" -> config.useClusterServers().addNodeAddress(addresses);
            case "classic" -> config.useClusterServers().addNodeAddress(addresses)
                    .setShardedSubscriptionMode(ShardedSubscriptionMode.OFF);
            default -> config.useSingleServer().setAddress(addresses[0]);
        };
        servers.setUsername(System.getProperty("driver.user"));
        servers.setPassword(System.getProperty("driver.password"));
        Clock.install();
        RedissonClient redisson = Redisson.create(config);
        Map<String, Command> commands = new HashMap<>();
        Rush.register(commands, redisson);
        commands.put("ping", arguments -> "pong");
        Locks.register(commands, redisson);
        Semaphores.register(commands, redisson);
        Latches.register(commands, redisson);
        Main driver = new Main(commands, new PrintStream(out, false, UTF_8));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            driver.handle(Arrays.stream(line.split(" ")).map(word -> URLDecoder.decode(word, UTF_8)).toList());
        }
        Runtime.getRuntime().halt(0); // whatever still waits for a lock
    }

    /** Takes one line: id, thread, command, arguments. */
    private void handle(List<String> words) {
        String id = words.get(0);
        Worker worker = workers.computeIfAbsent(words.get(1), Worker::new);
        String name = words.get(2);
        if (name.equals("interrupt")) { // of whatever the thread does at the moment
            worker.interrupt();
            answer(id, "ok", "");
            return;
        }
        if (name.equals("sleeps")) { // the thread: it has asked in vain, and now only a message can wake it in time
            answer(id, "ok", Boolean.toString(worker.sleeps()));
            return;
        }
        worker.tasks.add(() -> {
            try {
                Command command = commands.get(name);
                if (command == null) {
                    throw new IllegalArgumentException("no command " + name);
                }
                answer(id, "ok", command.run(words.subList(3, words.size())));
            } catch (Exception e) {
                answer(id, "error", e.getClass().getSimpleName() + ": " + e.getMessage());
            }
        });
    }

    private void answer(String id, String outcome, String value) {
        synchronized (out) {
            out.println(id + " " + outcome + " " + URLEncoder.encode(value, UTF_8));
            out.flush();
        }
    }

    /** A thread that runs its commands in their order. */
    private static final class Worker extends Thread {
        final LinkedBlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();

        Worker(String name) {
            super(name);
            setDaemon(true);
            start();
        }

        /** Whether the thread waits in one of Redisson's latches. */
        boolean sleeps() {
            Object blocker = LockSupport.getBlocker(this);
            return blocker instanceof ReclosableLatch || blocker != null && blocker.getClass().getName().contains("Semaphore$");
        }

        @Override
        public void run() {
            while (true) {
                try {
                    tasks.take().run();
                } catch (InterruptedException e) {
                    // nothing was under way
                }
            }
        }
    }
}
