"""The broker: its life with the controller, its image of the metadata, its way to the controller.

``lifecycle``, ``loader`` and ``snapshot_policy`` are pure, in the manner of ``node.core``: they are
told what happened and what time it is, and return what is to be done. ``controller_channel`` and
``runner`` are their edges. Source: KIP-500, KIP-631, KIP-866.
"""
