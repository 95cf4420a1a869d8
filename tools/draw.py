"""Draw bugs at random with cosmic-ray, and write them to `drawn.toml` for `mutants.py` to plant.

    pip install -e '.[mutants]'
    python -m tools.draw

In each module, places where a cosmic-ray operator applies are drawn at random, with one mutant at
each. Annotations, which never run, and functions that plot are left out.
"""

from __future__ import annotations

import ast
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import parso  # noqa: F401  (before cosmic_ray, whose plugins otherwise import it in a circle)
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

from tools.mutants import ROOT, Mutant, named, read, spans

OUT = Path(__file__).with_name("drawn.toml")
SEED = 1
MODULES = {f"models/{name}": 6 for name in ("rnn_encdec", "bahdanau", "lstm_seq2seq", "gpt")}
MODULES |= {"models/transformer": 6, "training/trainer": 14, "data/batches": 12}
MODULES |= {"evaluation/evaluate": 12, "evaluation/metrics": 12, "search": 12, "data/windows": 12}
MODULES |= {"report/reading": 2, "report/scores": 1, "report/layout": 6, "report/tables": 3}
MODULES |= {"report/alignment": 2, "ops/kernels": 6, "ops/kv_cache": 6}
"""Module -> number of mutants."""

Place = tuple[int, int]


def places(source: str) -> dict[Place, list[tuple[str, int]]]:
    """Return where mutants exist: line and column -> operators, each with its occurrence."""
    found: dict[Place, list[tuple[str, int]]] = defaultdict(list)
    nodes = list(ast_nodes(get_ast(source)))
    for name in sorted(operator_names()):
        if not (operator := get_operator(name)).arguments():
            number = count()
            for node in nodes:
                for begin, _ in operator().mutation_positions(node):
                    found[begin].append((name, next(number)))
    return found


def bare(source: str) -> str:
    """Return the part of a source that runs, without annotations."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    return ast.dump(tree)


def shortened(file: str, source: str, mutated: str, operator: str) -> Mutant:
    """Return the mutant as an innermost function and the fewest whole lines that identify it.

    Raises ValueError if it is not in a function, or in one that plots.
    """
    old, new = source.splitlines(keepends=True), mutated.splitlines(keepends=True)
    first = next(i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    n_same = next(i for i, (a, b) in enumerate(zip(old[::-1], new[::-1], strict=False)) if a != b)
    last, shift = len(old) - n_same, len(new) - len(old)
    at = sum(map(len, old[: first + 1])) - 1
    around = [(end - begin, name) for name, all_ in spans(source).items() for begin, end in all_
              if begin <= at < end]  # fmt: skip
    functions = {name: node for name, node in named(ast.parse(source))
                 if isinstance(node, ast.FunctionDef)}  # fmt: skip
    name = next((name for _, name in sorted(around) if name in functions), None)
    if name is None or re.search(r"\b(Axes|Figure)\b", ast.unparse(functions[name].args)):
        raise ValueError("not in a function, or in one that plots")
    if re.search(r"\bFigure\b", ast.unparse(functions[name].returns or ast.Constant(None))):
        raise ValueError("in a function that plots")
    for more in range(3):
        before, after = "".join(old[first - more : last]), "".join(new[first - more : last + shift])
        indent = len(before) - len(before.lstrip())
        if more == 0:
            before, after = before[indent:], after[indent:] if after[:indent].isspace() else after
        bug = operator.partition("/")[2].replace("_", " ")
        mutant = Mutant(file, name, before.rstrip("\n"), after.rstrip("\n"), bug, "cosmic-ray")
        try:
            if mutant.applied(source) == mutated:
                return mutant
        except ValueError:
            continue
    raise ValueError("its text is not unique")


def drawn(module: str, n: int) -> Iterator[Mutant]:
    """Draw n mutants in a module."""
    file, rng = f"seqmodels/{module}.py", random.Random(f"{SEED}/{module}")
    source = (ROOT / file).read_text(encoding="utf-8")
    found = places(source)
    for place in rng.sample(sorted(found), len(found)):
        operator, number = rng.choice(found[place])
        mutated = mutate_code(source, get_operator(operator)(), number)
        try:
            if bare(mutated) == bare(source):
                continue
            mutant = shortened(file, source, mutated, operator)
        except (SyntaxError, ValueError):
            continue
        yield mutant
        if not (n := n - 1):
            return


def quoted(text: str) -> str:
    """Return a TOML string literal."""
    if "'" not in text and "\n" not in text:
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def main() -> None:
    """Draw and write mutants; those marked as equivalent stay marked."""
    parts, known = [], {mutant.key: mutant.equivalent for mutant in read()}
    for module, n in MODULES.items():
        for mutant in drawn(module, n):
            mutant = mutant._replace(equivalent=known.get(mutant.key, ""))
            fields = {key: value for key, value in mutant._asdict().items() if value}
            lines = [f"{key} = {quoted(value)}" for key, value in fields.items()]
            parts.append("\n".join(["[[mutant]]", *lines]) + "\n")
    OUT.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
