"""`Editor`: a factorization that is changed step by step, with undo, previews and a history."""

import inspect
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import validation as check
from nmfmerge.editor.added import added_components
from nmfmerge.editor.edits import ARGUMENTS, Edit
from nmfmerge.editor.file import Saved, read, write
from nmfmerge.editor.moments import Moments
from nmfmerge.editor.script import script
from nmfmerge.editor.state import State, apply, first_state
from nmfmerge.kernels import blas_for
from nmfmerge.result import Factorization, Status
from nmfmerge.solvers import SOLVERS
from nmfmerge.solvers.loop import Callback
from nmfmerge.solvers.point import percent


@dataclass(frozen=True)
class Preview:
    """What an edit would do to the fitting error, in percent.

    Attributes
    ----------
    edit : Edit
        The edit.
    before, after : float
        The fitting error now, and after it.
    """

    edit: Edit
    before: float
    after: float

    @property
    def change(self) -> float:
        """The change in percentage points."""
        return self.after - self.before

    def __str__(self) -> str:
        return f"{self.edit}: {self.before:.6g} % → {self.after:.6g} % ({self.change:+.3g})"


@dataclass(frozen=True, eq=False)
class Missing:
    """What X has and WH lacks: components that `Editor.add` would add, before they are added.

    Attributes
    ----------
    W, H : arrays (m, k) and (k, n)
        The components.
    generalized_singular_values : array (k,)
        How many times more X has than WH in the direction of each.
    """

    W: np.ndarray
    H: np.ndarray
    generalized_singular_values: np.ndarray


class Editor:
    """Adjust a factorization by hand, with undo.

    Each edit, `hold` and `rename` too, is one step of `undo`, and returns the new factorization.
    Components are counted from 0. Edits do not fit the other components anew, but for their scales
    in `add`, so that what an edit did can be seen before `polish`; `preview` says what it would do
    to the fitting error. W and H of all states are kept for `undo`, and are read-only.

    Parameters
    ----------
    X : array or sparse matrix (m, n)
        Nonnegative data.
    W : array (m, r), or Factorization
        The start; with a `Factorization`, H is left out.
    H : array (r, n)
        The start.
    names : sequence of str, optional
        Names of the components; by default those of the factorization, or 1, 2, ….
    held : indices, optional
        Components that are held.
    solver, tol, max_iter
        Of `polish`; see `nmfmerge.nmf`.

    Examples
    --------
    >>> from nmfmerge import Editor, datasets, nmf
    >>> X = datasets.paper_example().X
    >>> editor = Editor(X, nmf(X, 5))
    >>> merged = editor.merge(0, 1)
    >>> editor.names
    ('1+2', '3', '4', '5')
    >>> editor.undo().n_components
    5
    """

    def __init__(
        self,
        X: Any,
        W: np.ndarray | Factorization,
        H: np.ndarray | None = None,
        *,
        names: Sequence[str] | None = None,
        held: Iterable[int] = (),
        solver: str = "accelerated",
        tol: float = 1e-4,
        max_iter: int = 10_000,
    ) -> None:
        self._settings = _checked_settings({"solver": solver, "tol": tol, "max_iter": max_iter})
        self._data = check.check_X_on_host(X, "Editor")
        start = self._start(W, H, names)
        indices = check.check_indices("held", held, start.n_components)
        self._states = [first_state(self._data, start, indices)]
        self._edits: list[Edit] = []  # also those that were undone
        self._at = 0  # how many of them are done
        self._moments: tuple[np.ndarray, Moments] | None = None  # with the W that they are of
        self._previewed: tuple[State, Edit, State] | None = None  # from, by, to

    def _start(self, W: Any, H: Any, names: Sequence[str] | None) -> Factorization:
        given = W if isinstance(W, Factorization) else None
        if (given is None) == (H is None):
            raise TypeError("give W and H, or one Factorization in their place")
        if given is not None:
            W, H = given.W, given.H
        W, H = check.check_factors(W, H)
        check.check_fit(W, H, self._data, len(H))
        check.check_n_components(len(H), self._data.shape)
        if given is None:
            given = Factorization(W, H, np.nan, np.nan, (), Status.DONE, 0.0)
        if names is not None:
            given = replace(given, names=tuple(check.check_name("names", name) for name in names))
        return given

    # What there is

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.result().n_components

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the components."""
        return self.result().names

    @property
    def held(self) -> tuple[bool, ...]:
        """Whether each component is held."""
        return self._state.held

    @property
    def fitting_error(self) -> float:
        """100·‖X − WH‖²/‖X‖², in percent."""
        return self.result().fitting_error

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits that led here, the first one first."""
        return tuple(self._edits[: self._at])

    @property
    def can_undo(self) -> bool:
        """Whether there is an edit to undo."""
        return self._at > 0

    @property
    def can_redo(self) -> bool:
        """Whether there is an edit to do again."""
        return self._at < len(self._edits)

    def result(self) -> Factorization:
        """The present factorization."""
        return self._state.result

    def __repr__(self) -> str:
        held = f", {sum(self.held)} held" if any(self.held) else ""
        return (
            f"Editor: {self.n_components} components{held}, fitting error "
            f"{self.fitting_error:.6g} %, {len(self.edits)} edits"
        )

    # Edits

    def add(self, k: int = 1) -> Factorization:
        """Add k components that X has and WH lacks; see `recover_components`.

        The new components are fitted to what the others leave. Those that are not held are
        rescaled, and where more are added than there are, fitted loosely in between.
        """
        return self._do("add", k)

    def merge(self, i: int, j: int) -> Factorization:
        """Merge two components, in the place of that with the smaller index."""
        return self._do("merge", i, j)

    def merge_to(self, n_components: int) -> Factorization:
        """Merge the closest pairs, of components that are not held, until so many are left."""
        return self._do("merge_to", n_components)

    def split(self, i: int) -> Factorization:
        """Split a component in two, which fit its part of X better; the others stay."""
        return self._do("split", i)

    def remove(self, i: int) -> Factorization:
        """Remove a component."""
        return self._do("remove", i)

    def hold(self, i: int) -> Factorization:
        """Hold a component: it stays to the bit, whatever is polished or added, until released."""
        return self._do("hold", i)

    def release(self, i: int) -> Factorization:
        """Let a held component go."""
        return self._do("release", i)

    def rename(self, i: int, name: str) -> Factorization:
        """Give a component a name."""
        return self._do("rename", i, name)

    def polish(
        self,
        *,
        solver: str | None = None,
        tol: float | None = None,
        max_iter: int | None = None,
        max_time: float | None = None,
        callback: Callback | None = None,
    ) -> Factorization:
        """Fit all components that are not held, from where they are; the error never rises.

        Parameters are those of `nmfmerge.nmf`; by default those that the editor was made with. A
        polish that ``max_time`` or the callback stops keeps what it has reached.
        """
        limits = {"max_time": max_time, "callback": callback}
        state, edit = self._polish(limits, solver=solver, tol=tol, max_iter=max_iter)
        result = self._push(state, edit)
        if result.status in (Status.MAX_ITER, Status.MAX_TIME):
            limit = "max_iter" if result.status is Status.MAX_ITER else "max_time"
            warnings.warn(
                f"the polish reached {limit} before it converged; what it has reached is kept. "
                f"Polish again, or raise {limit} or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return result

    def _polish(self, limits: dict[str, Any], **settings: Any) -> tuple[State, Edit]:
        given = {name: value for name, value in settings.items() if value is not None}
        edit = Edit("polish", (), _checked_settings(self._settings | given))
        return apply(self._state, edit, self._data, limits)

    def undo(self) -> Factorization:
        """Take the last edit back."""
        if not self.can_undo:
            raise ValueError("there is no edit to undo")
        self._at -= 1
        return self.result()

    def redo(self) -> Factorization:
        """Do again the edit that was undone last."""
        if not self.can_redo:
            raise ValueError("there is no edit to do again")
        self._at += 1
        return self.result()

    # What edits would do

    def preview(self, name: str, *arguments: Any, **named: Any) -> Preview:
        """What an edit would do to the fitting error: ``preview("merge", 0, 3)``.

        It takes the arguments of the edit, and equals the error after it. For merges and removals,
        in double precision, it costs no pass over X but for the first one after a change, unless
        the fit is so good that rounding would show. Other edits are done, and kept in case they
        follow.
        """
        check.check_word("name", name, ARGUMENTS)
        try:
            bound = inspect.signature(getattr(self, name)).bind(*arguments, **named)
        except TypeError as error:
            raise TypeError(f"preview({name!r}): {error}") from None
        bound.apply_defaults()
        if name == "polish":
            limits = {name: bound.arguments.pop(name) for name in ("max_time", "callback")}
            state, edit = self._polish(limits, **bound.arguments)
            return Preview(edit, self.fitting_error, state.result.fitting_error)
        edit = self._checked(name, *bound.arguments.values())
        after = self._error_from_moments(edit)
        if after is None:
            state = apply(self._state, edit, self._data)[0]
            self._previewed = self._state, edit, state
            after = state.result.fitting_error
        return Preview(edit, self.fitting_error, after)

    def pair_changes(self) -> np.ndarray:
        """Change of the fitting error if a pair were merged, in percentage points.

        Returns
        -------
        change : array (r, r)
            Symmetric; NaN on the diagonal.
        """
        norm2 = self._data.norm2 or 1.0
        return 100 * self._present_moments().merge_table() / norm2

    def missing(self, k: int) -> Missing:
        """The k components that `add` would add, with their generalized singular values."""
        r, result = self.n_components, self.result()
        held = self._state.held_indices
        W, H, values = added_components(self._data, result.W, result.H, k, held)
        return Missing(W[:, r:], H[r:], values)

    # The history

    def replay(self, edits: Iterable[Edit]) -> Factorization:
        """Do edits one after the other, of this editor or of another one.

        A polish that was stopped early does as many iterations as it did then.
        """
        for edit in edits:
            if edit.name == "polish":
                settings = _checked_settings(self._settings | dict(edit.settings), low=0)
                self._push(*apply(self._state, replace(edit, settings=settings), self._data))
            else:
                check.check_word("edit", edit.name, ARGUMENTS)
                self._do(edit.name, *edit.arguments)
        return self.result()

    def save(self, file: str | PathLike[str]) -> None:
        """Write the start and all edits, also those undone, to a file that `load` reads."""
        path, first = check.check_file("file", file), self._states[0]
        saved = Saved(first.result, first.held_indices, self._settings, self._edits, self._at)
        write(path, saved)

    @classmethod
    def load(cls, file: str | PathLike[str], X: Any) -> "Editor":
        """Read a start and edits, and do these again on X.

        On the data and the machine that they were made on, that gives the same bits. On other data
        of the same shape the edits are repeated, and polishes fit those data.
        """
        saved = read(Path(file))
        editor = cls(X, saved.start, held=saved.held, **saved.settings)
        editor.replay(saved.edits)
        for _ in saved.edits[saved.n_done :]:
            editor.undo()
        return editor

    def script(self, *, X: str = 'np.load("X.npy")', start: str = "edits.npz") -> str:
        """The edits as a Python program that does them again.

        Parameters
        ----------
        X : str
            How the program gets X.
        start : str
            The file that `save` writes.
        """
        first = self._states[0]
        return script(
            self.edits, X, start, first.result.names, first.held_indices, self._data.shape
        )

    # Inside

    @property
    def _state(self) -> State:
        return self._states[self._at]

    def _do(self, name: str, *arguments: Any) -> Factorization:
        edit = self._checked(name, *arguments)
        if self._previewed is not None and self._previewed[:2] == (self._state, edit):
            return self._push(self._previewed[2], edit)
        return self._push(*apply(self._state, edit, self._data))

    def _push(self, state: State, edit: Edit) -> Factorization:
        self._states = [*self._states[: self._at + 1], state]
        self._edits = [*self._edits[: self._at], edit]
        self._at += 1
        self._previewed = None
        return self.result()

    def _checked(self, name: str, *arguments: Any) -> Edit:
        """An edit whose arguments are sound."""
        expected = ARGUMENTS[name]
        if len(arguments) != len(expected):
            raise TypeError(f"{name} takes the arguments ({', '.join(expected)}): got {arguments}")
        checked: list[int | str] = []
        for kind, value in zip(expected, arguments, strict=True):
            if kind == "name":
                checked.append(check.check_name(kind, value))
            elif kind in ("i", "j"):
                checked.append(check.check_index(kind, value, self.n_components))
            else:
                checked.append(check.check_integer(kind, value, low=1))
        return Edit(name, tuple(checked))

    def _error_from_moments(self, edit: Edit) -> float | None:
        """Fitting error after an edit, where r × r numbers give it to the last digits."""
        if edit.name in ("hold", "release", "rename"):
            return self.fitting_error
        if edit.name not in ("merge", "remove") or any(self.held[t] for t in edit.arguments):
            return None
        if self.n_components == 1 or len(set(edit.arguments)) < len(edit.arguments):
            return None  # which is an error: let the edit itself say so
        moments = self._present_moments()
        compute = moments.merged if edit.name == "merge" else moments.removed
        residual2 = compute(*edit.arguments)
        return None if residual2 is None else percent(residual2, self._data.norm2)

    def _present_moments(self) -> Moments:
        result = self.result()
        if self._moments is None or self._moments[0] is not result.W:
            with blas_for(self._data.blas_flops(self.n_components)):
                factors = check.check_fit(result.W, result.H, self._data, self.n_components)
                self._moments = result.W, Moments.of(self._data, *factors)
        return self._moments[1]


def _checked_settings(settings: dict[str, Any], low: int = 1) -> dict[str, Any]:
    """Settings of `polish`, checked."""
    return {
        "solver": check.check_word("solver", settings["solver"], SOLVERS),
        "tol": check.check_real("tol", settings["tol"], low=0),
        "max_iter": check.check_integer("max_iter", settings["max_iter"], low=low),
    }
