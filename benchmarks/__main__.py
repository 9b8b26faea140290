"""Runs one benchmark by its name."""

import sys

from benchmarks import cpu, solvers

COMMANDS = {"cpu": cpu.main, "solvers": solvers.main}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print("python -m benchmarks NAME, where NAME is one of:")
        for name, function in COMMANDS.items():
            print(f"  {name:<10} {sys.modules[function.__module__].__doc__.strip()}")
        sys.exit(0 if len(sys.argv) < 2 else 2)
    COMMANDS[sys.argv[1]](*[int(word) for word in sys.argv[2:]])
