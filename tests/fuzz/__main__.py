"""Fuzzers at length: ``python -m tests.fuzz readers --cases 100000 --seed 0``."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tests.fuzz import readers

# name: function(cases, seed, keep) that prints what it did and returns the failures
FUZZERS: dict[str, Callable[[int, int, Path | None], list]] = {
    "readers": lambda cases, seed, keep: readers.fuzz(cases, seed, keep=keep),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("name", choices=list(FUZZERS))
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the inputs that failed")
    given = parser.parse_args()
    failures = FUZZERS[given.name](given.cases, given.seed, given.keep)
    print(f"{given.cases:,} cases, seed {given.seed}, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
