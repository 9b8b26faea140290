import numpy as np

from nmfmerge.matrices.pairs import nonnegative_pairs


def test_a_pair_keeps_its_stronger_sign_and_ties_are_positive():
    u = np.array([[3.0, -1.0], [1.0, -3.0], [1.0, -1.0], [0.0, 0.0]])
    v = np.array([[2.0, -1.0], [1.0, -2.0], [1.0, -1.0], [0.0, 0.0]])
    Wt, H = nonnegative_pairs(u, v, np.ones(4))
    np.testing.assert_array_equal(Wt > 0, [[1, 0], [0, 1], [1, 0], [0, 0]])
    np.testing.assert_allclose(np.sum(Wt, axis=1) * np.sum(H, axis=1), [6, 6, 1, 0])
    np.testing.assert_allclose(np.linalg.norm(Wt, axis=1), np.linalg.norm(H, axis=1))
