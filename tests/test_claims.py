"""What the results show: each finding is made here, from the records that it names.

A paragraph of docs/results.md that begins with **Seen** states findings about one folder of records
and links to it. The functions of that folder return its sentences, with the numbers of the records,
and assert what the words say besides. Nothing else on that page says what was found; the README
repeats one of these sentences, below its figure.
"""

from __future__ import annotations

import re
from statistics import mean

import claims_corpora
import claims_experiments
import pytest
from claims import (
    ATTENDING,
    FINDINGS,
    MODELS,
    ONE_VECTOR,
    PAGE,
    PAPERS,
    README,
    ROOT,
    about,
    each,
    falls,
    join,
    kept,
    labels,
    numbers,
    records,
    score,
)

from tasks.lookup.figure import steps_to

assert claims_corpora  # findings on real text, listed with those below
assert claims_experiments  # and of the papers' own experiments

# ------------------------------------------------------------------------------- The findings

GRAMMAR, SMALLER, LINEAR = "translation-grammar", "translation-grammar-laptop", "linear_attention"


TRAINED, LONGEST = (1, 11, 21, 31), 31
"""The first lengths of the trained buckets of the grammar, and of the last of them."""


@about(GRAMMAR)
def within_the_trained_lengths() -> str:
    """Say what is left of the score within the trained lengths."""
    bleu = {m: [score(GRAMMAR, m, "length", "bleu", low) for low in TRAINED] for m in MODELS}
    assert min(min(bleu[m]) for m in ATTENDING) >= 90
    assert all(b < a for m in ONE_VECTOR for a, b in zip(bleu[m], bleu[m][1:], strict=False))
    share = {m: kept(GRAMMAR, m, 1, LONGEST) for m in MODELS}
    return (
        f"At 31–40 words, the longest trained, {labels(ATTENDING)} keep "
        f"{numbers(ATTENDING, share)} % of their BLEU at 1–10 words; {labels(ONE_VECTOR)} keep "
        f"{numbers(ONE_VECTOR, share)} %."
    )


@about(GRAMMAR)
def beyond_the_trained_lengths() -> str:
    """Say what is left of it beyond them."""
    share = {m: kept(GRAMMAR, m, 1, 71) for m in ATTENDING}
    assert share["bahdanau"] > 2 * max(share["transformer"], share["gpt"])
    return (
        "Beyond the trained lengths, the recurrent model with attention keeps more than those with "
        f"attention alone: at 71–80 words {labels(ATTENDING)} keep {numbers(ATTENDING, share)} %."
    )


@about(GRAMMAR)
def two_scores_two_stories() -> str:
    """Set the loss against the score where they disagree."""
    nats, bleu = (
        {m: score(GRAMMAR, m, "length", metric, 71) for m in MODELS} for metric in ("nats", "bleu")
    )
    assert max(nats, key=lambda m: nats[m]) == "gpt"
    assert bleu["gpt"] > max(bleu[m] for m in ONE_VECTOR)
    return (
        f"There GPT has the highest teacher-forced loss, {nats['gpt']:.1f} nats per token against "
        f"{numbers(ONE_VECTOR, nats, 1)} of {labels(ONE_VECTOR)}, and yet a higher BLEU than these "
        f"two, {bleu['gpt']:.0f} against {numbers(ONE_VECTOR, bleu)}."
    )


@about(SMALLER)
def with_a_third_of_the_budget() -> str:
    """Say what the default size shows."""
    bleu = {m: score(SMALLER, m, "length", "bleu", LONGEST) for m in (*MODELS, LINEAR)}
    assert min(bleu[m] for m in ATTENDING) > 3 * max(bleu[m] for m in (*ONE_VECTOR, LINEAR))
    assert min(score(SMALLER, m, "length", "bleu", 1) for m in ATTENDING) > 95
    return (
        f"With a third of that budget, the default, {labels(ATTENDING)} have "
        f"{numbers(ATTENDING, bleu, 1)} BLEU at 31–40 words; {labels(ONE_VECTOR)} have "
        f"{numbers(ONE_VECTOR, bleu, 1)}. Linear attention, which came after the five and keeps a "
        f"memory of fixed size, has {bleu[LINEAR]:.1f}."
    )


WIDER = {2: "twice", 4: "four times"}
"""Multiples of the width, with their words."""


@about(GRAMMAR)
def wider_vectors() -> str:
    """Say what a wider vector gains: the obvious objection to equal sizes."""
    clauses = []
    for m in ONE_VECTOR:
        runs = {k: records(GRAMMAR, f"{m}_x{k}") for k in WIDER}
        assert max(map(len, runs.values())) == 1
        trained = [k for k in WIDER if runs[k]]
        own = score(GRAMMAR, m, "length", "bleu", LONGEST)
        bleu = {k: score(GRAMMAR, f"{m}_x{k}", "length", "bleu", LONGEST) for k in trained}
        assert max(bleu.values()) < own + 10
        n_parameters = runs[trained[-1]][0]["n_parameters"] / 1e6
        wider = " and ".join(f"{bleu[k]:.1f} with {WIDER[k]}" for k in trained)
        clauses.append(
            f"{PAPERS[m].label} has {own:.1f} BLEU, {wider} the width ({n_parameters:.1f} million "
            "parameters, one seed)"
        )
    return f"A wider vector hardly helps: at 31–40 words, {'; '.join(clauses)}."


LOOKUP, ROTARY = "lookup", "transformer_rotary"
FOUND = {"bahdanau": "Bahdanau", ROTARY: "the Transformer with rotary positions", "gpt": "GPT"}
"""The models that learn to look up."""


def answered(model: str, n_pairs: int) -> list[float]:
    """Return the percentage of queries that every seed answers."""
    return each(LOOKUP, model, "query", "exact_match", n_pairs)


@about(LOOKUP)
def keys_are_found() -> str:
    """Say who answers at the longest trained number of pairs, on every seed."""
    assert all(answered(m, 8) == [100.0] * 3 for m in FOUND)
    never = ["rnn_encdec", "transformer", LINEAR]
    most = {m: max(answered(m, 8)) for m in never}
    (floor,) = {score(LOOKUP, m, "query", "baseline", 8) for m in FOUND}
    assert max(most.values()) < floor + 5
    some = answered("lstm_seq2seq", 8)
    assert min(some) > 4 * floor
    return (
        f"At 8 pairs, the most that were trained, {join([*FOUND.values()])} answer every query "
        f"with every seed. The LSTM seq2seq answers {min(some):.0f} to {max(some):.0f} %: one "
        "vector holds some of the pairs. The RNN encoder–decoder, the Transformer with sinusoids "
        f"and linear attention answer at most {numbers(never, most)} %, where {floor:.1f} % are "
        "right without the binding."
    )


@about(LOOKUP)
def when_it_is_learned() -> str:
    """Say when the validation accuracy first reached 95 %."""
    steps = {m: [steps_to(r) for r in records(LOOKUP, m)] for m in FOUND}
    spans = join([f"{min(n):,} to {max(n):,}" for n in steps.values()])
    return f"Those with 100 % learned it suddenly, after {spans} steps, in the order above."


@about(LOOKUP)
def more_pairs_than_trained() -> str:
    """Say what happens beyond the trained number of pairs."""
    right = {m: mean(answered(m, 16)) for m in FOUND}
    assert right["gpt"] < 70 < 95 < min(right["bahdanau"], right[ROTARY])
    return f"With 16 pairs, twice as many, they answer {numbers([*FOUND], right)} %."


WIDTHS = (32, 64, 128, 256)


@about("lookup-width-256")
def by_width() -> str:
    """Say from which width on who answers at the longest trained number of pairs."""
    right = {
        (m, d): score(f"lookup-width-{d}", m, "query", "exact_match", 8)
        for m in (*FOUND, "lstm_seq2seq", "rnn_encdec", LINEAR)
        for d in WIDTHS
    }
    assert min(right[m, d] for m in FOUND for d in WIDTHS[1:]) > 99
    assert min(right[ROTARY, d] for d in WIDTHS) > 99
    floor = 12.5
    never = [right[m, d] for m in ("rnn_encdec", LINEAR) for d in WIDTHS]
    assert max(*never, right["bahdanau", 32], right["gpt", 32]) < floor + 3
    lstm = [right["lstm_seq2seq", d] for d in WIDTHS]
    assert lstm[0] < floor < 2 * floor < lstm[1] < min(lstm[2:])
    return (
        f"With equal widths, one seed each, the LSTM seq2seq leaves the baseline at 64: it answers "
        f"{join([f'{value:.0f}' for value in lstm])} % of the queries with 8 pairs at widths "
        f"{join([*map(str, WIDTHS)])}. The RNN encoder–decoder and linear attention stay at it, "
        f"with at most {max(never):.0f} %. Bahdanau and GPT answer all but a few from 64 on and "
        "stay at the baseline at 32, where the Transformer with rotary positions answers all."
    )


RECALL, COPIED = "recall", ("copy", "reverse")


@about(RECALL)
def copied_and_reversed() -> str:
    """Say what is in place of the longest trained sequences."""
    right = {(kind, m): score(RECALL, m, kind, "accuracy", 32) for kind in COPIED for m in MODELS}
    most = max(right[kind, m] for kind, m in right if m in ONE_VECTOR)
    least = min(right[kind, m] for kind, m in right if m in ATTENDING)
    assert most < least
    return (
        "At 32 symbols, the longest trained, none of the five papers' models with one vector has "
        f"more than {most:.0f} % of a copied or reversed sequence in place, and none with "
        f"attention less than {least:.0f} %."
    )


@about(RECALL)
def beyond_the_trained_sequences() -> str:
    """Say what is left at four times the length."""
    most = max(score(RECALL, m, kind, "accuracy", 128) for kind in COPIED for m in MODELS)
    return f"At 128 symbols no model has more than {most:.0f} % in place."


@about(RECALL)
def copied_through_a_fixed_memory() -> str:
    """Say what is in place with linear attention, whose memory does not grow."""
    kept = [score(RECALL, LINEAR, kind, "accuracy", 32) for kind in COPIED]
    most = [max(score(RECALL, m, kind, "accuracy", 32) for m in ONE_VECTOR) for kind in COPIED]
    assert all(value <= limit + 1 for value, limit in zip(kept, most, strict=True))
    assert score(RECALL, LINEAR, "copy", "accuracy", 8) > 90
    return (
        "Linear attention, whose memory has a fixed size again, has "
        f"{kept[0]:.0f} % of a copied and {kept[1]:.0f} % of a reversed sequence in place."
    )


@about(RECALL)
def recall_is_not_converged() -> str:
    """Say how fast the losses still fell."""
    fell = falls(RECALL, MODELS)
    return f"The validation loss still fell in the last tenth of the budget, by {fell}."


STORIES = "next_token"


@about(STORIES)
def the_word_is_found() -> str:
    """Say how often the needed word is found at the longest trained distance, and farther."""
    at, far = (
        {m: score(STORIES, m, "distance", "exact_match", d) for m in MODELS} for d in (64, 256)
    )
    assert min(at[m] for m in ATTENDING) > 2 * max(at[m] for m in ONE_VECTOR)
    return (
        f"At 64 words, the longest trained, {labels(ATTENDING)} find the word in "
        f"{numbers(ATTENDING, at)} % of the stories, {labels(ONE_VECTOR)} in "
        f"{numbers(ONE_VECTOR, at)} %; at 256 words {labels(ATTENDING)} still find it in "
        f"{numbers(ATTENDING, far)} %."
    )


@about(STORIES)
def found_through_a_fixed_memory() -> str:
    """Say how often linear attention finds it."""
    at, far = (score(STORIES, LINEAR, "distance", "exact_match", d) for d in (64, 256))
    most = max(score(STORIES, m, "distance", "exact_match", 64) for m in ONE_VECTOR)
    assert at > 5 * most
    return f"Linear attention finds it in {at:.0f} and {far:.0f} %, with a memory of fixed size."


@about(STORIES)
def bits_tell_the_same() -> str:
    """Say what a little context saves, and what more of it does."""
    bits = {
        k: {m: score(STORIES, m, "context", "bits_per_byte", k) for m in MODELS} for k in (0, 8, 64)
    }
    little = {m: bits[0][m] - bits[8][m] for m in MODELS}
    more = {m: bits[8][m] - bits[64][m] for m in MODELS}
    assert min(little.values()) > 0
    assert min(more[m] for m in ATTENDING) > max(more[m] for m in ONE_VECTOR)
    return (
        f"A context of 8 tokens saves all five {min(little.values()):.2f} to "
        f"{max(little.values()):.2f} bits per byte; 64 instead of 8 save {labels(ATTENDING)} "
        f"{numbers(ATTENDING, more, 2)} more, {labels(ONE_VECTOR)} "
        f"{numbers(ONE_VECTOR, more, 2)}."
    )


# ------------------------------------------------------------------------------------ The tests

SEEN = re.compile(r"^\*\*Seen\*\* \(\[records\]\(\.\./results/([\w-]+)\)\): (.*)$")


def seen() -> dict[str, str]:
    """Return the paragraphs of findings by the folder of their records."""
    paragraphs = (" ".join(p.split()) for p in PAGE.split("\n\n"))
    return {found[1]: found[2] for p in paragraphs if (found := SEEN.match(p))}


@pytest.mark.parametrize("folder", FINDINGS)
def test_findings_are_what_the_records_say(folder: str) -> None:
    """Keeps out a finding that its records do not carry, or no longer."""
    assert seen()[folder] == " ".join(sentence() for sentence in FINDINGS[folder])


def test_every_finding_is_recomputed() -> None:
    """Keeps out a paragraph of findings that no test knows."""
    assert set(seen()) == set(FINDINGS)
    assert PAGE.count("\n**Seen** (") == len(FINDINGS)
    assert "**Seen**" not in README


def test_the_readme_repeats_a_finding() -> None:
    """Keeps out a sentence below the first figure that its records do not carry."""
    paragraphs = [" ".join(p.split()) for p in README.split("\n\n")]
    figure = next(i for i, p in enumerate(paragraphs) if p.startswith("!["))
    assert paragraphs[figure + 1].startswith(f"{within_the_trained_lengths()} ")


def test_the_first_figure_is_captioned_by_its_finding() -> None:
    """Keeps out a caption of the first figure that is not the title its records give it."""
    found = re.search(r"!\[(.*)\]\((.*)\)", README)
    assert found
    svg = (ROOT / found[2]).read_text(encoding="utf-8")
    assert f"<title>{found[1]}</title>" in svg
