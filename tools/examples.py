"""Write the sentences that the live page of results/translation-live offers, with their references.

python -m tools.examples results/translation-live

draws PER_LENGTH sentences of each length: those of the test set first, then others that training
did not see either. A folder of runs with such a file offers them in place of its hypotheses'.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from pathlib import Path

from lesson.live import EXAMPLES
from seqmodels.utils import files
from seqmodels.utils.terminal import Parser
from tasks.synthetic import grammar
from tasks.synthetic.pairs import SIZES

PER_LENGTH = 20
LENGTHS = range(4, 81)


def draw_examples(corpus: grammar.Splits, lengths: Sequence[int], n: int) -> list[grammar.Sentence]:
    """Return n sentences of each length, none from train or valid."""
    rng, seen, drawn = random.Random(1), {s.en for split in corpus for s in split}, []
    for length in lengths:
        tested = [s for s in corpus.test if s.n_words == length][:n]
        drawn += tested
        drawn += [grammar.draw_unseen(rng, length, seen) for _ in range(n - len(tested))]
    return drawn


def main(argv: Sequence[str] | None = None) -> None:
    """Draw the sentences, and write them."""
    p = Parser(prog="python -m tools.examples", description=__doc__)
    p.add_argument("out", type=Path, help="folder of runs")
    out = p.parse_args(argv).out / EXAMPLES
    drawn = draw_examples(grammar.draw_corpus(seed=1, **SIZES["full"]), LENGTHS, PER_LENGTH)
    lines = "".join(f"{s.en_text}\t{s.de_text}\n" for s in drawn)
    print(files.write(out, gzip.compress(lines.encode(), mtime=0)))


if __name__ == "__main__":
    main()
