package org.apache.kafka.raft;

import kafka.server.ControllerConfigurationValidator;
import org.apache.kafka.controller.ConfigurationValidator;

/** Kafka's own judge of settings, as ControllerServer gives it to a controller; it knows no server's settings before 3.6. */
final class SimValidator {
    private SimValidator() {
    }

    static ConfigurationValidator get() {
        return new ControllerConfigurationValidator();
    }
}
