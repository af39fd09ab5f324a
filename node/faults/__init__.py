"""The one room where a node is hurt: its disk, its files and its clock, real or simulated.

``fault_disk`` and ``clock_report`` are the node's own side, and do nothing where the environment
does not ask for it. All else is called by the simulator and the harness, never by a node.
"""
