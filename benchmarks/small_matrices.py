"""Linear algebra on N small matrices at once; the axis of N comes last. For `benchmarks.replications`."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SECULAR_MAX = 200


def cholesky(matrices: Floats) -> Floats:
    """Lower factors of (d, d, N) positive definite matrices."""
    lower = np.zeros_like(matrices)
    for row in range(len(matrices)):
        for column in range(row + 1):
            rest = matrices[row, column]
            for known in range(column):
                rest = rest - lower[row, known] * lower[column, known]
            lower[row, column] = np.sqrt(rest) if row == column else rest / lower[column, column]
    return lower


def forward(lower: Floats, vectors: Floats) -> Floats:
    """L^-1 v for (d, d, N) and (d, N)."""
    solved = np.empty_like(vectors)
    for row in range(len(vectors)):
        rest = vectors[row]
        for known in range(row):
            rest = rest - lower[row, known] * solved[known]
        solved[row] = rest / lower[row, row]
    return solved


def backward(lower: Floats, vectors: Floats) -> Floats:
    """L^-T v for (d, d, N) and (d, N)."""
    solved = np.empty_like(vectors)
    for row in reversed(range(len(vectors))):
        rest = vectors[row]
        for known in range(row + 1, len(vectors)):
            rest = rest - lower[known, row] * solved[known]
        solved[row] = rest / lower[row, row]
    return solved


def shifted(matrices: Floats, ridge: float | Floats) -> Floats:
    """Matrices (d, d, N) plus ridge times the identity."""
    result = matrices.copy()
    diagonal = np.arange(len(matrices))
    result[diagonal, diagonal] += ridge
    return result


def log_determinant(matrices: Floats) -> Floats:
    """(N,) log det of positive definite matrices."""
    lower = cholesky(matrices)
    diagonal = np.arange(len(matrices))
    return np.asarray(2.0 * np.log(lower[diagonal, diagonal]).sum(axis=0))


def ridge_solution(gram: Floats, moments: Floats, ridge: float, bound: float | None, multiplier: Floats) -> Floats:
    """(d, N) argmin of theta^T gram theta / 2 - <moments, theta> + ridge ||theta||^2 / 2, in the ball if any.

    multiplier: (N,) where to begin the search for the ball's multipliers; overwritten with those found.
    """
    lower = cholesky(shifted(gram, ridge))
    theta = backward(lower, forward(lower, moments))
    if bound is None:
        return theta
    out = np.flatnonzero((theta * theta).sum(axis=0) > bound * bound)
    if len(out):
        theta[:, out], multiplier[out] = _on_the_sphere(gram[..., out], moments[:, out], ridge, bound, multiplier[out])
    return theta


def _on_the_sphere(gram: Floats, moments: Floats, ridge: float, bound: float, mu: Floats) -> tuple[Floats, Floats]:
    """Newton's iteration on 1/||theta(mu)|| = 1/bound: after its first step it rises to the root."""
    for _ in range(SECULAR_MAX):
        lower = cholesky(shifted(gram, ridge + mu))
        half = forward(lower, moments)
        theta = backward(lower, half)
        norms = np.sqrt((theta * theta).sum(axis=0))
        excess = norms / bound - 1.0
        if float(np.abs(excess).max()) <= 1e-13:
            return theta, mu
        image = forward(lower, theta)
        mu = np.maximum(mu + excess * norms * norms / (image * image).sum(axis=0), 0.0)
    raise ArithmeticError("the secular equation was not solved")
