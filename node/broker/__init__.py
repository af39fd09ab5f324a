"""The broker: its life with the controller, and its way to the active controller.

``lifecycle`` is pure, in the manner of ``node.core``: it is told what happened and what time it is,
and returns what is to be done. ``controller_channel`` and
``runner`` are their edges. Source: KIP-500, KIP-631, KIP-866.
"""
