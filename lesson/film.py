"""Draw the opening picture: a sentence is read, kept as numbers, and written, three times.

    python -m lesson.film

writes results/opening-film.svg, its end as a PNG (with Chromium) and, for narrow screens,
results/opening-phone.svg, from the numbers and glosses of results/translation-live/opening.json,
which tools.opening makes. The animation is CSS alone and loops: whatever is to come is hidden for
so many seconds. For a reader who has asked for less motion, and at the address with #still, which
pages print, the picture stands still at its end.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from html import escape
from typing import Any, NamedTuple

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from lesson.essays import LEVELS
from seqmodels.utils import files
from seqmodels.utils.imports import SHIPPED

SHOWN = 5
"""Place of the sentence among those of opening.json."""
TIMES = ((0.0, 0.4, 2.8, 3.0, 6.2), (6.8, 7.0, 8.4, 8.5, 9.9), (10.4, 10.6, 11.8, 11.9, 13.4))
"""Seconds at which each row appears, begins and ends to read, and begins and ends to write."""
END, LOOP = 14.0, 22.0
"""Seconds of the verdict, and of a whole loop."""
N_SHADES, LEAST_WEIGHT = 3, 0.05
LOOK = 7
"""Height in pixels of the mark below a note to which the writer attends."""
TITLE = "Why do long sentences break a network without attention?"
ABOUT = (
    "It reads an English sentence, keeps it as numbers (the note), and writes German from the note "
    "alone. Shown: that German, put back into English."
)
LANES = (
    ("One note", "RNN encoder–decoder, 2014", ("reader", "encoder"), ("writer", "decoder"),
     "{one} numbers: the vector"),
    ("A better note of the same size", "found by search, with the right answer in hand",
     ("search", "gradient descent"), ("same writer", "decoder"), "{one} numbers: the vector"),
    ("A note for every word: attention", "Bahdanau et al., 2014", ("reader", "encoder"),
     ("writer", "looks again"), "{many} numbers for each word"),
)  # fmt: skip
"""Title, source, reader and writer with their small type, and note of each row."""
OUTPUTS = (0, 2, 1)
"""The place of each row's text among the outputs of opening.json."""
VERDICT = "The note is big enough. Reader and writer together learn to use it slowly."
LIMITS = (
    "Up to 40 words, the longest in training, best notes keep nearly all; beyond, they lose more. "
    "With attention, nothing has to fit into one note."
)
FINE = (
    "A cell is a number of the note; those near 0 are pale. One sentence; each model trained once, "
    "on 5 million words and signs of a made-up grammar. Words are counted in the German."
)
STYLE = """svg{--i:#222;--s:#5c5c5c;--l:#bbb;--p:#fff;--w:#b02a1e;--r:#1f6f3a}
@media(prefers-color-scheme:dark){svg{--i:#e8e8e8;--s:#ababab;--l:#555;--p:#141414;--w:#f0998c;--r:#6cc48a}}
text{font-family:system-ui,"DejaVu Sans",sans-serif;fill:var(--i)}
.s{fill:var(--s)}.b{font-weight:700}.m{text-anchor:middle}.e{text-anchor:end}
.w,text.w{fill:var(--w)}.w{text-decoration:underline}.r{fill:var(--r)}.n{text-decoration:none}
.o{fill:none;stroke:var(--l);stroke-width:1.5}.c{fill:none;stroke:var(--i)}.k{fill:var(--i)}
.f{visibility:hidden}
"""


class Layout(NamedTuple):
    """Places and sizes in pixels: a wide picture, or one for a narrow screen."""

    width: int
    height: int
    margin: int
    sizes: tuple[float, float, float, float, float]
    """Font sizes of title, text, output, small type, and verdict."""
    lanes: tuple[int, int]
    """Top of the first row, and the distance of two rows."""
    boxes: tuple[int, int, int, int]
    """Left edge of the note and of the writer, width and height of reader and writer."""
    note: tuple[int, int, int]
    """Width and height of the note of attention, and columns of a single note."""
    output: tuple[int, int, int]
    """Left edge, offset below the row's top, and width of what is written."""


WIDE = Layout(1200, 675, 30, (28, 15.5, 16.5, 13, 25), (142, 144), (190, 408, 134, 58),
              (174, 66, 50), (572, 52, 500))  # fmt: skip
NARROW = Layout(390, 808, 10, (19, 12.5, 13, 10.5, 16), (174, 164), (120, 286, 94, 34),
                (144, 26, 50), (10, 99, 370))  # fmt: skip
PICTURES = {"opening-film": WIDE, "opening-phone": NARROW}


def width_of(text: str, size: float, weight: str = "normal") -> float:
    """Return the width of a text in DejaVu Sans, the widest of the fonts that may be taken."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    width: float = TextToPath().get_text_width_height_descent(text, font, ismath=False)[0]
    return width


def break_lines(
    words: Sequence[str], size: float, width: float, weight: str = "normal"
) -> list[list[int]]:
    """Return the places of the words of each line."""
    lines, line = list[list[int]](), ""
    for i, word in enumerate(words):
        longer = f"{line} {word}"
        if not lines or width_of(longer, size, weight) > width:
            lines.append([])
            longer = word
        lines[-1].append(i)
        line = longer
    return lines


def find_right(output: Sequence[str], reference: Sequence[str]) -> set[int]:
    """Return the places of the words of an output that are in the reference, in its order."""
    blocks = SequenceMatcher(None, output, reference, autojunk=False).get_matching_blocks()
    return {i for start, _, n in blocks for i in range(start, start + n)}


class Film:
    """The elements of the picture, and the moments at which they appear."""

    def __init__(self, layout: Layout):
        self.layout, self.parts, self.moments = layout, list[str](), dict[str, str]()

    def at(self, start: float, end: float = LOOP) -> str:
        """Return the class of what is there from one second to another of the loop."""
        name = f"a{100 * start:.0f}" + (f"-{100 * end:.0f}" if end < LOOP else "")
        frames = f"0%{{visibility:hidden}}{100 * start / LOOP:.1f}%{{visibility:visible}}"
        if end < LOOP:
            frames += f"{100 * end / LOOP:.1f}%{{visibility:hidden}}"
        self.moments[name] = frames
        return name + (" f" if end < LOOP else "")

    def text(
        self, x: float, y: float, size: float, text: str, kind: str = "", aside: str = ""
    ) -> None:
        """Add a line of text, and an aside in small type behind it; y is its baseline."""
        place = f'x="{x:g}" y="{y:g}" font-size="{size:g}"'
        if aside:
            look = f'class="s" dx="10" font-size="{self.layout.sizes[3]:g}" font-weight="400"'
            aside = f"<tspan {look}>{escape(aside)}</tspan>"
        self.parts.append(f'<text class="{kind}" {place}>{escape(text)}{aside}</text>')

    def paragraph(self, y: float, size: float, text: str, kind: str = "") -> float:
        """Add a text over the whole width; return the y of its next line."""
        words, across = text.split(), self.layout.width - 2 * self.layout.margin
        weight = "bold" if kind.startswith("b") else "normal"
        for line in break_lines(words, size, across, weight):
            self.text(self.layout.margin, y, size, " ".join(words[i] for i in line), kind)
            y += 1.3 * size
        return y

    def words(
        self, place: tuple[float, float, float], size: float, words: Sequence[str],
        times: tuple[float, float], wrong: Sequence[bool] = (), step: float = 1.4,
    ) -> None:  # fmt: skip
        """Add words at x, y and within a width, one after another."""
        x, y, width = place
        for line in break_lines(words, size, width):
            spans = []
            for i in line:
                moment = self.at(times[0] + (times[1] - times[0]) * i / (len(words) - 1))
                kind = f"{moment} w" if wrong and wrong[i] else moment
                spans.append(f'<tspan class="{kind}">{escape(words[i])}</tspan>')
            row = f'x="{x:g}" y="{y:g}" font-size="{size:g}"'
            self.parts.append(f"<text {row}>{' '.join(spans)}</text>")
            y += step * size

    def box(self, x: float, y: float, names: tuple[str, str]) -> None:
        """Add a reader or a writer."""
        (_, _, width, height), small = self.layout.boxes, self.layout.sizes[3]
        size = f'width="{width}" height="{height}"'
        self.parts.append(f'<rect class="o" x="{x:g}" y="{y:g}" {size} rx="7"/>')
        middle, centre = x + width / 2, y + height / 2
        self.text(middle, centre - 2, self.layout.sizes[1], names[0], "m b")
        self.text(middle, centre + small, small * 0.9, names[1], "m s")

    def cells(
        self, digits: str, columns: int, place: tuple[float, float, float, float], kind: str
    ) -> None:
        """Add numbers as cells, each at x, y and of a width and height; those near 0 are light."""
        paths: dict[int, str] = defaultdict(str)
        for i, digit in enumerate(digits):
            shade = round(N_SHADES * abs(LEVELS.index(digit) / 31.5 - 1))
            paths[shade] += f"M{i % columns} {i // columns}h1"
        paths.pop(0, None)
        x, y, width, height = place
        move = f"translate({x:.1f} {y + height / 2:.2f})scale({width:.3f} {height:.3f})"
        each = (f'<path opacity="{s / N_SHADES:.1g}" d="{d}"/>' for s, d in paths.items())
        self.parts.append(f'<g class="c {kind}" transform="{move}">{"".join(each)}</g>')


def draw(row: Mapping[str, Any], layout: Layout) -> str:
    """Return the SVG of a sentence."""
    film, (title, text, _, small, verdict) = Film(layout), layout.sizes
    y = film.paragraph(layout.margin + 0.5 * title, title, TITLE, "b")
    y = film.paragraph(y - 0.3 * text, text, ABOUT, "s") + 0.3 * text
    across = layout.width - 2 * layout.margin
    film.words((layout.margin, y, across), text, row["src"].split(), TIMES[0][1:3], step=1.3)
    for k in range(len(LANES)):
        draw_lane(film, row, k, layout.lanes[0] + k * layout.lanes[1])
    y = layout.lanes[0] + len(LANES) * layout.lanes[1] + 0.9 * verdict
    y = film.paragraph(y, verdict, VERDICT, f"b {film.at(END)}")
    y = film.paragraph(y, text, LIMITS, film.at(END))
    film.paragraph(y, small * 0.9, FINE, "s")
    frames = "".join(f"@keyframes {name}{{{all_}}}" for name, all_ in film.moments.items())
    run = "".join(
        f".{name}{{animation:{name} {LOOP:g}s step-end infinite}}" for name in film.moments
    )
    run += "svg:target *{animation:none!important}"  # the address with #still
    moving = f"@media screen and (prefers-reduced-motion:no-preference){{{frames}{run}}}"
    size = f'width="{layout.width}" height="{layout.height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} id="still" viewBox="0 0 {layout.width} '
        f'{layout.height}" role="img"><title>{VERDICT}</title><style>{STYLE}{moving}</style>'
        '<rect width="100%" height="100%" style="fill:var(--p)"/>\n'
    ) + "\n".join([*film.parts, "</svg>\n"])


def draw_lane(film: Film, row: Mapping[str, Any], k: int, top: float) -> None:
    """Draw a row: reader, note, writer, what is written, and how many words of it are right."""
    lay, (name, source, reader, writer, note) = film.layout, LANES[k]
    (_, text, output, small, _), (note_x, writer_x, width, height) = lay.sizes, lay.boxes
    appears, _, _, *writes = TIMES[k]
    film.parts.append(f'<g class="{film.at(appears)}">')
    film.parts.append(f'<path class="o" d="M{lay.margin} {top:g}H{lay.width - lay.margin}"/>')
    if lay is WIDE:
        y = top + 2.2 * text
        film.text(lay.margin, top + 1.5 * text, 1.1 * text, name, "b", source)
    else:
        y = top + 3.2 * text
        film.text(lay.margin, top + 1.5 * text, 1.1 * text, name, "b")
        film.text(lay.margin, top + 2.7 * text, small, source, "s")
    film.box(lay.margin, y, reader)
    film.box(writer_x, y, writer)
    for start, end in ((lay.margin + width, note_x), (note_x + lay.note[0], writer_x)):
        film.text((start + end) / 2, y + height / 2 + 5, text, "→", "m s")
    sizes = {"one": len(row["best"][0]), "many": len(row["annotations"][0])}
    bottom = draw_note(film, row, k, y)
    below = bottom + 1.2 * small + (LOOK if k == 2 else 0)
    film.text(note_x, below, 0.9 * small, note.format(**sizes), "s")

    gloss, written = row["glosses"][OUTPUTS[k]], row["outputs"][OUTPUTS[k]]
    tokens, reference = split(written), split(row["ref"])
    right = find_right(tokens, reference)
    words, places = join_signs(gloss["en"])
    linked: dict[int, set[int]] = defaultdict(set)
    for i, j in gloss["links"]:
        linked[places[i]].add(j)
    wrong = [not linked[i] <= right for i in range(len(words))]
    x, offset, across = lay.output
    film.words((x, top + offset, across), output, words, (writes[0], writes[1]), wrong, 1.3)
    if k == 2:
        draw_looks(film, row, [linked[i] for i in range(len(words))], bottom)
    n = max(sum(token[0].isalnum() for token in its) for its in (tokens, reference))
    n_right = sum(tokens[i][0].isalnum() for i in right)
    counted = film.at(writes[1] + 0.1)
    kind = f"e b {counted} " + ("r" if n_right == n else "w n")
    end = lay.width - lay.margin
    if lay is WIDE:
        film.text(end, top + 72, 42, str(n_right), kind)
        film.text(end, top + 92, small, f"of {n} words right", f"e s {counted}")
    else:
        film.text(end, top + 1.5 * text, 1.1 * text, f"{n_right} of {n} right", kind)
    film.parts.append("</g>")


def draw_note(film: Film, row: Mapping[str, Any], k: int, top: float) -> float:
    """Draw one note, in each of its states, or a note for each word; return its lower edge."""
    x, (width, height, columns) = film.layout.boxes[0], film.layout.note
    _, begin, finish, *_ = TIMES[k]
    if k == 2:
        n = len(row["annotations"])
        pitch, rows = width / n, len(row["annotations"][0]) // 4
        for j, digits in enumerate(row["annotations"]):
            start = begin + (finish - begin) * j / n
            place = (x + pitch * j, top, 0.2 * pitch, height / rows)
            film.cells(digits, 4, place, film.at(start))
        return top + height
    states = row["vectors"] if k == 0 else [row["vectors"][-1], *row["best"]]
    unit, each = width / columns, (finish - begin) / len(states)
    rows = len(states[0]) // columns
    y = top + (height - rows * unit) / 2 if film.layout is WIDE else top + 4
    for i, digits in enumerate(states):
        start, is_last = begin + each * i, i == len(states) - 1
        kind = film.at(start) if is_last else film.at(start, start + each)
        if is_last or film.layout is WIDE:
            film.cells(digits, columns, (x, y, unit, unit), kind)
    return y + rows * unit


def draw_looks(film: Film, row: Mapping[str, Any], linked: Sequence[set[int]], top: float) -> None:
    """Draw below the notes to which the writer attends while it writes each word."""
    pitch = film.layout.note[0] / len(row["annotations"])
    begin, finish = TIMES[-1][3:]
    each = (finish - begin) / (len(linked) - 1)
    for i, tokens in enumerate(linked):
        marks = ""
        for j in range(len(row["annotations"])):
            weight = max((LEVELS.index(row["weights"][t][j]) / 63 for t in tokens), default=0.0)
            if weight >= LEAST_WEIGHT:
                at = f'x="{film.layout.boxes[0] + pitch * j:.1f}" y="{top + 1:g}"'
                marks += (
                    f'<rect {at} width="{0.8 * pitch:.1f}" height="{LOOK}" opacity="{weight:.2f}"/>'
                )
        start = begin + each * i
        film.parts.append(f'<g class="k {film.at(start, start + each)}">{marks}</g>')


def split(text: str) -> list[str]:
    """Split a text into words and signs."""
    return text.replace(",", " ,").replace(".", " .").split()


def join_signs(tokens: Sequence[str]) -> tuple[list[str], list[int]]:
    """Append each sign to the word before it; return the words, and the word of each token."""
    words, places = list[str](), list[int]()
    for token in tokens:
        if token in {",", "."}:
            words[-1] += token
        else:
            words.append(token)
        places.append(len(words) - 1)
    return words, places


def main() -> None:
    """Write the pictures."""
    row = files.read_json(SHIPPED / "opening.json")["rows"][SHOWN]
    for name, layout in PICTURES.items():
        print(files.write(SHIPPED.parent / f"{name}.svg", draw(row, layout)))
    if browser := shutil.which("chromium"):
        film = (SHIPPED.parent / "opening-film.svg").resolve()
        args = ["--headless", "--no-sandbox", "--hide-scrollbars", "--force-prefers-reduced-motion"]
        size = f"--window-size={WIDE.width},{WIDE.height}"
        shot = f"--screenshot={film.with_suffix('.png')}"
        subprocess.run([browser, *args, size, shot, film.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
