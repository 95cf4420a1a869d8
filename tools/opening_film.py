"""Draw the opening picture as SVG: a still, and a film that plays once and ends as the still.

The film is CSS alone: whatever is to come is hidden for so many seconds. A reader who has asked
for less motion, and a program that knows no animation, see its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np
from matplotlib.colors import to_hex, to_rgb

from lesson.essays import LEVELS
from seqmodels.data.tokenizers import WORD

WIDTH, MARGIN, COLUMN, GAP = 900, 14, 274, 25
LETTER, LINE, BASE = 7.4, 20, 14
"""Of the monospaced text, in pixels: width of a letter, height of a line, and of a letter."""
CELLS, SPACE = 114, 34
"""Heights of the strips of Bahdanau's model, and of the lines below them."""
UNIT = CELLS / 76
"""Height of a cell: an annotation has 304 numbers, four in a row."""
N_COLUMNS, N_SHADES = 4, 6
POSITIVE, NEGATIVE = "#14527f", "#9a3412"
READ_S, WRITE_S = 0.13, 0.23
"""Seconds for a token that is read, and for one that is written."""
LEAST_WEIGHT = 0.05
PARTS = (
    ("Cho’s encoder: one vector", "{one} numbers, rewritten at each word"),
    ("Bahdanau’s: one for each word", "{many} numbers each, looked at for each word"),
    ("Cho’s decoder, a better vector", "{one} numbers, written by gradient descent"),
)
VERDICT = (
    "The vector has room for this sentence, and the decoder can say it; "
    "the encoder does not write it."
)
CAPTION = (
    "Numbers of trained models (results/translation-live, 5 M target tokens): orange −1, blue 1. "
    "Lines: weights of attention."
)
STYLE = """text{font:12.3px "DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#222}
.t{font:bold 14.5px system-ui,"DejaVu Sans",sans-serif}
.s{font:12.5px system-ui,"DejaVu Sans",sans-serif;fill:#5c5c5c}
.b{font:bold 22px system-ui,"DejaVu Sans",sans-serif;fill:#222}
.l{fill:none;stroke:#222;opacity:.22}.x{fill:#fbdfd9}
.f{opacity:0}.l.f{stroke-width:2.5}.u.f{fill:#14527f}.c{fill:#fff;transform:scaleX(0);transform-box:fill-box}
"""
FILM = """@media (prefers-reduced-motion:no-preference){@keyframes h{from,to{opacity:0}}
@keyframes f{from,to{opacity:1}}@keyframes c{from{transform:none}}.h{animation:h linear}
.f{animation:f linear}.c{stroke:#fff;stroke-width:2;vector-effect:non-scaling-stroke}}
"""


class Word(NamedTuple):
    """A word or sign, and where it stands; y is its baseline."""

    text: str
    x: float
    y: float

    @property
    def width(self) -> float:
        """Return its width in pixels."""
        return LETTER * len(self.text)


def place_words(text: str, left: float, top: float, width: float) -> list[Word]:
    """Break a text into lines of this width, and its words into words and signs."""
    words, x, y = list[Word](), left, top + BASE
    for part in text.split():
        if x + LETTER * len(part) > left + width:
            x, y = left, y + LINE
        words += [Word(m[0], x + LETTER * m.start(), y) for m in WORD.finditer(part)]
        x += LETTER * (len(part) + 1)
    return words


def read_levels(rows: Sequence[str]) -> np.ndarray:
    """Return the numbers that `tools.opening` has rounded, from -1 to 1."""
    places = [[LEVELS.index(digit) for digit in row] for row in rows]
    return np.array(places, np.float32) / 31.5 - 1


def name_shade(number: float) -> str:
    """Return the class of the shade of a number from -1 to 1; empty if it is white."""
    shade = round(abs(number) * N_SHADES)
    return f"{'p' if number > 0 else 'n'}{shade}" if shade else ""


def describe_shades() -> str:
    """Return the CSS of all shades."""
    rules = ""
    for name, colour in (("p", POSITIVE), ("n", NEGATIVE)):
        for shade in range(1, N_SHADES + 1):
            red, green, blue = (1 - (1 - x) * shade / N_SHADES for x in to_rgb(colour))
            rules += f".{name}{shade}{{stroke:{to_hex((red, green, blue))}}}"
    return rules + "\n"


def draw_cells(strips: Sequence[Sequence[float]], x: float, y: float, pitch: float) -> str:
    """Draw strips beside each other, a cell for each number."""
    runs: dict[str, str] = {}
    for j, strip in enumerate(strips):
        for row in range(0, len(strip), N_COLUMNS):
            at = j * (N_COLUMNS + 1)
            for name, its in groupby(strip[row : row + N_COLUMNS], key=name_shade):
                n = len([*its])
                if name:
                    runs[name] = runs.get(name, "") + f"M{at} {row // N_COLUMNS}h{n}"
                at += n
    paths = "".join(f'<path class="{name}" d="{d}"/>' for name, d in sorted(runs.items()))
    scale = f"{pitch / (N_COLUMNS + 1):.3f} {UNIT:g}"
    return f'<g transform="translate({x:.1f} {y + UNIT / 2:g}) scale({scale})">{paths}</g>'


class Film:
    """The elements of a still or a film, each from its second on."""

    def __init__(self, is_film: bool):
        self.is_film, self.parts, self.end = is_film, list[str](), 0.0

    def add(self, element: str, start: float = 0.0, kind: str = "") -> None:
        """Add an element that is there from a second on; `element` begins with its name."""
        self.end = max(self.end, start)
        name, rest = element.split(" ", 1)
        hidden = f' style="animation-duration:{start:.2f}s"' if self.is_film and start else ""
        classes = " ".join(filter(None, [kind, "h" if hidden else ""]))
        self.parts.append(f'<{name} class="{classes}"{hidden} {rest}')

    def flash(self, element: str, start: float, seconds: float, kind: str = "") -> None:
        """Add an element that is there for so many seconds; a still has none."""
        if self.is_film:
            times = f"animation-delay:{start:.2f}s;animation-duration:{seconds:.2f}s"
            name, rest = element.split(" ", 1)
            self.parts.append(f'<{name} class="{kind} f" style="{times}" {rest}')

    def say(self, word: Word, start: float = 0.0) -> None:
        """Add a word in its place."""
        size = f'textLength="{word.width:.1f}" lengthAdjust="spacingAndGlyphs"'
        self.add(f'text x="{word.x:.1f}" y="{word.y:g}" {size}>{escape(word.text)}</text>', start)

    def note(self, kind: str, x: float, y: float, text: str, start: float = 0.0) -> None:
        """Add a line of text."""
        self.add(f'text x="{x:g}" y="{y:g}">{escape(text)}</text>', start, kind)


def draw(row: Mapping[str, Any], is_film: bool) -> str:
    """Return the SVG of a sentence."""
    film = Film(is_film)
    source = place_words(row["src"], MARGIN, 8, WIDTH - 2 * MARGIN)
    n_read = len(row["annotations"])
    for j, word in enumerate(source):
        film.say(word, READ_S * j)
    top, ends = source[-1].y + 50, []
    for k, (title, text) in enumerate(PARTS):
        left = MARGIN + k * (COLUMN + GAP)
        film.note("t", left, top - 18, title)
        film.note(
            "s", left, top, text.format(one=len(row["best"][0]), many=len(row["annotations"][0]))
        )
        weights = read_levels(row["weights"]) / 2 + 0.5 if k == 1 else None
        pitch = min(16.0, COLUMN / n_read)
        if k == 1:
            draw_annotations(film, read_levels(row["annotations"]).tolist(), left, top + 14, pitch)
        else:
            states = [row["vectors"], None, [row["vectors"][-1], *row["best"]]][k]
            x = left + (COLUMN - pitch) / 2
            draw_states(film, read_levels(states).tolist(), (x, top + 14, pitch), READ_S * n_read)
        ends.append(draw_output(film, row, k, (left, top + 14, pitch), source, weights))
    height = max(y for y, _ in ends) + 88
    for k, (_, (right, n)) in enumerate(ends):
        left = MARGIN + k * (COLUMN + GAP)
        share = f'<tspan class="b">{100 * right / n:.0f} %</tspan> right: {right} of {n} words'
        film.add(f'text x="{left:g}" y="{height - 58:g}">{share}</text>', film.end, "s")
    film.note("t", MARGIN, height - 32, VERDICT, film.end)
    film.note("s", MARGIN, height - 10, CAPTION)
    style = STYLE + describe_shades() + (FILM if is_film else "")
    size = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>'
        f"{VERDICT}</title><style>{style}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(film.parts) + "</svg>\n"
    )


def draw_annotations(
    film: Film, strips: Sequence[Sequence[float]], x: float, y: float, pitch: float
) -> None:
    """Draw a strip for each token: one half appears forwards, the other backwards."""
    half = len(strips[0]) // 2
    width, height = pitch * len(strips), CELLS / 2
    for i, origin in enumerate(("right", "left")):
        own = [strip[i * half : (i + 1) * half] for strip in strips]
        film.parts.append(draw_cells(own, x, y + i * height, pitch))
        if film.is_film:
            seconds = f"{READ_S * len(strips):.2f}s steps({len(strips)})"
            place = f'x="{x:.1f}" y="{y + i * height:g}" width="{width:.1f}" height="{height:g}"'
            film.parts.append(
                f'<rect class="c" style="transform-origin:{origin};animation:c {seconds}" {place}/>'
            )


def draw_states(
    film: Film, states: Sequence[Sequence[float]], place: tuple[float, float, float], seconds: float
) -> None:
    """Draw one strip, which has each state in turn and keeps the last."""
    each = seconds / len(states)
    for i, state in enumerate(states[:-1]):
        film.flash(draw_cells([state], *place)[1:], each * i, each)
    film.add(draw_cells([states[-1]], *place)[1:], each * (len(states) - 1))


def draw_output(
    film: Film,
    row: Mapping[str, Any],
    k: int,
    place: tuple[float, float, float],
    source: Sequence[Word],
    weights: Any,
) -> tuple[float, tuple[int, int]]:
    """Draw what a machine writes, and its lines; return its last y and the words right, of all."""
    left, top, pitch = place
    bottom = top + (CELLS if k == 1 else 50 * UNIT) + 1
    words = place_words(row["outputs"][k], left, top + CELLS + SPACE, COLUMN)
    texts, reference = [w.text for w in words], WORD.findall(row["ref"])
    blocks = SequenceMatcher(None, texts, reference, autojunk=False).get_matching_blocks()
    same = {i for start, _, n in blocks for i in range(start, start + n)}
    first = READ_S * len(row["annotations"])
    for i, word in enumerate(words):
        start = first + WRITE_S * i
        if i not in same:
            box = f'x="{word.x:.1f}" y="{word.y - 13:g}" width="{word.width:.1f}" height="17"'
            film.add(f"rect {box}/>", start, "x")
        film.say(word, start)
        looks = [(0, 1.0)] if weights is None else [*enumerate(weights[i].tolist())]
        for j, weight in ((j, weight) for j, weight in looks if weight >= LEAST_WEIGHT):
            x = left + pitch * (j + 0.4) if k == 1 else left + COLUMN / 2
            y, end = top + CELLS + SPACE, (bottom + top + CELLS + SPACE) / 2
            to = f"{word.x + word.width / 2:.0f}"
            d = f"M{x:.0f} {bottom:.0f}C{x:.0f} {end:.0f} {to} {end:.0f} {to} {y:.0f}"
            film.add(f'path stroke-width="{weight:.2g}" d="{d}"/>', start, "l")
            down = f"V{word.y - 12:.0f}"
            film.flash(f'path d="{d}{down}" stroke-opacity="{weight:.2g}"/>', start, WRITE_S, "l")
            if k == 1 and j < len(source):
                seen = source[j]
                box = f'x="{seen.x:.1f}" y="{seen.y + 3:g}" width="{seen.width:.1f}" height="4"'
                film.flash(f'rect {box} fill-opacity="{weight:.2g}"/>', start, WRITE_S, "u")
    right = sum(texts[i][0].isalnum() for i in same)
    n_words = max(sum(text[0].isalnum() for text in its) for its in (texts, reference))
    return words[-1].y, (right, n_words)
