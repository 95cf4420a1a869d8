"""The paragraphs on memories of fixed size: keys given again, cups, translation."""

from __future__ import annotations

from collections.abc import Sequence

from seqmodels.models import papers
from tools.numbers import (
    LINEAR,
    RESULTS,
    SIX,
    Results,
    bold_interval,
    label_of,
    say,
    span,
    table,
)

MAMBA, DELTA, SUM = "mamba2", "gated_deltanet", "gated_deltanet_sum"
FADE, CORRECT = "gated_deltanet_fade", "gated_deltanet_delta"
EIGHT = [*SIX, MAMBA, DELTA]  # of the default comparison, and those that came after
RULES = {SUM: "adds up", FADE: "forgets", CORRECT: "corrects", DELTA: "forgets and corrects"}
"""What the memory of each model does; they differ in these two switches alone."""
PLANNED = [(DELTA, SUM), (DELTA, FADE), (DELTA, CORRECT), (CORRECT, SUM), (FADE, SUM)]
"""Contrasts that `tasks/recipes.py` names."""
AGAIN, ONCE = (Results(f"lookup-{name}", "query", "exact_match") for name in ("again", "rules"))
CUPS = {n: Results(f"tracking-{n}", "moves", "exact_match", "{:.0f} %") for n in (3, 2, 5)}
LAPTOP, FULL = Results("translation-grammar-laptop"), Results("translation-later")


def list_recorded(results: Results) -> list[str]:
    """Return the models and variants that a folder has records of, in order of history."""
    return [m for m in papers() if any((RESULTS / results.folder).glob(f"{m}-seed*[0-9].json"))]


def say_again() -> None:
    """Print what is answered by the rule that writes: keys given again, and keys given once."""
    print("![queries answered, by the pairs](../results/lookup-again/score-query.svg)\n")
    trained = ", ".join(f"{rule}: {span(AGAIN.seeds(m, '8'), 1)} %" for m, rule in RULES.items())
    beyond = ", ".join(f"{rule}: {AGAIN.mean(m, '16'):.0f} %" for m, rule in RULES.items())
    others = "; ".join(
        f"{label_of(m)} {AGAIN.mean(m, '8'):.0f} and {AGAIN.mean(m, '16'):.0f} %"
        for m in list_recorded(AGAIN) if m not in RULES
    )  # fmt: skip
    say(f"""
**Observed** ([records](../results/lookup-again), [rules](../results/rules-lookup.svg)): With 8
pairs, the most in training, the four memories answer, from seed to seed: {trained}. With 16, on
average: {beyond}. {f"With 8 and 16: {others}." if others else ""}
""")
    print("\nDifferences in points, named before the records were made. Bold: significant.\n")
    rows = {}
    for row, column in PLANNED:
        found = [AGAIN.difference(row, column, bucket) for bucket in ("8", "16", "all")]
        rows[f"{RULES[row]} − {RULES[column]}"] = [*map(bold_interval, found)]
    print(table(["", "8 pairs, most in training", "16 pairs", "all"], rows) + "\n")
    once = span((score for m in RULES for n in ("8", "16") for score in ONCE.seeds(m, n)), 1)
    say(f"""
With keys given once ([records](../results/lookup-rules), as many steps), each of the four
memories answers {once} % of the queries, from seed to seed, with 8 and with 16 pairs, and Mamba-2
{span(ONCE.seeds(MAMBA, "16"))} % with 16. What separates the four above is the second value of a
key.
""")


def confirm_again() -> None:
    """Raise AssertionError unless the sentences on keys given again, and once, hold."""
    means = [AGAIN.mean(m, "16") for m in (DELTA, CORRECT, FADE, SUM)]
    assert abs(means[0] - means[1]) < 1 < means[0] - means[2] < means[0] - means[3]
    assert [AGAIN.difference(DELTA, m, "16").is_significant for m in (FADE, SUM)] == [True, False]
    assert min(score for m in RULES for n in ("8", "16") for score in ONCE.seeds(m, n)) > 99


def say_tracking() -> None:
    """Print who follows the cups, for each number of cups that has records."""
    recorded = {n: models for n, results in CUPS.items() if (models := list_recorded(results))}
    moves = {"4 moves": "4", "8, most in training": "8"} | {n: n for n in ("16", "32", "96")}
    for n, models in recorded.items():
        if n != 3:
            print(
                f"\n**{'Two' if n == 2 else 'Five'} cups.** And which follow {n}? (`--cups {n}`)\n"
            )
        print(f"![balls found, by the moves](../results/tracking-{n}/score-moves.svg)\n")
        say(describe_tracking(n, models))
        print(f"\nAll balls found, {n} cups:\n")
        print(CUPS[n].table(models, moves, "chance"))


def describe_tracking(n_cups: int, models: Sequence[str]) -> str:
    """Return which models follow so many cups in training and beyond."""
    results = CUPS[n_cups]
    at = {m: (results.mean(m, "8"), results.mean(m, "96")) for m in models}
    learned = [m for m in models if at[m][0] >= 90]
    others = [at[m][0] for m in models if m not in learned]
    best, n_seeds = max(models, key=lambda m: at[m][1]), [len(results.records(m)) for m in models]
    names = ", ".join(label_of(m).replace(",", " with") for m in learned) or "no model"
    rest = f", by the others in {span(others)} %" if others else ""
    chance = results.mean(best, "96", "baseline")
    return f"""
**Observed** ([records](../results/tracking-{n_cups}), seeds: {span(n_seeds)}): With 8 moves, the
most in training, all balls are found in at least 90 % of the sources, on average, by
{names}{rest}. With 96 moves, {label_of(best)} finds them most often, in
{span(results.seeds(best, "96"))} %{", by seed" * (max(n_seeds) > 1)}; chance is {chance:.0f} %.
"""


def after_96(model: str) -> str:
    """Return the share of two, three and five balls that a model finds after 96 moves."""
    return ", ".join(f"{CUPS[n].mean(model, '96'):.0f}" for n in (2, 3, 5))


def say_after_2020() -> None:
    """Print what Mamba-2 and Gated DeltaNet score in the default comparison of translation."""
    parts, buckets = [], ("21–30", "31–40", "51–60")
    for m in (MAMBA, DELTA):
        scores = ", ".join(LAPTOP.texts(m, buckets))
        found = ", ".join(bold_interval(LAPTOP.difference(m, LINEAR, b)) for b in buckets)
        parts.append(f"{label_of(m)} has {scores} BLEU, differing by {found} from linear attention")
    seeds = f"{span(len(LAPTOP.records(m)) for m in (MAMBA, DELTA))} seeds; bold: significant"
    say(f"At 21–30, 31–40 and 51–60 words ({seeds}), {'; '.join(parts)}.")
