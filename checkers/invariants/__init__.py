"""The consensus invariants, each a small object fed with the events of a run in order.

``trace`` turns raw events into one checked, ordered stream; ``world`` rebuilds from it what every
replica had on its disk and what is committed; ``elections``, ``logs``, ``commits``, ``snapshots``
and ``membership`` hold the invariants; ``monitor`` runs them all; ``acknowledged`` compares the
clients' history with what was committed. Nothing here does I/O: a simulator may feed a ``Monitor``
as events happen.
"""
