"""A node as small as can be: answers every frame by its own bytes, and says who asked.

Run as a process: ``echo_node.py HOST PORT``. It writes one line per connection, with the peer's
address, so that a test can read in the node's log who came.
"""

from __future__ import annotations

import socket
import sys
import threading


def main() -> None:
    host, port = sys.argv[1], int(sys.argv[2])
    with socket.create_server((host, port)) as server:
        say(f"listening on {host}:{port}")
        while True:
            connection, peer = server.accept()
            say(f"connection from {peer[0]}")
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def serve(connection: socket.socket) -> None:
    with connection:
        try:
            while data := connection.recv(65536):
                connection.sendall(data)
        except OSError:
            return


if __name__ == "__main__":
    main()
