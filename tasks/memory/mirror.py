"""How many swaps a matrix follows by the delta rule, without training; no torch.

    python -m tasks.memory.mirror      prints the table of README.md, in seconds

Row c of a memory is the ball under cup c: at first the identity. The delta rule with the key
(e_i − e_j) / √2 and the value 0 multiplies it by I − β k kᵀ: for β = 2, the mirror that swaps rows
i and j (Grazzi et al. 2025, arXiv:2411.12537); for β ≤ 1, a row can be erased, but nothing turned.
"""

from __future__ import annotations

import numpy as np

N_SWAPS, N_CUPS = 4096, 5


def write_pair(s: np.ndarray, k: np.ndarray, v: np.ndarray, beta: float) -> np.ndarray:
    """Return memories (..., K, V) after they have written values (..., V) under keys (..., K).

    The part `beta` of the difference between the value and what the memory reads is written.
    """
    new = v - (k[..., None, :] @ s)[..., 0, :]
    return s + beta * k[..., :, None] * new[..., None, :]


def count_swaps(beta: float, noise: float, n_draws: int = 20) -> float:
    """Return after how many swaps a ball is first read under a wrong cup: median of the draws.

    Noise of this standard deviation is added to each number of a key; at most N_SWAPS are tried.
    """
    rng, draws, balls = np.random.default_rng(1), np.arange(n_draws), np.eye(N_CUPS)
    s = np.tile(balls, (n_draws, 1, 1))
    right, first = s.copy(), np.full(n_draws, N_SWAPS)
    for swap in range(1, N_SWAPS + 1):
        i, j = rng.permuted(np.tile(np.arange(N_CUPS), (n_draws, 1)), axis=1)[:, :2].T
        right[draws, i], right[draws, j] = right[draws, j], right[draws, i]
        k = (balls[i] - balls[j]) * 0.5**0.5 + noise * rng.normal(size=(n_draws, N_CUPS))
        k /= np.linalg.norm(k, axis=-1, keepdims=True)
        s = write_pair(s, k, np.zeros(N_CUPS), beta)
        lead = (s * right).sum(-1) - np.where(right > 0, -np.inf, s).max(-1)
        first = np.where((lead < 1e-6).any(-1), np.minimum(first, swap), first)
    return float(np.median(first))


if __name__ == "__main__":
    betas = (0.5, 1.0, 1.25, 1.5, 1.75, 1.9, 1.99, 2.0)
    print("noise of the keys", *(f"β {beta:g}" for beta in betas), sep=" | ")
    for noise in (0.0, 0.01, 0.05):
        print(f"{noise:.0%}", *(f"{count_swaps(beta, noise):,.0f}" for beta in betas), sep=" | ")
