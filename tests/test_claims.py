"""What the results show: each finding is made here, from the records that it names.

A paragraph of docs/results.md that begins with **Seen** states findings about one folder of records
and links to it. The functions of that folder return its sentences, with the numbers of the records,
and assert what the words say besides. Nothing else on that page says what was found; the README
repeats one of these sentences, below its figure.
"""

from __future__ import annotations

import json
import re
from statistics import mean

import claims_experiments
import pytest
from claims import (
    ATTENDING,
    CATALOG,
    FINDINGS,
    MODELS,
    ONE_VECTOR,
    PAGE,
    README,
    ROOT,
    about,
    each,
    join,
    kept,
    labels,
    numbers,
    records,
    score,
    still_falls,
)

from seqmodels.report.transition import steps_to

assert claims_experiments  # findings of the papers' own experiments, listed with those below

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
            f"{CATALOG[m].label} has {own:.1f} BLEU, {wider} the width ({n_parameters:.1f} million "
            "parameters, one seed)"
        )
    return f"A wider vector hardly helps: at 31–40 words, {'; '.join(clauses)}."


BIBLE = "translation-bible"


@about(BIBLE)
def the_share_falls() -> str:
    """Say what one vector has of the score of attention, by length."""

    def share(low: int) -> float:
        a, b = (score(BIBLE, m, "length", "bleu", low) for m in ("rnn_encdec", "bahdanau"))
        return 100 * a / b

    shares = [share(low) for low in range(1, 60, 10)]
    assert max(shares[1:]) < shares[0] - 5
    assert shares[-1] == min(shares)
    return (
        f"The RNN encoder–decoder has {shares[0]:.0f} % of Bahdanau's BLEU at 1–10 words, less in "
        f"every longer bucket, and {shares[-1]:.0f} % at 51–60."
    )


@about(BIBLE)
def what_the_source_saves() -> str:
    """Say how much of the loss a verse's own source saves over another's."""
    gain = {m: score(BIBLE, m, "length", "source_gain") for m in MODELS}
    order = sorted(MODELS, key=lambda m: -gain[m])
    assert order[:2] == ["bahdanau", "transformer"]
    return (
        "With the source of another verse of similar length, the loss grows by "
        f"{numbers(order, gain, 2)} nats per token for {labels(order)}."
    )


@about(BIBLE)
def attention_alone_is_behind() -> str:
    """Set attention alone against recurrence with attention: not what the paper leads to expect."""
    bleu = {m: score(BIBLE, m, "length", "bleu") for m in ATTENDING}
    assert bleu["bahdanau"] > bleu["transformer"] > bleu["gpt"]
    return (
        "The recurrent model with attention leads those with attention alone: over all verses "
        f"{labels(ATTENDING)} have {numbers(ATTENDING, bleu, 1)} BLEU."
    )


@about(BIBLE)
def nothing_has_converged() -> str:
    """Say how fast the losses still fell."""
    falls = [still_falls(BIBLE, m) for m in MODELS]
    assert min(falls) > 0
    return (
        "None of the five has converged: in the last tenth of the budget the validation loss still "
        f"fell by {min(falls):.1f} to {max(falls):.1f} %."
    )


CAPTIONS = "translation-multi30k"


@about(CAPTIONS)
def captions_by_length() -> str:
    """Say who loses with length."""
    lost = {
        m: score(CAPTIONS, m, "length", "bleu", 1) - score(CAPTIONS, m, "length", "bleu", 11)
        for m in MODELS
    }
    level = ["bahdanau", "transformer"]
    assert all(abs(lost[m]) < 0.2 for m in level)
    return (
        f"Although captions are short, {labels(ONE_VECTOR)} lose {numbers(ONE_VECTOR, lost, 1)} "
        f"BLEU between 1–10 and 11–20 words, while {labels(level)} stay level."
    )


@about(CAPTIONS)
def above_the_notebooks() -> str:
    """Set the scores against published ones."""
    ledger = json.loads((ROOT / "results" / "ledger.json").read_text(encoding="utf-8"))
    (entry,) = [e for e in ledger["entries"] if e["source"].startswith("bentrevett")]
    theirs = {f["model"]: float(f["value"]) for f in entry["figures"] if f["metric"] == "bleu"}
    ours = {m: score(CAPTIONS, m, "greedy", "bleu") for m in theirs}
    assert set(theirs) == set(MODELS) - {"gpt"}
    assert all(ours[m] > theirs[m] for m in theirs)
    return (
        "With greedy search, every model is above what the best-known notebooks print for it: "
        f"{labels(MODELS[:4])} have {numbers(MODELS[:4], ours, 1)} BLEU, against "
        f"{numbers(MODELS[:4], theirs, 1)}."
    )


@about(CAPTIONS)
def who_still_learns() -> str:
    """Say when the validation loss was lowest."""
    best = {}
    for m in ("bahdanau", "gpt"):
        (record,) = records(CAPTIONS, m)
        best[m] = min(record["curve"], key=lambda point: point["valid_nats"])["tokens"]
        last = record["curve"][-1]["tokens"]
    assert best["gpt"] == last
    return (
        f"Bahdanau's validation loss was lowest after {best['bahdanau'] / 1e6:.1f} of "
        f"{last / 1e6:.1f} million tokens, GPT's at the end."
    )


TINY = "translation-multi30k-en-de"


@about(TINY)
def transformer_tiny() -> str:
    """Set the score against the published one."""
    (record,) = records(TINY, "transformer")
    (test,) = [t for t in record["tests"] if t["name"] == "length"]
    bleu = test["overall"]["bleu"]
    reached = "{value:.1f} BLEU [{low:.1f}, {high:.1f}]".format(**bleu)
    return f"The Transformer reaches {reached}; 41.0 is published."


PLAYS = "next_token-shakespeare"


@about(PLAYS)
def plays() -> str:
    """Say who has the lowest loss."""
    nats = {m: score(PLAYS, m, "whole", "nats") for m in MODELS}
    first, *_, one, other = sorted(nats, key=lambda m: nats[m])
    assert first == "rnn_encdec"
    assert {one, other} == {"transformer", "gpt"}
    assert f"{nats[one]:.2f}" == f"{nats[other]:.2f}"
    return (
        f"The RNN encoder–decoder has the lowest loss, {nats[first]:.2f} nats per character, the "
        f"Transformer and GPT have the highest, {nats[one]:.2f}; nanoGPT reports 1.88 in this "
        "setting."
    )


NOVEL = "next_token-war-and-peace"


@about(NOVEL)
def what_context_saves() -> str:
    """Say what the longest context saves."""
    saved = {
        m: score(NOVEL, m, "context", "bits_per_byte", 0)
        - score(NOVEL, m, "context", "bits_per_byte", 512)
        for m in MODELS
    }
    none = ["lstm_seq2seq", "transformer"]
    some = sorted(set(MODELS) - set(none), key=lambda m: -saved[m])
    assert all(abs(saved[m]) < 0.01 for m in none)
    return (
        f"A context of 512 tokens saves {labels(some)} {numbers(some, saved, 2)} bits per byte, "
        f"{labels(none)} less than 0.01."
    )


@about(NOVEL)
def the_novel_is_not_learned() -> str:
    """Say how fast the losses still fell."""
    falls = [still_falls(NOVEL, m) for m in MODELS]
    return (
        "The validation loss still fell in the last tenth of the budget, by "
        f"{min(falls):.1f} to {max(falls):.1f} %."
    )


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


WIDTHS = (32, 64, 128)


@about("lookup-width-128")
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
    assert lstm[0] < floor < 2 * floor < lstm[1] < lstm[2]
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
    falls = [still_falls(RECALL, m) for m in MODELS]
    return (
        "The validation loss still fell in the last tenth of the budget, by "
        f"{min(falls):.1f} to {max(falls):.1f} %."
    )


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
