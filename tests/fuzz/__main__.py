"""Fuzzers at length: ``python -m tests.fuzz NAME --cases 100000 --seed 0``."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz import api, checkpoints, readers

# name: function(cases, seed, keep) that prints what fails and returns the number of failures
FUZZERS: dict[str, Callable[[int, int, Path | None], int]] = {
    "api": lambda cases, seed, keep: api.fuzz(cases, seed),
    "checkpoints": lambda cases, seed, keep: checkpoints.fuzz(cases, seed),
    "readers": lambda cases, seed, keep: len(readers.fuzz(cases, seed, keep=keep)),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("name", choices=list(FUZZERS))
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the inputs that failed")
    given = parser.parse_args()
    began = time.monotonic()
    failures = FUZZERS[given.name](given.cases, given.seed, given.keep)
    print(
        f"{given.name}: {given.cases:,} cases, seed {given.seed}, {failures} failed, "
        f"{time.monotonic() - began:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
