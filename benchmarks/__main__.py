"""Runs one benchmark by its name."""

import sys
from importlib import import_module

NAMES = ("cpu", "gpu", "starts", "solvers", "quick", "path", "rank_choice", "report", "svd")

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        print("python -m benchmarks NAME, where NAME is one of:")
        for name in NAMES:
            print(f"  {name:<12} {import_module(f'benchmarks.{name}').__doc__.strip()}")
        sys.exit(0 if len(sys.argv) < 2 else 2)
    import_module(f"benchmarks.{sys.argv[1]}").main(*sys.argv[2:])
