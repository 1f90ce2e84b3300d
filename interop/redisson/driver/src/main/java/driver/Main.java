package driver;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.LockSupport;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.concurrent.TimeUnit.SECONDS;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;
import org.redisson.misc.ReclosableLatch;

/**
 * Runs the commands that it reads from standard input, each on the thread that the command names, because the owner of
 * a lock of Redisson is a thread. README.md describes the lines. The process ends when its input does.
 */
public final class Main {
    private final Map<String, Client> clients = new ConcurrentHashMap<>();
    private final Map<String, Worker> workers = new HashMap<>();
    private final PrintStream out;

    private Main(PrintStream out) {
        this.out = out;
    }

    /** A client of Redisson, and what it can do. How far its clock is ahead, in ms, concerns fair locks alone. */
    private record Client(RedissonClient redisson, Map<String, Command> commands, long ahead) {}

    /** Arguments: as those of connect, for the client without a name. Without arguments there is none. */
    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // whoever prints must not disturb the answers
        if (Boolean.getBoolean("driver.clocks")) {
            Clock.install();
        }
        Main driver = new Main(new PrintStream(out, false, UTF_8));
        if (args.length > 0) {
            driver.clients.put("", connect(List.of(args), new Config()));
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            driver.handle(Arrays.stream(line.split(" ")).map(word -> URLDecoder.decode(word, UTF_8)).toList());
        }
        Runtime.getRuntime().halt(0); // whatever still waits for a lock
    }

    /**
     * Makes a client. Arguments: the watchdog timeout in ms, "single", "cluster" or "sentinel", and the addresses.
     * Among them may be user=NAME, password=TEXT and ahead=MS, and for Sentinels set=NAME, which names what they watch.
     */
    private static Client connect(List<String> args, Config config) {
        config.setLockWatchdogTimeout(Long.parseLong(args.get(0)));
        Map<String, String> options = new HashMap<>();
        List<String> addresses = new ArrayList<>();
        for (String arg : args.subList(2, args.size())) {
            int equals = arg.indexOf('=');
            if (equals < 0) {
                addresses.add(arg);
            } else {
                options.put(arg.substring(0, equals), arg.substring(equals + 1));
            }
        }
        String[] all = addresses.toArray(String[]::new);
        BaseConfig<?> servers = switch (args.get(1)) {
            case "cluster" -> config.useClusterServers().addNodeAddress(all);
            case "sentinel" -> config.useSentinelServers().setMasterName(options.get("set"))
                    .setCheckSentinelsList(false).addSentinelAddress(all); // one is enough here
            default -> config.useSingleServer().setAddress(all[0]);
        };
        if (options.containsKey("user")) {
            servers.setUsername(options.get("user"));
            servers.setPassword(options.get("password"));
        }
        RedissonClient redisson = Redisson.create(config);
        Map<String, Command> commands = new HashMap<>();
        Rush.register(commands, redisson);
        commands.put("ping", arguments -> "pong");
        Locks.register(commands, redisson);
        Semaphores.register(commands, redisson);
        Latches.register(commands, redisson);
        return new Client(redisson, commands, Long.parseLong(options.getOrDefault("ahead", "0")));
    }

    /** Runs a command of a client, or one of the two that are about the client itself. */
    private String run(String name, String command, List<String> args) throws Exception {
        if (command.equals("connect")) {
            clients.put(name, connect(args, new Config()));
            return "";
        }
        Client client = clients.get(name);
        if (client == null) {
            throw new IllegalArgumentException("no client " + name);
        }
        if (command.equals("disconnect")) {
            clients.remove(name);
            client.redisson.shutdown(0, 5, SECONDS);
            return "";
        }
        Command known = client.commands.get(command);
        if (known == null) {
            throw new IllegalArgumentException("no command " + command);
        }
        Clock.ahead(client.ahead);
        return known.run(args);
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
                int slash = words.get(1).indexOf('/');
                String client = slash < 0 ? "" : words.get(1).substring(0, slash);
                answer(id, "ok", run(client, name, words.subList(3, words.size())));
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
            return blocker instanceof ReclosableLatch ||
                blocker != null && blocker.getClass().getName().contains("Semaphore$");
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
