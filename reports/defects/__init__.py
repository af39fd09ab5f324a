"""Anomalies in plain words: defects, and the rules that take the checkers' sentences apart."""
