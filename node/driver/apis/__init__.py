"""The requests that a node answers itself, beside those of the quorum: one file per family.

A family translates kio's entities to the controller's operations and back. Each of its handlers
says which API it answers, in which versions, on which listeners (``registry.serves``); what a
listener serves is computed from that. To add an API, add a handler in a file here.

``dispatch`` is what a listener needs, ``serving`` what a handler is given, ``call`` the request.
"""
