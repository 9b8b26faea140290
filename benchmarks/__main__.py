"""Runs one benchmark by its name."""

import ast
import sys
from importlib import import_module
from pathlib import Path

NAMES = (
    "cpu",
    "cores",
    "gpu",
    "starts",
    "solvers",
    "quick",
    "path",
    "rank_choice",
    "report",
    "svd",
    "dask",
    "kl",
    "consensus",
    "signatures",
    "programs",
    "missing",
)

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        print("python -m benchmarks NAME, where NAME is one of:")
        for name in NAMES:  # read, not imported: one of them needs PyTorch
            source = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
            print(f"  {name:<12} {ast.get_docstring(ast.parse(source))}")
        sys.exit(0 if len(sys.argv) < 2 else 2)
    import_module(f"benchmarks.{sys.argv[1]}").main(*sys.argv[2:])
