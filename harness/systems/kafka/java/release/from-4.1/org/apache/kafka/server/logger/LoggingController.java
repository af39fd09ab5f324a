package org.apache.kafka.server.logger;

import java.util.List;

/**
 * In the place of Kafka's, which the server's classes register where JMX looks for it: that one wants Log4j,
 * and what is logged goes to the simulation.
 */
public final class LoggingController implements LoggingControllerMBean {
    @Override
    public List<String> getLoggers() {
        return List.of();
    }

    @Override
    public String getLogLevel(String logger) {
        return "INFO";
    }

    @Override
    public boolean setLogLevel(String logger, String level) {
        return false;
    }
}
