"""Findings on real text, which test_claims.py checks with the others."""

from __future__ import annotations

import json

from claims import (
    ATTENDING,
    MODELS,
    ONE_VECTOR,
    ROOT,
    about,
    each,
    falls,
    gain,
    join,
    labels,
    numbers,
    records,
    score,
    still_falls,
)

from seqmodels.report.findings import label_of

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
    seeds = {m: each(BIBLE, m, "length", "bleu") for m in ATTENDING}
    bleu = {m: score(BIBLE, m, "length", "bleu") for m in ATTENDING}
    assert min(seeds["bahdanau"]) > max(seeds["transformer"])
    assert min(seeds["transformer"]) > max(seeds["gpt"])
    spread = join([f"{min(seeds[m]):.1f} to {max(seeds[m]):.1f}" for m in ATTENDING])
    lead = gain(BIBLE, "bahdanau", "transformer", "length")
    assert lead.p_holm is not None
    assert lead.p_holm > 0.05
    for m in ("bahdanau", "transformer"):
        p = gain(BIBLE, m, "gpt", "length").p_holm
        assert p is not None
        assert p < 0.05
    return (
        "The recurrent model with attention leads those with attention alone: over all verses "
        f"{labels(ATTENDING)} have {numbers(ATTENDING, bleu, 1)} BLEU, and their three seeds "
        f"{spread}. As Bahdanau's differ so much, its lead over the Transformer, "
        f"{lead.value:.1f} [{lead.low:.1f}, {lead.high:.1f}], is not significant; GPT is "
        "significantly behind both."
    )


@about(BIBLE)
def nothing_has_converged() -> str:
    """Say how fast the losses still fell."""
    return (
        "None of the five has converged: in the last tenth of the budget the validation loss still "
        f"fell by {falls(BIBLE, MODELS)}."
    )


TWICE = "translation-bible-8m"


def of_seed_1(folder: str, model: str, metric: str, low: int | None = None) -> float:
    """Return a score of the first seed, the only one that had twice the budget."""
    return each(folder, model, "length", metric, low)[0]


@about(TWICE)
def with_twice_the_budget() -> str:
    """Say what twice the budget gains, and where attention alone is then still behind."""
    models = ["bahdanau", "transformer"]
    once, twice = ({m: of_seed_1(f, m, "bleu") for m in models} for f in (BIBLE, TWICE))
    gained = {m: twice[m] - once[m] for m in models}
    behind = [bleu["bahdanau"] - bleu["transformer"] for bleu in (once, twice)]
    assert 0 < gained["bahdanau"] < gained["transformer"]

    def more_nats(folder: str, low: int | None = None) -> float:
        recurrent, alone = (of_seed_1(folder, m, "nats", low) for m in models)
        return alone - recurrent

    level = [more_nats(TWICE, low) for low in (11, 21)]
    longer = [more_nats(TWICE, low) for low in (31, 41, 51)]
    assert max(level) < 0.01
    assert longer == sorted(longer)
    fell = {m: still_falls(TWICE, m) for m in models}
    return (
        f"With twice the budget, the first seeds of {labels(models)} have "
        f"{numbers(models, twice, 1)} BLEU, "
        f"{numbers(models, gained, 1)} more. Attention alone is still behind, by {behind[1]:.1f} "
        f"instead of {behind[0]:.1f} BLEU and {more_nats(TWICE):.2f} instead of "
        f"{more_nats(BIBLE):.2f} nats per token: at 11–30 words its loss is no higher than "
        f"Bahdanau's, at 31–40 words {longer[0]:.2f} higher, at 51–60 words {longer[-1]:.2f}. In "
        f"the last tenth of the budget both losses still fell, by {numbers(models, fell, 1)} %."
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
    least, most = min(lost[m] for m in ONE_VECTOR), max(abs(lost[m]) for m in level)
    assert 10 * most < least
    return (
        f"Although captions are short, {labels(ONE_VECTOR)} lose {numbers(ONE_VECTOR, lost, 1)} "
        f"BLEU between 1–10 and 11–20 words, while {labels(level)} change by at most {most:.1f}."
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
    """Say that all losses were lowest at the end, and how fast they still fell."""
    for record in (record for m in MODELS for record in records(CAPTIONS, m)):
        assert min(record["curve"], key=lambda p: p["valid_nats"]) == record["curve"][-1]
    return (
        "All validation losses were lowest at the end; in the last tenth of the budget they still "
        f"fell by {falls(CAPTIONS, MODELS)}."
    )


@about(CAPTIONS)
def loss_is_not_bleu() -> str:
    """Say where the lower loss does not come with the higher score."""
    pair = ["transformer", "bahdanau"]
    nats, bleu = ({m: score(CAPTIONS, m, "length", k) for m in pair} for k in ("nats", "bleu"))
    assert nats["transformer"] < nats["bahdanau"]
    assert bleu["transformer"] < bleu["bahdanau"]
    return (
        f"The Transformer's lower loss on test, {nats[pair[0]]:.2f} against Bahdanau's "
        f"{nats[pair[1]]:.2f} nats per token, does not show in BLEU: {bleu[pair[0]]:.1f} against "
        f"{bleu[pair[1]]:.1f}."
    )


@about(CAPTIONS)
def what_another_seed_changes() -> str:
    """Say how far the seeds are apart."""
    seeds = {m: each(CAPTIONS, m, "length", "bleu") for m in MODELS}
    twice = [m for m in MODELS if len(seeds[m]) == 2]
    assert all(len(seeds[m]) == 1 for m in MODELS if m not in twice)
    apart = {m: max(seeds[m]) - min(seeds[m]) for m in twice}
    return f"The two seeds of {labels(twice)} are {numbers(twice, apart, 1)} BLEU apart."


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
    """Say what a short and a long context save, and who has the lowest loss."""
    none, short, full = (
        {m: score(NOVEL, m, "context", "bits_per_byte", n) for m in MODELS} for n in (0, 32, 512)
    )
    saved = {m: none[m] - short[m] for m in MODELS}
    more = {m: short[m] - full[m] for m in MODELS}
    first, *_, last = sorted(MODELS, key=lambda m: full[m])
    assert 0 < min(saved.values()) <= max(saved.values()) < 0.1
    assert min(more, key=lambda m: more[m]) == last == "gpt"
    rest = [more[m] for m in MODELS if m != last]
    assert max(map(abs, rest)) < 0.015
    return (
        f"After 512 tokens of context, the {label_of(first)} has the lowest loss, "
        f"{full[first]:.2f} bits per byte, {label_of(last)} the highest, {full[last]:.2f}. "
        f"Context helps little: 32 tokens save {labels(MODELS)} {numbers(MODELS, saved, 2)} bits "
        f"per byte. With 512 tokens instead of 32, {label_of(last)} loses {-more[last]:.2f} again; "
        f"the others change by at most {max(map(abs, rest)):.2f}."
    )


@about(NOVEL)
def the_novel_is_not_learned() -> str:
    """Say how fast the losses still fell."""
    fell = falls(NOVEL, MODELS)
    return f"The validation loss still fell in the last tenth of the budget, by {fell}."
