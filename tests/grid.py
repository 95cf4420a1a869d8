"""The program of test_launch.py: a comparison on Ray or by submitit on this machine.

python tests/grid.py ray|slurm OUT TOKENS
"""

import sys
from functools import partialmethod
from pathlib import Path

from toy_task import flags, toy

from seqmodels.comparison import compare, launchers
from seqmodels.comparison.task import Recipe
from seqmodels.utils.terminal import run_cli
from tools.sizes import sizes_of

PAIR = ["rnn_encdec", "gpt"]
SIZES = {"d_embed": 8, "d_maxout": 8, "d_ff": 32, "n_heads": 2, "n_layers": 1, "n_positions": 64}


def main() -> None:
    """Train two models with dropout on the toy task."""
    kind, out, tokens = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    if kind == "slurm":
        init = partialmethod(launchers.SlurmLauncher.__init__, cluster="local")
        launchers.SlurmLauncher.__init__ = init  # type: ignore[method-assign]
    recipes = {name: Recipe(sizes_of(name, **SIZES, dropout=0.2), 1e-2) for name in PAIR}
    training = {"tokens": tokens, "batch_tokens": 100, "n_validations": 4}
    given = {"models": PAIR, "checkpoint_every": 0.5, "device": "auto", "launcher": kind}
    compare.compare(toy(recipes=recipes, training=training), flags(out, **given))


if __name__ == "__main__":
    run_cli("grid", main)
