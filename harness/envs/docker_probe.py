"""One real request from inside a container's network; stands alone, and runs by ``python3 -c``.

Arguments: host, port, timeout in seconds, the request in hexadecimal. Prints one JSON object
``{"passed", "detail", "elapsed_ms"}``.
"""

import json
import socket
import sys
import time


def main() -> None:
    """Connect, send, wait for any answer, say what was seen."""
    host, port, timeout, request = sys.argv[1:5]
    began = time.monotonic()
    deadline = began + float(timeout)
    try:
        with socket.create_connection((host, int(port)), timeout=float(timeout)) as sock:
            sock.sendall(bytes.fromhex(request))
            sock.settimeout(max(0.001, deadline - time.monotonic()))
            answer = sock.recv(4096)
        passed = bool(answer)
        detail = f"answer of {len(answer)} bytes" if answer else "closed by peer"
    except TimeoutError:
        passed, detail = False, f"no answer within {float(timeout):g} s"
    except OSError as error:
        passed, detail = False, f"{type(error).__name__}: {error.strerror or error}"
    elapsed_ms = (time.monotonic() - began) * 1000
    print(json.dumps({"passed": passed, "detail": detail, "elapsed_ms": elapsed_ms}))  # noqa: T201


if __name__ == "__main__":
    main()
