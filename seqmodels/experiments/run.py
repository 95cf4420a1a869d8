"""A run: train a model, evaluate it, analyse it, and record what came out.

Read `train_and_record` first: it calls the five steps, one after the other.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from seqmodels.data.batches import collate
from seqmodels.evaluation.evaluate import (
    compare_tokens,
    generate_targets,
    measure_cache_bytes,
    score_teacher_forced,
)
from seqmodels.evaluation.intervals import Row
from seqmodels.evaluation.metrics import (
    compute_scores_by_bucket,
    register_metric,
    sacrebleu_signatures,
)
from seqmodels.experiments.sweep import Run, check_same_settings, count_parameters
from seqmodels.experiments.task import Rows, Task, TestSet
from seqmodels.interface import EOS, SequenceModel, device_of
from seqmodels.models import SHA256, Value
from seqmodels.models.cache import attend_fused, fuse, read_fused
from seqmodels.records import io as record
from seqmodels.records.schema import Event, Record
from seqmodels.training.checkpoint import SUFFIX, Checkpoint, load_model, save_weights
from seqmodels.training.config import Progress
from seqmodels.training.loop import train
from seqmodels.training.trainer import Trainer
from seqmodels.utils.terminal import SILENT, ProgressBar, defer_signals


def train_and_record(run: Run) -> Record:
    """Carry out a run; return its record."""
    bar = ProgressBar(run.title)
    try:
        model, progress = fit(run, bar)
        since = time.perf_counter()
        rows, tests = evaluate(run, model, bar)
        evaluate_s = time.perf_counter() - since
        analyses = analyse(run, model, bar)
        result = build_record(run, model, progress, tests, evaluate_s, analyses)
        return write(run, model, result, rows)
    finally:
        bar.close()


# ------------------------------------------------------------------------------------------ 1. Fit


def fit(run: Run, bar: ProgressBar = SILENT) -> tuple[SequenceModel, Progress]:
    """Train a run's model, or take it from the folder that --trained names.

    Training resumes from the latest checkpoint, if there is one.
    """
    model = build_model(run)
    if trained := load_trained(run, model):
        return model, trained
    trainer = Trainer(model, run.cfg, bar)
    checkpoint = Checkpoint(run.path, run.settings())
    if checkpoint.path.exists():
        tensors, state = checkpoint.load()
        try:
            trainer.restore(tensors, state["progress"])
        except RuntimeError as error:  # a class of the user's own has changed
            raise ValueError(
                f"{checkpoint.path} does not fit: {str(error)[:200]}; --fresh starts again"
            ) from None
        share = f"{trainer.progress.tokens:,} of {trainer.cfg.tokens:,} tokens"
        trainer.log_event("resumed", f"resumed after {share}")
    else:
        if not run.spec.lineage.keys() & run.task.recipes.keys():
            trainer.log_event(
                "recipe", "no recipe of its own: default sizes, default lr for its kind of memory"
            )
        trainer.log(f"training on {run.cfg.tokens:,} tokens")
    with open_curves(run, trainer.progress.step) as curves:
        train(trainer, run.task.train, run.task.valid, checkpoint, curves)
    return model, trainer.progress


def open_curves(run: Run, first_step: int) -> Any:
    """Return the writer of TensorBoard's curves, if any, from the first step on."""
    if not run.options.tensorboard:
        return nullcontext()
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(curves_of(run)), purge_step=first_step, flush_secs=20)


def build_model(run: Run) -> SequenceModel:
    """Build a run's model, as it is before its first step."""
    torch.manual_seed(run.cfg.seed)
    model = run.spec.build(run.sizes)
    if run.task.begin:
        run.task.begin(model, [*run.spec.lineage], run.cfg.seed)
    fuse(model, read_fused if run.device == "cpu" else attend_fused)
    if run.device != "cpu":
        torch.set_float32_matmul_precision("high")  # TF32, on GPUs of NVIDIA
    return model.to(run.device)


def load_trained(run: Run, model: SequenceModel) -> Progress | None:
    """Load the weights of the same run of another folder; return its progress, or None without one.

    Raises ValueError if it was made with other settings.
    """
    trained = run.options.trained
    if trained is None or not (path := trained / run.path.name).exists():
        return None
    old = record.load(path)
    check_same_settings(path, {**run.class_settings(), **recorded_settings(old)}, run.settings())
    model.load_state_dict(load_model(old, path.with_suffix(".safetensors")).state_dict())
    event = Event(step=old.curve[-1].step, kind="trained", what=f"trained by the task {old.task}")
    return Progress(
        curve=[point.model_dump() for point in old.curve],
        events=[event.model_dump() for event in (*old.events, event)],
    )


def recorded_settings(old: Record) -> dict[str, Value]:
    """Return a record's settings, as `Run.settings` does; earlier records lack some."""
    values = {f"data.{name}": value for name, value in old.data} | old.defaults
    if old.model_sha256:
        values["model_sha256"] = old.model_sha256
    return {**values, "beam": old.beam, "model": old.model} | old.settings | dict(old.train_config)


# ------------------------------------------------------------------------------------- 2. Evaluate


def evaluate(
    run: Run, model: SequenceModel, bar: ProgressBar = SILENT
) -> tuple[list[Row], list[dict[str, Any]]]:
    """Score a trained model on the task's test sets; return all rows, and the record's `tests`."""
    rows, tests = list[Row](), list[dict[str, Any]]()
    for test in run.task.tests:
        bar.detail = f"test set {test.name}"
        if run.options.metric and test.is_generated:
            test = replace(test, primary_metric=run.options.metric)
        test_rows, entry = score_test_set(model, run.task, test, bar)
        rows += test_rows
        tests.append(entry)
    bar.detail = ""
    return rows, tests


def score_test_set(
    model: SequenceModel, task: Task, test: TestSet, bar: ProgressBar = SILENT
) -> tuple[list[Row], dict[str, Any]]:
    """Return a test set's rows and its entry in the record."""
    model = test.adapt(model, bar) if test.adapt else model
    beam = test.beam or task.beam
    rows = build_rows(model, task, test, beam, bar)
    metric = register_metric(test.primary_metric).rpartition(":")[2]
    overall, buckets = compute_scores_by_bucket(rows, test.buckets, task.bleu_tokenize)
    fields = "name", "axis", "kind", "unit", "max_train_length", "noun"
    about = {name: getattr(test, name) for name in fields} | {
        "primary_metric": metric, "grouped_by": test.grouped_by or None,
        "baseline": test.baseline_name or None,
    }  # fmt: skip
    if test.is_generated:
        about["beam"] = beam
    return rows, {**about, "overall": overall, "buckets": buckets}


def build_rows(
    model: SequenceModel, task: Task, test: TestSet, beam: int, bar: ProgressBar = SILENT
) -> list[Row]:
    """Return a row per example: its texts, losses and, if generated, the hypothesis."""
    rows = score_teacher_forced(model, test.examples, bar=bar)
    free = generate_targets(model, test.examples, beam, bar) if test.is_generated else None
    for i, (row, example) in enumerate(zip(rows, test.examples, strict=True)):
        tgt = example.scored()
        src, ref = task.tokenizer.decode(example.src), task.tokenizer.decode(tgt)
        n_bytes = task.tokenizer.n_bytes(tgt)
        if test.texts:
            src, ref = test.texts[i]
            n_bytes = len(ref.encode())
        n_bytes += EOS in tgt  # the end of a text counts as one byte
        row |= {"set": test.name, "x": test.x[i], "n_bytes": n_bytes, "src": src, "ref": ref}
        if test.groups is not None:
            row["group"] = test.groups[i]
        if test.baseline is not None:
            row["baseline"] = test.baseline[i]
        if free is None:
            row["exact_match"] = row["n_correct"] == row["n_tokens"]
        else:
            row |= {"hyp": task.tokenizer.decode(free[i])} | compare_tokens(free[i], example.tgt)
    return rows


# -------------------------------------------------------------------------------------- 3. Analyse


def analyse(run: Run, model: SequenceModel, bar: ProgressBar = SILENT) -> dict[str, Rows]:
    """Return the task's own measurements of a trained model."""
    measures, analyses = run.task.measure, dict[str, Rows]()
    untrained = build_model(run) if measures else model
    for i, (name, measure) in enumerate(measures.items()):
        bar.update("analysis", i, len(measures), name)
        analyses[name] = measure(model.eval(), untrained.eval())
    return analyses


@torch.inference_mode()
def align_example(model: SequenceModel, task: Task) -> dict[str, Any] | None:
    """Return the attention of the shown example's reference to its source, if there is any."""
    if task.alignment_example is None or not model.cross_attentions:
        return None
    example, links = task.alignment_example
    batch = collate([example], device_of(model))
    tgt = [token for token in example.tgt if token != EOS]
    alpha = model.align(batch.src, batch.src_mask, batch.tgt_in)[0, : len(tgt)]
    return {
        "src": task.tokenizer.tokens(example.src),
        "tgt": task.tokenizer.tokens(tgt),
        "alpha": [[round(a, 4) for a in row] for row in alpha.tolist()],
        "gold": links,
    }


# ----------------------------------------------------------------------------- 4. Build the record


def build_record(
    run: Run,
    model: SequenceModel,
    progress: Progress,
    tests: Sequence[Mapping[str, Any]],
    evaluate_s: float,
    analyses: Mapping[str, Rows],
) -> Record:
    """Return a run's record, without the checksum of its weights; ValueError if it is invalid."""
    task, device, last = run.task, run.device, progress.curve[-1]
    state_bytes, spec = measure_cache_bytes(model), run.spec
    arm = {"varies": spec.info.variant_of, "label": spec.info.label, "width": spec.width}
    arm |= {"sizes": dict(spec.sizes), "training": dict(spec.training)}
    sha256 = SHA256.get(spec.model_type.__module__)
    return record.build({
        "schema": record.SCHEMA,
        "task": task.name,
        "model": run.spec.name,
        **({"arm": arm} if run.spec.is_changed else {}),
        "seed": run.cfg.seed,
        "model_config": run.sizes,
        "model_defaults": run.defaults,
        **({"model_sha256": sha256} if sha256 else {}),
        "train_config": run.cfg.settings(),
        "beam": task.beam,
        "n_parameters": count_parameters(model),
        "contrasts": list_contrasts(run),
        "data": task.data,
        "provenance": record.collect_provenance(device),
        "curve": progress.curve,
        "events": progress.events,
        "tests": tests,
        "signatures": sacrebleu_signatures(task.bleu_tokenize),
        "alignment": align_example(model, task),
        "source_bytes": [(n, 4 * model.source_floats(n)) for n, _ in state_bytes],
        "cache_bytes": state_bytes,
        "train_s": last["seconds"],
        "hypotheses": run.path.with_suffix(".jsonl").name,
        "analyses": dict(analyses),
        "speed": {
            "train_tokens_per_s": last["tokens"] / last["seconds"],
            "evaluate_sentences_per_s": sum(len(test.examples) for test in task.tests) / evaluate_s,
        },
        "evaluate_s": evaluate_s,
        "weights_sha256": None,
    })  # fmt: skip


def list_contrasts(run: Run) -> list[str] | None:
    """Return the models from which a run's difference is tested; None: all others.

    A changed model is compared with the unchanged one, and with the same change of the models that
    the unchanged one is compared with.
    """
    base = run.spec.info.variant_of if run.spec.is_changed else run.spec.name
    named = [column for row, column in run.task.contrasts if row == base]
    if run.spec.is_changed:
        return [base, *(f"{other}{run.spec.name.removeprefix(base)}" for other in named)]
    return named if any(base in pair for pair in run.task.contrasts) else None


# ---------------------------------------------------------------------------------------- 5. Write


def write(run: Run, model: SequenceModel, result: Record, rows: Sequence[Row]) -> Record:
    """Write weights, hypotheses and, last, the record, and return it."""
    with defer_signals():
        sha256 = save_weights(run.path.with_suffix(".safetensors"), model.state_dict())
        result = result.model_copy(update={"weights_sha256": sha256})
        result = record.save(run.path, result, rows)
        run.path.with_suffix(SUFFIX).unlink(missing_ok=True)
    return result


def remove(run: Run) -> None:
    """Delete all files of a run, which is to start again."""
    for suffix in (SUFFIX, ".json", ".jsonl", record.SUMS_SUFFIX, ".safetensors"):
        run.path.with_suffix(suffix).unlink(missing_ok=True)
    shutil.rmtree(curves_of(run), ignore_errors=True)


def curves_of(run: Run) -> Path:
    """Return the folder of a run's curves for TensorBoard."""
    return run.path.parent / "tensorboard" / run.path.stem
