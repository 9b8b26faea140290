"""Makes runs of an experiment, or of all of them, and writes what came out."""

import argparse
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType

from reproduce.pairs import Options
from reproduce.sets import PAPER, REAL, SETS

HERE = Path(__file__).parent
STORE = HERE / "runs.sqlite"
NAMES = ("table2", "comparison", "consistency", "tolerances", "timing", "extra", "plateau", "fair")
OF_ALL = {
    "all": "everything, and reproduce/RESULTS.md",
    "run": "the runs of everything, no page: for a machine without a plotting library",
    "plan": "what is made of everything, and how long the rest will take",
}


def main(arguments: list[str] | None = None) -> int:
    """Make the missing runs, then the page."""
    began = time.monotonic()
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.compare and given.name != "table2":
        parser.error("--compare goes with 'table2'")
    if given.publish and (given.name != "all" or given.data or given.starts):
        parser.error("--publish goes with 'all', and with all data and starts of the page")
    from reproduce import published  # after parsing, so that --help does not wait for it
    from reproduce.store import Store

    names = NAMES if given.name in OF_ALL else (given.name,)
    experiments = {name: import_module(f"reproduce.{name}") for name in names}
    chosen = {name: Options(tuple(given.data or _usual_data(name)), given.starts) for name in names}
    plans = {name: experiments[name].plan(chosen[name]) for name in names}
    store = Store(given.store)
    try:
        if given.store == STORE:
            published.read(store)
        if given.taken_in:
            print(f"{store.take_in(given.taken_in)} runs taken in", file=sys.stderr)
        if given.compare:
            print(experiments["table2"].compare(store, chosen["table2"]))
            return 0
        if given.name == "plan":
            return _show_plan(experiments, chosen, plans, store, given.device)
        if not given.stored:
            until = float("inf") if given.minutes is None else began + 60 * given.minutes
            if given.device:
                _make_on_device(experiments, chosen, plans, store, given.device, until)
            else:
                _make_runs(experiments, chosen, plans, store, given.jobs, until)
    except (FileNotFoundError, ValueError) as error:
        print(f"reproduce: {error}", file=sys.stderr)
        return 1
    finally:  # what was made before an error is carried home too
        if given.export:
            _export(store, given.export)
    if given.name != "run":
        _write(experiments, chosen, plans, store, given)
    if given.publish:
        runs = [run for plan in plans.values() for run in plan]
        count = published.write(store, runs)
        size = published.FILE.stat().st_size / 2**20
        print(f"{published.FILE}: {count} runs, {size:.1f} MiB", file=sys.stderr)
    return 0


def _export(store, folder: Path) -> None:
    for path in store.export(folder):
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB", file=sys.stderr)


def _make_runs(
    experiments: dict[str, ModuleType], chosen: dict, plans: dict, store, jobs: int, until: float
) -> None:
    """Make the runs whose errors count, several at a time; then those whose times count, one by one."""
    from reproduce.perform import perform
    from reproduce.plan import in_order

    keep_W = _compared(experiments, chosen)
    for alone in (False, True):
        runs = in_order(_runs(experiments, plans, alone))
        perform(runs, store, 1 if alone else jobs, keep_W=keep_W, until=until)


def _make_on_device(
    experiments: dict[str, ModuleType], chosen: dict, plans: dict, store, device: str, until: float
) -> None:
    """Make the runs whose errors count and that a device can make, many at once."""
    from reproduce.batches import perform_on_device

    runs, keep_W = _runs(experiments, plans), _compared(experiments, chosen)
    perform_on_device(runs, store, device, keep_W=keep_W, until=until)


def _compared(experiments: dict[str, ModuleType], chosen: dict) -> set:
    """The runs whose W is kept."""
    return {
        run
        for name, experiment in experiments.items()
        if hasattr(experiment, "compared")
        for run in experiment.compared(chosen[name])
    }


def _runs(experiments: dict[str, ModuleType], plans: dict, alone: bool = False) -> list:
    return [run for plan in _chosen(experiments, plans, alone).values() for run in plan]


def _chosen(experiments: dict[str, ModuleType], plans: dict, alone: bool) -> dict:
    """The plans of experiments whose runs are made alone, or of the others."""
    return {
        name: plan
        for name, plan in plans.items()
        if getattr(experiments[name], "ALONE", False) == alone
    }


def _show_plan(
    experiments: dict[str, ModuleType], chosen: dict, plans: dict, store, device: str | None
) -> int:
    from reproduce.batches import show_batches
    from reproduce.plan import left_to_do

    if device:
        rows = [["data", "solver", "method", "rank", "extra", "ε₁ = ε₂", "starts to make"]]
        rows += show_batches(
            _runs(experiments, plans), store, keep_W=_compared(experiments, chosen)
        )
    else:
        rows = [["experiment", "data", "solver", "made", "core-minutes left"]]
        for alone in (False, True):
            rows += left_to_do(_chosen(experiments, plans, alone), store, alone=alone)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    return 0


def _write(experiments: dict[str, ModuleType], chosen: dict, plans: dict, store, given) -> None:
    from reproduce.page import kept, write
    from reproduce.results import opening, summary

    sections = [experiment.report(store, chosen[name]) for name, experiment in experiments.items()]
    if given.name == "all":
        page = (given.output or HERE) / "RESULTS.md"
        sections = [part if part.pieces else kept(page, part.title) for part in sections]
        head = opening(store, [run for plan in plans.values() for run in plan])
        write(page, [summary(sections), *sections], head)
    else:
        page = (given.output or HERE / "output") / f"{given.name}.md"
        write(page, sections)
        print(sections[0].text())
    print(f"written to {page}", file=sys.stderr)


def _usual_data(name: str) -> tuple[str, ...]:
    return REAL if name == "fair" else PAPER


def _parser() -> argparse.ArgumentParser:
    described = [(name, _first_line(HERE / f"{name}.py")) for name in NAMES]
    listed = "\n".join(f"  {name:<12} {text}" for name, text in [*described, *OF_ALL.items()])
    parser = argparse.ArgumentParser(
        prog="python -m reproduce",
        description="Repeat the paper's experiments. Every run is stored once; what is stored is not made again.",
        epilog=f"names:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", choices=[*NAMES, *OF_ALL], metavar="NAME", help="one of those below"
    )
    parser.add_argument("--data", nargs="+", choices=list(SETS), metavar="SET",
                        help=f"data sets, of {', '.join(SETS)}; usually the paper's six")  # fmt: skip
    parser.add_argument(
        "--starts", type=_positive, help="random starts; usually as many as in the paper"
    )
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count(),
                        help="processes, each of one thread (default: one a core); runs of 'timing' are always made alone")  # fmt: skip
    parser.add_argument("--device",
                        help="make only runs whose errors count, all starts of a cell at once on this device, such as cuda; "
                        "they have no times; with 'plan', show them")  # fmt: skip
    parser.add_argument(
        "--minutes",
        type=float,
        help="stop making runs after so many minutes (default: when all are made)",
    )
    parser.add_argument("--compare", action="store_true",
                        help="with 'table2': print stored values beside the paper's and count agreements")  # fmt: skip
    parser.add_argument("--stored", action="store_true", help="run nothing; use what is stored")
    parser.add_argument("--store", type=Path, default=STORE, help="file of the stored runs")
    parser.add_argument("--publish", action="store_true",
                        help="with 'all': write the runs behind the page to a small file of the repository")  # fmt: skip
    parser.add_argument("--export", type=Path, metavar="DIR",
                        help="write all stored runs to files below 16 MiB in this folder")  # fmt: skip
    parser.add_argument("--import", type=Path, nargs="+", metavar="FILE", dest="taken_in",
                        help="first add the runs of files written by --export")  # fmt: skip
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
