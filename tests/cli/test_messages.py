import argparse
import ast
import io
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import nmfmerge
from nmfmerge.arguments.errors import ArgumentError, ArgumentTypeError, Given, Message
from nmfmerge.cli import _parser
from nmfmerge.cli.messages import in_options, show
from nmfmerge.io import FormatError
from nmfmerge.io.options import OPTIONS
from nmfmerge.settings import SETTINGS

SOURCE = Path(nmfmerge.__file__).parent


def test_arguments_become_options():
    error = ArgumentError(
        "tol", "is out of range", value=-1.0, expected="at least 0", fix="raise {max_iter}"
    )
    assert str(error) == "tol=-1.0 is out of range; expected at least 0: raise max_iter"
    shown = "--tol -1.0 is out of range; expected at least 0: raise --max-iter"
    assert in_options(error) == shown
    assert in_options(FormatError(Message("{error}; or not", error=error))) == f"{shown}; or not"
    assert (error.argument, error.value, error.expected) == ("tol", -1.0, "at least 0")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("header", False, "--no-header"),
        ("transpose", True, "--transpose"),
        ("variable", "x", "--variable 'x'"),
        ("n_components", 41, "--rank 41"),
        ("hold", [0], "hold=[0]"),
    ],
)
def test_an_argument_with_its_value_is_shown_as_it_is_typed(name, value, shown):
    assert in_options(Message("{it}", it=Given(name, value))) == shown


def test_facts_and_plain_texts_stay_as_they_are():
    path = "in/{tol}=3_variable=.npy"
    message = Message("{path} was not found; {tol}", path=path)
    assert in_options(message) == f"{path} was not found; --tol"
    assert str(message) == f"{path} was not found; tol"
    assert in_options(ValueError(f"{path} tol=3")) == f"{path} tol=3"


@pytest.mark.parametrize("kind", [ArgumentError, ArgumentTypeError])
def test_errors_keep_their_fields_when_they_are_pickled(kind):
    error = kind("tol", "is {what}", value=3, fix="{max_iter}", what="{odd}")
    copied = pickle.loads(pickle.dumps(error))
    assert isinstance(copied, kind)
    assert (str(copied), vars(copied)) == (str(error), vars(error))
    assert in_options(copied) == "--tol 3 is {odd}: --max-iter"


def test_what_a_user_typed_is_never_part_of_a_template():
    """A template is made of constants: braces of a file name would stand for arguments."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            name = node.func.id if isinstance(getattr(node, "func", None), ast.Name) else ""
            if name == "Message":
                found += [f"{file.name}:{node.lineno}"] * any(
                    isinstance(part, ast.FormattedValue) for part in ast.walk(node.args[0])
                )
    assert found == []


def test_texts_of_readers_and_the_method_name_arguments_by_templates():
    names = "|".join(s.name for s in SETTINGS.values() if s.flags) + "|" + "|".join(OPTIONS)
    typed = re.compile(rf"(?<![\w.{{])({names})=(?!=)")
    found = []
    for folder in ("io", "inputs", "method", "ranks", "matrices"):
        for file in sorted((SOURCE / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise):
                    found += [
                        f"{file.name}:{part.lineno} {part.value}"
                        for part in ast.walk(node)
                        if isinstance(part, ast.Constant) and typed.search(str(part.value))
                    ]
    assert found == []


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
