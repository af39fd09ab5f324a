"""Metrics for Prometheus and spans for OpenTelemetry, of runs and nights; off unless asked for."""
