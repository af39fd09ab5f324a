"""The command ``krucible``: Ctrl-C ends it quietly from its first moment on."""

from __future__ import annotations

import signal


def main() -> None:
    """Import the command line and run it.

    Until it is imported, Ctrl-C ends the process at once: Python would tell of an interrupted
    import by a traceback.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from krucible import app  # noqa: PLC0415 - see above

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    app.main()
