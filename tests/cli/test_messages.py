import argparse
import io
from pathlib import Path

import numpy as np
import pytest

from nmfmerge.cli import _parser
from nmfmerge.cli.messages import in_options, show


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("n_components=41 is too large", "--rank 41 is too large"),
        ("tol=-1.0 is out of range", "--tol -1.0 is out of range"),
        ("choose one with variable=; it has a, b", "choose one with --variable; it has a, b"),
        ("choose with variable= from a, b", "choose with --variable from a, b"),
        ("leave out variable='x'", "leave out --variable 'x'"),
        ("header=False is not an option", "--no-header is not an option"),
        ("transpose=True is not an option", "--transpose is not an option"),
        ("which takes mz_bin, transpose", "which takes --mz-bin, --transpose"),
        ("no scan between time_min and time_max:", "no scan between --time-min and --time-max:"),
        ("mz_min=3.0 is not below mz_max=2.0:", "--mz-min 3.0 is not below --mz-max 2.0:"),
        ("n_extra=9 was reduced; n_extra together", "--extra 9 was reduced; --extra together"),
        ("when max_iter=2 iterations were done; raise tol.",
         "when --max-iter 2 iterations were done; raise --tol."),
        ("has no variable 'mass'; a window of 3", "has no variable 'mass'; a window of 3"),
        ("the file my_tol=3_variable= is not there", "the file my_tol=3_variable= is not there"),
    ],
)  # fmt: skip
def test_arguments_become_options(message, shown):
    assert in_options(message) == shown


def test_names_of_given_files_stay_as_they_are():
    given = argparse.Namespace(file=Path("in/tol=3.npy"), output=None)
    message = "in/tol=3.npy was not found; tol=3.npy.nmf neither; tol=3"
    assert (
        in_options(message, given) == "in/tol=3.npy was not found; tol=3.npy.nmf neither; --tol 3"
    )


def test_a_choice_among_arrays_is_named_as_an_option(command, tmp_path):
    np.savez(tmp_path / "two.npz", a=np.ones((3, 4)), b=np.ones((3, 4)))
    code, _, err = command("fit", tmp_path / "two.npz", "-r", 2)
    assert code == 1
    assert "--variable" in err
    assert "variable=" not in err


def test_a_rank_of_zero_is_refused_by_its_option(command, file, tmp_path):
    command("fit", file, "-r", 4, "-o", tmp_path / "out")
    for words in (["fit", file], ["merge", tmp_path / "out"]):
        code, _, err = command(*words, "-r", 0)
        assert code == 1
        assert "--rank 0 is out of range" in err


def test_a_figure_that_cannot_be_written_is_named(command, file, tmp_path):
    command("fit", file, "-r", 4, "-o", tmp_path / "out")
    figure = tmp_path / "none" / "figure.png"
    code, _, err = command("compare", tmp_path / "out", tmp_path / "out", "--figure", figure)
    assert code == 1
    assert f"{str(figure)!r}" in err


def test_warnings_name_options(command, file, tmp_path):
    _, _, err = command("fit", file, "-r", 4, "--max-iter", 2, "-o", tmp_path / "out")
    assert "when --max-iter 2 iterations were done" in err


def test_what_a_terminal_cannot_show_is_escaped():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show("3 × 4 \udcff", stream)
    stream.flush()
    assert stream.buffer.getvalue() == b"3 \\xd7 4 \\udcff\n"


def test_every_option_has_a_line_of_help():
    commands = next(a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, parser in commands.choices.items():
        for action in parser._actions:
            assert action.help, f"{name} {action.option_strings or action.dest}"
        parser.format_help()
