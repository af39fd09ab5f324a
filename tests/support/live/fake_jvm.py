"""A process that listens as a JVM does once it gets SIGQUIT; run as ``fake_jvm.py HOW FOLDER``.

HOW says what it answers; its socket is in FOLDER. It prints ``up`` when it may be asked.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from pathlib import Path

ANSWERS = {
    "tells": b"0\n2026-11-22T09:00:00.123+0100: 12.345 s\n",
    "refuses": b"1\njava.lang.IllegalArgumentException: Unknown diagnostic command\n",
    "babbles": b"0\nI have no idea\n",
    "floods": b"0\n" + b"x" * (1 << 20),
    "hangs-up": b"",
}
REQUEST = b"1\0jcmd\0VM.uptime -date\0\0\0"


def main() -> None:
    how, folder = sys.argv[1], Path(sys.argv[2])
    asked = []
    if how != "starts":
        signal.signal(signal.SIGQUIT, lambda *_: asked.append(1))
    print("up", flush=True)  # noqa: T201
    while not asked:
        time.sleep(0.005)
    if how == "deaf" or not Path(f".attach_pid{os.getpid()}").exists():
        time.sleep(60)
    with socket.socket(socket.AF_UNIX) as server:
        draft = folder / f".java_pid{os.getpid()}.tmp"
        server.bind(str(draft))
        server.listen()
        draft.rename(folder / f".java_pid{os.getpid()}")  # whoever finds it is let in
        while True:
            connection, _ = server.accept()
            heard = b""
            while len(heard) < len(REQUEST):
                heard += connection.recv(len(REQUEST))
            if how == "silent" or heard != REQUEST:
                time.sleep(60)
            with contextlib.suppress(OSError), connection:
                connection.sendall(ANSWERS[how])


if __name__ == "__main__":
    main()
