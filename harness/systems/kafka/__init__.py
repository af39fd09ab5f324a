"""Apache Kafka's own nodes, fetched through Maven, nothing of them changed."""
