package org.apache.kafka.raft;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.regex.Pattern;

import org.slf4j.helpers.FormattingTuple;
import org.slf4j.helpers.MarkerIgnoringBase;
import org.slf4j.helpers.MessageFormatter;

/**
 * Takes what Kafka's classes log, from INFO on, as output of the node whose turn it is. QuorumState logs
 * each of its transitions, most releases with both states, and whoever reads the log each voter set in it, so they are
 * told as events from here.
 */
public final class SimLogger extends MarkerIgnoringBase {
    private static final long serialVersionUID = 1L;
    private static final String TRANSITION = "Completed transition to {} from {}";
    private static final String ONE_STATE = "Completed transition to {}"; // of the first releases
    private static final String VOTERS = "Latest set of voters is {} at offset {}";
    private static final String NO_QUORUM = "Did not receive fetch request from the majority of the voters within {}ms. ";
    private static final String CLAIM = "Becoming the active controller at epoch {}, next write offset {}.";
    private static final String OLD_CLAIM = "Becoming the active controller at epoch {}, committed offset {}, committed epoch {}"; // before 3.6
    private static final int INFO = 20;
    private static final int WARN = 30;
    private static final int ERROR = 40;

    // of an object in its default text: another one in each JVM
    private static final String FAILING = "failing ";
    private static final Pattern HASH = Pattern.compile("(?<=Listener|Loader|Told)@\\d+|(?<=failing \\w{1,60})\\(\\d+\\)");

    public SimLogger(String name) {
        this.name = name;
    }

    private void say(int level, FormattingTuple text) {
        SimReplica node = SimReplica.current;
        if (node == null) {
            return;
        }
        StringWriter all = new StringWriter();
        all.append(text.getMessage());
        if (text.getThrowable() != null) {
            all.append('\n');
            text.getThrowable().printStackTrace(new PrintWriter(all));
        }
        all.append(" (").append(name.substring(name.lastIndexOf('.') + 1)).append(')');
        String said = all.toString();
        boolean mayHash = said.indexOf('@') >= 0 || said.contains(FAILING);
        node.log(level, mayHash ? HASH.matcher(said).replaceAll("") : said);
    }

    private void say(int level, String text, Throwable error) {
        say(level, new FormattingTuple(text, null, error));
    }

    @Override
    public boolean isTraceEnabled() {
        return false;
    }

    @Override
    public boolean isDebugEnabled() {
        return false;
    }

    @Override
    public boolean isInfoEnabled() {
        return true;
    }

    @Override
    public boolean isWarnEnabled() {
        return true;
    }

    @Override
    public boolean isErrorEnabled() {
        return true;
    }

    @Override
    public void trace(String text) {
    }

    @Override
    public void trace(String format, Object one) {
    }

    @Override
    public void trace(String format, Object one, Object other) {
    }

    @Override
    public void trace(String format, Object... all) {
    }

    @Override
    public void trace(String text, Throwable error) {
    }

    @Override
    public void debug(String text) {
    }

    @Override
    public void debug(String format, Object one) {
    }

    @Override
    public void debug(String format, Object one, Object other) {
    }

    @Override
    public void debug(String format, Object... all) {
    }

    @Override
    public void debug(String text, Throwable error) {
    }

    @Override
    public void info(String text) {
        say(INFO, text, null);
    }

    @Override
    public void info(String format, Object one) {
        if (format.endsWith(ONE_STATE) && SimReplica.current != null) {
            SimReplica.current.teller.transition((EpochState) one);
        }
        say(INFO, MessageFormatter.format(format, one));
    }

    @Override
    public void info(String format, Object one, Object other) {
        if (format.endsWith(TRANSITION) && SimReplica.current != null) {
            SimReplica.current.teller.transition((EpochState) one, (EpochState) other);
        }
        if (format.endsWith(VOTERS) && SimReplica.current != null) {
            SimReplica.current.teller.voters((VoterSet) one, (Long) other);
        }
        if (format.endsWith(CLAIM) && SimReplica.current != null) {
            SimReplica.current.tellClaim((Integer) one);
        }
        say(INFO, MessageFormatter.format(format, one, other));
    }

    @Override
    public void info(String format, Object... all) {
        if (format.contains(NO_QUORUM) && SimReplica.current != null) {
            SimReplica.current.teller.noQuorum();
        }
        if (format.endsWith(OLD_CLAIM) && SimReplica.current != null) {
            SimReplica.current.tellClaim((Integer) all[0]);
        }
        say(INFO, MessageFormatter.arrayFormat(format, all));
    }

    @Override
    public void info(String text, Throwable error) {
        say(INFO, text, error);
    }

    @Override
    public void warn(String text) {
        say(WARN, text, null);
    }

    @Override
    public void warn(String format, Object one) {
        say(WARN, MessageFormatter.format(format, one));
    }

    @Override
    public void warn(String format, Object one, Object other) {
        say(WARN, MessageFormatter.format(format, one, other));
    }

    @Override
    public void warn(String format, Object... all) {
        say(WARN, MessageFormatter.arrayFormat(format, all));
    }

    @Override
    public void warn(String text, Throwable error) {
        say(WARN, text, error);
    }

    @Override
    public void error(String text) {
        say(ERROR, text, null);
    }

    @Override
    public void error(String format, Object one) {
        say(ERROR, MessageFormatter.format(format, one));
    }

    @Override
    public void error(String format, Object one, Object other) {
        say(ERROR, MessageFormatter.format(format, one, other));
    }

    @Override
    public void error(String format, Object... all) {
        say(ERROR, MessageFormatter.arrayFormat(format, all));
    }

    @Override
    public void error(String text, Throwable error) {
        say(ERROR, text, error);
    }
}
