"""The numbers and tables of docs/fairness.md and of the trials in tasks/translation/README.md.

Each function named `confirm_…` raises an error where the records no longer support a sentence.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from statistics import mean
from typing import Any

from seqmodels.models import PAPERS
from seqmodels.records.io import load as load_record
from seqmodels.records.schema import Interval
from seqmodels.report.tables import format_markdown
from tools.numbers import (
    BAHDANAU,
    FIVE,
    GPT,
    LOOKING_BACK,
    RESULTS,
    RNN,
    SIX,
    TRANSFORMER,
    Results,
    interval,
    label_of,
    load_runs,
    lowest_loss,
    scores_of,
    span,
)
from tools.page_exhibits import load_exhibit
from tools.page_why import BIBLE_30M, LONG

GRAMMAR, LAPTOP = Results("translation-grammar"), Results("translation-grammar-laptop")


# ------------------------------------------------------------------------------ What is equal
def size_span(folder: str, digits: int = 1) -> str:
    """Format the millions of parameters of the smallest and the largest model of a folder."""
    return span((run.n_parameters / 1e6 for run in load_runs(folder)), digits)


# -------------------------------------------------------------------------------- Optimisers
def folders_by_optimizer() -> dict[str, str]:
    """Return the folders of results whose models each optimiser trained."""
    folders: dict[str, list[str]] = {}
    for folder in sorted(path.parent for path in RESULTS.glob("*/tables.md")):
        record = load_record(min(folder.glob("*-seed*[0-9].json")))
        optimizer = str(record.train_config.get("optimizer", "adamw"))
        folders.setdefault(optimizer, []).append(f"`{folder.name}`")
    return {optimizer: ", ".join(names) for optimizer, names in folders.items()}


def adamw_bleu() -> dict[str, list[float]]:
    """Return the BLEU that each seed of a model had with AdamW, at 31 to 40 words."""
    runs = load_exhibit("adamw")["runs"]
    assert {run["folder"] for run in runs} == {GRAMMAR.folder}
    return {run["model"]: run["bleu"] for run in runs}


def muon_gains() -> dict[str, float]:
    """Return the difference in mean BLEU that Muon makes to each model."""
    return {m: GRAMMAR.mean(m, "31–40") - mean(old) for m, old in adamw_bleu().items()}


def confirm_muon() -> None:
    """Confirm: Muon changes little at 5 million tokens."""
    assert {len(old) for old in adamw_bleu().values()} == {3}
    assert all(abs(gain) < 3 for gain in muon_gains().values())


# --------------------------------------------------------------------------------- Precision
HALVED = Results("translation-grammar-bfloat16")


def precision_table() -> str:
    """Return the scores and losses of the default comparison's first seed in both precisions."""
    rows = [["", "BLEU, float32", "bfloat16", "nats per token on valid, float32", "bfloat16"]]
    for model in FIVE:
        pair = LAPTOP.records(model)[0], HALVED.records(model)[0]
        assert [r.train_config["precision"] for r in pair] == ["float32", "bfloat16"]
        bleu = [scores_of([r], "21–30", "bleu", "length")[0] for r in pair]
        losses = [f"{lowest_loss(r):.3f}" for r in pair]
        rows.append([label_of(model), *(f"{value:.1f}" for value in bleu), *losses])
    return format_markdown(rows)


# ------------------------------------------------------------------------------------ Trials
Trial = dict[str, str]


@cache
def muon_trials(corpus: str) -> list[Trial]:
    """Return the trials with Muon on a corpus, of the translation task's table."""
    path = RESULTS.parent / "tasks" / "translation" / "trials.csv"
    with path.open(encoding="utf-8") as file:
        own = [trial for trial in csv.DictReader(file) if trial["optimizer"] == "muon"]
    return [trial for trial in own if corpus in trial["data"]]


def grammar_trials(is_default: bool = False) -> list[Trial]:
    """Return the trials of the grammar with Muon, by model, tokens, batch and rate.

    They are those of the default comparison, or the others.
    """

    def order(trial: Trial) -> tuple[float, ...]:
        batch, rate = float(trial["batch_tokens"]), float(trial["muon_lr"])
        return [*PAPERS].index(trial["model"]), -int(trial["tokens"]), batch, rate

    own = [t for t in muon_trials("grammar") if (t["tokens"] == "1200000") == is_default]
    return sorted(own, key=order)


def best_trial(trials: Sequence[Trial]) -> Trial:
    """Return the trial with the lowest loss on valid."""
    return min(trials, key=lambda trial: float(trial["valid_nats"]))


def rate_table() -> str:
    """Return the trials of each model of the default comparison; its rates are the best ones.

    The five have equally many.
    """
    rows = [["", "trials", "best, and used: lr / muon_lr", "nats per token on valid"]]
    for m in SIX:
        own = [t for t in grammar_trials(is_default=True) if t["model"] == m]
        best, used = best_trial(own), LAPTOP.records(m)[0].train_config
        assert (float(best["lr"]), float(best["muon_lr"])) == (used.lr, used["muon_lr"])
        rates = f"{used.lr:g} / {used['muon_lr']:g}"
        rows.append([label_of(m), str(len(own)), rates, f"{float(best['valid_nats']):.3f}"])
    assert len({row[1] for row in rows[1:6]}) == 1
    return format_markdown(rows)


def format_trials(trials: Sequence[Trial], *columns: str) -> str:
    """Return a table of trials: columns of the file, and the loss on valid."""
    rows = [[*(c.removesuffix("_tokens") for c in columns), "nats per token on valid"]]
    rows += [[*(t[c] for c in columns), f"{float(t['valid_nats']):.3f}"] for t in trials]
    return format_markdown(rows)


def bible_trial_table() -> str:
    """Return all trials of the Bible with Muon."""
    own = muon_trials("bible")
    own.sort(key=lambda t: (t["model"], int(t["tokens"]), float(t["muon_lr"])))
    return format_trials(own, "model", "changes", "tokens", "muon_lr", "lr")


def batch_rate_table() -> str:
    """Return the best rate of each model in batches of 800 tokens, and the one used in 1,600."""
    trials = grammar_trials()
    large = [t["model"] for t in trials if t["batch_tokens"] == "1600"]
    assert {m: large.count(m) for m in SIX} == dict.fromkeys(SIX, 0) | {GPT: 2, RNN: 3}
    rows = [["model", "best muon_lr", "lr", "muon_lr used", "lr", "muon_lr, used over best"]]
    for m in FIVE:
        key = m, "1600000", "800"
        best = best_trial(
            [t for t in trials if (t["model"], t["tokens"], t["batch_tokens"]) == key]
        )
        used = GRAMMAR.records(m)[0].train_config.model_dump()
        assert used["batch_tokens"] == 1_600
        ratio = used["muon_lr"] / float(best["muon_lr"])
        rates = best["muon_lr"], best["lr"], f"{used['muon_lr']:g}", f"{used['lr']:g}"
        rows.append([m, *rates, f"{ratio:.2f}"])
    return format_markdown(rows)


# -------------------------------------------------------------------------------- The Bible
BIBLE, BIBLE_TWICE = Results("translation-bible"), Results("translation-bible-8m")
BIBLE_MUON = Results("translation-bible-muon")


def transformer_behind(results: Results, bucket: str = "all", metric: str = "bleu") -> float:
    """Return how far the Transformer's first seed is behind Bahdanau's in a score or a loss."""
    ours, theirs = (results.first(m, bucket, metric) for m in (TRANSFORMER, BAHDANAU))
    return ours - theirs if metric == "nats" else theirs - ours


def valid_losses(results: Results, model: str) -> list[float]:
    """Return the losses on valid of a model's first seed, in their order."""
    return [point.valid_nats for point in results.records(model)[0].curve]


def book_scores(results: Results, name: str) -> dict[str, Any]:
    """Return the scores on the books of the Bible that training did not see."""
    systems = load_exhibit(f"{results.folder}/test_books")["systems"]
    (scores,) = [scores for scores in systems if scores["name"] == name]
    return dict(scores)


def book_bleu(model: str) -> float:
    """Return the BLEU on unseen books of a model that Muon trained."""
    return float(book_scores(BIBLE_MUON, model)["overall"]["bleu"]["value"])


def confirm_bible_budgets() -> None:
    """Confirm: with twice the budget, the Transformer is half as far behind in loss."""
    once, twice = (transformer_behind(results, metric="nats") for results in (BIBLE, BIBLE_TWICE))
    assert 0.45 < twice / once < 0.55


def confirm_bible_muon() -> None:
    """Confirm: Muon gains in loss and BLEU; the Transformer is behind at each validation."""
    for m in LOOKING_BACK:
        assert min(valid_losses(BIBLE_MUON, m)) < min(valid_losses(BIBLE, m))
        assert BIBLE_MUON.first(m) > BIBLE.first(m)
    curves = [valid_losses(BIBLE_MUON, m) for m in (BAHDANAU, TRANSFORMER)]
    assert all(b < t for b, t in zip(*curves, strict=True))
    assert book_scores(BIBLE_MUON, TRANSFORMER)["against_first"]["bleu"]["p"] < 0.05


def bible_long_table() -> str:
    """Return BLEU and the last losses of the models that were trained on 30 million tokens."""
    rows = [["", "BLEU, 4 M", "BLEU, 30 M", "unseen books, 4 M", "unseen books, 30 M"]]
    rows[0].append("last three losses on valid")
    for m in (RNN, BAHDANAU, TRANSFORMER):
        losses = valid_losses(BIBLE_30M, m + LONG)
        assert min(losses) == losses[-1]
        on_test = BIBLE_30M.records(m + LONG)[0].tests[0].overall["bleu"]
        earlier = ("–", "–")  # Muon did not train the RNN on four million tokens
        if m != RNN:
            earlier = (f"{BIBLE_MUON.first(m):.1f}", f"{book_bleu(m):.1f}")
        on_books = Interval(**book_scores(BIBLE_30M, m)["overall"]["bleu"])
        scores = earlier[0], interval(on_test), earlier[1], interval(on_books)
        last = ", ".join(f"{x:.2f}" for x in losses[-3:])
        rows.append([label_of(m), *scores, last])
    return format_markdown(rows)


# ------------------------------------------------------------------------------- Calibration
def confirm_calibration() -> None:
    """Confirm: no family has an error above 6 %, and no interval covers less than 90 %."""
    families = load_exhibit("calibration")["folders"]
    assert {f["folder"] for f in families} >= {"choices", "positions", "translation-grammar"}
    assert max(f["error"] for f in families) <= 6
    assert min(f["lowest"] for f in families) >= 90


def calibration_table() -> str:
    """Return error and coverage in the designs of the committed records."""
    families: dict[str, list[dict[str, Any]]] = {}
    for family in load_exhibit("calibration")["folders"]:
        families.setdefault(family["folder"], []).append(family)
    rows = [["", "seeds", "tests", "family-wise error", "coverage, mean", "lowest pair and bucket"]]
    for folder, own in families.items():
        n_seeds = sorted({n for f in own for n in f["seeds"]})
        n_tests = sorted({f["tests"] for f in own})
        worst = max(f["error"] for f in own), min(f["mean"] for f in own)
        shares = [f"{x:.1f} %" for x in (*worst, min(f["lowest"] for f in own))]
        rows.append([folder, ", ".join(map(str, n_seeds)), ", ".join(map(str, n_tests)), *shares])
    return format_markdown(rows)


def power_table() -> str:
    """Return error and power of a generic design, by seeds and the spread of seeds."""
    cells = {(c["seeds"], c["tau"], c["sd"]): c for c in load_exhibit("calibration")["generic"]}
    assert max(c["error"] for c in cells.values()) <= 6
    seeds, _, spreads = (sorted(set(values)) for values in zip(*cells, strict=True))
    rows = [["seeds", "models"]]
    rows[0] += [f"{what}, {sd:g}" for what in ("error", "found") for sd in spreads]
    for n in seeds:
        for tau, kind in ((0.0, "equal spread"), (1.0, "unequal")):
            own = [cells[n, tau, sd] for sd in spreads]
            errors, power = (
                [f"{c['error']:.1f} %" for c in own],
                [f"{c['power']:.0f} %" for c in own],
            )
            rows.append([str(n), kind, *errors, *power])
    return format_markdown(rows)
