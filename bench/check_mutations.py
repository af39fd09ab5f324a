"""Breaks each rule of the linearizability checker, and sees whether its tests notice.

    python bench/check_mutations.py [--every 1]

``--every 10`` tries one in ten. Prints those that no test notices; exits 1 where there is one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.support.linearizability.mutations import MUTATIONS, copy_to, unnoticed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--every", type=int, default=1)
    chosen = MUTATIONS[:: parser.parse_args().every]
    left = 0
    with tempfile.TemporaryDirectory(prefix="krucible-mutations-") as name:
        copy = copy_to(Path(name))
        for mutation in chosen:
            if unnoticed(mutation, copy):
                left += 1
                print("not noticed:", mutation, flush=True)
    print(f"{len(chosen) - left} of {len(chosen)} noticed")
    sys.exit(left > 0)


if __name__ == "__main__":
    main()
