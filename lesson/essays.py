"""Answer the questions of the home page, with numbers from records.

Each essay is a template in the folder `text`. Numbers that the records do not hold, or that do not
show what the text says, are None; the sentences that need them are left out, and so is an essay
whose main numbers are missing.
"""

from __future__ import annotations

import base64
import math
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from lesson import layout, rows
from lesson.source import read_toml
from seqmodels.data.tokenizers import WORD
from seqmodels.records.schema import Record
from seqmodels.report import effects, load
from seqmodels.report.load import AnalysisRow, Folder, format_bucket, format_range, label_of
from seqmodels.utils.files import read_json

ENTRIES: dict[str, dict[str, str]] = read_toml("essays")
"""Question, answer, needed numbers and chapters of each essay, by the name of its page."""
OPENING = "opening.json"
"""The numbers of the opening picture, beside the records of its models."""
LEVELS = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
"""The digit of each of 64 levels of these numbers, from -1 to 1, or from 0 for weights."""
whole = "{:.0f}".format
"""Formats a number without decimals."""
Folders = Mapping[str, Folder]
Numbers = dict[str, Any]
RNN, BAHDANAU, TRANSFORMER = "rnn_encdec", "bahdanau", "transformer"


class Question(NamedTuple):
    """A question of the home page."""

    page: str
    """The page that answers it."""
    text: str
    number: str
    answer: str
    source: str
    """The records of the numbers, and the training behind them."""
    pair: str
    """The page of two chapters that shows it line by line."""
    script: str = ""


def ask(numbers: Numbers) -> list[Question]:
    """Return the questions whose essays can be written with these numbers."""
    questions = []
    for page, e in ENTRIES.items():
        if not e["needs"] or numbers[e["needs"]]:
            keys = ("question", "number", "answer", "source", "pair", "script")
            texts = fill(numbers, *(e.get(key, "") for key in keys))
            questions.append(Question._make([page, *texts]))
    return questions


def fill(numbers: Numbers, *texts: str) -> list[str]:
    """Fill the numbers into texts."""
    return [layout.TEMPLATES.from_string(text).render(numbers) for text in texts]


def collect(folders: Folders, main: str) -> Numbers:
    """Return all numbers of the essays; None for those that the folders do not hold.

    `main` is the folder in which the five papers are compared.
    """

    def records(name: str) -> list[Record]:
        return [*folders[name].records.values()] if name in folders else []

    return {
        "main": main,
        "scores": compare_lengths(records(main)),
        "sizes": compare_sizes(records(main)),
        "budgets": compare_budgets(records("budgets")),
        "prefixes": compare_prefixes(records("vector")),
        "bits": compute_bits(records("bottleneck")),
        "samples": choose_samples(folders),
        "opening": read_opening(folders),
        "head": describe_head([*records("heads"), *records("heads-full")]),
        "kernel": compare_kernels(records("smoothing")),
        "lookup": compare_lookup(records("lookup-convolution")),
        "cups": compare_cups(records("tracking-3")),
        "mirror": read_mirror(folders),
    }


def span(values: Iterable[float], write: Callable[[float], str] = whole) -> str:
    """Format the lowest and the highest value, or one if both look the same."""
    return format_range(values, write).replace("–", " to ")


def tokens_of(records: Iterable[Record]) -> str:
    """Format the target tokens of training, or their range."""
    return format_range((r.train_config.tokens for r in records), load.format_short)


def rows_of(r: Record, analysis: str, **columns: Any) -> list[AnalysisRow]:
    """Return the rows of an analysis that have these values; none if it was not made."""
    return load.rows_of(r, analysis, **columns) if analysis in r.analyses else []


def describe_model(r: Record) -> dict[str, str]:
    """Return the label of a record's model and its kind of memory, which is empty if unknown."""
    info = load.info_of(r)
    return {"label": label_of(r), "memory": info.memory if info else ""}


def find_runs(folders: Folders, suffix: str) -> tuple[str, list[tuple[Record, Path]]]:
    """Return the folder in which most models have such a file, and the first run of each."""
    runs: dict[str, dict[str, tuple[Record, Path]]] = {"": {}}
    for name, folder in folders.items():
        for file, r in folder.records.items():
            if (path := (folder.path / file).with_suffix(suffix)).exists():
                runs.setdefault(name, {}).setdefault(r.model, (r, path))
    name = max(runs, key=lambda name: len(runs[name]))
    return name, [*runs[name].values()]


def by_memory(records: Iterable[Record], memory: str) -> dict[str, list[Record]]:
    """Return the records of the five papers' models with this memory, by model."""
    groups = load.group_by_model(records).items()
    infos = {model: load.info_of(group[0]) for model, group in groups}
    return {
        model: group for model, group in groups
        if (info := infos[model]) and (info.memory, info.group) == (memory, "five")
    }  # fmt: skip


# ------------------------------------------------------------------------------- Long sentences


def compare_lengths(records: Sequence[Record]) -> Numbers | None:
    """Return the share of BLEU that remains on the longest sentences, trained and tested."""
    tests = load.tests_by_name(records)
    test = next(iter(tests.values()), None)
    place = test and load.longest_trained_bucket(test)
    groups = [by_memory(records, memory) for memory in ("vector", "grows")]
    if not (test and place and all(groups) and test.buckets[0].get("bleu")):
        return None
    vector, grows = (
        [load.score_array(own, test.name, "bleu")[:, 1:, 0].mean(0) for own in its.values()]
        for its in groups
    )
    short, long, beyond = (format_bucket(test.buckets[i]) for i in (0, place, -1))
    return {
        "short": short, "long": long, "beyond": beyond, "most": test.max_train_length,
        "tokens": tokens_of(records),
        "vector": span(100 * s[place] / s[0] for s in vector),
        "grows": span(100 * s[place] / s[0] for s in grows),
        "grows_beyond": span(100 * s[-1] / s[0] for s in grows),
    }  # fmt: skip


def compare_budgets(records: Sequence[Record]) -> Numbers | None:
    """Return BLEU on the longest sentences of training, through one vector, after two budgets.

    `losses` are those at the end of the larger budget; None if that has overfitted. `best` is BLEU
    from the best States after the smaller one, and on the longest sentences of the test; None if
    they were not written.
    """
    sweep = effects.find_sweeps(records).get("tokens", {})
    if not {RNN, BAHDANAU} <= {*sweep}:
        return None
    (test, *_) = load.tests_by_name(records).values()
    place = load.longest_trained_bucket(test) or 0
    less = next(tokens for tokens, group in sweep[RNN].items() if group[0].model == RNN)
    more = max(sweep[RNN])
    groups = sweep[RNN][less], sweep[RNN][more], sweep[BAHDANAU].get(less, [])
    if less == more or not groups[-1]:
        return None
    before, after, attending = (
        load.score_array(group, test.name, "bleu")[:, 1 + place, 0] for group in groups
    )
    if max(before) >= min(after) or max(before) >= min(attending):
        return None
    curves = [r.curve for r in groups[1]]
    train, valid = (
        mean(getattr(curve[-1], key) for curve in curves) for key in ("train_nats", "valid_nats")
    )
    is_lowest = all(c[-1].valid_nats == min(p.valid_nats for p in c) for c in curves)
    losses = {"train": f"{train:.3f}", "valid": f"{valid:.3f}"}
    written = [r for r in groups[0] if rows_of(r, "best_state")]
    best = None
    if written:
        scores = load.score_array(written, "best_state", "bleu")[:, 1:, 0].mean(0)
        best = {"trained": whole(scores[place]), "beyond": whole(scores[-1])}
    return {
        "best": best, "width": groups[0][0].size("d_model"), "trainings": span(map(len, groups)),
        "words": format_bucket(test.buckets[place]), "beyond": format_bucket(test.buckets[-1]),
        "less": load.format_short(less), "more": load.format_short(more),
        "before": whole(mean(before)), "after": whole(mean(after)),
        "attending": f"{mean(attending):.1f}",
        "losses": losses if is_lowest and train >= valid else None,
    }  # fmt: skip


def compare_prefixes(records: Sequence[Record]) -> Numbers | None:
    """Return what is kept of the first words of a sentence, by words read, as in training.

    Shares of content words and of roles, in per cent, of prefixes that end with a clause. Of the
    roles, `expected` would be kept if both words of a role were lost independently.
    """
    vector, grows = by_memory(records, "vector"), by_memory(records, "grows")
    if not (vector and grows and rows_of(records[0], "prefixes")):
        return None

    def find_rows(group: Iterable[Record], kept: str, low: int) -> list[AnalysisRow]:
        columns = {"cut": "clause ends", "kept": kept, "low": low}
        return [row for r in group for row in rows_of(r, "prefixes", **columns)]

    def describe(group: Sequence[Record], low: int) -> dict[str, str]:
        content, roles = (find_rows(group, kept, low) for kept in ("content words", "roles"))
        beyond = [(row["share_value"] - row["chance"]) / (100 - row["chance"]) for row in content]
        return {
            "content": span(row["share_value"] for row in content),
            "roles": span(row["share_value"] for row in roles),
            "expected": span(100 * max(share, 0) ** 2 for share in beyond),
        }

    longest = records[0].tests[0].max_train_length
    ends = [
        (row["low"], row["high"])
        for row in rows_of(records[0], "prefixes", cut="clause ends", kept="roles")
        if row["high"] <= longest
    ]
    looking_back = [
        row["share_value"] for group in grows.values() for low, _ in ends
        for kept in ("content words", "roles") for row in find_rows(group, kept, low)
    ]  # fmt: skip
    return {
        "labels": [label_of(group[0]) for group in vector.values()],
        "tokens": tokens_of(records),
        "least": f"{math.floor(min(looking_back))}",
        "rows": [
            {
                "words": f"{low} to {high}",
                "models": [describe(group, low) for group in vector.values()],
            }
            for low, high in ends
        ],
    }


def compute_bits(records: Sequence[Record]) -> list[Numbers] | None:
    """Return the most bits that one vector carries at any length, by its width: mean of the seeds.

    Of n symbols, n log2(symbols) − H bits have passed, with the cross-entropy H of the target.
    """
    found = []
    for group in by_memory(records, "vector").values():
        test, each = group[0].tests[0], math.log2(group[0].data.count("n_symbols"))
        nats = load.score_array(group, test.name, "nats")[:, 1:, 0]
        bits = (each - nats / math.log(2)) * np.array([b.low for b in test.buckets])
        width, most = group[0].size("d_model"), float(bits.max(1).mean())
        found.append({
            "width": width, "bits": whole(most), "each": f"{most / width:.1f}",
            "tokens": tokens_of(group),
        })  # fmt: skip
    return sorted(found, key=lambda row: row["width"])


def choose_samples(folders: Folders) -> list[Numbers] | None:
    """Return a test sentence of each length, the first, and what each model wrote for it.

    They come from the translations with the most models whose hypotheses are kept.
    """
    translated = {
        name: folder for name, folder in folders.items()
        if next(iter(folder.records.values())).task == "translation"
    }  # fmt: skip
    name, runs = find_runs(translated, ".jsonl")
    if not runs:
        return None
    written, samples = [(r, rows.read(path)) for r, path in runs], []
    test, tokens = runs[0][0].tests[0], tokens_of(r for r, _ in runs)
    for b in test.buckets:
        first = [
            (r, row) for r, its in written
            if (row := next((row for row in its if b.low <= row.x <= b.high), None))
        ]  # fmt: skip
        if first:
            outputs = [describe_model(r) | mark(row.hyp or "", row.ref) for r, row in first]
            looks_back = [w for w in outputs if w["memory"] == "grows"]
            others = [w for w in outputs if w not in looks_back]
            samples.append({
                "words": format_bucket(b), "is_beyond": load.is_beyond(test, b),
                "folder": name, "tokens": tokens, "most": test.max_train_length,
                "src": first[0][1].src, "ref": first[0][1].ref,
                "n_models": len(outputs), "pairs": [*zip_longest(others, looks_back)],
            })  # fmt: skip
    return samples


def answer_first(budgets: Numbers | None, source: str) -> list[str]:
    """Return the question of the home page, and the answer if it was measured, as in `source`."""
    best = (budgets or {}).get("best")
    if not (budgets and best and int(budgets["before"]) < 50 and int(best["trained"]) > 95):
        return []
    return fill(budgets | {"source": source}, *read_toml("opening")["answer"].values())


def read_opening(folders: Folders) -> Numbers | None:
    """Return what the opening picture shows, made by tools.opening; None if there is none."""
    name = next((n for n, folder in folders.items() if (folder.path / OPENING).exists()), None)
    if not name:
        return None
    made, (record, *_) = read_json(folders[name].path / OPENING), folders[name].records.values()
    most = record.tests[0].max_train_length or math.inf
    texts = read_toml("opening")
    for row in made["rows"]:
        n = len(row["src"].split())
        encoder, _, best = (share(output, row["ref"]) for output in row["outputs"])
        row["label"] = f"{n} words" + ", more than in training" * (n > most)
        row["verdict"] = texts["verdicts"][judge(encoder, best)]
        row["steps"] = [0, *made["steps"]]
    row = choose_shown(made)
    for machine, output in zip(texts["machines"], row["outputs"], strict=True):
        machine["marked"] = mark(output, row["ref"])
    cells = ("vectors", "annotations", "best")
    packed = [row | {key: [*map(pack_levels, row[key])] for key in cells} for row in made["rows"]]
    return {
        "rows": made["rows"], "shown": made["rows"].index(row), "machines": texts["machines"],
        "packed": packed, "one": len(row["best"][0]), "many": len(row["annotations"][0]),
        "folder": name, "most": most, "steps": made["steps"][-1],
        "tokens": load.format_short(record.train_config.tokens),
    }  # fmt: skip


def pack_levels(digits: str) -> str:
    """Round an even number of levels to 15 levels; return these in base64, two a byte."""
    levels = [round(LEVELS.index(digit) / 4.5) for digit in digits]
    pairs = zip(levels[::2], levels[1::2], strict=True)
    return base64.b64encode(bytes(16 * a + b for a, b in pairs)).decode()


def choose_shown(made: Mapping[str, Any]) -> Numbers:
    """Return the first sentence of which one vector has less than half of the words right."""
    rows_: list[Numbers] = made["rows"]
    return next((row for row in rows_ if share(row["outputs"][0], row["ref"]) < 0.5), rows_[-1])


def share(hyp: str, ref: str) -> float:
    """Return the share of right words; see `mark`."""
    marked = mark(hyp, ref)
    return float(marked["n_right"] / marked["n"])


def judge(encoder: float, best: float) -> str:
    """Name what the shares of right words by the encoder's and by the best vector say."""
    if encoder >= 0.9:
        return "short"
    part = "part" if best > encoder else "none"
    return "whole" if best == 1 else "room" if best >= 0.9 else part


def mark(hyp: str, ref: str) -> Numbers:
    """Return a hypothesis with its wrong words and omissions marked.

    `n_right` is the number of words that are right, `n` that of the longer of output and reference.
    """
    found, expected = [*WORD.finditer(hyp)], WORD.findall(ref)
    steps = align_words([m[0] for m in found], expected)
    html, end = Markup(), 0
    for is_omitted, its in groupby(steps, key=lambda step: step[0] == "omission"):
        if is_omitted:
            missing = " ".join(expected[j] for _, _, j in its if j is not None)
            html += Markup('<mark class="gap" title="left out: {}">‸</mark>').format(missing)
            continue
        for kind, word in ((kind, found[i]) for kind, i, _ in its if i is not None):
            shown = escape(word[0])
            html += escape(hyp[end : word.start()])
            html += shown if kind == "same" else Markup("<mark>{}</mark>").format(shown)
            end = word.end()
    right = [kind for kind, _, j in steps if j is not None and expected[j][0].isalnum()]
    lengths = (sum(w[0].isalnum() for w in words) for words in ([m[0] for m in found], expected))
    return {"html": html, "n_right": right.count("same"), "n": max(lengths)}


Step = tuple[str, int | None, int | None]
"""same, substitution, insertion or omission; the places in output and reference."""


def align_words(words: Sequence[str], reference: Sequence[str]) -> list[Step]:
    """Align the words of an output with its reference, as difflib does.

    Between two words that are the same, those of both sides are substitutions in order, and what is
    left is inserted or omitted. templates/differences.js does the same in pages.
    """
    kinds = {(True, True): "substitution", (True, False): "insertion", (False, True): "omission"}
    steps = list[Step]()
    matcher = SequenceMatcher(None, words, reference, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        for i, j in zip_longest(range(a, b), range(c, d)):
            steps.append(("same" if kind == "equal" else kinds[i is not None, j is not None], i, j))
    return steps


# -------------------------------------------------------------------------------- Other essays


def describe_head(records: Sequence[Record]) -> Numbers | None:
    """Return what is known of the article's head, the one by which an article finds its noun."""
    trainings = [r for r in records if r.model == TRANSFORMER and rows_of(r, "article")]
    best = [max(rows_of(r, "article"), key=lambda row: row["share"]) for r in trainings]
    in_encoder = [
        (r, b) for r, b in zip(trainings, best, strict=True) if b["attention"] == "encoder"
    ]
    kinds = ("ending", "choice", "order", "omission", "addition")
    endings = [100 * b["ending"] / sum(b[kind] for kind in kinds) for b in best]
    if not in_encoder or min(endings) < 50:
        return None
    shown, row = max(in_encoder, key=lambda pair: pair[1]["share"])
    place = {key: row[key] for key in ("attention", "layer", "head")}
    trained = [{
        "seed": r.seed, "tokens": load.format_short(r.train_config.tokens),
        "where": f"{b['attention']} {b['layer']}.{b['head']}", "share": whole(b["share"]),
        "before": whole(b["before"]), "whole": b["whole"], "exact": b["exact"], "n": b["n"],
        "endings": whole(share),
    } for r, b, share in zip(trainings, best, endings, strict=True)]  # fmt: skip
    muted = [{**m, "lost": row["whole"] - m["exact"], "is_shown": m.items() >= place.items()}
             for m in rows_of(shown, "muting") if m["attention"] != "none"]  # fmt: skip
    maps = [rows_of(shown, "maps", when=when, **place) for when in ("before", "after")]
    words = [{
        "text": after["query"], "is_article": after["noun"] >= 0,
        "weights": [[int(w) for w in row["weights"].split()] for row in (before, after)],
    } for before, after in zip(*maps, strict=True)]  # fmt: skip
    return {
        "share": span(b["share"] for b in best), "before": span(b["before"] for b in best),
        "chance": span(max(b["by_offset"], b["by_part_of_speech"]) for b in best),
        "lost": span(b["whole"] - b["exact"] for b in best), "n": row["n"],
        "endings": span(endings), "n_encoder": len(in_encoder), "n_trainings": len(trainings),
        "trainings": trained, "shown": trained[trainings.index(shown)] | place,
        "muted": muted, "n_idle": sum(m["lost"] <= 0 for m in muted),
        "words": words, "chosen": [word["is_article"] for word in words].index(True),
    }  # fmt: skip


def compare_kernels(records: Sequence[Record]) -> Numbers | None:
    """Return the loss of trained models, in nats, with other weights in place of the softmax's."""
    trained = [r for r in records if r.model == TRANSFORMER and rows_of(r, "kernel")]
    if not trained:
        return None

    def nats(analysis: str, **columns: Any) -> str:
        (values,) = zip(*(
            [row["nats"] for row in rows_of(r, analysis, **columns)] for r in trained
        ), strict=True)  # fmt: skip
        return span(values, "{:.2f}".format)

    names = {"softmax": "softmax", "lengths": "equal lengths", "gaussian": "kernel"}
    return {key: nats("kernel", weights=name) for key, name in names.items()} | {
        "half": nats("bandwidth", factor=0.5), "twice": nats("bandwidth", factor=2.0)
    }  # fmt: skip


def compare_lookup(records: Sequence[Record]) -> Numbers | None:
    """Return the queries that each model answers, in per cent, by number of pairs."""
    groups = load.group_by_model(records)
    needed = {"transformer", "transformer_conv", "linear_attention", "linear_attention_conv"}
    if not needed <= {*groups}:
        return None
    test = records[0].tests[0]
    place = load.longest_trained_bucket(test) or 0
    scores = {
        model: load.score_array(group, test.name, test.primary_metric)[:, 1:, 0]
        for model, group in groups.items()
    }
    for model in ("transformer", "linear_attention"):
        if scores[f"{model}_conv"][:, place].min() <= scores[model][:, place].max():
            return None
    shares = {
        model: {"trained": span(its[:, place]), "most": whole(its[:, -1].mean())}
        for model, its in scores.items()
    }
    return shares | {
        "tokens": tokens_of(records),
        "pairs": format_bucket(test.buckets[place]),
        "most": format_bucket(test.buckets[-1]),
        "baseline": f"{test.buckets[place]['baseline'].value:.1f}",
    }


def compare_sizes(records: Sequence[Record]) -> Numbers | None:
    """Return the bytes that pass to the decoder, of a short and of a long source."""
    groups = load.group_by_model(records).values()
    sizes = [(group[0], group[0].source_bytes) for group in groups if group[0].source_bytes]
    if not sizes:
        return None
    (short, _), *_, (long, _) = sizes[0][1]
    rows_ = list[Numbers]()
    for r, its in sizes:
        size = [load.format_short(n, unit="B") for _, n in (its[0], its[-1])]
        rows_.append(describe_model(r) | {"sizes": size})
    return {"short": short, "long": long, "rows": rows_}


def compare_cups(records: Sequence[Record]) -> Numbers | None:
    """Return the sources whose balls are all found, in per cent, by model and moves."""
    if not records:
        return None
    test, groups = records[0].tests[0], load.group_by_model(records)
    rows_: list[Numbers] = []
    for group in groups.values():
        means = load.score_array(group, test.name, test.primary_metric)[:, 1:, 0].mean(0)
        rows_.append(describe_model(group[0]) | {"shares": [*map(whole, means)], "last": means[-1]})
    return {
        "n_cups": records[0].data["n_cups"], "tokens": tokens_of(records),
        "trained": test.max_train_length, "moves": [*map(format_bucket, test.buckets)],
        "chance": whole(test.buckets[0]["baseline"].value),
        "seeds": span(map(len, groups.values())),
        "rows": rows_, "best": max(rows_, key=lambda row: row["last"]),
    }  # fmt: skip


def read_mirror(folders: Folders) -> Numbers | None:
    """Return the first swap that a memory loses, by β, from the exhibit beside the folders.

    None if it is not the first of all for β = 1, or if there is one for β = 2 and exact keys.
    """
    paths = {folder.path.resolve().parent / "mirror.json" for folder in folders.values()}
    if not (path := next(filter(Path.exists, sorted(paths)), None)):
        return None
    settings, found = read_json(path).values()
    most, by_keys = settings["n_swaps"], dict[str, list[str]]()
    for row in found:
        first = median(error or most + 1 for error in row["first_errors"])
        label = f"{100 * row['noise']:g} % noise" if row["noise"] else "exact"
        shown = f"{first:.0f}" if first <= most else f"> {most:,}"
        by_keys.setdefault(label + ", rounded" * row["is_rounded"], []).append(shown)
    exact = dict(zip(settings["betas"], by_keys["exact"], strict=True))
    if (exact[1.0], exact[2.0]) != ("1", f"> {most:,}"):
        return None
    return {
        "most": f"{most:,}", "n_draws": settings["n_draws"], "n_cups": settings["n_cups"],
        "betas": [f"β {beta:g}" for beta in settings["betas"]],
        "rows": [{"label": label, "firsts": firsts} for label, firsts in by_keys.items()],
    }  # fmt: skip
