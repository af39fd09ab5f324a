"""Apache Kafka's own classes inside the simulator, in a JVM within this process."""
