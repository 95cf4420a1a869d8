"""Put figures into pages: one <svg> for wide pages and one for phones, in colours of day and night.

The CSS of the pages shows one of the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from markupsafe import Markup

from lesson import colours
from seqmodels.report import style
from seqmodels.report.tidy import FigureWithData

DROPPED = {"metadata", "style", "title", "desc"}
"""Elements that a page has no use for: names and descriptions are texts beside the figure."""
Styles = dict[str, str]
"""CSS declarations of a page's figures -> the name of their class."""
ROUNDED = ("d", "x", "y", "transform")
"""Attributes with coordinates, which are rounded to a tenth of a point."""


class Pair(NamedTuple):
    """A figure as it is drawn for wide pages, and for phones."""

    wide: FigureWithData
    narrow: FigureWithData


def draw_for_pages(
    draw: Callable[[], Mapping[str, FigureWithData]], is_narrow: bool = False
) -> dict[str, Pair]:
    """Return what a function draws for both kinds of pages, or narrow for both."""
    with style.context(style.NARROW):
        wide = narrow = draw()
    if not is_narrow:
        with style.context(style.WIDE):
            wide = draw()
    return {name: Pair(wide[name], narrow[name]) for name in wide}


def inline(pair: Pair, name: str, styles: Styles, has_buckets: bool = False) -> Markup:
    """Return a figure with its title, subtitle and caption.

    `name` begins the ids of its elements, and `styles` are those of the page so far. If the figure
    is the same in both kinds of pages, there is one <svg>. Without `has_buckets`, the areas by
    which a script can choose a bucket are left out.
    """
    n_styles = len(styles)
    svgs, both = [], [(style.NARROW, pair.narrow, f"{name}-narrow")]
    if pair.wide is not pair.narrow:
        both.insert(0, (style.WIDE, pair.wide, name))
    for medium, drawn, its in both:
        with style.context(medium):
            svgs.append(convert(style.render(drawn.figure, ".svg"), its, styles, has_buckets))
    if svgs[0].get("viewBox") == svgs[-1].get("viewBox"):
        del svgs[1:]
    for svg, shown_in in zip(svgs, ("if-wide", "if-narrow") if svgs[1:] else [""], strict=True):
        width = style.PIXELS_PER_POINT * float(svg.get("viewBox", "").split()[2])
        svg.attrib |= {
            "class": shown_in, "style": f"min-width:{width:.0f}px;max-width:{1.25 * width:.0f}px",
            "role": "img", "aria-labelledby": f"{name}-title", "aria-describedby": f"{name}-about",
        }  # fmt: skip
    css = "".join(f".{its}{{{rule}}}" for rule, its in [*styles.items()][n_styles:])
    title, *about = [text.get_text() for text in pair.wide.figure.texts] or [""]
    parts = Markup('<p class="title" id="{0}-title">{1}</p><p class="note" id="{0}-about">{2}</p>')
    html = parts.format(name, title, Markup("<br>").join("".join(about[:1]).split("\n")))
    html += Markup('<div class="plot" tabindex="0"><style>{}</style>').format(Markup(css))
    for svg in svgs:
        html += Markup(ElementTree.tostring(svg, "unicode").replace(" />", "/>"))
    caption = pair.wide.figure.get_label()
    return (
        html + Markup("</div>") + Markup('<p class="note">{}</p>').format(caption) * bool(caption)
    )


def convert(svg: bytes, prefix: str, styles: Styles, has_buckets: bool) -> Element:
    """Return the <svg> element of a file as a part of a page.

    Styles become classes. Of the ids, those of buckets and those that the file refers to are kept,
    with the prefix.
    """
    root = ElementTree.fromstring(svg)
    viewbox = root.get("viewBox", "")
    for element in root.iter():
        element.tag = strip_namespace(element.tag)
        element.attrib = {strip_namespace(key): value for key, value in element.items()}
        element.tail = None
        if element.tag != "text":
            element.text = None
    unclip(root)
    rename_ids(root, prefix, has_buckets)
    prune(root)
    for element in root.iter():
        set_style(element, styles)
        for key in ROUNDED:
            if key in element.attrib:
                element.set(key, round_numbers(element.attrib[key]))
        if path := element.get("d"):
            element.set("d", shorten_path(path))
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
    root.attrib = {"viewBox": viewbox}
    return root


def strip_namespace(name: str) -> str:
    """Return the name of an element or attribute as HTML has it."""
    return name.rpartition("}")[2]


def unclip(root: Element) -> None:
    """Remove clips that cut nothing off."""
    by_id = {f"url(#{e.get('id')})": e for e in root.iter("clipPath")}
    paths = {f"#{e.get('id')}": read_points(e) for e in root.iter("path") if "id" in e.attrib}
    for element in root.iter():
        if not (clip := by_id.get(element.get("clip-path", ""))):
            continue
        x, y, width, height = (float(clip[0].get(k, "0")) for k in ("x", "y", "width", "height"))
        points = [point for part in element.iter() for point in read_points(part)]
        for use in element.iter("use"):
            dx, dy = float(use.get("x", "0")), float(use.get("y", "0"))
            points += [(a + dx, b + dy) for a, b in paths[use.get("href", "")]]
        if all(-1 < a - x < width + 1 and -1 < b - y < height + 1 for a, b in points):
            del element.attrib["clip-path"]
    for parent in root.iter("defs"):
        used = {element.get("clip-path") for element in root.iter()}
        parent[:] = [e for e in parent if e.tag != "clipPath" or f"url(#{e.get('id')})" in used]


def read_points(element: Element) -> list[tuple[float, float]]:
    """Return the points of a path; none of another element."""
    numbers = [*map(float, re.findall(r"-?[\d.]+", element.get("d", "")))]
    return [*zip(numbers[::2], numbers[1::2], strict=True)]


def shorten_path(path: str) -> str:
    """Write a path in fewer characters."""
    parts, before = [], ["", ""]
    for command, text in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        point = text.split()
        if command == "L" and before[0] == point[0]:
            command, text = "V", point[1]
        elif command == "L" and before[1] == point[1]:
            command, text = "H", point[0]
        parts.append(command + text.strip().replace(" -", "-"))
        before = point[-2:] or before
    return "".join(parts)


def find_references(element: Element) -> Iterator[tuple[str, str, str]]:
    """Return attribute, id and form of each reference of an element."""
    for key, form in (("href", "#{}"), ("clip-path", "url(#{})")):
        if key in element.attrib:
            yield key, element.attrib[key].removeprefix("url(").rstrip(")").lstrip("#"), form


def rename_ids(root: Element, prefix: str, has_buckets: bool) -> None:
    """Give elements that are referred to, and buckets, ids of their own in the page."""
    used = {name for element in root.iter() for _, name, _ in find_references(element)}
    new = {name: f"{prefix}-{i}" for i, name in enumerate(sorted(used))}
    for element in root.iter():
        name = element.attrib.pop("id", "")
        if name in new or (has_buckets and name.startswith("bucket-")):
            element.set("id", new.get(name, f"{prefix}-{name}"))
        for key, name, form in find_references(element):
            element.set(key, form.format(new[name]))


def set_style(element: Element, styles: Styles) -> None:
    """Replace the style of an element by a class, and its opacity by an attribute."""
    text = element.attrib.pop("style", "")
    its = dict(part.strip().split(": ", 1) for part in text.split(";") if part.strip())
    its.pop("font-family", None)  # that of the page
    if its.get("text-anchor") == "start":
        del its["text-anchor"]
    is_text = element.tag == "text"
    for key in ("opacity", "fill-opacity"):
        if (value := its.pop(key, None)) and not is_text:
            element.set(key, value)
    rule = "".join(
        colours.declare(key, value, is_text) if value.startswith("#") else f"{key}:{value};"
        for key, value in its.items()
    )
    if rule:
        element.set("class", styles.setdefault(rule, f"c{len(styles)}"))


def round_numbers(text: str) -> str:
    """Round the numbers in a list of coordinates to one decimal."""
    spaced = text.replace("(", "( ").replace(")", " )").replace(",", " ")
    return " ".join(map(round_number, spaced.split())).replace("( ", "(").replace(" )", ")")


def round_number(word: str) -> str:
    """Round a word if it is a number."""
    try:
        return f"{float(word):.1f}".removesuffix(".0")
    except ValueError:
        return word


def prune(parent: Element) -> None:
    """Remove elements that draw nothing, and groups that group nothing."""
    is_bucket = "-bucket-" in parent.get("id", "")
    children: list[Element] = []
    for child in parent:
        prune(child)
        is_group = child.tag in ("g", "defs")
        is_unseen = child.tag == "path" and child.get("style") == "fill: none" and not is_bucket
        if child.tag in DROPPED or is_unseen or (is_group and not len(child)):
            continue
        children += child if child.tag == "g" and not child.attrib else [child]
    parent[:] = children
