"""The numbers and tables of README, docs/results.md and the pages of tasks, by section.

Each function named `confirm_…` raises an error where the records no longer support a sentence.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path
from statistics import mean

import numpy as np

from seqmodels.records.io import load as load_record
from seqmodels.records.significance import Difference
from seqmodels.report import ledger
from seqmodels.report.load_records import format_short, load_records
from seqmodels.report.tables import format_markdown
from tasks.bottleneck.figure import compute_bits, find_plateaus
from tasks.heads.figure import format_article_heads
from tasks.ladder.figure import compute_gains
from tasks.lookup.figure import compute_bytes, find_step
from tools.numbers import (
    BAHDANAU,
    FIVE,
    GPT,
    LINEAR,
    LSTM,
    RESULTS,
    RNN,
    SIX,
    TRANSFORMER,
    Record,
    Results,
    bold_interval,
    effect,
    label_of,
    load_runs,
    lowest_loss,
    scores_of,
    span,
    table,
)
from tools.page_memories import DELTA

ROTARY = "transformer_rotary"


def count_seeds(folders: str) -> Counter[tuple[str, str]]:
    """Return the number of seeds of each folder and model; the folders are a pattern of names."""
    paths = RESULTS.glob(f"{folders}/*-seed*[0-9].json")
    return Counter((path.parent.name, path.name.rpartition("-seed")[0]) for path in paths)


def trained_on_gpu(folder: str, model: str) -> bool:
    """Return whether the records of a model's runs name an H200 as their device."""
    return all("H200" in run.provenance.device for run in load_runs(folder, model))


def moved_runs() -> list[str]:
    """Return the runs that were resumed on another device."""
    names = []
    for path in sorted(RESULTS.glob("*/*-seed*[0-9].json")):
        run = load_record(path)
        if any("device" in event.what for event in run.events if event.kind == "resumed"):
            names.append(f"`{path.parent.name}/{path.stem}`")
    return names


# ---------------------------------------------------------------------------------- Grammar
GRAMMAR = Results("translation-grammar")
LAPTOP = Results("translation-grammar-laptop")


def grammar_table() -> str:
    """Return BLEU by source length after five million tokens."""
    buckets = {"1–10 words": "1–10", "11–20": "11–20", "21–30": "21–30"}
    buckets |= {"31–40, longest in training": "31–40", "41–50": "41–50", "71–80": "71–80"}
    return GRAMMAR.table(FIVE, buckets)


def share_of_shortest(model: str, bucket: str = "31–40") -> float:
    """Return the BLEU in a bucket of the grammar, in % of that on the shortest sentences."""
    return 100 * GRAMMAR.mean(model, bucket) / GRAMMAR.mean(model, "1–10")


def confirm_grammar() -> None:
    """Confirm: beyond training, GPT has the highest loss and more BLEU than the RNN."""
    GRAMMAR.confirm(FIVE, tokens=5_000_000, parameters=1e6, seeds=3)
    losses = {m: GRAMMAR.mean(m, "71–80", "nats") for m in FIVE}
    assert losses[GPT] == max(losses.values())
    assert GRAMMAR.mean(GPT, "71–80") > GRAMMAR.mean(RNN, "71–80")


def confirm_laptop() -> None:
    """Confirm: at 21 to 30 words, models that look back have 90 BLEU, the others 30 at most."""
    LAPTOP.confirm(SIX, tokens=1_200_000, parameters=0.5e6, seeds=5)
    for model in (BAHDANAU, TRANSFORMER, GPT):
        assert LAPTOP.mean(model, "21–30") >= 90
        assert min(LAPTOP.seeds(model, "21–30")) >= 85
    assert all(LAPTOP.mean(model, "21–30") <= 30 for model in (RNN, LSTM))


# ---------------------------------------------------------------------------------- Budgets
BUDGETS = Results("budgets")
TOKENS = 1_600_000, 5_000_000, 15_000_000, 40_000_000


def at_budget(model: str, tokens: int) -> list[float]:
    """Return each seed's BLEU at 31 to 40 words after a budget."""
    name = model if tokens == 5_000_000 else f"{model}-tokens-{tokens}"
    return BUDGETS.seeds(name, "31–40")


def confirm_budgets() -> None:
    """Confirm: each budget gains more than ten points, and the largest does not overfit."""
    assert at_budget(RNN, 40_000_000)[0] > max(at_budget(RNN, 15_000_000)) + 10
    for model in (RNN, LSTM):
        assert min(at_budget(model, 15_000_000)) > max(at_budget(model, 5_000_000)) + 10
    (longest,) = BUDGETS.records(f"{RNN}-tokens-40000000")
    last = longest.curve[-1]
    assert lowest_loss(longest) == last.valid_nats
    assert abs(last.train_nats - last.valid_nats) < 0.01


@cache
def runs_by_cell() -> dict[tuple[str, int, int, int], list[Record]]:
    """Return the records of each model, width, tokens per batch and budget."""
    runs = [*load_records(RESULTS / "budgets"), *load_records(RESULTS / "widths")]
    by_name = {(r.model, r.seed): r for r in runs}
    best = min(load_records(RESULTS / "batches"), key=lowest_loss)  # of three learning rates
    cells: dict[tuple[str, int, int, int], list[Record]] = {}
    for r in [*by_name.values(), best]:
        cfg, model = r.train_config, r.model.partition("-")[0]
        key = model, r.size("d_model"), int(cfg["batch_tokens"] or 0), cfg.tokens
        cells.setdefault(key, []).append(r)
    return cells


def width_scores(width: int, tokens: int, batch_tokens: int = 1_600) -> list[float]:
    """Return each seed's BLEU at 31 to 40 words of the RNN with a vector of this width."""
    return scores_of(runs_by_cell()[RNN, width, batch_tokens, tokens], "31–40", "bleu", "length")


def dash(values: list[float]) -> str:
    """Format the lowest and the highest value with a dash between them."""
    return span(values).replace(" to ", "–")


def width_table() -> str:
    """Return BLEU at 31 to 40 words, and the mean loss on valid, by width, batch and budget."""
    cells = runs_by_cell()
    rows = [["model, numbers, batch", *(f"{format_short(n)} tokens" for n in TOKENS)]]
    for model in (RNN, LSTM):
        for width, batch in sorted({key[1:3] for key in cells if key[0] == model}):
            texts = []
            for tokens in TOKENS:
                own = cells.get((model, width, batch, tokens), [])
                bleu = scores_of(own, "31–40", "bleu", "length")
                texts.append(f"{span(bleu, 1)} ({mean(map(lowest_loss, own)):.2f})" if own else "–")
            numbers = 2 * width if model == LSTM else width
            rows.append([f"{label_of(model).split()[0]}, {numbers}, {batch:,}", *texts])
    return format_markdown(rows)


def confirm_widths() -> None:
    """Confirm: at 15 M tokens, twice the numbers make as large a difference as three budgets.

    Batches hardly make one.
    """
    half, usual, twice = (width_scores(width, 15_000_000) for width in (100, 200, 400))
    assert max(half) < min(twice)
    assert max(twice) < min(usual)
    assert min(usual) > max(width_scores(200, 5_000_000)) + 10
    assert mean(usual) - mean(half) >= mean(usual) - mean(width_scores(200, 5_000_000))
    assert (len(usual), len(half), len(twice)) == (3, 1, 1)
    assert max(width_scores(100, 5_000_000)) < min(width_scores(200, 5_000_000)) - 5
    assert max(width_scores(200, 1_600_000, 400)) < max(width_scores(200, 1_600_000)) + 2


# ---------------------------------------------------------------------------------- Look-up
LOOKUP = Results("lookup", "query", "exact_match", "{:.1f} %")
CONVOLUTION, STATES, CORRECTED = (
    Results(f"lookup-{name}", "query", "exact_match", "{:.0f} %")
    for name in ("convolution", "state", "heads")
)
LOOKUP_WIDTHS = {d: LOOKUP._replace(folder=f"lookup-width-{d}") for d in (32, 64, 128, 256)}
LOOKED_UP = [RNN, BAHDANAU, LSTM, TRANSFORMER, ROTARY, GPT, LINEAR]
CONVOLVED = "linear_attention_conv"
HEADS = {
    (model, n): model + (f"-n_heads-{n}" if n != 2 else "")
    for model, n in product((DELTA, CONVOLVED), (1, 2, 4, 8, 16))
}


def answer_with(model: str, width: int) -> str:
    """Format the queries of 8 pairs that a model of this width answers, and what it keeps."""
    (run,) = LOOKUP_WIDTHS[width].records(model)
    kept = compute_bytes(run, run.cache_bytes) / 1e3
    return f"{LOOKUP_WIDTHS[width].mean(model, '8'):.0f} % with {kept:.1f} kB"


def lookup_step_table() -> str:
    """Return the steps after which 95 % of the queries are answered correctly."""
    rows = {}
    for model in (BAHDANAU, ROTARY, GPT):
        steps = [find_step(run) for run in LOOKUP.records(model)]
        assert all(steps), model
        rows[label_of(model)] = [span(filter(None, steps))]
    return table(["", "steps"], rows)


def lookup_state_table() -> str:
    """Return the queries answered by Gated DeltaNet and linear attention with 1 to 16 heads."""
    pairs = "8", "16", "32", "64"
    rows = [["", "matrices and sums of a layer", *(f"{n} pairs" for n in pairs), "range at 32"]]
    kept = [(STATES, "gpt_conv", label_of("gpt_conv"), "128 a token")]
    for (model, n), m in HEADS.items():
        results, sums = (CORRECTED, 0) if model == DELTA else (STATES, 64)
        kept.append((results, m, f"{label_of(model)}, d_k {64 // n}", f"{64 * 64 // n + sums:,}"))
    for results, m, *cells in kept:
        rows.append([*cells, *results.texts(m, pairs), f"{span(results.seeds(m, '32'))} %"])
    return format_markdown(rows)


# ---------------------------------------------------------------------------------- Ladder
LADDER = Results("ladder")
BIAS = Results("ladder-bias")
FORWARDS = "lstm_seq2seq_forward"


def step_gain(row: str, column: str) -> Difference:
    """Return the difference in BLEU at 16 to 20 words between two steps of the ladder."""
    return LADDER.difference(LSTM + row, LSTM + column, "16–20")


def backwards_gains() -> list[float]:
    """Return by how much reading backwards lowers the last loss on valid, by seed."""
    runs = zip(LADDER.records(FORWARDS), LADDER.records(LSTM), strict=True)
    return [f.curve[-1].valid_nats - b.curve[-1].valid_nats for f, b in runs]


def confirm_ladder() -> None:
    """Confirm: reading backwards lowers every loss; input feeding matters to the last vector."""
    LADDER.confirm([LSTM, FORWARDS], tokens=1_400_000, parameters=0.6e6, seeds=3)
    rates = {r.train_config.lr for r in load_records(RESULTS / LADDER.folder)}
    assert rates == {1.6e-2}
    assert all(gain > 0 for gain in backwards_gains())
    assert step_gain("_last_fed", "_last").is_significant
    scores = "_dot", "_general", "_additive"
    assert not any(step_gain(f"{score}_fed", score).is_significant for score in scores)


def ladder_table() -> str:
    """Return BLEU at 16 to 20 words of each step, and its difference from another."""
    steps = [
        ("read backwards", "", "_forward", "read forwards"),
        ("the last vector at every step", "_last", "", "read backwards"),
        ("dot attention", "_dot", "_last", "last vector"),
        ("general attention", "_general", "_last", "last vector"),
        ("additive attention", "_additive", "_last", "last vector"),
        ("input feeding, last vector", "_last_fed", "_last", "last vector"),
        ("input feeding, dot", "_dot_fed", "_dot", "dot"),
        ("input feeding, general", "_general_fed", "_general", "general"),
        ("input feeding, additive", "_additive_fed", "_additive", "additive"),
    ]
    rows = [["step", "BLEU", "difference", "from"]]
    rows.append(["read forwards", f"{LADDER.mean(FORWARDS, '16–20'):.1f}", "", ""])
    for name, row, column, base in steps:
        bleu = f"{LADDER.mean(LSTM + row, '16–20'):.1f}"
        rows.append([name, bleu, bold_interval(step_gain(row, column)), base])
    return format_markdown(rows)


def place_table() -> str:
    """Return the gain in next-word accuracy from reading backwards, by quarter of the target."""
    gains = compute_gains({model: LADDER.records(model) for model in (LSTM, FORWARDS)})
    cells = [f"{v:.1f} [{low:.1f}, {high:.1f}]".replace("-", "−") for v, low, high in gains.T]
    return format_markdown([["first", "second", "third", "last"], cells])


def with_bias(model: str, bias: int) -> str:
    """Return the name of a model that starts with this forget bias."""
    return model if bias == 2 else f"{model}-forget_bias-0.0"


def bias_gain(bias: int, metric: str) -> Difference:
    """Return the difference that reading backwards makes with a forget bias."""
    return BIAS.difference(with_bias(LSTM, bias), with_bias(FORWARDS, bias), metric=metric)


def confirm_bias() -> None:
    """Confirm: reading backwards lowers each loss; it raises BLEU only without the bias."""
    for bias in (0, 2):
        runs = [BIAS.seeds(with_bias(m, bias), metric="nats") for m in (LSTM, FORWARDS)]
        assert all(back < forth for back, forth in zip(*runs, strict=True))
        assert bias_gain(bias, "nats").is_significant
    assert [effect(bias_gain(bias, "bleu")) for bias in (0, 2)] == [1, 0]
    assert bias_gain(2, "bleu").value < 0
    closed, opened = (BIAS.mean(with_bias(FORWARDS, bias), metric="nats") for bias in (0, 2))
    assert closed - opened > -bias_gain(0, "nats").value


def bias_table() -> str:
    """Return loss and BLEU in both directions, without and with a forget bias, and differences."""
    cells = [("nats", 0), ("nats", 2), ("bleu", 0), ("bleu", 2)]
    digits = {"nats": 3, "bleu": 1}
    rows = [["", "loss, bias 0", "loss, bias 2", "BLEU, bias 0", "BLEU, bias 2"]]
    for name, model in (("read forwards", FORWARDS), ("read backwards", LSTM)):
        means = [(BIAS.mean(with_bias(model, b), metric=m), digits[m]) for m, b in cells]
        rows.append([name, *(f"{value:.{n}f}" for value, n in means)])
    rows.append(["difference", *(bold_interval(bias_gain(b, m), digits[m]) for m, b in cells)])
    return format_markdown(rows)


# ---------------------------------------------------------------------------------- Distance
DISTANCE = Results("distance")


def gradient_ratios(*models: str) -> list[float]:
    """Return the gradient at 1 token over that at 23, before training, for every seed."""
    ratios = []
    for rows in (rows for m in models for rows in DISTANCE.analyses(m, "gradients", when="before")):
        median = {row["distance"]: row["median"] for row in rows}
        ratios.append(median[1] / median[23])
    return ratios


def probed(model: str, **columns: int) -> float:
    """Return the mean share (%) of the symbols that a linear probe recovers."""
    return mean(row["accuracy"] for row in DISTANCE.rows(model, "probe", **columns))


def confirm_distance() -> None:
    """Confirm: the probe recovers most from linear attention."""
    DISTANCE.confirm(SIX, tokens=1_000_000, parameters=0.24e6, seeds=3)
    assert all(probed(LINEAR) > probed(m) for m in FIVE)


def distance_table() -> str:
    """Return the fall of the gradient with distance, and the symbols that a probe recovers."""
    rows = [["", "gradient at 1 over 23 tokens", "first symbol", "middle", "all"]]
    for model in SIX:
        ratios = gradient_ratios(model)
        shares = [probed(model, back=24), probed(model, back=12), probed(model)]
        ratio = span(ratios, 1 if max(ratios) < 10 else 0)
        rows.append([label_of(model), ratio, *(f"{share:.0f} %" for share in shares)])
    return format_markdown(rows)


# -------------------------------------------------------------------------------- Bottleneck
BOTTLENECK = Results("bottleneck")
WIDTHS = 32, 64, 128, 256, 512
POOLED = 1, 2, 4, 8, 16


def transmitted_bits(model: str) -> np.ndarray:
    """Return the bits that each seed transmits at the largest number of symbols."""
    return compute_bits({model: BOTTLENECK.records(model)})[model][:, -1, 0]


@cache
def plateaus() -> dict[int, np.ndarray]:
    """Return the most bits that each seed transmits, by the width of the one vector."""
    return find_plateaus({f"{RNN}_{d}": BOTTLENECK.records(f"{RNN}_{d}") for d in WIDTHS})


def confirm_bottleneck() -> None:
    """Confirm: twice the numbers carry less than twice the bits, and one pooled vector more."""
    BOTTLENECK.confirm([f"{RNN}_256"], tokens=2_000_000, parameters=0.9e6, seeds=3)
    BOTTLENECK.confirm(["bahdanau_1"], tokens=2_000_000, parameters=0.157e6, seeds=3)
    rates = {d: BOTTLENECK.records(f"{RNN}_{d}")[0].train_config.lr for d in WIDTHS}
    assert rates == {d: 8e-3 if d < 256 else 4e-3 for d in WIDTHS}
    most = plateaus()
    assert all(2 * most[d].mean() > most[2 * d].mean() for d in WIDTHS[:-1])
    pooled = {k: transmitted_bits(f"bahdanau_{k}") for k in POOLED}
    assert pooled[1].min() > transmitted_bits(f"{RNN}_256").max()
    assert max(pooled, key=lambda k: float(np.ptp(pooled[k]))) == 16


# --------------------------------------------------------------------------------- Positions
POSITIONS = Results("positions")
SINUSOIDS, LEARNED = "transformer_sinusoids", "transformer_learned"
KINDS = SINUSOIDS, LEARNED, ROTARY
ALIBI = "transformer_alibi"


def confirm_positions() -> None:
    """Confirm: just beyond training, rotary positions lead with every seed; far beyond, none."""
    POSITIONS.confirm([ROTARY, LEARNED], tokens=1_400_000, parameters=1e6, seeds=7)
    for other in (SINUSOIDS, LEARNED):
        assert min(POSITIONS.seeds(ROTARY, "21–25")) > max(POSITIONS.seeds(other, "21–25"))
        assert POSITIONS.difference(ROTARY, other, "21–25").is_significant
        assert not POSITIONS.difference(ROTARY, other, "56–60").is_significant
    pairs = (SINUSOIDS, LEARNED, "56–60"), *product([ALIBI], KINDS, ["21–25", "56–60"])
    assert not any(POSITIONS.difference(*pair).is_significant for pair in pairs)


# ------------------------------------------------------------------------------------- Bible
BIBLE, BIBLE_TWICE = Results("translation-bible"), Results("translation-bible-8m")
VERSES = "1–10", "11–20", "21–30", "31–40", "41–50", "51–60"


def confirm_bible() -> None:
    """Confirm: Bahdanau's lead over the Transformer is not significant; both lead over GPT."""
    BIBLE.confirm(FIVE, tokens=4_000_000, parameters=2e6, seeds=3)
    assert {r.data["n_train"] for m in FIVE for r in BIBLE.records(m)} == {28_944}
    pairs = (BAHDANAU, TRANSFORMER), (BAHDANAU, GPT), (TRANSFORMER, GPT)
    assert [effect(BIBLE.difference(*pair)) for pair in pairs] == [0, 1, 1]


# ---------------------------------------------------------------------------------- Multi30k
CAPTIONS = Results("translation-multi30k")
GREEDY = Results("translation-multi30k", "greedy")
INTO_GERMAN = Results("translation-multi30k-en-de")


def lost_by_length(model: str) -> float:
    """Return the BLEU that is lost from the shortest captions to the next bucket."""
    return CAPTIONS.mean(model, "1–10") - CAPTIONS.mean(model, "11–20")


def confirm_captions() -> None:
    """Confirm: the Transformer has a lower loss than Bahdanau, and no higher BLEU."""
    for models, n in (([LSTM, GPT], 1), ([RNN, BAHDANAU, TRANSFORMER], 2)):
        CAPTIONS.confirm(models, tokens=7_000_000, parameters=4e6, seeds=n)
    assert CAPTIONS.mean(TRANSFORMER, metric="nats") < CAPTIONS.mean(BAHDANAU, metric="nats")
    assert CAPTIONS.mean(TRANSFORMER) < CAPTIONS.mean(BAHDANAU)


def published(source: str) -> dict[str, str]:
    """Return model -> the BLEU that a source in the ledger of published figures printed."""
    (entry,) = [entry for entry in ledger.load_ledger(RESULTS) if entry.source.startswith(source)]
    return {f.model: f.value for f in entry.figures if f.model and f.metric == "bleu"}


# ------------------------------------------------------------------------------- Next tokens
SHAKESPEARE = Results("next_token-shakespeare", "whole", "nats", "{:.2f}")
NOVEL = Results("next_token-war-and-peace", "context", "bits_per_byte", "{:.2f}")
WORDS = Results("next_token", "distance", "exact_match", "{:.0f} %")
STORIES = Results("next_token", "context", "bits_per_byte")
DISTANCES = "8", "16", "32", "64", "128", "256"
SOURCE_LOSS = Results("next_token-source-loss", "context")
SOURCE_LOSS_WORDS = SOURCE_LOSS._replace(test="distance", metric="exact_match")
WITH_SOURCE_LOSS = "gpt-source_loss-1.0"


def confirm_shakespeare() -> None:
    """Confirm: the RNN has the lowest loss, and the Transformer and GPT the highest."""
    losses = {m: SHAKESPEARE.mean(m) for m in FIVE}
    assert losses[RNN] == min(losses.values())
    highest = f"{max(losses.values()):.2f}"
    assert [f"{losses[m]:.2f}" for m in (TRANSFORMER, GPT)] == [highest, highest]


def confirm_novel() -> None:
    """Confirm: with the longest context, the RNN has the lowest loss and GPT the highest."""
    NOVEL.confirm(FIVE, tokens=3_000_000, parameters=1.5e6, seeds=1)
    assert f"{3e6 / NOVEL.records(RNN)[0].data.count('n_tokens_train'):.1f}" == "3.3"
    losses = {m: NOVEL.mean(m, "512") for m in FIVE}
    assert losses[RNN] == min(losses.values())
    assert losses[GPT] == max(losses.values())


def lstm_words() -> float:
    """Return the largest share (%) of needed words that an LSTM writes, at any distance."""
    return max(WORDS.mean(m, n) for m in (LSTM, FORWARDS) for n in DISTANCES)


def confirm_words() -> None:
    """Confirm: neither LSTM has learned to write the word."""
    WORDS.confirm([*SIX, FORWARDS], tokens=600_000, parameters=1e6, seeds=1)
    assert lstm_words() < 6


def word_table(models: list[str], *distances: str) -> str:
    """Return the shares of stories in which the needed word is written, by distance."""
    names = {"8": "8 words", "64": "64, longest in training"}
    return WORDS.table(models, {names.get(n, n): n for n in distances})


def confirm_source_loss() -> None:
    """Confirm: with the loss on the source fewer words are written; no gain is significant."""
    assert max(SOURCE_LOSS_WORDS.seeds(WITH_SOURCE_LOSS)) < min(SOURCE_LOSS_WORDS.seeds(GPT))
    for results in (SOURCE_LOSS, SOURCE_LOSS_WORDS):
        assert not results.difference(WITH_SOURCE_LOSS, GPT).is_significant


# ------------------------------------------------------------------------------------ Others
RECALL = Results("recall", "copy", "accuracy", "{:.0f} %")


def in_place(models: list[str], n: str = "32") -> list[float]:
    """Return the share (%) of symbols in place of each model, copied and reversed."""
    return [RECALL._replace(test=kind).mean(m, n) for m in models for kind in ("copy", "reverse")]


def article_table(folder: str) -> str:
    """Return the head of each run that finds the noun of an article."""
    return format_markdown(format_article_heads(load_records(RESULTS / folder)))


SECTIONS = tomllib.loads(Path(__file__).with_name("sections.toml").read_text(encoding="utf-8"))
"""The sections of the page, and the folder of each, or a pattern of folders."""


def sections_by_seeds() -> dict[str, list[str]]:
    """Return the sections of each number of seeds ("2 to 3"), most first."""
    by_count: dict[str, list[str]] = {}
    counts = {name: count_seeds(folders) for name, folders in SECTIONS.items()}
    everywhere = {folder for folder, _ in count_seeds("*")} - {"translation-live", "words"}
    assert everywhere == {folder for own in counts.values() for folder, _ in own}
    for name, own in counts.items():
        if own:  # not all comparisons have records
            by_count.setdefault(span(own.values()), []).append(name)
    return dict(sorted(by_count.items(), reverse=True))
