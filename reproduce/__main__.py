"""Runs an experiment by its name, or all of them, and writes what came out."""

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from reproduce.pairs import Options
from reproduce.sets import PAPER, REAL, SETS

HERE = Path(__file__).parent
NAMES = ("table2", "comparison", "consistency", "tolerances", "timing", "extra", "plateau", "fair")


def main(arguments: list[str] | None = None) -> int:
    """Make the missing runs, then the page."""
    given = _parser().parse_args(arguments)
    # After parsing, so that --help does not wait for the compiler and the plotting library.
    from reproduce.page import write
    from reproduce.runs import Store, perform

    names = NAMES if given.name == "all" else (given.name,)
    store = Store(given.store)
    sections, plan = [], []
    chosen = {name: Options(tuple(given.data or _usual_data(name)), given.starts) for name in names}
    experiments = {name: import_module(f"reproduce.{name}") for name in names}
    try:
        for name, experiment in experiments.items():
            plan += experiment.plan(chosen[name])
        if not given.stored:
            perform(plan, store, given.jobs)
    except FileNotFoundError as error:
        print(f"reproduce: {error}", file=sys.stderr)
        return 1
    for name, experiment in experiments.items():
        sections.append(experiment.report(store, chosen[name]))
    if given.name == "all":
        from reproduce.results import opening, summary

        page = (given.output or HERE) / "RESULTS.md"
        write(page, [summary(sections), *sections], opening(store, plan))
    else:
        page = (given.output or HERE / "output") / f"{given.name}.md"
        write(page, sections)
        print(sections[0].text())
    print(f"written to {page}", file=sys.stderr)
    return 0


def _usual_data(name: str) -> tuple[str, ...]:
    return REAL if name == "fair" else PAPER


def _parser() -> argparse.ArgumentParser:
    described = "\n".join(
        f"  {name:<12} {_first_line(HERE / f'{name}.py')}" for name in (*NAMES,)
    )  # fmt: skip
    parser = argparse.ArgumentParser(
        prog="python -m reproduce",
        description="Repeat the paper's experiments. Every run is stored once; what is stored is not made again.",
        epilog=f"experiments:\n{described}\n  all          everything, and reproduce/RESULTS.md",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=[*NAMES, "all"], metavar="NAME", help="one of those below")
    parser.add_argument("--data", nargs="+", choices=list(SETS), metavar="SET",
                        help=f"data sets, of {', '.join(SETS)}; usually the paper's six")  # fmt: skip
    parser.add_argument(
        "--starts", type=_positive, help="random starts; usually as many as in the paper"
    )
    parser.add_argument(
        "--jobs", type=_positive, default=os.cpu_count(), help="processes, each of one thread"
    )
    parser.add_argument("--stored", action="store_true", help="run nothing; use what is stored")
    parser.add_argument(
        "--store", type=Path, default=HERE / "runs.sqlite", help="file of the stored runs"
    )
    parser.add_argument("--output", type=Path, help="folder for the page and its figures")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _first_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[0].strip('"')


if __name__ == "__main__":
    sys.exit(main())
