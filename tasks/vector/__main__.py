"""Ask what a model keeps of a sentence, and what its decoder knows is left to say.

Question
    Each model of tasks.translation reads the first k words of a sentence and translates them. Which
    share of the content words does it keep, and of the roles: who did what to whom? Is that more or
    less than is left if words are lost independently of each other? Then, in whole sentences: can a
    linear probe of the decoder's state tell the words that are translated from those to come? And
    at one length, does the score fall with the crossings of the alignment?

    python -m tasks.vector                        one seed
    python -m tasks.vector --seeds 1 2 3          three

    A quarter of an hour on two cores.
"""

from __future__ import annotations

from ..flags import TaskParser, run

PARSER = TaskParser("tasks.vector", __doc__)

if __name__ == "__main__":
    PARSER.parse_args()  # answer --help and mistakes before the slow imports below

import argparse
import random
from dataclasses import replace
from functools import partial

from seqmodels.experiments.task import Task, TestSet

from ..analyses import write_texts
from ..synthetic import grammar
from ..synthetic.grammar import garden
from ..synthetic.pairs import SIZES, TOKENS, encode_sentences, grammar_task, n_crossings
from ..synthetic.trees import Parse, parse
from . import measure
from .figure import FIGURES

# ---------------------------------------------------------------------------------------- Data
#
#     The sentences of tasks.translation, for training and by length, and others that are measured:
#
#     The dog, who must have been able to see the cat running through the garden, ran.
#     Der Hund, der die Katze durch den Garten muss haben laufen sehen können, lief.

N_MEASURED = {
    "smoke": {"crossings": 40, "prefixes": 12, "probe": 60},
    "laptop": {"crossings": 500, "prefixes": 1_000, "probe": 1_500},
    "full": {"crossings": 500, "prefixes": 1_000, "probe": 1_500},
}
"""Sentences that are measured, none of which is in training."""
N_WORDS = {"crossings": 20, "prefixes": 60, "probe": 20}
"""Their length in English words, or that of the longest sentence of the test if it is shorter."""
CROSSINGS = [(0, 3), (4, 6), (7, 9), (10, 14), (15, 99)]
"""Buckets of crossing links: about as many sentences in each."""


def draw_measured(corpus: grammar.Splits, size: str) -> dict[str, list[Parse]]:
    """Draw the sentences that are measured, with their trees; none is in the corpus."""
    rng, longest = random.Random(2), max(sentence.n_words for sentence in corpus.test)
    seen = {sentence.en for split in corpus for sentence in split}
    return {
        name: [
            grammar.draw_unseen(rng, min(n_words, longest), seen)
            for _ in range(N_MEASURED[size][name])
        ]
        for name, n_words in N_WORDS.items()
    }


# ----------------------------------------------------------------------------------------- Run
#
# Data, recipes and budget are those of tasks.translation.


def make_task(args: argparse.Namespace) -> Task:
    """Return the task: the translation of sentences, and what is measured in a trained model."""
    corpus = grammar.draw_corpus(seed=1, **SIZES[args.size])
    drawn = draw_measured(corpus, args.size)
    task = grammar_task(corpus, args.tokens or TOKENS[args.size], optimizer="muon")
    crossing, probed = ([p.sentence for p in drawn[name]] for name in ("crossings", "probe"))
    of_one_length = TestSet(
        name="crossings",
        axis=f"crossing links, at {N_WORDS['crossings']} words",
        unit="crossings",
        kind="count",
        primary_metric="bleu",
        examples=encode_sentences(crossing, task.tokenizer),
        x=[n_crossings(sentence.links) for sentence in crossing],
        buckets=CROSSINGS,
        noun="sentences",
    )
    parsed, words = drawn["prefixes"], task.tokenizer
    shown = encode_sentences([parse([garden()]).sentence], words)
    return replace(
        task,
        name="vector",
        tests=[*task.tests, of_one_length],
        measure={
            "prefixes": partial(measure.measure_prefixes, parsed=parsed, tokenizer=words),
            "probe": partial(measure.probe_state, sentences=probed, tokenizer=words),
            "garden": partial(write_texts, examples=shown, tokenizer=words, column="translation"),
        },
        figures=FIGURES,
    )


if __name__ == "__main__":
    run(PARSER, make_task)
