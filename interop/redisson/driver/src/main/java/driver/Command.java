package driver;

import java.util.List;

/** What the driver can do with one line of its input. The result is the text of the answer. */
interface Command {
    String run(List<String> arguments) throws Exception;
}
