"""Judge what played brokers were told, against each other, time and the committed log."""
