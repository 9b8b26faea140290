"""Run a fuzzer at length: ``python -m tests.fuzz NAME --cases N --seed S``."""

import argparse
import sys
import time

from tests.fuzz import checkpoints

FUZZERS = {"checkpoints": checkpoints.fuzz}  # name → function(cases, seed) → number of failures


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("name", choices=list(FUZZERS))
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    failures = FUZZERS[given.name](given.cases, given.seed)
    print(
        f"{given.name}: {given.cases} cases, seed {given.seed}, {failures} failures, "
        f"{time.monotonic() - began:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
