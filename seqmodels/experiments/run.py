"""A run: train a model, evaluate it, analyse it, and record what came out.

Read `train_and_record` first: it calls the five steps, one after the other.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch

from seqmodels.evaluation.evaluate import measure_cache_bytes
from seqmodels.evaluation.intervals import Row
from seqmodels.evaluation.metrics import interval_methods, sacrebleu_signatures
from seqmodels.experiments.evaluate_run import example_alignment, flops_per_token, score_test_set
from seqmodels.experiments.options import Options
from seqmodels.experiments.specs import Spec, count_parameters
from seqmodels.experiments.task import Rows, Task
from seqmodels.interface import SequenceModel
from seqmodels.models import Fields, Value
from seqmodels.records import io as record
from seqmodels.records import provenance
from seqmodels.records.schema import Event, Record
from seqmodels.training import checkpoint
from seqmodels.training.checkpoint import Checkpoints
from seqmodels.training.config import Progress, TrainConfig
from seqmodels.training.curves import open_curves
from seqmodels.training.loop import train
from seqmodels.training.trainer import Trainer
from seqmodels.utils.files import LOCK, Lock
from seqmodels.utils.progress import SILENT, StatusFile
from seqmodels.utils.terminal import defer_signals


class Run(NamedTuple):
    """A spec to train with one seed, evaluate and record."""

    spec: Spec
    task: Task
    cfg: TrainConfig
    sizes: Fields
    """What the model is built with."""
    path: Path
    """Path of the record; weights, hypotheses and checkpoints are stored beside it."""
    device: str
    options: Options

    @property
    def name(self) -> str:
        """Return the name of its spec."""
        return self.spec.name

    @property
    def title(self) -> str:
        """Return its name in messages."""
        return f"{self.name}, seed {self.cfg.seed}"

    @property
    def curves(self) -> Path:
        """Return the folder of its curves for TensorBoard."""
        return self.path.parent / "tensorboard" / self.path.stem

    @property
    def status(self) -> StatusFile:
        """Return its status file."""
        return StatusFile(self.path, self.title, self.cfg.tokens)

    def checkpoints(self, about: Mapping[str, object] | None = None) -> Checkpoints:
        """Return its checkpoints, with their own timer."""
        return Checkpoints(self.path, self.options.checkpoint_every, about)

    def remove(self) -> None:
        """Delete all its files."""
        self.checkpoints().remove()
        self.status.delete()
        for suffix in (".json", ".jsonl", record.SUMS_SUFFIX, ".safetensors"):
            self.path.with_suffix(suffix).unlink(missing_ok=True)
        shutil.rmtree(self.curves, ignore_errors=True)

    def settings(self) -> dict[str, Value]:
        """Return everything its result depends on, as a flat dictionary."""
        own = {"model": self.name, **self.sizes, **self.cfg.settings()}
        return {**shared_settings(self.task), **own}

    def build_model(self) -> SequenceModel:
        """Build its model, as it is before its first step."""
        torch.manual_seed(self.cfg.seed)
        model = self.spec.build(self.sizes)
        if self.task.begin:
            self.task.begin(model, [*self.spec.lineage], self.cfg.seed)
        return model.to(self.device)


class Evaluation(NamedTuple):
    """The scores of a trained model on all test sets of its task."""

    rows: list[Row]
    tests: list[dict[str, Any]]
    """The entries in the record."""
    seconds: float
    alignment: dict[str, Any] | None
    peak_memory_bytes: int | None
    """Of training and evaluation; None: the system does not say."""


def train_and_record(run: Run) -> Record:
    """Carry out a run, unless another process has; return its record.

    A process that does so at present is waited for.
    """
    with Lock(run.path.parent, f".{run.path.stem}{LOCK}", math.inf):
        if run.path.exists():
            return record.load(run.path)
        with (status := run.status).running():
            provenance.reset_peak_memory(run.device)
            model, progress = fit(run, status)
            evaluation = evaluate(run, model, status)
            analyses = analyse(run, model, status)
            result = build_record(run, model, progress, evaluation, analyses)
            return write(run, model, result, evaluation.rows)


# ------------------------------------------------------------------------------------------ 1. Fit


def fit(run: Run, status: StatusFile = SILENT) -> tuple[SequenceModel, Progress]:
    """Train a run's model, or take it from the folder that --trained names.

    Training resumes from the latest checkpoint, if there is one. Raises ValueError if that, or the
    trained run, was made with other settings.
    """
    model = run.build_model()
    if trained := load_trained(run, model):
        return model, trained
    trainer = Trainer(model, run.cfg, status)
    about = {"settings": run.settings(), "provenance": provenance.collect(run.device)}
    checkpoints = run.checkpoints(about)
    if saved := checkpoints.latest(trainer.log):
        resume(trainer, saved, about)
    else:
        if not run.spec.lineage.keys() & run.task.recipes.keys():
            trainer.log_event(
                "recipe", "no recipe of its own: default sizes, default lr for its kind of memory"
            )
        trainer.log(f"training on {run.cfg.tokens:,} tokens")
    is_drawn = run.options.tensorboard
    with open_curves(run.curves, trainer.progress.step) if is_drawn else nullcontext() as curves:
        train(trainer, run.task.train, run.task.valid, checkpoints, curves)
    return model, trainer.progress


def resume(trainer: Trainer, saved: checkpoint.Checkpoint, about: Mapping[str, Any]) -> None:
    """Restore a checkpoint; raise ValueError if it belongs to another run."""
    check_same_settings(saved.path, saved.state["settings"], about["settings"])
    try:
        trainer.restore(saved.tensors, saved.state)
    except ValueError as error:
        raise ValueError(
            f"{saved.path} does not fit this run: {error}; --fresh starts again"
        ) from None
    was, now = saved.state.get("provenance"), about["provenance"]
    was = was if isinstance(was, dict) else {}
    keys = [k for k in ("versions", "system", "device", "threads") if was.get(k) != now[k]]
    share = f"{trainer.progress.tokens:,} of {trainer.cfg.tokens:,} tokens"
    earlier = f" (on {was['device']})" if "device" in keys and "device" in was else ""
    note = f"; other {', '.join(keys)} than before{earlier}: last digits may differ" if keys else ""
    trainer.log_event("resumed", f"resumed after {share}{note}")


def load_trained(run: Run, model: SequenceModel) -> Progress | None:
    """Load the weights of the same run of another folder; return its progress, or None without one.

    Raises ValueError if it was made with other settings.
    """
    from seqmodels.experiments.inference import load_model

    trained = run.options.trained
    if trained is None or not (path := trained / run.path.name).exists():
        return None
    old = record.load(path)
    check_same_settings(path, recorded_settings(old), run.settings())
    model.load_state_dict(load_model(old, path.with_suffix(".safetensors")).state_dict())
    event = Event(step=old.curve[-1].step, kind="trained", what=f"trained by the task {old.task}")
    return Progress(
        curve=[point.model_dump() for point in old.curve],
        events=[event.model_dump() for event in (*old.events, event)],
    )


# ----------------------------------------------------------------------- 2. Evaluate, 3. analyse


def evaluate(run: Run, model: SequenceModel, status: StatusFile = SILENT) -> Evaluation:
    """Score a trained model on the task's test sets, and align the example that is shown."""
    since, rows, tests = time.perf_counter(), list[Row](), list[dict[str, Any]]()
    for test in run.task.tests:
        status.detail = f"test set {test.name}"
        test_rows, entry = score_test_set(model, run.task, test, status)
        rows += test_rows
        tests.append(entry)
    status.detail = ""
    seconds = time.perf_counter() - since
    alignment = example_alignment(model, run.task)
    return Evaluation(rows, tests, seconds, alignment, provenance.peak_memory_bytes(run.device))


def analyse(run: Run, model: SequenceModel, status: StatusFile = SILENT) -> dict[str, Rows]:
    """Return the task's own measurements of a trained model."""
    task, analyses = run.task, dict[str, Rows]()
    untrained = run.build_model() if task.measure else model
    for i, (name, measure) in enumerate(task.measure.items()):
        status.update("analysis", i, len(task.measure), name)
        analyses[name] = measure(model.eval(), untrained.eval())
    return analyses


# -------------------------------------------------------------------------- 4. Build the record


def build_record(
    run: Run,
    model: SequenceModel,
    progress: Progress,
    evaluation: Evaluation,
    analyses: Mapping[str, Rows],
) -> Record:
    """Return a run's record, without the checksum of its weights; ValueError if it is invalid."""
    task, device, last = run.task, run.device, progress.curve[-1]
    state_bytes = measure_cache_bytes(model)
    metrics = (name for test in evaluation.tests for name in test["overall"])
    return record.build({
        "schema": record.SCHEMA,
        "task": task.name,
        "model": run.name,
        **({"arm": run.spec.recorded()} if run.spec.is_changed else {}),
        "seed": run.cfg.seed,
        "model_config": run.sizes,
        "train_config": run.cfg.settings(),
        "beam": task.beam,
        "n_parameters": count_parameters(model),
        "contrasts": list_contrasts(run),
        "data": task.data,
        "provenance": provenance.collect(device),
        "curve": progress.curve,
        "events": progress.events,
        "tests": evaluation.tests,
        "signatures": sacrebleu_signatures(task.bleu_tokenize),
        "alignment": evaluation.alignment,
        "source_bytes": [(n, 4 * model.config.source_floats(n)) for n, _ in state_bytes],
        "cache_bytes": state_bytes,
        "flops_per_token": flops_per_token(model, task.train, run.cfg),
        "peak_memory_bytes": evaluation.peak_memory_bytes,
        "train_s": last["seconds"],
        "hypotheses": run.path.with_suffix(".jsonl").name,
        "intervals": interval_methods(metrics),
        "analyses": dict(analyses),
        "speed": {
            "train_tokens_per_s": last["tokens"] / last["seconds"],
            "evaluate_sentences_per_s": len(evaluation.rows) / evaluation.seconds,
        },
        "evaluate_s": evaluation.seconds,
        "weights_sha256": None,
    })  # fmt: skip


def list_contrasts(run: Run) -> list[str] | None:
    """Return the models from which a run's difference is tested; None: all others.

    A changed model is compared with the unchanged one, and with the same change of the models that
    the unchanged one is compared with.
    """
    if not run.spec.is_changed:
        return run.task.contrasts_of(run.name)
    base = run.spec.info.variant_of
    change, named = run.name.removeprefix(base), run.task.contrasts_of(base) or []
    return [base, *(f"{other}{change}" for other in named)]


# ---------------------------------------------------------------------------------------- 5. Write


def write(run: Run, model: SequenceModel, result: Record, rows: Sequence[Row]) -> Record:
    """Write weights, hypotheses and, last, the record, and return it."""
    with defer_signals():
        weights = run.path.with_suffix(".safetensors")
        sha256 = checkpoint.save_weights(weights, model.state_dict())
        result = result.model_copy(update={"weights_sha256": sha256})
        record.save(run.path, result, rows)
        run.checkpoints().remove()
    return result


# ---------------------------------------------------------------------------------------- Settings


def shared_settings(task: Task) -> dict[str, Value]:
    """Return the settings that all runs in a folder share."""
    data = {f"data.{key}": value for key, value in task.data.items()}
    return {**data, "beam": task.beam, **task.training}


def recorded_settings(old: Record) -> dict[str, Value]:
    """Return a record's settings, as `Run.settings` does."""
    data = {f"data.{key}": value for key, value in old.data.model_dump().items()}
    sizes = {"model": old.model, **old.settings}
    return {**data, "beam": old.beam, **sizes, **old.train_config.model_dump()}


def check_same_settings(path: Path, was: Fields, now: Fields) -> None:
    """Raise ValueError if the file at the path was made with other settings.

    A count is not named beside another difference of the data, and a missing one is none: it
    follows from text and tokenizer. Without `optimizer` it is AdamW.
    """
    was, now = ({"optimizer": "adamw", **settings} for settings in (was, now))
    keys = [k for k in now if k in was or not k.startswith("data.n_")]
    differ = [k for k in keys if was.get(k) != now[k]]
    differ = [k for k in differ if not k.startswith("data.n_")] or differ
    changed = [f"{k} was {was.get(k)}, is {now.get(k)}" for k in differ]
    if changed:
        raise ValueError(
            f"{path} was made with other settings ({'; '.join(changed)}); choose another --out, or "
            "start again with --fresh"
        )
