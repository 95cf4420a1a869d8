"""Put figures into pages: the SVG of a file, in colours of day and night."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from markupsafe import Markup
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from lesson import colours
from seqmodels.report import style

DROPPED = {"metadata", "style", "title", "desc"}
"""Elements that a page has no use for: names and descriptions are texts beside the figure."""
FIGURE = Markup(
    '<p class="title" id="{name}-title">{title}</p><p class="note" id="{name}-about">{about}</p>'
    '{keys}<div class="plot" tabindex="0"><style>{css}</style>{svg}</div>{caption}'
)
MARKS = {"s": "■", "o": "●", "D": "◆", "^": "▲", "v": "▼", "P": "✚", "X": "✖", "*": "★"}
"""Markers of lines, as signs of a text."""
PIXELS_PER_POINT = 1.16
"""Least scale of figures in pages: a figure in its usual width has 793 pixels."""
Styles = dict[str, str]
"""CSS declarations of a page's figures -> the name of their class."""
ROUNDED = ("d", "x", "y", "transform")
"""Attributes with coordinates, which are rounded to a tenth of a point."""


def inline(figure: Figure, name: str, styles: Styles, has_buckets: bool = False) -> Markup:
    """Return a figure with its title, subtitle and caption, which are texts of the page.

    `name` begins the ids of its elements, and `styles` are those of the page so far. Without
    `has_buckets`, the areas by which a script can choose a bucket are left out. A figure that is
    wider than the page is scrolled sideways.
    """
    n_styles = len(styles)
    title, about = figure.get_suptitle(), figure.get_supxlabel()
    for text in figure.texts:  # they are texts of the page
        text.set_visible(False)
        text.set_in_layout(False)
    for patch in (figure.patch, *(ax.patch for ax in figure.axes)):
        patch.set_visible(False)  # the page's paper, and its shadow, are seen behind
    svg = convert(style.render(figure, ".svg"), name, styles, has_buckets)
    width, height = (float(size) for size in svg.get("viewBox", "").split()[2:])
    least = PIXELS_PER_POINT * width
    svg.attrib |= {
        "viewBox": f"0 0 {width:g} {height:g}",
        "style": f"min-width:{least:.0f}px;max-width:{1.25 * least:.0f}px",
        "role": "img", "aria-labelledby": f"{name}-title", "aria-describedby": f"{name}-about",
    }  # fmt: skip
    css = "".join(f".{its}{{{rule}}}" for rule, its in [*styles.items()][n_styles:])
    caption, keys = figure.get_label(), Markup(" · ").join(format_keys(figure))
    return FIGURE.format(
        name=name,
        title=" ".join(title.split()),
        about=Markup("<br>").join(about.split("\n")),
        css=Markup(css),
        keys=Markup('<p class="keys">{}</p>').format(keys) * bool(keys),
        svg=Markup(ElementTree.tostring(svg, "unicode").replace(" />", "/>")),
        caption=Markup('<p class="note">{}</p>').format(caption) * bool(caption),
    )


def format_keys(figure: Figure) -> Iterator[Markup]:
    """Yield signs and labels of the lines in a figure's legends, or that have names beside them."""
    pairs = [pair for key in figure.legends
             for pair in zip(key.get_lines(), key.get_texts(), strict=False)]  # fmt: skip
    names = [(MARKS.get(str(k.get_marker()), "■"), k.get_color(), text) for k, text in pairs]
    legends = [own for ax in figure.axes if (own := ax.get_legend())]
    names += [("\u2003", bar.get_facecolor(), text) for own in legends
              for bar, text in zip(own.get_patches(), own.get_texts(), strict=False)]  # fmt: skip
    texts = [text for ax in figure.axes for text in ax.texts]
    names += [("■", text.get_color(), text) for text in texts if text.get_fontweight() == "bold"]
    for sign, colour, text in names:
        look = "background" if sign.isspace() else "color"  # a bar is a space on its colour
        rule = colours.declare(look, to_hex(colour), look == "color")
        key = Markup('<span style="{}">{}</span> {}')
        yield key.format(rule, sign, " ".join(text.get_text().split()))


def convert(svg: bytes, prefix: str, styles: Styles, has_buckets: bool) -> Element:
    """Return the <svg> element of a file as a part of a page.

    Styles become classes. Of the ids, those of buckets and those that the file refers to are kept,
    with the prefix.
    """
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]  # without its namespace, as HTML has it
        element.attrib = {key.rpartition("}")[2]: value for key, value in element.items()}
        element.tail = None
        if element.tag != "text":
            element.text = None
    rename_ids(root, prefix, has_buckets)
    prune(root)
    for element in root.iter():
        set_style(element, styles)
        for key in ROUNDED:
            if key in element.attrib:
                element.set(key, round_numbers(element.attrib[key]))
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
    root.attrib = {"viewBox": root.attrib["viewBox"]}
    return root


def find_references(element: Element) -> Iterator[tuple[str, str, str]]:
    """Return attribute, id and form of each reference of an element."""
    for key, form in (("href", "#{}"), ("clip-path", "url(#{})")):
        if key in element.attrib:
            yield key, element.attrib[key].removeprefix("url(").rstrip(")").lstrip("#"), form
    look = element.get("style", "")
    if match := re.search(r"url\(#(.*?)\)", look):  # of a hatch
        yield "style", match[1], look.replace(match[1], "{}")


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
    parts = {part.strip() for part in text.split(";")} - {"", "text-anchor: start"}
    its = dict(part.split(": ", 1) for part in sorted(parts))
    its.pop("font-family", None)  # that of the page
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
    """Round the numbers of a path or a list to one decimal; what follows M needs no L."""
    text = re.sub(r"-?\d+\.\d+", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), text.strip())
    if not re.match("M ", text):
        return text
    text = re.sub(r"\s*([A-Za-z-])\s*", r"\1", text)
    return text if re.search("[^-MLz.0-9 ]", text) else text.replace("L", " ")


def prune(parent: Element) -> None:
    """Remove elements that draw nothing; join groups that are alike, or group nothing."""
    is_bucket = "-bucket-" in parent.get("id", "")
    children: list[Element] = []
    for child in parent:
        prune(child)
        is_unseen = child.tag == "path" and child.get("style") == "fill: none" and not is_bucket
        if child.tag in DROPPED or is_unseen or (child.tag in ("g", "defs") and not len(child)):
            continue
        for part in child if child.tag == "g" and not child.attrib else [child]:
            if part.tag == "g" and children and children[-1].attrib == part.attrib:
                children[-1].extend(part)
            else:
                children.append(part)
    parent[:] = children
