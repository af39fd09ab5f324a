"""The Kafka client library that workloads and nemeses use: admin calls, played brokers, voters."""
