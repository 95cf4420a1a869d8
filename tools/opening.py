"""Make the numbers of the opening picture from trained weights; `lesson.film` draws them.

    python -m tools.opening

writes results/translation-live/opening.json: of each of LENGTHS, the first sentence of
examples.tsv.gz is read by the RNN encoder-decoder and by Bahdanau's model. Kept are the vector that
the former would hand over after each token, the annotations and the attention of the latter, what
both write (greedily), and the vector that gradient descent writes in place of the encoder, with
what the same decoder says from these very numbers. All are rounded to one of 64 levels.

The outputs of one sentence are put back into English: its own, and the tree below, are rendered by
the grammar in both languages, and the German must be what the models have written.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lesson.essays import LEVELS
from lesson.film import SHOWN
from lesson.live import EXAMPLES
from seqmodels import inference
from seqmodels.data.batches import Example
from seqmodels.evaluation.evaluate import generate_targets
from seqmodels.inference import TrainedModel
from seqmodels.models import rnn_encdec
from seqmodels.utils import files
from seqmodels.utils.imports import SHIPPED
from tasks.analyses import batch_of
from tasks.bottleneck.latent import FromStates, Ranges, encode_all, measure_ranges, optimise_all
from tasks.synthetic.grammar import draw_corpus
from tasks.synthetic.lexicon import (
    ADJECTIVES,
    BE,
    FREQUENCY,
    NAMES,
    NOUNS,
    PREPOSITIONS,
    PRONOUNS,
    VERBS,
    Noun,
    Verb,
)
from tasks.synthetic.trees import NP, PP, VP, Clause, Sentence, Sub, parse

LENGTHS = (5, 10, 15, 20, 25, 30, 40, 50, 60)
"""Words of the sources."""
STEPS = (25, 100, 400)
"""Steps of gradient descent after which the written vector is kept."""


def write_levels(numbers: Tensor, low: float = -1.0) -> list[str]:
    """Return a text for each row, with the nearest level's digit for each number from low to 1."""
    places = ((numbers - low) / (1 - low) * 63).round().int().tolist()
    return ["".join(LEVELS[place] for place in row) for row in places]


def read_levels(rows: Sequence[str], low: float = -1.0) -> np.ndarray:
    """Return the numbers of `write_levels`."""
    places = [[LEVELS.index(digit) for digit in row] for row in rows]
    return low + (1 - low) * np.array(places, np.float32) / 63


def describe(
    one: TrainedModel, many: TrainedModel, ranges: Ranges, src: str, ref: str
) -> dict[str, Any]:
    """Return all that the picture shows of a sentence."""
    example = Example(one.encode_source(src), one.encode(ref))
    prefixes = [Example(example.src[:n], example.tgt) for n in range(1, len(example.src) + 1)]
    vectors = encode_all(one.model, prefixes).c
    own = rnn_encdec.State(vectors[-1:].clone(), vectors[-1:].clone())
    best = optimise_all(one.model, [example], STEPS, own, ranges)
    written = write_levels(torch.cat([state.c for state in best.values()]))
    c = torch.tensor(read_levels(written[-1:]))  # the start state follows from it
    replaced = FromStates(one.model, [example], rnn_encdec.State(c, c))
    (said,) = generate_targets(replaced, [example], 1)
    outputs = [*(run.translate([src])[0] for run in (one, many)), one.tokenizer.decode(said)]
    batch = batch_of(many.model, [Example(example.src, target := many.encode(outputs[1]))])
    with torch.inference_mode():
        h = many.model.encode(batch.src, batch.src_mask).h[0]
        weights = many.model.align(batch.src, batch.src_mask, batch.tgt_in)[0, : len(target)]
    return {
        "src": src, "ref": ref, "outputs": outputs,
        "vectors": write_levels(vectors), "annotations": write_levels(h),
        "weights": write_levels(weights, low=0.0), "best": written,
    }  # fmt: skip


def gloss(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return English words for each output of the film's sentence, and their gold links to it.

    Raises ValueError if the German of a tree is not what a model has written.
    """
    drawn = (s for s in draw_corpus(1, n_train=0, n_valid=0).test if s.en_text == row["src"])
    meant, read = next(drawn), render_mistaken()
    sentences = [meant if output == meant.de_text else read for output in row["outputs"]]
    if (made := [s.de_text for s in sentences]) != row["outputs"]:
        raise ValueError(f"the grammar has no tree for an output; it makes {made}")
    return [{"en": s.en, "links": s.links} for s in sentences]


def render_mistaken() -> Sentence:
    """Return what the RNN encoder-decoder makes of the film's sentence, from its tree."""
    nouns: dict[str, Noun] = {noun.en[0]: noun for noun in [*NOUNS, *NAMES]}
    verbs: dict[str, Verb] = {verb.en[0]: verb for verb in VERBS}
    qualities = {adjective.en: adjective for pool in ADJECTIVES.values() for adjective in pool}
    without = next(p for pool in PREPOSITIONS.values() for p in pool if p.en == "without")
    often = next(adverb for adverb in FREQUENCY if adverb.en == "often")
    he = next(pronoun for pronoun in PRONOUNS if pronoun.en[0] == "he")
    clever, small, brave = (qualities[name] for name in ("clever", "small", "brave"))

    horses = Clause(NP(nouns["horse"], "some", (clever,), None, True), VP(verbs["disappear"]))
    cars = NP(nouns["car"], "all", is_plural=True)
    love = VP(verbs["love"], (cars,), ("will", "perfect"))
    mouse = Clause(NP(nouns["mouse"], "the", (clever,)), VP(BE, adjective=small))
    felix = NP(nouns["Felix"], pp=PP(without, NP(he)))
    arrive = Clause(felix, VP(verbs["arrive"], frequency=often), None, (Sub("although", (mouse,)),))
    child, was = NP(nouns["child"], "the", (brave,)), VP(BE, is_past=True, adjective=clever)
    first = Clause(NP(nouns["Clara"]), love, None, (Sub("although", (horses,)),))
    return parse([first, Clause(child, was, Sub("although", (arrive,)))], ["but"]).sentence


def measure(lengths: Sequence[int] = LENGTHS) -> dict[str, Any]:
    """Return the numbers of the picture, a row for each length."""
    text = gzip.decompress((SHIPPED / EXAMPLES).read_bytes()).decode()
    sentences = [(src, ref) for src, ref in (line.split("\t") for line in text.splitlines())]
    one, many = (inference.load(SHIPPED / f"{name}-seed1") for name in ("rnn_encdec", "bahdanau"))
    examples = [Example(one.encode_source(src), one.encode(ref)) for src, ref in sentences]
    ranges = measure_ranges(one.model, encode_all(one.model, examples))
    first = [next(pair for pair in sentences if len(pair[0].split()) == n) for n in lengths]
    return {"steps": STEPS, "rows": [describe(one, many, ranges, *pair) for pair in first]}


def main() -> None:
    """Write the numbers."""
    torch.set_num_threads(1)
    made = measure()
    made["rows"][SHOWN]["glosses"] = gloss(made["rows"][SHOWN])
    text = json.dumps(made, ensure_ascii=False).replace('{"src"', '\n{"src"')
    print(files.write(SHIPPED / "opening.json", text + "\n"))


if __name__ == "__main__":
    main()
