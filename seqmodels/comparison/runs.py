"""Train, evaluate and record one model on a task: a run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from seqmodels.comparison.arm import Arm
from seqmodels.comparison.measure import evaluate_all, example_alignment
from seqmodels.comparison.sizes import count_parameters, model_sizes
from seqmodels.comparison.task import Task
from seqmodels.comparison.trained import load_model
from seqmodels.data.batches import place_of
from seqmodels.evaluation.evaluate import cache_bytes
from seqmodels.evaluation.metrics import methods, signatures
from seqmodels.interface import SequenceModel
from seqmodels.models import build, lineage
from seqmodels.records import record
from seqmodels.training import checkpoint, tensorboard
from seqmodels.training.checkpoint import Checkpoints
from seqmodels.training.config import Progress, TrainConfig
from seqmodels.training.flops import flops_per_token
from seqmodels.training.loop import train
from seqmodels.training.runtime import seed_all
from seqmodels.training.trainer import Trainer
from seqmodels.utils.files import GRACE_S, LOCK, Lock
from seqmodels.utils.progress import SILENT, StatusFile
from seqmodels.utils.terminal import defer_signals, print_line
from seqmodels.utils.world import world

# -------------------------------------------------------------------------------------- Settings


def shared_settings(task: Task) -> dict[str, Any]:
    """Return the settings that all runs in a folder share."""
    data = {f"data.{key}": value for key, value in task.data.items()}
    return data | {"beam": task.beam, **task.training}


def settings_of(old: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's settings, as `Run.settings` does, and the names of those it varies."""
    data = {f"data.{key}": value for key, value in old["data"].items()}
    sizes = {"model": old["model"], **old["model_config"]}
    varied = [*(old.get("arm") or {}).get("training", ())]
    return data | {"beam": old["beam"], "varied": varied} | sizes | old["train_config"]


def check_same_settings(path: Path, was: Any, now: Mapping[str, Any]) -> None:
    """Raise ValueError if the file at the path was made with other settings.

    A missing count is not a difference: it follows from text and tokenizer. Without `shards`, a
    batch is not shared.
    """
    was, now = ({"shards": 1} | (d if isinstance(d, dict) else {}) for d in (was, now))
    known = [k for k in now if k in was or not k.startswith("data.n_")]
    changed = [f"{k} was {was.get(k)}, is {now.get(k)}" for k in known if was.get(k) != now[k]]
    if changed:
        raise ValueError(
            f"{path} was made with other settings ({'; '.join(changed)}); choose another --out, or "
            "start again with --fresh"
        )


# ---------------------------------------------------------------------------------------- One run


class Run(NamedTuple):
    """An arm to train, evaluate and record."""

    arm: Arm
    task: Task
    cfg: TrainConfig
    path: Path
    """Path of the record; weights, hypotheses and checkpoints are stored beside it."""
    device: str
    checkpoint_every_s: float
    tensorboard: bool = False
    """Whether it writes curves for TensorBoard."""

    @property
    def name(self) -> str:
        """Return the name of its arm."""
        return self.arm.name

    @property
    def title(self) -> str:
        """Return its name in messages."""
        return f"{self.name}, seed {self.cfg.seed}"

    def checkpoints(self, about: Mapping[str, Any] | None = None) -> Checkpoints:
        """Return its checkpoints, with a timer of their own."""
        return Checkpoints(self.path, self.checkpoint_every_s, about)

    @property
    def status(self) -> StatusFile:
        """Return the file that says how far it is."""
        return StatusFile(self.path, self.title, self.cfg.tokens)

    def remove(self) -> None:
        """Delete all its files."""
        self.checkpoints().remove()
        self.status.delete()
        for suffix in (".json", ".jsonl", record.SUMS_SUFFIX, ".safetensors"):
            self.path.with_suffix(suffix).unlink(missing_ok=True)
        tensorboard.remove(self.path)

    def settings(self) -> dict[str, Any]:
        """Return everything its result depends on, as a flat dictionary."""
        sizes = {"model": self.name, **model_sizes(self.name, self.task)}
        return shared_settings(self.task) | sizes | self.cfg.settings()


def train_run(run: Run, model: SequenceModel, status: StatusFile = SILENT) -> Progress:
    """Train a run's model, resuming from its latest checkpoint; return the progress.

    A run that has a record is trained further, with a new schedule for the remaining tokens.
    """
    trainer, is_first = Trainer(model, run.cfg, status), world().is_first
    provenance = record.provenance(run.device, world().size)
    checkpoints = run.checkpoints({"settings": run.settings(), "provenance": provenance})
    begin_or_resume(trainer, run, checkpoints, provenance)
    is_drawn = run.tensorboard and is_first
    curves = tensorboard.Curves(run.path, trainer.progress.step) if is_drawn else None
    try:
        train(trainer, run.task.train, run.task.valid, checkpoints if is_first else None, curves)
    finally:
        if curves:
            curves.close()
    return trainer.progress


def begin_or_resume(
    trainer: Trainer, run: Run, checkpoints: Checkpoints, where: Mapping[str, Any]
) -> None:
    """Restore a run's latest checkpoint; without one, begin, or go on from its record.

    Raises ValueError if the checkpoint is of another run.
    """
    n_bytes = sum(p.nbytes for p in trainer.model.parameters())
    most_bytes = 2**26 + 5 * n_bytes  # larger files cannot be its own
    saved = world().broadcast_from_rank0(lambda: checkpoints.latest(trainer.log, most_bytes))
    if saved is None:
        if run.path.exists():
            continue_training(trainer, run)
        if not {*lineage(run.name)} & {*run.task.recipes}:
            trainer.log_event(
                "recipe", "no recipe of its own: default sizes, default lr for its kind of memory"
            )
        trainer.log(f"training on {run.cfg.tokens - trainer.progress.tokens:,} tokens")
        return
    check_same_settings(saved.path, saved.state.get("settings"), run.settings())
    try:
        trainer.restore(saved.tensors, saved.state)
    except ValueError as error:
        raise ValueError(
            f"{saved.path} does not fit this run: {error}; --fresh starts again"
        ) from None
    done = f"{trainer.progress.tokens:,} of {run.cfg.tokens:,} tokens"
    trainer.log_event("resumed", f"resumed after {done}{environment_changes(saved.state, where)}")


def continue_training(trainer: Trainer, run: Run) -> None:
    """Continue where a finished run ended: with its weights, its curve and the next batches.

    Optimiser and schedule start anew. Raises ValueError if the weights are missing or not its own.
    """
    old, cfg = record.load(run.path), run.cfg
    weights = load_model(old, run.path.with_suffix(".safetensors")).state_dict()
    trainer.model.load_state_dict(weights)
    trainer.best = {k: v.detach().clone() for k, v in trainer.model.state_dict().items()}
    last = old["curve"][-1]
    epoch, batch = place_of(run.task.train, cfg.batch_tokens, cfg.seed, last["step"])
    place = {"epoch": epoch, "batch": batch, "schedule_from": last["tokens"]}
    place |= {key: last[key] for key in ("step", "tokens", "seconds")}
    trainer.progress = Progress(**place, curve=old["curve"], events=old["events"])
    seed_all(cfg.seed)
    trainer.log_event(
        "resumed", f"trained further after {last['tokens']:,} tokens, with a new schedule"
    )


def environment_changes(state: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return a note on a changed environment, which can change the last digits."""
    was = state.get("provenance")
    was = was if isinstance(was, dict) else {}
    differ = [
        key for key in ("versions", "system", "device", "threads") if was.get(key) != now[key]
    ]
    return f"; other {', '.join(differ)} than before: last digits may differ" if differ else ""


def build_model(run: Run) -> SequenceModel:
    """Build a run's model, as it is before its first step."""
    torch.manual_seed(run.cfg.seed)
    return build(run.name, **model_sizes(run.name, run.task)).to(run.device)


def measure_task(
    run: Run, model: SequenceModel, status: StatusFile
) -> dict[str, list[dict[str, float | str]]]:
    """Return what the task measures of a trained model besides its scores; without dropout."""
    if not run.task.measure:
        return {}
    results, untrained_model = {}, build_model(run)
    for i, (name, measure) in enumerate(run.task.measure.items()):
        status.update("analysis", i, len(run.task.measure), name)
        results[name] = measure(model.eval(), untrained_model.eval())
    return results


def run_one(run: Run, patience_s: float = GRACE_S) -> dict[str, Any]:
    """Train, evaluate and record one model, unless another process has; return the record.

    Raises ValueError if another process does so at present, and has not ended in `patience_s`.
    """
    run.arm.register()
    with locked(run, patience_s):
        if (done := world().broadcast_from_rank0(lambda: recorded(run))) is not None:
            return done
        status = run.status if world().is_first else SILENT
        with status.running():
            return train_and_record(run, status)


@contextmanager
def locked(run: Run, patience_s: float) -> Iterator[None]:
    """Hold the run's lock, in the first process."""
    name = f".{run.path.stem}{LOCK}"
    lock = world().on_rank0(lambda: Lock(run.path.parent, name, patience_s, print_line))
    try:
        yield
    finally:
        if lock:
            lock.release()


def recorded(run: Run) -> dict[str, Any] | None:
    """Return a run's record, if it has one with its budget."""
    old = record.load(run.path) if run.path.exists() else None
    return old if old and old["train_config"]["tokens"] >= run.cfg.tokens else None


def train_and_record(run: Run, status: StatusFile) -> dict[str, Any]:
    """Train, evaluate and record one model; return the record.

    Where several processes train it, all evaluate their share, and the first one writes.
    """
    record.reset_peak_memory(run.device)
    model = build_model(run)
    progress = train_run(run, model, status)
    since = time.perf_counter()
    rows, tests = evaluate_all(model, run.task, run.device, status)
    evaluate_s = time.perf_counter() - since
    result = build_record(run, model, progress, tests) | {
        "analyses": measure_task(run, model, status),
        "speed": {
            "train_tokens_per_s": progress.curve[-1]["tokens"] / progress.curve[-1]["seconds"],
            "evaluate_sentences_per_s": len(rows) / evaluate_s,
        },
        "evaluate_s": evaluate_s,
    }
    if world().is_first:
        with defer_signals():
            weights = run.path.with_suffix(".safetensors")
            result["weights_sha256"] = checkpoint.save_weights(weights, model.state_dict())
            record.save(run.path, result, rows)
            run.checkpoints().remove()
    return result


def build_record(
    run: Run, model: SequenceModel, progress: Progress, tests: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a run's record without its speed, weights and the task's own measurements."""
    task, device = run.task, run.device
    kept = cache_bytes(model, device)
    return {
        "schema": record.SCHEMA,
        "task": task.name,
        "model": run.name,
        **({"arm": run.arm.recorded()} if run.arm.is_changed else {}),
        "seed": run.cfg.seed,
        "model_config": model_sizes(run.name, task),
        "train_config": run.cfg.settings(),
        "beam": task.beam,
        "n_parameters": count_parameters(model),
        "data": task.data,
        "provenance": record.provenance(device, world().size),
        "curve": progress.curve,
        "events": progress.events,
        "tests": tests,
        "signatures": signatures(task.bleu_tokenize),
        "alignment": example_alignment(model, task, device),
        "source_bytes": [(n, 4 * model.config.source_floats(n)) for n, _ in kept],
        "cache_bytes": kept,
        "flops_per_token": flops_per_token(model, task.train, run.cfg),
        "peak_memory_bytes": record.peak_memory_bytes(device),
        "train_s": progress.curve[-1]["seconds"],
        "hypotheses": run.path.with_suffix(".jsonl").name,
        "intervals": methods(name for test in tests for name in test["overall"]),
        "continued": continued_from(run, progress),
    }


def continued_from(run: Run, progress: Progress) -> dict[str, Any] | None:
    """Return what a run that was trained further started from."""
    if not progress.schedule_from:
        return None
    sha256 = record.load(run.path)["weights_sha256"] if run.path.exists() else None
    return {"tokens": progress.schedule_from, "weights_sha256": sha256 or "not recorded"}
