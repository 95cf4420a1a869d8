"""The numbers and tables of docs/why.md, by section; README shares those of the best States.

Each function named `confirm_…` raises an error where the records no longer support a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import mean
from typing import Any

from seqmodels.records.schema import Interval
from seqmodels.report.load_records import Row, format_bucket, format_range, mean_scores, rows_of
from seqmodels.report.tables import format_markdown
from tasks.vector.figure import predict_roles
from tools.numbers import (
    BAHDANAU,
    GPT,
    LINEAR,
    LSTM,
    RNN,
    SIX,
    TRANSFORMER,
    Record,
    Results,
    bold_interval,
    effect,
    interval,
    label_of,
    lowest_loss,
    scores_of,
    span,
    table,
)

# ------------------------------------------------------------------- Who loses the sentence?
BUDGETS, ENCODERS, WIDTHS = Results("budgets"), Results("encoders"), Results("widths", "best_state")
LOSS = Results("loss")
RNN_15M, RNN_40M = f"{RNN}-tokens-15000000", f"{RNN}-tokens-40000000"
LSTM_15M = f"{LSTM}-tokens-15000000"
LENGTHS = {
    "21–30": "21–30 words", "31–40": "31–40, longest in training",
    "41–50": "41–50", "51–60": "51–60", "61–70": "61–70", "71–80": "71–80",
}  # fmt: skip
ANOTHER = "start: another sentence's State"
MIDDLE = "start: the middle of each range"
SHUFFLED = "target: its words shuffled"


def best_state_runs(model: str) -> list[Record]:
    """Return the records of a model whose best States were written."""
    return [r for r in BUDGETS.records(model) if r.analyses.get("best_state")]


def best_rows(model: str, **columns: Any) -> list[Row]:
    """Return the rows on best States that have these values, of all seeds."""
    runs = best_state_runs(model)
    return [row for r in runs for row in rows_of(r, "best_state", **columns)]


def vector_width(model: str = RNN) -> int:
    """Return the numbers of a model's vector; the RNN's training had five million tokens."""
    assert {r.train_config.tokens for r in BUDGETS.records(RNN)} == {5_000_000}
    return int(best_rows(model)[0]["numbers"])


def best_score(model: str, bucket: str) -> Interval:
    """Return BLEU from the best States of a bucket, with its interval over seeds and sentences."""
    runs = best_state_runs(model)
    (test,) = [t for t in runs[0].tests if t.name == "best_state"]
    i = [format_bucket(b) for b in test.buckets].index(bucket)
    value, low, high = mean_scores(runs, "best_state", "bleu")[1 + i]
    return Interval(value=value, low=low, high=high)


def best_by_width(width: int) -> float:
    """Return BLEU from the RNN's best vectors of this width after 15 million tokens, at 51–60."""
    if width == 200:
        return best_score(RNN_15M, "51–60").value
    (bleu,) = WIDTHS.seeds(f"{RNN}-d_model-{width}-tokens-15000000", "51–60")
    return bleu


BIBLE_30M, LONG = Results("translation-bible-30m"), "-batch_tokens-1600-dropout-0.3-muon_lr-0.008"


def bible_bleu(model: str, bucket: str, test: str = "greedy") -> float:
    """Return a model's BLEU on the Bible after 30 million tokens, with greedy search."""
    (bleu,) = BIBLE_30M._replace(test=test).seeds(model + LONG, bucket)
    return bleu


def confirm_bible_states() -> None:
    """Confirm: best above encoder; above Bahdanau up to 21–30 words, below from 41–50 on."""
    for bucket in ("1–10", "11–20", "21–30", "31–40", "41–50", "51–60"):
        best = bible_bleu(RNN, bucket, "best_state")
        assert best > bible_bleu(RNN, bucket)
        if bucket != "31–40":
            assert (best > bible_bleu(BAHDANAU, bucket)) == (bucket in ("1–10", "11–20", "21–30"))


def encoder_bleu(model: str, bucket: str = "31–40") -> float:
    """Return the mean BLEU from the encoder's States of the runs that have best ones, too."""
    return mean(scores_of(best_state_runs(model), bucket, "bleu", "length"))


def control_bleu(model: str, name: str) -> float:
    """Return the mean BLEU that a control of the best States ends with."""
    runs = best_state_runs(model)
    return mean(rows_of(r, "controls", control=name)[-1]["bleu"] for r in runs)


def descent_steps() -> int:
    """Return the number of steps in which the best States were written."""
    return max(int(row["steps"]) for row in best_rows(RNN))


def rounded_bleu(bits: int, model: str = RNN) -> float:
    """Return a model's mean BLEU at 31 to 40 words from best States of this precision."""
    rows = best_rows(model, steps=descent_steps(), bits=bits, low=31)
    return mean(row["bleu"] for row in rows)


def mean_of_halves(low: int, column: str) -> float:
    """Return a mean over seeds: BLEU of the half with fewer or more bits, or their surprisal."""
    rows = best_rows(RNN, steps=descent_steps(), low=low)
    return mean(row[column] for row in rows if "numbers" in row)


def kept_by_place(model: str, steps: int = 0) -> list[float]:
    """Return the shares (%) of words kept in each fifth of a source of 31 to 40 words."""
    runs = best_state_runs(model)
    shares = [[row["share"] for row in rows_of(r, "places", steps=steps, low=31)] for r in runs]
    return [mean(own) for own in zip(*shares, strict=True)]


def state_table() -> str:
    """Return BLEU from the encoder's and from the best States, by budget and length."""
    names = {RNN: "RNN, 5 M tokens", RNN_15M: "RNN, 15 M", RNN_40M: "RNN, 40 M"}
    rows = [["BLEU", "vector", *LENGTHS.values()]]
    for model, name in (names | {LSTM_15M: "LSTM, 15 M"}).items():
        n = len(best_state_runs(model))
        encoder = [f"{encoder_bleu(model, bucket):.1f}" for bucket in LENGTHS]
        rows.append([f"{name}, {n} seed{'s' * (n > 1)}", "encoder", *encoder])
        rows.append(["", "best", *(interval(best_score(model, bucket)) for bucket in LENGTHS)])
    return format_markdown(rows)


def confirm_best_states() -> None:
    """Confirm: best vectors say whole sentences in training, and longer ones with more training.

    Only for the RNN does the result not depend on the start; half the numbers fall sooner.
    """
    assert min(best_score(m, "31–40").value for m in (RNN, LSTM_15M)) > 99
    assert min(kept_by_place(RNN, descent_steps())) > 99.5
    assert best_score(RNN_15M, "61–70").value > best_score(RNN, "61–70").value + 20
    assert min(control_bleu(RNN, start) for start in (ANOTHER, MIDDLE)) > 95
    assert control_bleu(LSTM_15M, MIDDLE) < encoder_bleu(LSTM_15M) < control_bleu(LSTM_15M, ANOTHER)
    assert best_by_width(100) < min(best_by_width(200), best_by_width(400)) - 50


def training_moments() -> list[Row]:
    """Return BLEU from both States through a training of 15 million tokens, from 1 million on."""
    run = next(r for r in BUDGETS.records(RNN_15M) if r.analyses.get("training"))
    moments = [row for row in rows_of(run, "training") if row["tokens"] > 1_000_000]
    assert all(row["best_state"] > 2 * row["encoder"] for row in moments)
    assert round(moments[-1]["tokens"], -6) == run.train_config.tokens
    return moments


def frozen_decoder_runs() -> dict[str, Record]:
    """Return the first runs of a model and of the encoders that were trained for its decoder."""
    own = {
        "encoder and decoder, 5 M tokens": BUDGETS.records(RNN),
        "its encoder, 10 M more, decoder frozen": ENCODERS.records(RNN),
        "an encoder of both directions, 10 M, the same decoder": ENCODERS.records(f"{RNN}_both"),
    }
    return {name: next(r for r in runs if r.seed == 1) for name, runs in own.items()}


def encoder_table() -> str:
    """Return BLEU and loss of encoders that were trained for one decoder."""
    together = BUDGETS.records(RNN_15M)
    groups = {name: [run] for name, run in frozen_decoder_runs().items()}
    groups[f"encoder and decoder, 15 M tokens ({len(together)} seeds)"] = together
    rows = [["", *LENGTHS.values(), "loss on valid"]]
    for name, runs in groups.items():
        bleu = [mean(scores_of(runs, bucket, "bleu", "length")) for bucket in LENGTHS]
        loss = mean(map(lowest_loss, runs))
        rows.append([name, *(f"{value:.1f}" for value in bleu), f"{loss:.3f}"])
    return format_markdown(rows)


def confirm_encoders() -> None:
    """Confirm: no encoder gains for a frozen decoder what both gain together."""
    runs = [*frozen_decoder_runs().values()]
    frozen = scores_of(runs, "31–40", "bleu", "length")
    assert min(frozen) == frozen[0] > max(frozen) - 2
    assert min(BUDGETS.seeds(RNN_15M, "31–40")) > max(frozen) + 10
    assert first_loss_alone() > lowest_loss(runs[0])
    assert [f"{run.n_parameters / 1e6:.2f}" for run in runs] == ["0.98", "0.98", "1.22"]


def first_loss_alone() -> float:
    """Return the loss on valid after the first million tokens of an encoder alone."""
    (run,) = ENCODERS.records(RNN)
    assert round(run.curve[0].tokens, -5) == 1_000_000
    return float(run.curve[0].valid_nats)


# ------------------------------------------------------------------------------------- Heads
HEADS, HEADS_FULL = Results("heads"), Results("heads-full")


def article_heads(*folders: Results) -> list[Row]:
    """Return the head of each training that finds the noun of an article best."""
    own = [rows for results in folders for rows in results.analyses(TRANSFORMER, "article")]
    return [max(rows, key=lambda row: row["share"]) for rows in own]


def changed_endings(heads: Sequence[Row]) -> list[float]:
    """Return the share (%) of the words changed without a head that change their ending alone."""
    kinds = "ending", "choice", "order", "omission", "addition"
    shares = [100 * row["ending"] / sum(row[kind] for kind in kinds) for row in heads]
    assert min(shares) > 50
    return shares


def explained_scores(results: Results = HEADS, model: str = TRANSFORMER) -> list[float]:
    """Return the variance (%) of each head's scores that word kinds or the offset explain."""
    return [max(row["kinds"], row["offset"]) for row in results.rows(model, "scores")]


def closest_the(model: str, distance: int) -> list[float]:
    """Return the share on the last "the", this many words before a noun; of 4, also of more."""
    columns = {"pair": "noun → closest “the”", "distance": distance}
    return HEADS.values(model, "distances", "share", **columns)


UNITS = Results("units")
ENCODED = {
    RNN: "gated units, equal widths",
    "rnn_encdec_tanh": "plain tanh units",
    "rnn_encdec_wide": "encoder twice as wide as the decoder",
    "rnn_encdec_narrow": "encoder half as wide",
}


def confirm_units() -> None:
    """Confirm: equal widths are best, and plain tanh units learn little, with every seed."""
    UNITS.confirm([*ENCODED], tokens=1_200_000, parameters=0.5e6, seeds=3)
    worst = min(UNITS.seeds(RNN))
    assert all(max(UNITS.seeds(model)) < worst for model in ENCODED if model != RNN)


def unit_table() -> str:
    """Return BLEU by length of the RNN encoder–decoder with other units or widths."""
    buckets, rows = ("1–10", "11–20", "21–30", "31–40", "all"), {}
    for model, name in ENCODED.items():
        change = "" if model == RNN else bold_interval(UNITS.difference(model, RNN))
        rows[name] = [*UNITS.texts(model, buckets), change]
    return table(["", "1–10 words", *buckets[1:], "difference"], rows)


# ------------------------------------------------------------------------------------- Parts
CHOICES = Results("choices")
CHANGES = {
    "transformer_none": "no positions",
    "transformer_no_residual": "no residual connections",
    "transformer_unscaled": "scores not divided by √d_k",
    "transformer_no_norm": "no layer normalisation",
    "transformer_no_feed_forward": "no feed-forward layers",
    "transformer_cosine": "cosine scores",
    "transformer-is_prenorm-True": "normalisation before the sublayers",
    "transformer-n_heads-1": "one head instead of four",
    "transformer-n_layers-1": "one layer instead of two, wider",
    "transformer_untied": "output not tied to the embeddings",
    "transformer-n_heads-2": "two heads",
    "transformer-n_heads-8": "eight heads",
    "transformer-n_layers-3": "three layers, narrower",
    "transformer-n_layers-4": "four layers, narrower still",
    "transformer-label_smoothing-0.1": "label smoothing of 0.1",
    "transformer-dropout-0.1": "dropout of 0.1",
    **{f"transformer-d_v-{n}": f"values of {n} numbers a head" for n in (4, 16, 60)},
}


def confirm_choices() -> None:
    """Confirm: one layer has less BLEU, with each seed, and so has the model without norm."""
    assert max(CHOICES.seeds("transformer-n_layers-1")) < min(CHOICES.seeds(TRANSFORMER))
    for model in ("transformer-n_layers-1", "transformer_no_norm"):
        assert effect(CHOICES.difference(model, TRANSFORMER)) == -1
    assert max(added_seeds("transformer_no_norm")) < min(added_seeds(TRANSFORMER))
    assert model_width("transformer-d_k-1") == model_width("transformer-d_k-4")


def added_seeds(model: str) -> list[float]:
    """Return BLEU of the seeds that were added after the first result: 6 to 10."""
    added = [r for r in CHOICES.records(model) if r.seed > 5]
    assert len(added) == 5
    return scores_of(added, "all", "bleu", "length")


def model_width(model: str) -> int:
    """Return the width of a changed Transformer, whose four heads have a quarter each."""
    runs = CHOICES.records(model)
    ((width, n_heads),) = {(run.size("d_model"), run.size("n_heads")) for run in runs}
    assert n_heads == 4
    assert not any(run.settings.get("d_v") for run in runs)
    return width


GPT_CHOICES = Results("choices-gpt")
GPT_CHANGES = {
    "gpt_no_residual": "no residual connections",
    "gpt_unscaled": "scores not divided by √d_k",
    "gpt_no_norm": "no layer normalisation",
    "gpt_postnorm": "normalisation after each sublayer, as in 2018",
    "gpt_no_feed_forward": "no feed-forward layers",
    "gpt-n_heads-1": "one head instead of four",
    "gpt-n_layers-1": "one layer instead of three, wider",
    "gpt_rms": "RMSNorm (2019)",
    "gpt_swiglu": "SwiGLU (2020)",
    "gpt_rotary": "rotary positions (2021)",
    "gpt_grouped": "two heads of keys and values for four of queries (2023)",
    "gpt_2023": "all four parts of 2023",
}


def confirm_gpt_choices() -> None:
    """Confirm which changes of GPT are significant, and to which side."""
    effects = {model: effect(GPT_CHOICES.difference(model, GPT)) for model in GPT_CHANGES}
    significant = {"gpt_unscaled": -1, "gpt-n_layers-1": -1, "gpt_no_norm": 1, "gpt_postnorm": 1}
    assert effects == dict.fromkeys(GPT_CHANGES, 0) | significant
    assert max(GPT_CHOICES.seeds(GPT)) < min(GPT_CHOICES.seeds("gpt_no_norm"))


def choice_table(
    results: Results = CHOICES, changes: Mapping[str, str] = CHANGES, sound: str = TRANSFORMER
) -> str:
    """Return BLEU after each change of a model, and its effect."""
    rows = {}
    for model, name in changes.items():
        bleu = results.seeds(model)
        change = bold_interval(results.difference(model, sound)) if len(bleu) > 2 else ""
        rows[name] = [str(len(bleu)), f"{mean(bleu):.1f}", span(bleu, 1), change]
    return table(["change", "seeds", "BLEU", "each seed", "effect"], rows)


# --------------------------------------------------------------------------------- Smoothing
SMOOTHING = Results("smoothing")


def smoothing_loss(analysis: str, **columns: Any) -> list[float]:
    """Return the loss of each seed with other weights, in nats per token."""
    return SMOOTHING.values(TRANSFORMER, analysis, "nats", **columns)


FEATURES, FAVOR = Results("favor"), f"{LINEAR}_favor"


# ------------------------------------------------------------------------------------ Vector
VECTOR, CROSSINGS = Results("vector"), Results("vector", "crossings")
READ = {11: "11–15", 16: "16–20", 21: "21–30", 31: "31–40", 41: "41–50", 51: "51–60"}
"""Words read: the least of a bucket, and its name."""


def kept_shares(
    models: Sequence[str], what: str, low: int, column: str = "share_value"
) -> list[float]:
    """Return the share (%) of words or roles that is kept of prefixes, for each seed."""
    columns = {"cut": "clause ends", "kept": what, "low": low}
    return [share for m in models for share in VECTOR.values(m, "prefixes", column, **columns)]


def predicted_roles(model: str, low: int) -> float:
    """Return the share (%) of roles that the loss of words predicts."""
    columns = [kept_shares([model], "content words", low, c) for c in ("share_value", "chance")]
    return mean(float(predict_roles(*own)) for own in zip(*columns, strict=True))


def lost_roles(model: str, low: int) -> float:
    """Return how many points more roles are lost than the words explain."""
    return predicted_roles(model, low) - mean(kept_shares([model], "roles", low))


def confirm_roles() -> None:
    """Confirm: the RNN loses more roles beyond the words than other models at any length."""
    least = min(lost_roles(RNN, low) for low in READ if low >= 16)
    assert least > most_lost_by_others() + 3


def most_lost_by_others() -> float:
    """Return the most points that the LSTM or linear attention lose beyond the words."""
    return max(lost_roles(m, low) for m in (LSTM, LINEAR) for low in READ)


def role_table() -> str:
    """Return words kept, roles predicted from them, and roles kept, by the words read."""
    names = {RNN: "RNN", LSTM: "LSTM", LINEAR: "linear"}
    columns = [cell for n in names.values() for cell in (f"{n}: words", "predicted", "roles")]
    rows = [["words read", *columns]]
    for low, name in READ.items():
        shares = []
        for m in names:
            words, roles = (
                mean(kept_shares([m], what, low)) for what in ("content words", "roles")
            )
            shares += [words, predicted_roles(m, low), roles]
        rows.append([name, *(f"{share:.1f}" for share in shares)])
    return format_markdown(rows)


def garden_counts() -> str:
    """Format in how many trainings each model translates the sentence exactly."""
    counts = []
    for m in SIX:
        rows = [own[0] for own in VECTOR.analyses(m, "garden")]
        n = sum(row["translation"] == row["reference"] for row in rows)
        counts.append(f"{label_of(m)} in {n} of {len(rows)} trainings")
    return ", ".join(counts)


def ordered_pairs(*models: str, probe: str = "state") -> list[float]:
    """Return the share (%) of pairs that a probe orders rightly, by seed."""
    rows = [own[0] for m in models for own in VECTOR.analyses(m, "probe", probe=probe, kind="all")]
    return [row["pairs_value"] for row in rows]


# ------------------------------------------------------------------- Bahdanau to Transformer
STEPS = Results("ladder-transformer")
RECURRENT, SELF_ATTENDING = "transformer_recurrent", "transformer_recurrent_decoder"
STEP_NAMES = {
    BAHDANAU: "Bahdanau",
    "bahdanau_dot": "scaled dot product",
    "bahdanau_heads": "four heads",
    "bahdanau_tied": "output tied",
    "transformer_recurrent_1": "residuals, normalisation, feed-forward",
    RECURRENT: "a second layer",
    SELF_ATTENDING: "self-attention in the encoder",
    TRANSFORMER: "and in the decoder",
}


def confirm_steps() -> None:
    """Confirm: self-attention in the encoder loses BLEU; two recurrent layers have the most."""
    assert effect(STEPS.difference(SELF_ATTENDING, RECURRENT)) == -1
    assert max(STEP_NAMES, key=lambda m: STEPS.mean(m, "31–40")) == RECURRENT


def step_table() -> str:
    """Return BLEU of each step, its difference from the one before, and its sequential steps."""
    rows, before = {}, ""
    for model, name in STEP_NAMES.items():
        bleu = STEPS.texts(model, ("31–40", "71–80"))
        gain = bold_interval(STEPS.difference(model, before)) if before else ""
        n_steps = STEPS.rows(model, "sequential_steps")[0]["steps"]
        rows[name] = [*bleu, gain, f"{n_steps:.0f}"]
        before = model
    gained = "difference from the row above, all lengths"
    return table(["step", "BLEU, 31–40 words", "BLEU, 71–80", gained, "sequential steps"], rows)


# --------------------------------------------------------------------------------- Gradients
DISTANCE = Results("distance")


def source_gradients(
    column: str, model: str = LSTM, length: int = 100, **columns: Any
) -> list[float]:
    """Return the gradient near, far, or the ratio, along the source, of all starts."""
    return DISTANCE.values(model, "depth", column, when="before", length=length, **columns)


def scientific(x: float) -> str:
    """Format a number with two digits, as a power of ten if it is small."""
    if x >= 1:
        return f"{float(f'{x:.2g}'):,.0f}"
    return f"{x:.2g}" if x >= 1e-3 else f"{x:.0e}".replace("e-0", "e-").replace("-", "−")


def scientific_span(values: Sequence[float]) -> str:
    """Format the lowest and the highest value with two digits."""
    return format_range(values, scientific).replace("–", " to ")


def confirm_gradients() -> None:
    """Confirm: it vanishes without a forget bias and grows with one, in width 144 from 0.2."""
    configs = [run.settings for run in DISTANCE.records(LSTM)]
    assert {(cfg["d_model"], cfg["init_range"]) for cfg in configs} == {(144, 0.2)}
    starts: list[dict[str, Any]] = [
        {"n_layers": n, "forget_bias": bias} for bias, n in product((0, 2), (1, 5))
    ]
    ends = [source_gradients("ratio", **columns) for columns in starts]
    bounds = [max(ends[0]), min(ends[1]), 1.0, max(ends[2]), min(ends[3])]
    assert bounds == sorted(bounds)
    near = [source_gradients("near", **columns) for columns in starts[:2]]
    assert max(near[1]) < min(near[0]) / 10


def gradient_table() -> str:
    """Return the gradient at both ends of the source, by depth and forget bias."""
    kinds: dict[str, dict[str, Any]] = {"RNN encoder–decoder": {"model": RNN}}
    for bias, n in product((0, 2), (1, 5)):
        name = f"LSTM, {n} layer{'s' * (n > 1)}, forget bias {bias}"
        kinds[name] = {"n_layers": n, "forget_bias": bias}
    rows = {}
    for name, columns in kinds.items():
        ends = [source_gradients(column, **columns) for column in ("near", "far", "ratio")]
        rows[name] = [*map(scientific_span, ends)]
    return table(["", "near", "far", "far over near"], rows)
