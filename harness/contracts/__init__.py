"""The contracts between the harness and its plug-ins: what each kind offers, one file per concern.

A *system* knows how to run one kind of cluster and how to talk to it; an *environment* knows how
to run processes and links, whatever the system. Optional abilities are separate protocols
(``abilities`` of systems, ``hosts`` of environments): a nemesis asks for what it needs and is
skipped, with its reason, where it is not there. Nodes are called ``n1``, ``n2``, ... everywhere;
voters come first.
"""
