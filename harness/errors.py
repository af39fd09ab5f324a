"""Errors of the harness itself, each with its exit code.

::

    HarnessError                 exit 255: the harness broke
    ├── UsageError               exit 254: bad arguments, unknown names, unreadable input
    │   ├── UnknownPluginError   a name that no plug-in has (says what was meant)
    │   └── HistoryFormatError   a history file that cannot be read (says where)
    ├── EnvError                 the environment cannot do what a run needs
    │   ├── NodeStartError       a node did not come up (says where its log is)
    │   └── NotShapedError       links cannot be shaped so, here and now (says why)
    ├── SystemStuckError         a heal asked something of the system, which did not do it
    └── GuardError               a plug-in broke its contract (says which rule)

An error of the system under test is none of these: it is data in the history. A programmer's
error is an ordinary exception and is never caught.
"""

from __future__ import annotations

from typing import ClassVar


class HarnessError(Exception):
    """The harness could not do its work; the message says what, where and what to do."""

    exit_code: ClassVar[int] = 255


class UsageError(HarnessError):
    """Raised when the user's input cannot be used."""

    exit_code: ClassVar[int] = 254


class UnknownPluginError(UsageError):
    """Raised when no plug-in of a kind has the given name."""


class HistoryFormatError(UsageError):
    """Raised when a history file cannot be read."""


class EnvError(HarnessError):
    """Raised when an environment cannot do what a run needs."""


class NodeStartError(EnvError):
    """Raised when a node of the system under test does not come up."""


class NotShapedError(EnvError):
    """Raised when links cannot be made slow, lossy, ... so here and now; they are as before."""


class SystemStuckError(HarnessError):
    """Raised by a heal when the environment is as it was and the system does not do its part.

    It is tried again, last when all else is healed, and the run goes on to its recovery even so:
    whether the system is stuck for ever is for the checkers to say.
    """


class GuardError(HarnessError):
    """Raised when a plug-in breaks its contract."""
