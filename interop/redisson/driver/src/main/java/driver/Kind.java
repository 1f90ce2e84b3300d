package driver;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;

/**
 * The commands of one kind of object. Their names begin with the kind, and their first argument is the name of the
 * object.
 */
final class Kind<T> {
    private final Map<String, Command> commands;
    private final String kind;
    private final Function<String, T> objects;

    /**
     * Every thread keeps its handles, as a program would: the handle of a lock knows the lease that was last asked
     * for.
     */
    private final ThreadLocal<Map<String, T>> handles = ThreadLocal.withInitial(HashMap::new);

    Kind(Map<String, Command> commands, String kind, Function<String, T> objects) {
        this.commands = commands;
        this.kind = kind;
        this.objects = objects;
    }

    /** Adds a command whose value is what the object returns. Null is no value. */
    Kind<T> ask(String command, Question<T> question) {
        commands.put(kind + "." + command, words -> Objects.toString(
                question.ask(
                        handles.get().computeIfAbsent(words.get(0), objects),
                        new Arguments(words.subList(1, words.size()))), ""));
        return this;
    }

    /** Adds a command that has no value. */
    Kind<T> tell(String command, Order<T> order) {
        return ask(command, (object, of) -> {
            order.tell(object, of);
            return null;
        });
    }

    interface Question<T> {
        Object ask(T object, Arguments of) throws Exception;
    }

    interface Order<T> {
        void tell(T object, Arguments of) throws Exception;
    }

    /** What follows the name of the object. */
    record Arguments(List<String> words) {
        long ms(int i) {
            return Long.parseLong(text(i));
        }

        int number(int i) {
            return Integer.parseInt(text(i));
        }

        String text(int i) {
            return words.get(i);
        }

        /** An argument that is a list, with commas. */
        List<String> texts(int i) {
            return List.of(text(i).split(","));
        }
    }
}
