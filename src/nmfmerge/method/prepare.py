"""Make the run of a fit from its settings, and check those that depend on the data.

Input: X, and settings that were checked one by one. Output: a `Run`.
"""

import warnings
from typing import Any

import numpy as np

from nmfmerge import settings
from nmfmerge.arguments.errors import ArgumentError, Given, Message
from nmfmerge.inputs import check
from nmfmerge.inputs.hold import Held
from nmfmerge.losses import LOSSES, Loss, Penalty, Problem
from nmfmerge.matrices import SIDES, DataMatrix
from nmfmerge.matrices.digest import digest
from nmfmerge.method.run import Run, stays_together
from nmfmerge.method.starts import StartMaker
from nmfmerge.solvers import SOLVERS, Limits, Multiplicative, check_solver_fits, solver_of
from nmfmerge.solvers.progress import MERGED, PLAIN
from nmfmerge.storage.checkpoint import Checkpoint

_EXTRA = 0.2  # of the rank: the default number of extra components


def prepare(
    X: Any,
    given: dict[str, Any],
    merges: bool = False,
    names: tuple[str, str] = check.INIT_NAMES,
    weights: Any = None,
) -> Run:
    """Check X, and the settings that depend on it or on each other; make the run."""
    limits = Limits.of(given)
    solver_of(given["solver"], LOSSES[given["beta_loss"]])  # before X is looked at
    r, init, random_state = given["n_components"], given["init"], given["random_state"]
    rng = check.generator(random_state)
    inits = check.check_inits(init, given["n_init"])
    data = check.check_X(
        X, given["device"], given["tf32"], weights=weights, absent=given["missing"]
    )
    check.check_observed(data)
    loss = LOSSES[given["beta_loss"]].of(data)
    solver = solver_of(given["solver"], loss)
    check.check_loss_fits(loss, data)
    check_solver_fits(solver, loss, data)
    check.check_n_components(r, data.shape)
    held = check.check_hold(given["hold"], inits[0], r)
    check.check_held_fits(held, data)
    uneven = solver is not SOLVERS["mu"]  # its offset is relative to the mean over all components
    maker = StartMaker(data, r, rng, names, held, uneven, inits[0], solver is Multiplicative)
    # With several starts the first is standard NMF, unless the user says what each of them is: so
    # the best of them is never worse than that.
    first_merges = len(inits) == 1 or not (isinstance(init, str) and init.startswith("nndsvd"))
    start_plans = maker.plans(inits, random_state, merges, first_merges)
    known = None if held is None else (inits[0][0].T, inits[0][1])
    named = all(isinstance(init, str) for init in inits)
    sort = held is None and (merges or named)  # else the order of components is the user's
    plan = MERGED if merges else PLAIN
    penalty = _penalty(given, data, held, loss)
    problem = Problem(data, loss, penalty, held, solver is Multiplicative)
    file, checkpoint = given["checkpoint"], None
    if file is not None:
        together = len(inits) > 1 and stays_together(problem)  # one start is one batch anywhere
        identity = _identity(data, given, inits, held) | {"together": together}
        checkpoint = Checkpoint(file, identity)
    return Run(
        problem, r, solver, limits, start_plans, checkpoint, known, given["return_all"], sort, plan
    )


def looser(tol: float, beta_loss: str) -> float:
    """The default tolerance of the stages before the last."""
    return float(max(min(tol, np.sqrt(tol)), LOSSES[beta_loss].looseness * np.sqrt(tol)))


def _penalty(given: dict[str, Any], data: DataMatrix, held: Held | None, loss: Loss) -> Penalty:
    """The penalty on factors of X / unit²; warn of one that only moves scale."""
    penalty = Penalty.of(given["alpha_W"], given["alpha_H"], given["l1_ratio"], data.shape)
    on_W, on_H = (bool(penalty.l1(side) or penalty.l2(side)) for side in SIDES)
    side, free = SIDES if on_W else SIDES[::-1]
    if on_W != on_H and (held is None or not getattr(held, free).all()):
        warnings.warn(
            Message(
                "the penalty is on {side} alone, so the fit can make {side} small and {free} "
                "large instead of better: penalise both ({both}), or hold {free}",
                side=side,
                free=free,
                both=Given("alpha_H", "same"),
            ),
            UserWarning,
            stacklevel=4,
        )
    return penalty.scaled(data.unit, loss.degree, data.weight_unit)


def _identity(
    data: DataMatrix, given: dict[str, Any], inits: list[Any], held: Held | None
) -> dict[str, Any]:
    """The settings that determine the result; a checkpoint with another identity is rejected."""
    if not isinstance(given["random_state"], int | None):
        raise ArgumentError(
            "random_state",
            f"is a {type(given['random_state']).__name__}",
            expected="a number or None with {checkpoint}, so that the run can be repeated",
        )
    deciding = {name: value for name, value in given.items() if settings.SETTINGS[name].decides}
    words = [
        init if isinstance(init, str) else f"given factors {digest('init', init)}" for init in inits
    ]
    return {
        "shape": list(data.shape),
        "dtype": str(data.dtype),
        "data": data.identity(),
        **deciding,
        "init": words[0] if set(words[1:]) <= {"random"} else words,
        "n_init": len(words),
        "hold": None if held is None else held.as_lists(),
    }


def extra_components(problem: Problem, r: int, n_extra: int | None) -> int:
    """Number of extra components: the default is a fifth of r; r + k is at most min(m, n).

    None where all components are held, as there is nothing to merge them with.
    """
    shape = problem.matrix.shape
    if _n_held(problem.held) == r:
        return 0
    room = min(shape) - r
    k = max(1, round(_EXTRA * r)) if n_extra is None else n_extra
    if k > room:
        warnings.warn(
            UserWarning(
                Message(
                    "{given} was reduced to {room}: {rank} and {n_extra} together may not exceed "
                    "the smaller side of X {shape}" + ", so this is plain NMF" * (room == 0),
                    given=Given("n_extra", k),
                    room=room,
                    rank=Given("n_components", r),
                    shape=shape,
                )
            ),
            stacklevel=3,
        )
    return min(k, room)


def usual_extra(r: int, shape: tuple[int, int]) -> int:
    """The default number of extra components, as far as the data have room for them."""
    return min(max(1, round(_EXTRA * r)), min(shape) - r)


def _n_held(held: Held | None) -> int:
    """Number of held components; they must be the first, so that they stay where they are."""
    indices = [] if held is None else np.flatnonzero(held.either).tolist()
    if indices != list(range(len(indices))):
        raise ArgumentError(
            "hold",
            f"names the components {indices}; in NMF-Merge, which merges others and renumbers "
            "them, held components must be the first ones",
            fix="put them first in {init}",
        )
    return len(indices)
