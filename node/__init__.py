"""A KRaft node: consensus core, storage, controller, broker, wire protocol and drivers."""
