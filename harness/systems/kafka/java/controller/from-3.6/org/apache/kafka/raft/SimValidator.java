package org.apache.kafka.raft;

import java.util.Properties;

import kafka.server.ControllerConfigurationValidator;
import kafka.server.KafkaConfig;
import org.apache.kafka.controller.ConfigurationValidator;

/** Kafka's own judge of settings, as ControllerServer gives it to a controller; one for all, as it keeps nothing. */
final class SimValidator {
    private static ConfigurationValidator kept;

    private SimValidator() {
    }

    static synchronized ConfigurationValidator get() {
        if (kept == null) {
            Properties server = new Properties();
            server.put("process.roles", "controller");
            server.put("node.id", "1");
            server.put("controller.quorum.voters", "1@localhost:9093");
            server.put("listeners", "CONTROLLER://localhost:9093");
            server.put("controller.listener.names", "CONTROLLER");
            kept = new ControllerConfigurationValidator(new KafkaConfig(server, false));
        }
        return kept;
    }
}
