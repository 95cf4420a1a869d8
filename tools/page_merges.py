"""The table of docs/data.md: how byte-pair encoding cuts a sentence, merge by merge."""

from __future__ import annotations

import random

from seqmodels.data.tokenizers import BPE, N_SPECIALS
from tasks.synthetic.grammar import draw_sentence

N_SENTENCES = 2_000
SENTENCE = "the children believe that the teacher is unhappy"
N_BYTES = 256


def train(n_merges: int) -> BPE:
    """Return the encoding after so many merges, trained on sentences of the grammar."""
    rng = random.Random(1)
    texts = [draw_sentence(rng, rng.randint(4, 30)).en_text for _ in range(N_SENTENCES)]
    return BPE.train(texts, N_SPECIALS + N_BYTES + n_merges)


def merges_table() -> str:
    """Return the tokens of the sentence after more and more merges."""
    rows = ["| merges | tokens | the sentence |", "| -----: | -----: | --- |"]
    for n in (0, 10, 30, 100, 300, 700):
        encoding = train(n)
        tokens = encoding.tokens(encoding.encode(SENTENCE))
        rows.append(f"| {n} | {len(tokens)} | `{'·'.join(tokens)}` |")
    return "\n".join(rows)
