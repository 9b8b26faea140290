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

from nmfmerge import settings
from nmfmerge.arguments.values import NewFile, Text, Whole, Word
from nmfmerge.backends.numba import one_blas_thread
from nmfmerge.editor.added import added_components
from nmfmerge.editor.edits import ARGUMENTS, Edit
from nmfmerge.editor.file import Saved, read, write
from nmfmerge.editor.script import script
from nmfmerge.editor.state import State, apply, first_state
from nmfmerge.inputs import check
from nmfmerge.losses import LOSSES, Loss
from nmfmerge.losses.previews import Previews
from nmfmerge.results.factorization import Factorization
from nmfmerge.solvers import solver_of
from nmfmerge.solvers.history import Status
from nmfmerge.solvers.limits import Callback


@dataclass(frozen=True)
class Preview:
    """The effect of an edit on the fitting error, in percent.

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
class MissingComponents:
    """Components present in X and missing from WH, which `Editor.add` would add.

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

    Each edit, also `hold` and `rename`, is one step of `undo`, and returns the new factorization.
    Components are counted from 0. An edit does not refit the other components (`add` rescales
    them), so that its effect is visible before `polish`; `preview` computes its effect on the
    fitting error. W and H of all states are kept for `undo`, and are read-only.

    Parameters
    ----------
    X : array or sparse matrix (m, n)
        Nonnegative data; NaN is missing.
    W : array (m, r), or Factorization
        The start; with a `Factorization`, H is left out.
    H : array (r, n)
        The start.
    weights : array or sparse matrix, optional
        Weights of the entries of X; see `nmf`.
    names : sequence of str, optional
        Names of the components; by default those of the factorization, or 1, 2, ….
    held : indices, optional
        Components that are held.
    beta_loss : {"frobenius", "kullback-leibler"}, optional
        The loss that edits are judged by; by default that of the factorization.
    missing : {"nan", "zeros"}
        Which entries of X are missing; see `nmf`.
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
        weights: Any = None,
        names: Sequence[str] | None = None,
        held: Iterable[int] = (),
        beta_loss: str | None = None,
        missing: str = "nan",
        solver: str = "accelerated",
        tol: float = 1e-4,
        max_iter: int = 10_000,
    ) -> None:
        self._settings = settings.checked("Editor", locals())
        absent = settings.SETTINGS["missing"].check(missing)
        self._data = check.check_X_on_host(X, "Editor", weights, absent)
        check.check_observed(self._data)
        self._entries = {  # of a script
            "weights": "" if weights is None else 'np.load("weights.npy")',
            "missing": absent,
        }
        start = self._start(W, H, names, beta_loss)
        indices = check.check_indices("held", held, start.n_components)
        self._states = [first_state(self._data, start, indices)]
        self._edits: list[Edit] = []  # also those that were undone
        self._at = 0  # how many of them are done
        self._previews: tuple[np.ndarray, Previews] | None = None  # with the W they are of
        self._previewed: tuple[State, Edit, State] | None = None  # from, by, to

    def _start(
        self, W: Any, H: Any, names: Sequence[str] | None, beta_loss: str | None
    ) -> Factorization:
        given = W if isinstance(W, Factorization) else None
        if (given is None) == (H is None):
            raise TypeError("pass W and H, or one Factorization instead of them")
        if given is not None:
            W, H = given.W, given.H
        W, H = check.check_factors(W, H)
        check.check_fit(W, H, self._data, len(H))
        check.check_n_components(len(H), self._data.shape)
        if given is None:
            given = Factorization(W, H, np.nan, np.nan, (), Status.DONE, 0.0)
        if beta_loss is not None:
            given = replace(given, loss=settings.SETTINGS["beta_loss"].check(beta_loss))
        solver_of(self._settings["solver"], LOSSES[given.loss].of(self._data))
        if names is not None:
            given = replace(given, names=tuple(Text().check("names", name) for name in names))
        return given

    # The current state

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
        """True if each component is held."""
        return self._state.held

    @property
    def fitting_error(self) -> float:
        """Fitting error in percent, of the loss that edits are judged by."""
        return self.result().fitting_error

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits that led here, the first one first."""
        return tuple(self._edits[: self._at])

    @property
    def can_undo(self) -> bool:
        """True if there is an edit to undo."""
        return self._at > 0

    @property
    def can_redo(self) -> bool:
        """True if there is an edit to redo."""
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
                f"the polish reached {limit} before it converged; its current factors are kept. "
                f"Polish again, or raise {limit} or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return result

    def _polish(self, limits: dict[str, Any], **chosen: Any) -> tuple[State, Edit]:
        given = {name: value for name, value in chosen.items() if value is not None}
        edit = Edit("polish", (), settings.checked("Editor", self._settings | given))
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
            raise ValueError("there is no edit to redo")
        self._at += 1
        return self.result()

    # What edits would do

    def preview(self, name: str, *arguments: Any, **named: Any) -> Preview:
        """The effect of an edit on the fitting error: ``preview("merge", 0, 3)``.

        It takes the arguments of the edit, and equals the error after it. For merges and removals,
        in double precision, it costs no pass over X but for the first one after a change, unless
        the fit is so good that rounding would show; under Kullback–Leibler merges take one pass.
        Other edits are done, and kept in case they follow.
        """
        Word(tuple(ARGUMENTS)).check("name", name)
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
        after = self._error_after(edit)
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
        size = self._loss.size(self._data) or 1.0
        return 100 * self._present_previews().merge_changes() / size

    def missing(self, k: int) -> MissingComponents:
        """The k components that `add` would add, with their generalized singular values."""
        r, result = self.n_components, self.result()
        held = self._state.held_indices
        W, H, values = added_components(self._data, result.W, result.H, k, held, result.loss)
        return MissingComponents(W[:, r:], H[r:], values)

    # The history

    def replay(self, edits: Iterable[Edit]) -> Factorization:
        """Do edits one after the other, of this editor or of another one.

        A polish that was stopped early does as many iterations as it did then.
        """
        for edit in edits:
            if edit.name == "polish":
                again = replace(edit, settings=_checked_again(self._settings | dict(edit.settings)))
                self._push(*apply(self._state, again, self._data))
            else:
                Word(tuple(ARGUMENTS)).check("edit", edit.name)
                self._do(edit.name, *edit.arguments)
        return self.result()

    def save(self, file: str | PathLike[str]) -> None:
        """Write the start and all edits, also those undone, to a file that `load` reads."""
        path, first = NewFile().check("file", file), self._states[0]
        saved = Saved(first.result, first.held_indices, self._settings, self._edits, self._at)
        write(path, saved)

    @classmethod
    def load(
        cls, file: str | PathLike[str], X: Any, *, weights: Any = None, missing: str = "nan"
    ) -> "Editor":
        """Read a start and edits, and do these again on X.

        On the data and the machine that they were made on, with the same ``weights`` and
        ``missing``, that gives the same bits. On other data of the same shape the edits are
        repeated, and polishes fit those data.
        """
        saved = read(Path(file))
        entries = {"weights": weights, "missing": missing}
        editor = cls(X, saved.start, held=saved.held, **entries, **saved.settings)
        editor.replay(saved.edits)
        for _ in saved.edits[saved.n_done :]:
            editor.undo()
        return editor

    def script(
        self,
        *,
        X: str = 'np.load("X.npy")',
        start: str = "edits.npz",
        weights: str | None = None,
        missing: str | None = None,
    ) -> str:
        """The edits as a Python program that does them again.

        Parameters
        ----------
        X : str
            How the program gets X.
        start : str
            The file that `save` writes.
        weights : str, optional
            How the program gets the weights; from weights.npy, if the editor was given some.
        missing : {"nan", "zeros"}, optional
            Which entries are missing; by default as the editor was given it.
        """
        first = self._states[0]
        weights = weights or self._entries["weights"]
        missing = missing or self._entries["missing"]
        named = {"weights": weights} if weights else {}
        named |= {"missing": repr(missing)} if missing != "nan" else {}
        return script(
            self.edits, X, start, first.result.names, first.held_indices, self._data.shape,
            first.result.loss, named,
        )  # fmt: skip

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
                checked.append(Text().check(kind, value))
            elif kind in ("i", "j"):
                checked.append(check.check_index(kind, value, self.n_components))
            else:
                checked.append(Whole(1).check(kind, value))
        return Edit(name, tuple(checked))

    def _error_after(self, edit: Edit) -> float | None:
        """Fitting error after an edit, where the loss gives it without doing the edit."""
        if edit.name in ("hold", "release", "rename"):
            return self.fitting_error
        if edit.name not in ("merge", "remove") or any(self.held[t] for t in edit.arguments):
            return None
        if self.n_components == 1 or len(set(edit.arguments)) < len(edit.arguments):
            return None  # which is an error: let the edit itself say so
        previews = self._present_previews()
        value = (previews.merged if edit.name == "merge" else previews.removed)(*edit.arguments)
        return None if value is None else self._loss.percent(value, self._data)

    @property
    def _loss(self) -> Loss:
        return LOSSES[self.result().loss].of(self._data)

    def _present_previews(self) -> Previews:
        result = self.result()
        if self._previews is None or self._previews[0] is not result.W:
            with one_blas_thread():
                factors = check.check_fit(result.W, result.H, self._data, self.n_components)
                self._previews = result.W, self._loss.previews(self._data, *factors)
        return self._previews[1]


def _checked_again(given: dict[str, Any]) -> dict[str, Any]:
    """Settings of a polish that was done: if it was stopped at once, it did no iterations."""
    n_iter = Whole(0).check("max_iter", given["max_iter"])
    return settings.checked("Editor", given | {"max_iter": max(1, n_iter)}) | {"max_iter": n_iter}
