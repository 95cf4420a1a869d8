"""Make the opening picture: its numbers from trained weights, a still and a film of one sentence.

    python -m tools.opening

It reads results/translation-live and writes opening.json there, and results/opening.svg and
results/opening-film.svg. Of each of LENGTHS, the first sentence of examples.tsv.gz is read by the
RNN encoder-decoder and by Bahdanau's model. Kept are the vector that the former would hand over
after each token, the annotations and the attention of the latter, what both write (greedily), and
the vector that gradient descent writes in place of the encoder, with what the same decoder says
from these very numbers. All numbers are rounded to one of 64 levels from -1 to 1, and weights from
0 to 1.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lesson import essays
from seqmodels import inference
from seqmodels.data.batches import Example
from seqmodels.data.tokenizers import WORD
from seqmodels.evaluation.evaluate import generate_targets
from seqmodels.inference import TrainedModel
from seqmodels.models import bahdanau, rnn_encdec
from seqmodels.utils import files
from seqmodels.utils.imports import HOME
from seqmodels.utils.terminal import Parser
from tasks.analyses import batch_of
from tasks.bottleneck.latent import FromStates, Ranges, encode_all, measure_ranges, optimise_all
from tools.opening_film import draw, read_levels

FOLDER = HOME / "results" / "translation-live"
LENGTHS = (5, 10, 15, 20, 25, 30, 40, 50, 60)
"""Words of the sources."""
SHOWN = 5
"""Place of the sentence of both pictures."""
STEPS = (25, 100, 400)
"""Steps of gradient descent after which the written vector is kept."""


def write_levels(numbers: Tensor, low: float = -1.0) -> list[str]:
    """Return a text for each row, with the nearest level's digit for each number."""
    places = ((numbers - low) / (1 - low) * 63).round().int().tolist()
    return ["".join(essays.LEVELS[place] for place in row) for row in places]


def read_sentences() -> list[tuple[str, str]]:
    """Return the sources and references of the live page."""
    text = gzip.decompress((FOLDER / "examples.tsv.gz").read_bytes()).decode()
    return [(src, ref) for src, ref in (line.split("\t") for line in text.splitlines())]


def load_models(
    sentences: Sequence[tuple[str, str]],
) -> tuple[TrainedModel, TrainedModel, Ranges]:
    """Load the models, and the range over all these sentences of each number of the vector."""
    one, many = (inference.load(FOLDER / f"{name}-seed1") for name in ("rnn_encdec", "bahdanau"))
    state = encode_all(one.model, [make_example(one, *sentence) for sentence in sentences])
    return one, many, measure_ranges(one.model, state)


def make_example(run: TrainedModel, src: str, ref: str) -> Example:
    """Return the tokens of a pair."""
    return Example(run.encode_source(src), run.encode(ref))


def say(run: TrainedModel, example: Example, c: Tensor) -> str:
    """Return what the decoder writes from a vector."""
    state = rnn_encdec.State(c[None], c[None])  # the start state follows from c
    (output,) = generate_targets(FromStates(run.model, [example], state), [example], 1)
    return run.tokenizer.decode(output)


@torch.inference_mode()
def describe(
    one: TrainedModel, many: TrainedModel, ranges: Ranges, src: str, ref: str
) -> dict[str, Any]:
    """Return all that the picture shows of a sentence.

    Raises ValueError if a word or sign of the texts is not one token.
    """
    example = make_example(one, src, ref)
    prefixes = [Example(example.src[:n], example.tgt) for n in range(1, len(example.src) + 1)]
    vectors = encode_all(one.model, prefixes).c
    state = rnn_encdec.State(vectors[-1:], vectors[-1:])
    with torch.inference_mode(False):
        own = type(state)(*(field.clone() for field in state))
        best = [optimise_all(one.model, [example], n, own, ranges).c for n in STEPS]
    written = write_levels(torch.cat(best))
    outputs = [*(run.translate([src])[0] for run in (one, many)), ""]
    outputs[2] = say(one, example, torch.tensor(read_levels(written[-1:])[0]))
    target = many.encode(outputs[1])
    batch = batch_of(many.model, [Example(example.src, target)])
    read = many.model.encode(batch.src, batch.src_mask)
    assert isinstance(read, bahdanau.State)
    weights = many.model.align(batch.src, batch.src_mask, batch.tgt_in)[0, : len(target)]
    texts = [src, *outputs]
    if [len(WORD.findall(text)) for text in texts] != [len(one.encode(text)) for text in texts]:
        raise ValueError(f"a word of {texts} is not one token; choose another sentence")
    return {
        "src": src, "ref": ref, "outputs": outputs,
        "vectors": write_levels(vectors),
        "annotations": write_levels(read.h[0]),
        "weights": write_levels(weights, low=0.0),
        "best": written,
    }  # fmt: skip


def measure(lengths: Sequence[int] = LENGTHS) -> dict[str, Any]:
    """Return the numbers of the picture, a row for each length."""
    sentences = read_sentences()
    models = load_models(sentences)
    first = [next(s for s in sentences if len(s[0].split()) == n) for n in lengths]
    return {"steps": STEPS, "rows": [describe(*models, *sentence) for sentence in first]}


def draw_pictures(made: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the still and the film of the sentence that the pages show first."""
    row = made["rows"][SHOWN]
    return [
        files.write(folder / f"opening{end}.svg", draw(row, bool(end))) for end in ("", "-film")
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Write the numbers, unless only the pictures are asked for, and both pictures."""
    p = Parser(prog="python -m tools.opening", description=__doc__,
               formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    p.add_argument("--pictures", action="store_true", help="draw the pictures alone")
    path = FOLDER / "opening.json"
    if not p.parse_args(argv).pictures:
        torch.set_num_threads(1)
        text = json.dumps(measure(), ensure_ascii=False).replace('{"src"', '\n{"src"')
        print(files.write(path, text + "\n"))
    print(*draw_pictures(files.read_json(path), FOLDER.parent), sep="\n")


if __name__ == "__main__":
    main()
