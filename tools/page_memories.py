"""The paragraphs on memories of fixed size: keys given again, cups, translation.

Where results/ has no records of it, a paragraph names the command that makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seqmodels.models import papers
from seqmodels.report.tables import format_markdown
from tools.numbers import (
    RESULTS,
    SIX,
    Results,
    bold_interval,
    label_of,
    say,
    score_table,
    span,
)

MAMBA, DELTA, SUM = "mamba2", "gated_deltanet", "gated_deltanet_sum"
FADE, CORRECT = "gated_deltanet_fade", "gated_deltanet_delta"
RULES = {SUM: "adds up", FADE: "forgets", CORRECT: "corrects", DELTA: "forgets and corrects"}
"""What the memory of each model does; they differ in these two switches alone."""
PLANNED = [(DELTA, SUM), (DELTA, FADE), (DELTA, CORRECT), (CORRECT, SUM), (FADE, SUM)]
"""The contrasts of these rules, which `tasks/recipes.py` names."""
AGAIN = Results("lookup-again", "query", "exact_match")
CUPS = {n: Results(f"tracking-{n}", "moves", "exact_match") for n in (3, 2, 5)}
LAPTOP = Results("translation-grammar-laptop")
LEARNED = 90.0
"""Percent of the sources from which a number of moves counts as learned."""


def list_recorded(results: Results) -> list[str]:
    """Return the models and variants that a folder has records of, in order of history."""
    folder = RESULTS / results.folder
    return [m for m in papers() if any(folder.glob(f"{m}-seed*[0-9].json"))]


def list_laptop() -> list[str]:
    """Return the models of the default comparison of translation, and those that came after."""
    return [*SIX, *(m for m in (MAMBA, DELTA) if m in list_recorded(LAPTOP))]


def join_names(models: Iterable[str]) -> str:
    """Return the labels of models as a list in a sentence, without commas of their own."""
    return ", ".join(label_of(m).replace(",", " with") for m in models) or "no model"


def say_missing(command: str) -> None:
    """Print that there are no records, and the command that makes them."""
    say(f"There is no record of this comparison yet; `{command}` makes it.")


def say_again() -> None:
    """Print what is answered if keys are given again, by the rule that writes."""
    models = list_recorded(AGAIN)
    if not RULES.keys() <= {*models}:
        names = f"{' '.join(RULES)} gpt --out results/lookup-again"
        say_missing(f"python -m tasks.lookup --again --seeds 1 2 3 4 5 --models {names}")
        return
    print("![queries answered, by the pairs](../results/lookup-again/score-query.svg)\n")
    trained = ", ".join(f"{rule}: {span(AGAIN.seeds(m, '8'), 1)} %" for m, rule in RULES.items())
    beyond = ", ".join(f"{rule}: {AGAIN.mean(m, '16'):.0f} %" for m, rule in RULES.items())
    others = "; ".join(
        f"{label_of(m)} {AGAIN.mean(m, '8'):.0f} and {AGAIN.mean(m, '16'):.0f} %"
        for m in models if m not in RULES
    )  # fmt: skip
    say(f"""
**Observed** ([records](../results/lookup-again), [rules](../results/rules-lookup.svg)): With 8
pairs, the most in training, the four memories answer, from seed to seed: {trained}. With 16, on
average: {beyond}. {f"With 8 and 16: {others}." if others else ""}
""")
    print("\nDifferences in points, named before the records were made. Bold: significant.\n")
    rows = [["", "8 pairs, most in training", "16 pairs", "all"]]
    for row, column in PLANNED:
        found = [AGAIN.difference(row, column, bucket) for bucket in ("8", "16", "all")]
        rows.append([f"{RULES[row]} − {RULES[column]}", *map(bold_interval, found)])
    print(format_markdown(rows))


def confirm_again() -> None:
    """Raise AssertionError unless the questions' sentence on keys given again holds."""
    if RULES.keys() <= {*list_recorded(AGAIN)}:
        means = [AGAIN.mean(m, "16") for m in (DELTA, CORRECT, FADE, SUM)]
        assert abs(means[0] - means[1]) < 1 < means[0] - means[2] < means[0] - means[3]
        assert AGAIN.difference(DELTA, FADE, "16").is_significant
        assert not AGAIN.difference(DELTA, SUM, "16").is_significant


def say_tracking() -> None:
    """Print who follows the cups, for each number of cups that has records."""
    recorded = {n: models for n, results in CUPS.items() if (models := list_recorded(results))}
    if 3 not in recorded:
        say_missing("python -m tasks.tracking --seeds 1 2 3 4 5 --out results/tracking-3")
        return
    print("![balls found, by the moves](../results/tracking-3/score-moves.svg)\n")
    say(describe_tracking(recorded[3]))
    moves = {"4 moves": "4", "8, most in training": "8"} | {n: n for n in ("16", "32", "96")}
    for n, models in recorded.items():
        print(f"\nAll balls found, {n} cups:\n")
        columns = {name: (CUPS[n], bucket) for name, bucket in moves.items()}
        print(score_table(models, columns, "{:.0f} %", baseline="chance"))


def describe_tracking(models: Sequence[str]) -> str:
    """Return which models follow three cups in training and beyond."""
    results = CUPS[3]
    at = {m: (results.mean(m, "8"), results.mean(m, "96")) for m in models}
    learned = [m for m in models if at[m][0] >= LEARNED]
    others = [at[m][0] for m in models if m not in learned]
    best, n_seeds = max(models, key=lambda m: at[m][1]), [len(results.records(m)) for m in models]
    rest = f", by the others in {span(others)} %" if others else ""
    chance = results.mean(best, "96", "baseline")
    return f"""
**Observed** ([records](../results/tracking-3), seeds: {span(n_seeds)}): With 8 moves, the most in
training, all balls are found in at least {LEARNED:.0f} % of the sources, on average, by
{join_names(learned)}{rest}. With 96 moves, {label_of(best)} finds them most often, in
{span(results.seeds(best, "96"))} %, from seed to seed; chance is {chance:.0f} %. This is what
these models have learned with this budget, and not what they can represent: with weights set by
hand, the delta rule [follows thousands of
swaps](../tasks/tracking/README.md#a-swap-is-a-mirror).
"""


def say_after_2020() -> None:
    """Print what Mamba-2 and Gated DeltaNet score in the default comparison of translation."""
    models = [m for m in list_laptop() if m not in SIX]
    if not models:
        say_missing("python -m tasks.translation --seeds 1 2 3 4 5 --models mamba2 gated_deltanet")
        return
    parts = []
    for m in models:
        scores = [f"{LAPTOP.mean(m, bucket):.1f}" for bucket in ("21–30", "31–40", "51–60")]
        assert len(LAPTOP.seeds(m, "21–30")) == 1
        parts.append(f"{label_of(m)} has {', '.join(scores)} BLEU (one seed, not tested)")
    say(f"At 21–30, 31–40 and 51–60 words, {'; '.join(parts)}.")
