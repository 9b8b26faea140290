"""Any edits, in any order: the properties that hold for all of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nmfmerge import Editor, metrics


def same(a, b):
    return np.array_equal(a.W, b.W) and np.array_equal(a.H, b.H) and a.names == b.names


def start_matrix(rng, exact, dtype):
    m, n, rank = (int(x) for x in rng.integers((6, 7, 3), (14, 16, 6)))
    X = rng.random((m, rank)) @ rng.random((rank, n))
    if not exact:
        X += 0.1 * rng.random((m, n))
    X *= 4.0 ** rng.integers(-3, 4)
    X[rng.random((m, n)) < 0.2] = 0
    return X.astype(dtype)


class Edits(RuleBasedStateMachine):
    """Edits at random beside a list of what there was."""

    @initialize(
        seed=st.integers(0, 2**32 - 1),
        exact=st.booleans(),
        dtype=st.sampled_from([np.float64, np.float32]),
        sparse=st.booleans(),
        r=st.integers(1, 4),
    )
    def begin(self, seed, exact, dtype, sparse, r):
        rng = np.random.default_rng(seed)
        X = start_matrix(rng, exact, dtype)
        W, H = rng.random((len(X), r)), rng.random((r, X.shape[1]))
        self.X = sp.csr_array(X) if sparse else X
        self.editor = Editor(self.X, W.astype(dtype), H.astype(dtype), max_iter=30)
        self.seen = [self.snapshot()]

    def snapshot(self):
        return self.editor.result(), self.editor.held

    def index(self, data):
        return data.draw(st.integers(0, self.editor.n_components - 1))

    def free_index(self, data):
        free = [i for i, held in enumerate(self.editor.held) if not held]
        return data.draw(st.sampled_from(free))

    def do(self, name, *arguments):
        """Do an edit; its preview must tell the error after it, and held components must stay."""
        editor = self.editor
        before, held = editor.result(), editor.held
        preview = editor.preview(name, *arguments)
        assert editor.result() is before
        result = getattr(editor, name)(*arguments)
        assert preview.before == before.fitting_error
        size = abs(result.fitting_error)
        assert abs(preview.after - result.fitting_error) <= 1e-10 * size
        self.check_held(before, held, result)
        self.seen.append(self.snapshot())
        return before, result

    def check_held(self, before, held, result):
        for i in np.flatnonzero(held):
            assert any(
                np.array_equal(result.W[:, j], before.W[:, i])
                and np.array_equal(result.H[j], before.H[i])
                for j in range(result.n_components)
            )

    @precondition(lambda self: self.editor.n_components < min(self.X.shape))
    @rule(data=st.data())
    def add(self, data):
        room = min(self.X.shape) - self.editor.n_components
        before, after = self.do("add", data.draw(st.integers(1, min(2, room))))
        assert after.fitting_error <= before.fitting_error * (1 + 1e-6) + 1e-10

    @precondition(lambda self: self.editor.held.count(False) >= 2)
    @rule(data=st.data())
    def merge(self, data):
        i = self.free_index(data)
        j = self.free_index(data)
        if i == j:
            with pytest.raises(ValueError, match="itself"):
                self.editor.merge(i, j)
        else:
            before, after = self.do("merge", i, j)
            assert after.n_components == before.n_components - 1
            assert after.names[min(i, j)] == "+".join(before.names[t] for t in sorted((i, j)))

    @precondition(lambda self: self.editor.held.count(False) >= 2)
    @rule()
    def merge_to(self):
        self.do("merge_to", self.editor.n_components - 1)

    @precondition(
        lambda self: not all(self.editor.held) and self.editor.n_components < min(self.X.shape)
    )
    @rule(data=st.data())
    def split(self, data):
        before, after = self.do("split", self.free_index(data))
        assert after.n_components == before.n_components + 1
        assert after.fitting_error <= before.fitting_error * (1 + 1e-6) + 1e-10

    @precondition(lambda self: self.editor.n_components > 1 and not all(self.editor.held))
    @rule(data=st.data())
    def remove(self, data):
        before, after = self.do("remove", self.free_index(data))
        assert after.n_components == before.n_components - 1

    @rule(data=st.data())
    def hold(self, data):
        i = self.index(data)
        self.do("hold", i)
        assert self.editor.held[i]

    @rule(data=st.data())
    def release(self, data):
        i = self.index(data)
        self.do("release", i)
        assert not self.editor.held[i]

    @rule(data=st.data(), name=st.text("abc µ", min_size=1, max_size=5).filter(str.strip))
    def rename(self, data, name):
        i = self.index(data)
        self.editor.rename(i, name)
        assert self.editor.names[i] == name
        self.seen.append(self.snapshot())

    @rule()
    def polish(self):
        before, held = self.snapshot()
        with np.errstate(all="raise", under="ignore"):
            after = self.editor.polish(callback=lambda progress: False)
        assert after.fitting_error <= before.fitting_error
        for i in np.flatnonzero(held):
            assert np.array_equal(after.W[:, i], before.W[:, i])
            assert np.array_equal(after.H[i], before.H[i])
        self.seen.append(self.snapshot())

    @rule(n=st.integers(1, 4))
    def undo_and_redo(self, n):
        n = min(n, len(self.editor.edits))
        for k in range(n):
            self.editor.undo()
            result, held = self.seen[-2 - k]
            assert self.editor.result() is result
            assert self.editor.held == held
        for _ in range(n):
            self.editor.redo()
        assert self.snapshot()[0] is self.seen[-1][0]

    @rule()
    def undo(self):
        if self.editor.can_undo:
            self.editor.undo()
            self.seen.pop()
            assert self.editor.result() is self.seen[-1][0]

    @invariant()
    def every_state_is_a_factorization(self):
        if not hasattr(self, "editor"):
            return
        result = self.editor.result()
        assert len(result.names) == len(self.editor.held) == result.n_components
        assert result.W.min() >= 0
        assert result.H.min() >= 0
        error = metrics.fitting_error(self.X, result.W, result.H)
        assert result.fitting_error == pytest.approx(error, rel=1e-12)
        assert len(self.editor.edits) == len(self.seen) - 1

    def teardown(self):
        """As many undos as edits lead back to the first bits; the edits again, to the last."""
        if not hasattr(self, "editor"):
            return
        last, edits = self.editor.result(), self.editor.edits
        while self.editor.can_undo:
            self.editor.undo()
        assert self.editor.result() is self.seen[0][0]
        again = self.editor.replay(edits)
        assert same(again, last)


Edits.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
TestEdits = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")(
    Edits.TestCase
)
