"""What an editor changes: a factorization with names, and which of its components are held.

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

from nmfmerge import validation as check
from nmfmerge.data import DataMatrix
from nmfmerge.editor.edits import Edit
from nmfmerge.editor.split import split_component
from nmfmerge.kernels import blas_for
from nmfmerge.merge import MergeTree, merge
from nmfmerge.pipeline import nmf, recover_components
from nmfmerge.result import Factorization, History, Stage, Status
from nmfmerge.solvers.point import percent


class Component(NamedTuple):
    """A column of W with its row of H, its name, and whether it is held."""

    w: np.ndarray
    h: np.ndarray
    name: str
    held: bool = False


@dataclass(frozen=True, eq=False)
class State:
    """A factorization with names, and whether each of its components is held."""

    result: Factorization
    held: tuple[bool, ...]

    def components(self) -> list[Component]:
        """The components, in order."""
        result = self.result
        return [
            Component(*parts)
            for parts in zip(result.W.T, result.H, result.names, self.held, strict=True)
        ]

    def with_components(self, components: list[Component], data: DataMatrix, stage: str) -> "State":
        """The state after a stage that put other components in place of these."""
        W = np.stack([component.w for component in components]).T
        H = np.stack([component.h for component in components])
        names = tuple(component.name for component in components)
        result = replace(measured(data, W, H, stage, self.result), names=names)
        return State(result, tuple(component.held for component in components))

    @property
    def held_indices(self) -> list[int]:
        """Components that are held."""
        return [i for i, held in enumerate(self.held) if held]


def first_state(result: Factorization, held: list[int]) -> State:
    """The state an editor begins with; components without names are numbered from 1."""
    r = result.n_components
    names = result.names or tuple(str(t + 1) for t in range(r))
    return State(replace(result, names=names), tuple(t in held for t in range(r)))


def measured(
    data: DataMatrix, W: np.ndarray, H: np.ndarray, stage: str, before: Factorization | None = None
) -> Factorization:
    """A factorization from factors alone: its error, and a stage after those ``before``."""
    began = perf_counter()
    Wt, H_own = check.check_fit(W, H, data, len(H))
    with blas_for(data.blas_flops(len(H))):
        residual2 = data.residual_norm2(Wt, H_own)
    error = percent(residual2, data.norm2)
    seconds = perf_counter() - began
    stages = (*before.stages,) if before else ()
    return Factorization(
        W=W,
        H=H,
        objective=0.5 * residual2 * data.unit**4,
        fitting_error=error,
        stages=(*stages, Stage(stage, len(H), 0, seconds, error, Status.DONE)),
        status=Status.DONE,
        seconds=(before.seconds if before else 0.0) + seconds,
    )


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
        number of iterations that were done. None where it is repeated, which never warns.
    """
    if edit.name == "polish":
        return _polish(state, edit, data, limits)
    return _EDITS[edit.name](state, data, *edit.arguments), edit


def _add(state: State, data: DataMatrix, k: int) -> State:
    old = state.result
    W, H, _ = recover_components(data, old.W, old.H, k, hold=state.held_indices)
    names = (*old.names, *_next_numbers(old.names, k))
    held = (*state.held, *(k * [False]))
    components = [Component(*parts) for parts in zip(W.T, H, names, held, strict=True)]
    return state.with_components(components, data, "add")


def _next_numbers(names: tuple[str, ...], k: int) -> list[str]:
    """The k numbers after the largest in any name, so that "2" is not born again after "2+5"."""
    largest = max((int(digits) for name in names for digits in re.findall(r"\d+", name)), default=0)
    return [str(largest + 1 + t) for t in range(k)]


def _merge(state: State, data: DataMatrix, i: int, j: int) -> State:
    return state.with_components(_merged(state.components(), i, j), data, "merge")


def _merge_to(state: State, data: DataMatrix, n_components: int) -> State:
    old = state.result
    if n_components > old.n_components:
        raise ValueError(
            f"n_components={n_components} is more than the {old.n_components} components there are"
        )
    Wt, H = np.ascontiguousarray(old.W.T), np.ascontiguousarray(old.H)
    tree = merge(Wt, H, n_components, held=np.array(state.held))[2]
    if tree.n_components > n_components:
        raise ValueError(
            f"n_components={n_components} cannot be reached, as held components are not merged: "
            f"merge to {tree.n_components}, or release some of the {sum(state.held)} held ones"
        )
    components = state.components()
    for i, j in _as_positions(tree):
        components = _merged(components, i, j)
    return state.with_components(components, data, "merge")


def _merged(components: list[Component], i: int, j: int) -> list[Component]:
    """Components with i and j merged, in the place of the first of them."""
    if i == j:
        raise ValueError(f"component {i} cannot be merged with itself; name two components")
    first, last = sorted((i, j))
    p, q = components[first], components[last]
    for place, component in ((first, p), (last, q)):
        _refuse_held(component, place)
    tree = MergeTree(2, np.array([[0, 1]]), np.zeros(1))
    W, H = tree.replay(np.stack([p.w, q.w]).T, np.stack([p.h, q.h]))
    components = list(components)
    components[first] = Component(W[:, 0], H[0], f"{p.name}+{q.name}")
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
    W, H = split_component(data, state.result.W, state.result.H, i)
    name = components[i].name
    components[i : i + 1] = [
        Component(W[:, t], H[t], f"{name}{letter}") for t, letter in enumerate("ab")
    ]
    return state.with_components(components, data, "split")


def _remove(state: State, data: DataMatrix, i: int) -> State:
    components = state.components()
    _refuse_held(components[i], i)
    if len(components) == 1:
        raise ValueError("the only component cannot be removed")
    del components[i]
    return state.with_components(components, data, "remove")


def _refuse_held(component: Component, i: int) -> None:
    if component.held:
        raise ValueError(f"component {i} ({component.name!r}) is held: release it first")


def _hold(state: State, data: DataMatrix, i: int) -> State:
    return State(state.result, _changed(state.held, i, True))


def _release(state: State, data: DataMatrix, i: int) -> State:
    return State(state.result, _changed(state.held, i, False))


def _rename(state: State, data: DataMatrix, i: int, name: str) -> State:
    return State(replace(state.result, names=_changed(state.result.names, i, name)), state.held)


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
    state: State, edit: Edit, data: DataMatrix, limits: dict[str, Any] | None
) -> tuple[State, Edit]:
    old, settings = state.result, dict(edit.settings)
    if settings["max_iter"] == 0:  # it was stopped before its first iteration
        return state, edit
    with warnings.catch_warnings():
        if limits is None:  # it may have been stopped when it was done first
            warnings.simplefilter("ignore", ConvergenceWarning)
        new = nmf(
            data, old.n_components, init=(old.W, old.H), hold=state.held_indices,
            **settings, **limits or {},
        )  # fmt: skip
    if not new.converged:
        edit = replace(edit, settings=settings | {"max_iter": new.n_iter})
    better = new if new.fitting_error <= old.fitting_error else old  # worse by rounding alone
    stage = replace(new.stages[-1], name="polish", fitting_error=better.fitting_error)
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
        generalized_singular_values=np.empty(0),
    )
    return State(result, state.held), edit


def _changed(values: tuple[Any, ...], i: int, value: Any) -> tuple[Any, ...]:
    return (*values[:i], value, *values[i + 1 :])
