"""Make the opening picture: its numbers from trained weights, and a film of one sentence.

    python -m tools.opening             the numbers, then the film
    python -m tools.opening --film      the film alone

The numbers are results/translation-live/opening.json: of each of LENGTHS, the first sentence of
examples.tsv.gz is read by the RNN encoder-decoder and by Bahdanau's model. Kept are the vector that
the former would hand over after each token, the annotations and the attention of the latter, what
both write (greedily), and the vector that gradient descent writes in place of the encoder, with
what the same decoder says from these very numbers. All are rounded to one of 64 levels.

The film is results/opening-film.svg. It is CSS alone and plays once: whatever is to come is hidden
for so many seconds. A reader who has asked for less motion sees its end.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np
import torch
from matplotlib.colors import LinearSegmentedColormap, to_hex
from torch import Tensor

from lesson.essays import LEVELS
from lesson.live import EXAMPLES
from seqmodels import inference
from seqmodels.data.batches import Example
from seqmodels.data.tokenizers import WORD
from seqmodels.evaluation.evaluate import generate_targets
from seqmodels.inference import TrainedModel
from seqmodels.models import rnn_encdec
from seqmodels.utils import files
from seqmodels.utils.imports import SHIPPED
from seqmodels.utils.terminal import Parser
from tasks.analyses import batch_of
from tasks.bottleneck.latent import FromStates, Ranges, encode_all, measure_ranges, optimise_all

LENGTHS = (5, 10, 15, 20, 25, 30, 40, 50, 60)
"""Words of the sources."""
SHOWN = 5
"""Place of the sentence of the film."""
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


def measure(lengths: Sequence[int] = LENGTHS) -> dict[str, Any]:
    """Return the numbers of the picture, a row for each length."""
    text = gzip.decompress((SHIPPED / EXAMPLES).read_bytes()).decode()
    sentences = [(src, ref) for src, ref in (line.split("\t") for line in text.splitlines())]
    one, many = (inference.load(SHIPPED / f"{name}-seed1") for name in ("rnn_encdec", "bahdanau"))
    examples = [Example(one.encode_source(src), one.encode(ref)) for src, ref in sentences]
    ranges = measure_ranges(one.model, encode_all(one.model, examples))
    first = [next(pair for pair in sentences if len(pair[0].split()) == n) for n in lengths]
    return {"steps": STEPS, "rows": [describe(one, many, ranges, *pair) for pair in first]}


# ---------------------------------------------------------------------------------------- The film

WIDTH, MARGIN, COLUMN, GAP = 900, 14, 274, 25
LETTER, LINE = 7.4, 20
"""Of the monospaced text, in pixels: width of a letter, height of a line."""
CELLS, SPACE, UNIT, N_COLUMNS = 114, 34, 1.5, 4
"""Heights of a strip, of the lines below it, and of a cell; cells in a row."""
COLOURS = LinearSegmentedColormap.from_list("", ["#9a3412", "#ffffff", "#14527f"], 13)
READ_S, WRITE_S = 0.13, 0.23
"""Seconds for a token that is read, and for one that is written."""
LEAST_WEIGHT = 0.05
PARTS = (
    ("Cho’s encoder: one vector", "{one} numbers, rewritten at each word"),
    ("Bahdanau’s: one for each word", "{many} numbers each, looked at for each word"),
    ("Cho’s decoder, a better vector", "{one} numbers, written by gradient descent"),
)
VERDICT = "With an optimised vector of the same size, the same decoder generates the sentence."
CAPTION = (
    "Numbers of trained models (results/translation-live, 5 M target tokens): orange −1, blue 1. "
    "Lines: weights of attention."
)
STYLE = """text{font:12.3px "DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#222}
.t{font:bold 14.5px system-ui,"DejaVu Sans",sans-serif}
.s{font:12.5px system-ui,"DejaVu Sans",sans-serif;fill:#5c5c5c}
.b{font:bold 22px system-ui,"DejaVu Sans",sans-serif;fill:#222}
.l{fill:none;stroke:#222;opacity:.22}.x{fill:#fbdfd9}
.f{opacity:0}.l.f{stroke-width:2.5}.u.f{fill:#14527f}
@media (prefers-reduced-motion:no-preference){@keyframes h{from,to{opacity:0}}
@keyframes f{from,to{opacity:1}}.h{animation:h linear}.f{animation:f linear}}
"""


class Word(NamedTuple):
    """A word or sign, and where it stands; y is its baseline."""

    text: str
    x: float
    y: float
    width: float


def place_words(text: str, left: float, top: float, width: float) -> list[Word]:
    """Break a text into lines of this width, and its words into words and signs."""
    words, x, y = list[Word](), left, top + 14
    for part in text.split():
        if x + LETTER * len(part) > left + width:
            x, y = left, y + LINE
        for m in WORD.finditer(part):
            words.append(Word(m[0], x + LETTER * m.start(), y, LETTER * len(m[0])))
        x += LETTER * (len(part) + 1)
    return words


def draw_cells(strip: np.ndarray, x: float, y: float, width: float) -> str:
    """Draw numbers from -1 to 1, a cell for each."""
    paths: dict[str, str] = defaultdict(str)
    for i, number in enumerate(strip):
        paths[to_hex(COLOURS((number + 1) / 2))] += f"M{i % N_COLUMNS} {i // N_COLUMNS}h1"
    paths.pop("#ffffff", None)
    place = f"translate({x:.1f} {y + UNIT / 2:g}) scale({width / N_COLUMNS:.3f} {UNIT})"
    each = (f'<path stroke="{colour}" d="{d}"/>' for colour, d in paths.items())
    return f'g transform="{place}">{"".join(each)}</g>'


class Film:
    """The elements of a film; each text begins with the name of its element."""

    def __init__(self) -> None:
        self.parts, self.end = list[str](), 0.0

    def add(self, element: str, start: float = 0.0, kind: str = "") -> None:
        """Add an element that is there from a second on."""
        self.end, (name, rest) = max(self.end, start), element.split(" ", 1)
        hidden = f' h" style="animation-duration:{start:.2f}s' if start else ""
        self.parts.append(f'<{name} class="{kind}{hidden}" {rest}')

    def flash(self, element: str, start: float, seconds: float, kind: str = "") -> None:
        """Add an element that is there for so many seconds."""
        times, (name, rest) = f"delay:{start:.2f}s;animation-duration", element.split(" ", 1)
        self.parts.append(
            f'<{name} class="{kind} f" style="animation-{times}:{seconds:.2f}s" {rest}'
        )

    def say(self, word: Word, start: float) -> None:
        """Add a word in its place."""
        size = f'textLength="{word.width:.1f}" lengthAdjust="spacingAndGlyphs"'
        self.add(f'text x="{word.x:.1f}" y="{word.y:g}" {size}>{escape(word.text)}</text>', start)

    def note(self, kind: str, x: float, y: float, text: str, start: float = 0.0) -> None:
        """Add a line of text."""
        self.add(f'text x="{x:g}" y="{y:g}">{text}</text>', start, kind)


def draw(row: Mapping[str, Any]) -> str:
    """Return the SVG of a sentence."""
    film, source = Film(), place_words(row["src"], MARGIN, 8, WIDTH - 2 * MARGIN)
    for j, word in enumerate(source):
        film.say(word, READ_S * j)
    top, ends = source[-1].y + 50, []
    sizes = {"one": len(row["best"][0]), "many": len(row["annotations"][0])}
    for k, (title, text) in enumerate(PARTS):
        left = MARGIN + k * (COLUMN + GAP)
        film.note("t", left, top - 18, title)
        film.note("s", left, top, text.format(**sizes))
        draw_numbers(film, row, k, left, top + 14)
        ends.append(draw_output(film, row, k, left, top + 14, source))
    height = max(y for y, _, _ in ends) + 88
    for k, (_, right, n) in enumerate(ends):
        share = f'<tspan class="b">{100 * right / n:.0f} %</tspan> right: {right} of {n} words'
        film.note("s", MARGIN + k * (COLUMN + GAP), height - 58, share, film.end)
    film.note("t", MARGIN, height - 32, VERDICT, film.end)
    film.note("s", MARGIN, height - 10, CAPTION)
    size = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{VERDICT}</title>'
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>\n'
        + "\n".join(film.parts) + "</svg>\n"
    )  # fmt: skip


def pitch_of(row: Mapping[str, Any]) -> float:
    """Return the distance of two strips."""
    return min(16.0, COLUMN / len(row["annotations"]))


def draw_numbers(film: Film, row: Mapping[str, Any], k: int, left: float, top: float) -> None:
    """Draw one strip, which has each state in turn, or a strip for each token.

    One half of an annotation appears forwards, the other backwards.
    """
    strips, pitch = read_levels(row["annotations"]), pitch_of(row)
    n, x, width = len(strips), left + (COLUMN - pitch) / 2, 0.8 * pitch
    if k == 1:
        for j, (forwards, backwards) in enumerate(strips.reshape(n, 2, -1)):
            film.add(draw_cells(forwards, left + j * pitch, top, width), READ_S * j)
            at = left + j * pitch, top + CELLS / 2, width
            film.add(draw_cells(backwards, *at), READ_S * (n - 1 - j))
        return
    states = read_levels(row["vectors"] if k == 0 else [row["vectors"][-1], *row["best"]])
    each = READ_S * n / len(states)
    for i, state in enumerate(states[:-1]):
        film.flash(draw_cells(state, x, top, width), each * i, each)
    film.add(draw_cells(states[-1], x, top, width), each * (len(states) - 1))


def draw_output(
    film: Film, row: Mapping[str, Any], k: int, left: float, top: float, source: Sequence[Word]
) -> tuple[float, int, int]:
    """Draw what a machine writes, and its lines; return its last y, its right words, and all."""
    start_y, below, pitch = top + (CELLS if k == 1 else 76) + 1, top + CELLS + SPACE, pitch_of(row)
    words, reference = place_words(row["outputs"][k], left, below, COLUMN), WORD.findall(row["ref"])
    texts, weights = [word.text for word in words], read_levels(row["weights"], low=0.0)
    blocks = SequenceMatcher(None, texts, reference, autojunk=False).get_matching_blocks()
    same = {i for start, _, n in blocks for i in range(start, start + n)}
    for i, word in enumerate(words):
        start = READ_S * len(row["annotations"]) + WRITE_S * i
        if i not in same:
            box = f'x="{word.x:.1f}" y="{word.y - 13:g}" width="{word.width:.1f}" height="17"'
            film.add(f"rect {box}/>", start, "x")
        film.say(word, start)
        for j, weight in enumerate(weights[i]) if k == 1 else [(0, 1.0)]:
            if weight < LEAST_WEIGHT:
                continue
            x, middle = left + (pitch * (j + 0.4) if k == 1 else COLUMN / 2), (start_y + below) / 2
            to = f"{word.x + word.width / 2:.0f}"
            d = f"M{x:.0f} {start_y:.0f}C{x:.0f} {middle:.0f} {to} {middle:.0f} {to} {below:.0f}"
            film.add(f'path stroke-width="{weight:.2g}" d="{d}"/>', start, "l")
            line = f'path d="{d}V{word.y - 12:.0f}" stroke-opacity="{weight:.2g}"/>'
            film.flash(line, start, WRITE_S, "l")
            if k == 1 and j < len(source):
                seen = source[j]
                box = f'x="{seen.x:.1f}" y="{seen.y + 3:g}" width="{seen.width:.1f}" height="4"'
                film.flash(f'rect {box} fill-opacity="{weight:.2g}"/>', start, WRITE_S, "u")
    n_words = max(sum(text[0].isalnum() for text in its) for its in (texts, reference))
    return words[-1].y, sum(texts[i][0].isalnum() for i in same), n_words


def main(argv: Sequence[str] | None = None) -> None:
    """Write the numbers, unless only the film is asked for, and the film."""
    p = Parser(prog="python -m tools.opening", description="Make the opening picture.")
    p.add_argument("--film", action="store_true", help="draw the film alone")
    path = SHIPPED / "opening.json"
    if not p.parse_args(argv).film:
        torch.set_num_threads(1)
        text = json.dumps(measure(), ensure_ascii=False).replace('{"src"', '\n{"src"')
        print(files.write(path, text + "\n"))
    film = draw(files.read_json(path)["rows"][SHOWN])
    print(files.write(SHIPPED.parent / "opening-film.svg", film))


if __name__ == "__main__":
    main()
