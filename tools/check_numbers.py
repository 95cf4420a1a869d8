"""Check the numbers and tables of the pages against the committed records.

    python -m tools.check_numbers            fail with a line for each unsupported number
    python -m tools.check_numbers --write    also copy the tables of the pages from `tables.md` anew

A line of `docs/numbers.toml` is [page, words, expression]: the words, with the values of the
expression formatted in place of their braces, have to stand in the page. Between `<!-- table: FILE;
HEADING; COLUMN, … -->` and `<!-- end -->` a page has the table below that heading of the file; a
column may be renamed by `COLUMN = NAME`, and no columns mean all of them.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import takewhile
from math import log
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).parents[1]
NUMBERS = ROOT / "docs" / "numbers.toml"
PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("tasks/*/README.md")]
PAGES += ROOT.glob("lesson/text/*.html")
TABLE = re.compile(
    r"(?<=<!-- table: )([^;>]+);([^;>]+)(?:;([^>]*))? -->\n.*?(?=<!-- end -->)", re.S
)


@cache
def read(path: str) -> Any:
    """Return the content of a JSON file below results/."""
    return json.loads((ROOT / "results" / path).read_text(encoding="utf-8"))


def records(folder: str, model: str) -> list[Any]:
    """Return a model's committed records, by seed."""
    paths = sorted((ROOT / "results" / folder).glob(f"{model}-seed*[0-9].json"))
    if not paths:
        raise ValueError(f"results/{folder} has no record of {model}")
    return [read(f"{folder}/{path.name}") for path in paths]


def scores(
    folder: str, model: str, bucket: str = "all", metric: str = "", test: str = ""
) -> list[float]:
    """Return a score for each seed; by default the primary metric of the first test set."""
    found = []
    for record in records(folder, model):
        its = next(t for t in record["tests"] if test in ("", t["name"]))
        parts = {name_bucket(part): part for part in its["buckets"]} | {"all": its["overall"]}
        found.append(parts[bucket][metric or its["primary_metric"]]["value"])
    return found


def name_bucket(part: Mapping[str, Any]) -> str:
    """Return a bucket as pages write it: 31–40, or 8."""
    low, high = part["low"], part["high"]
    return f"{low}" if low == high else f"{low}–{high}"


def find_pairs(folder: str, row: str, column: str, metric: str, test: str) -> Iterator[Any]:
    """Yield how two models were compared, with the names of the parts of their difference."""
    for its in read(f"{folder}/significance.json")["comparisons"]:
        if test in ("", its["test"]) and metric in ("", its["metric"]):
            parts = ["all", *(name_bucket({"low": a, "high": b}) for a, b in its["buckets"])]
            for pair in its["pairs"]:
                if {pair["row"], pair["column"]} == {row, column}:
                    values = [pair["overall"], *pair["buckets"]]
                    yield pair, dict(zip(parts, values, strict=True))


def difference(
    folder: str, row: str, column: str, bucket: str = "all", metric: str = "", test: str = ""
) -> tuple[float, float, float]:
    """Return a difference of two models and the ends of its interval."""
    for pair, parts in find_pairs(folder, row, column, metric, test):
        ends = parts[bucket]["value"], parts[bucket]["low"], parts[bucket]["high"]
        return ends if pair["row"] == row else (-ends[0], -ends[2], -ends[1])
    raise ValueError(f"results/{folder}/significance.json does not compare {row} with {column}")


def p_value(folder: str, row: str, column: str, metric: str = "", test: str = "") -> float:
    """Return the corrected p-value of a difference of two models."""
    return float(next(find_pairs(folder, row, column, metric, test))[0]["p"])


def analyses(folder: str, model: str, name: str, key: str, **where: Any) -> list[float]:
    """Return a value of the rows of an analysis that have these other values, seed by seed."""
    rows = [row for record in records(folder, model) for row in record["analyses"].get(name, [])]
    found = [row[key] for row in rows if all(row.get(k) == value for k, value in where.items())]
    if not found:
        raise ValueError(f"results/{folder}: {model} has no row of {name} with {where}")
    return found


def carried_bits(folder: str, model: str, n: int, test: str = "") -> list[float]:
    """Return the bits of n random symbols of 64 that a model transmits, seed by seed."""
    return [n * (6 - nats / log(2)) for nats in scores(folder, model, f"{n}", "nats", test)]


def span(values: Iterable[float]) -> tuple[float, float]:
    """Return the lowest and the highest value."""
    values = list(values)
    return min(values), max(values)


NAMES: dict[str, Any] = {
    f.__name__: f
    for f in (read, records, scores, difference, p_value, analyses, carried_bits, span)
}


class Number(float):
    """A number that is formatted with a minus sign."""

    def __format__(self, spec: str) -> str:
        return super().__format__(spec).replace("-", "−")


def fill(words: str, expression: str) -> str:
    """Return the words with the values of an expression, as a page writes them."""
    values = eval(expression, NAMES | {"mean": fmean})
    return words.format(*map(Number, values if isinstance(values, tuple) else [values]))


def copy_table(found: re.Match[str]) -> str:
    """Return the marker and the table that belongs behind it, with the columns that it names."""
    path, heading, columns = (text and text.strip() for text in found.groups())
    lines = (ROOT / str(path)).read_text(encoding="utf-8").splitlines()
    below = lines[[line.strip("# ") for line in lines].index(str(heading)) + 1 :]
    first = next(i for i, line in enumerate(below) if line.startswith("|"))
    table = takewhile(lambda line: line.startswith("|"), below[first:])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    if columns:
        pairs = [text.partition("=") for text in columns.split(", ")]
        chosen = [(rows[0].index(name.strip()), new.strip()) for name, _, new in pairs]
        rows = [[row[0], *(row[i] for i, _ in chosen)] for row in rows]
        rows[0] = [rows[0][0], *(new or rows[0][k + 1] for k, (_, new) in enumerate(chosen))]
    copied = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{found[0].partition(' -->')[0]} -->\n\n{copied}\n\n"


def main(argv: list[str]) -> int:
    """Check all pages; return how many numbers and tables are wrong."""
    wrong = []
    pages = {path: path.read_text(encoding="utf-8") for path in PAGES}
    for path, text in pages.items():
        if (new := TABLE.sub(copy_table, text)) != text:
            if "--write" in argv:
                path.write_text(new, encoding="utf-8")
            else:
                wrong.append(f"{path.relative_to(ROOT)}: a table is not that of its file")
    flat = {str(path.relative_to(ROOT)): " ".join(text.split()) for path, text in pages.items()}
    for page, words, expression in tomllib.loads(NUMBERS.read_text(encoding="utf-8"))["numbers"]:
        try:
            text = fill(words, expression)
        except (ArithmeticError, LookupError, ValueError) as error:
            text = f"{words}: {error!r}"
        if text not in flat.get(page, ""):
            wrong.append(f"{page}: {text!r} is not there; {expression}")
    print("\n".join(wrong) or "every number and table is that of its record")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
