"""The state of an editor: a factorization with names, and which of its components are held.

States are never changed. Each function here takes one and returns the next.
"""

import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nmfmerge.api import nmf
from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.backends.numba import one_blas_thread
from nmfmerge.editor.added import added_components
from nmfmerge.editor.edits import Edit
from nmfmerge.editor.split import split_component
from nmfmerge.inputs import check
from nmfmerge.losses import LOSSES, Problem
from nmfmerge.losses.merging import MergeTree
from nmfmerge.matrices import DataMatrix
from nmfmerge.results.factorization import Factorization, Stage, is_number
from nmfmerge.solvers.history import History, StageName, Status


class Component(NamedTuple):
    """A column of W with its row of H, its name, and whether it is held."""

    w: np.ndarray
    h: np.ndarray
    name: str
    held: bool = False


@dataclass(frozen=True, eq=False)
class State:
    """A factorization with names, and whether each of its components is held.

    W and H cannot be written to, as other states may share them. ``n_numbers`` is the highest
    number that a component was ever named by.
    """

    result: Factorization
    held: tuple[bool, ...]
    n_numbers: int

    def __post_init__(self) -> None:
        for F in (self.result.W, self.result.H):
            F.flags.writeable = False

    def components(self) -> list[Component]:
        """The components, in order."""
        result = self.result
        return [
            Component(*parts)
            for parts in zip(result.W.T, result.H, result.names, self.held, strict=True)
        ]

    def with_components(
        self, components: list[Component], data: DataMatrix, stage: StageName
    ) -> "State":
        """The state after a stage that put other components in place of these."""
        W = np.stack([component.w for component in components]).T
        H = np.stack([component.h for component in components])
        objective, error = measure(data, W, H, self.result.loss)
        result = Factorization(
            W=W,
            H=H,
            objective=objective,
            fitting_error=error,
            stages=(*self.result.stages, Stage(stage, len(H), 0, 0.0, error, Status.DONE)),
            status=Status.DONE,
            seconds=self.result.seconds,
            names=tuple(component.name for component in components),
            axes=self.result.axes,
            loss=self.result.loss,
            n_missing=data.n_missing,
        )
        return replace(self, result=result, held=tuple(one.held for one in components))

    @property
    def held_indices(self) -> list[int]:
        """Components that are held."""
        return [i for i, held in enumerate(self.held) if held]


def first_state(data: DataMatrix, result: Factorization, held: list[int]) -> State:
    """The state an editor begins with: copies of the factors, in the precision of X, measured.

    Components without names are numbered from 1.
    """
    r = result.n_components
    W, H = (np.array(F, dtype=data.dtype) for F in (result.W, result.H))
    objective, error = measure(data, W, H, result.loss)
    names = result.names or tuple(str(t + 1) for t in range(r))
    stages = result.stages or (Stage(StageName.START, r, 0, 0.0, error, Status.DONE),)
    result = replace(
        result, W=W, H=H, objective=objective, fitting_error=error, names=names, stages=stages,
        n_missing=data.n_missing,
    )  # fmt: skip
    numbers = [int(digits) for name in names if is_number(name) for digits in _numbers(name)]
    return State(result, tuple(t in held for t in range(r)), max(numbers, default=0))


def measure(data: DataMatrix, W: np.ndarray, H: np.ndarray, loss: str) -> tuple[float, float]:
    """Objective and fitting error of factors."""
    Wt, H = check.check_fit(W, H, data, len(H))
    problem = Problem(data, LOSSES[loss])
    with one_blas_thread():
        value = float(problem.exact_losses(Wt[None], H[None])[0])
    return problem.in_full(value), problem.percent(value)


def apply(
    state: State, edit: Edit, data: DataMatrix, limits: dict[str, Any] | None = None
) -> tuple[State, Edit]:
    """Do an edit; return the next state, and the edit as it can be repeated.

    Parameters
    ----------
    state : State
        The present one.
    edit : Edit
        What to do.
    data : DataMatrix
        X.
    limits : dict, optional
        For "polish": max_time and callback. If they end it, the edit that comes back has the
        number of iterations that were done.
    """
    if edit.name == "polish":
        return _polish(state, edit, data, limits or {})
    began = perf_counter()
    new = _EDITS[edit.name](state, data, *edit.arguments)
    if len(new.result.stages) > len(state.result.stages):
        new = _timed(new, perf_counter() - began)
    return new, edit


def _timed(state: State, seconds: float) -> State:
    *stages, last = state.result.stages
    stages.append(replace(last, seconds=seconds))
    result = replace(state.result, stages=tuple(stages), seconds=state.result.seconds + seconds)
    return replace(state, result=result)


def _add(state: State, data: DataMatrix, k: int) -> State:
    old, last = state.result, state.n_numbers + k
    W, H, _ = added_components(data, old.W, old.H, k, state.held_indices, old.loss)
    names = (*old.names, *(str(number) for number in range(state.n_numbers + 1, last + 1)))
    held = (*state.held, *(k * [False]))
    components = [Component(*parts) for parts in zip(W.T, H, names, held, strict=True)]
    return replace(state.with_components(components, data, StageName.ADD), n_numbers=last)


def _numbers(name: str) -> list[str]:
    """The numbers in a name such as "(1+2)a"."""
    return re.findall(r"\d{1,9}", name)


def _merge(state: State, data: DataMatrix, i: int, j: int) -> State:
    merged = _merged(state.components(), i, j, state.result.loss)
    return state.with_components(merged, data, StageName.MERGE)


def _merge_to(state: State, data: DataMatrix, n_components: int) -> State:
    old = state.result
    if n_components > old.n_components:
        raise ArgumentError(
            "n_components",
            f"exceeds the {old.n_components} components of the solution",
            value=n_components,
        )
    tree = _tree(data, old, n_components, np.array(state.held))
    if tree.n_components > n_components:
        raise ArgumentError(
            "n_components",
            "cannot be reached, as held components are not merged",
            value=n_components,
            fix=f"merge to {tree.n_components}, or release some of the {sum(state.held)} held ones",
        )
    components = state.components()
    for i, j in _as_positions(tree):
        components = _merged(components, i, j, old.loss)
    return state.with_components(components, data, StageName.MERGE)


def _tree(data: DataMatrix, old: Factorization, n_components: int, held: np.ndarray) -> MergeTree:
    """The merges down to a number of components."""
    Wt, H = check.check_fit(old.W, old.H, data, old.n_components)
    return LOSSES[old.loss].merge_plans(data, Wt[None], H[None], n_components, held)[0].tree


def _merged(components: list[Component], i: int, j: int, loss: str) -> list[Component]:
    """Components with i and j merged, in the place of the first of them."""
    if i == j:
        raise ValueError(f"component {i} cannot be merged with itself; name two components")
    first, last = sorted((i, j))
    p, q = components[first], components[last]
    for place, component in ((first, p), (last, q)):
        _refuse_held(component, place)
    Wt, H, _ = LOSSES[loss].merged(np.stack([p.w, q.w]), np.stack([p.h, q.h]), 1)
    components = list(components)
    components[first] = Component(Wt[0], H[0], f"{p.name}+{q.name}")
    del components[last]
    return components


def _as_positions(tree: MergeTree) -> Iterable[tuple[int, int]]:
    """The merges of a tree where each merged component takes the place of its first parent."""
    present = list(range(tree.n_leaves))
    for t, (i, j) in enumerate(tree.pairs.tolist()):
        first, last = sorted((present.index(i), present.index(j)))
        present[first] = tree.n_leaves + t
        del present[last]
        yield first, last


def _split(state: State, data: DataMatrix, i: int) -> State:
    components = state.components()
    _refuse_held(components[i], i)
    W, H = split_component(data, state.result.W, state.result.H, i, state.result.loss)
    name = components[i].name
    name = f"({name})" if "+" in name else name
    components[i : i + 1] = [
        Component(W[:, t], H[t], name + letter) for t, letter in enumerate("ab")
    ]
    return state.with_components(components, data, StageName.SPLIT)


def _remove(state: State, data: DataMatrix, i: int) -> State:
    components = state.components()
    _refuse_held(components[i], i)
    if len(components) == 1:
        raise ValueError("the only component cannot be removed")
    del components[i]
    return state.with_components(components, data, StageName.REMOVE)


def _refuse_held(component: Component, i: int) -> None:
    if component.held:
        raise ValueError(f"component {i} ({component.name!r}) is held: release it first")


def _hold(state: State, data: DataMatrix, i: int) -> State:
    return replace(state, held=_changed(state.held, i, True))


def _release(state: State, data: DataMatrix, i: int) -> State:
    return replace(state, held=_changed(state.held, i, False))


def _rename(state: State, data: DataMatrix, i: int, name: str) -> State:
    names = _changed(state.result.names, i, name)
    return replace(state, result=replace(state.result, names=names))


_EDITS: dict[str, Callable[..., State]] = {
    "add": _add,
    "merge": _merge,
    "merge_to": _merge_to,
    "split": _split,
    "remove": _remove,
    "hold": _hold,
    "release": _release,
    "rename": _rename,
}


def _polish(
    state: State, edit: Edit, data: DataMatrix, limits: dict[str, Any]
) -> tuple[State, Edit]:
    old, settings = state.result, dict(edit.settings)
    if settings["max_iter"] == 0:  # it was stopped before its first iteration
        return state, edit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the editor says it in its own words
        new = nmf(
            data, old.n_components, init=(old.W, old.H), hold=state.held_indices,
            beta_loss=old.loss, **settings, **limits,
        )  # fmt: skip
    if not new.converged:
        edit = replace(edit, settings=settings | {"max_iter": new.n_iter})
    better = new if new.fitting_error <= old.fitting_error else old  # worse by rounding alone
    stage = replace(new.stages[-1], name=StageName.POLISH, fitting_error=better.fitting_error)
    if stage.history is not None:
        shifted = stage.history.seconds + old.seconds
        stage = replace(
            stage, history=History(stage.history.step, shifted, stage.history.fitting_error)
        )
    result = replace(
        better,
        stages=(*old.stages, stage),
        status=new.status,
        seconds=old.seconds + new.seconds,
        names=old.names,
        merges=None,
        merge_ids=(),
        generalized_singular_values=np.empty(0),
    )
    return replace(state, result=result), edit


def _changed(values: tuple[Any, ...], i: int, value: Any) -> tuple[Any, ...]:
    return (*values[:i], value, *values[i + 1 :])
