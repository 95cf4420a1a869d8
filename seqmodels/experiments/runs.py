"""Train, evaluate and record one model on a task: a run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from seqmodels.data.batches import Example, longest, training_batches
from seqmodels.evaluation.evaluate import (
    align_target,
    compare_tokens,
    generate_targets,
    measure_cache_bytes,
    score_teacher_forced,
)
from seqmodels.evaluation.intervals import Row
from seqmodels.evaluation.metrics import (
    compute_scores_by_bucket,
    interval_methods,
    pair_by_length,
    sacrebleu_signatures,
)
from seqmodels.experiments.snapshots import Snapshots
from seqmodels.experiments.specs import Spec, count_parameters, model_sizes
from seqmodels.experiments.task import Task, TestSet
from seqmodels.interface import BOS, EOS, PAD, Batch, SequenceModel
from seqmodels.models import ancestors, build
from seqmodels.records import io as record
from seqmodels.records import provenance, snapshots
from seqmodels.training import checkpoint
from seqmodels.training.checkpoint import Checkpoints
from seqmodels.training.config import Progress, TrainConfig
from seqmodels.training.curves import TensorBoard
from seqmodels.training.loop import loss_of, train
from seqmodels.training.trainer import Trainer
from seqmodels.utils.files import LOCK, Lock
from seqmodels.utils.progress import SILENT, StatusFile
from seqmodels.utils.terminal import defer_signals

# -------------------------------------------------------------------------------------- Settings


def shared_settings(task: Task) -> dict[str, Any]:
    """Return the settings that all runs in a folder share."""
    data = {f"data.{key}": value for key, value in task.data.items()}
    return data | {"beam": task.beam, **task.training}


def recorded_settings(old: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's settings, as `Run.settings` does, and the names of those it varies."""
    data = {f"data.{key}": value for key, value in old["data"].items()}
    sizes = {"model": old["model"], **old["model_config"]}
    varied = [*(old.get("arm") or {}).get("training", ())]
    return data | {"beam": old["beam"], "varied": varied} | sizes | old["train_config"]


def check_same_settings(path: Path, was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
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


# ---------------------------------------------------------------------------------------- One run


class Run(NamedTuple):
    """An arm to train, evaluate and record."""

    spec: Spec
    task: Task
    cfg: TrainConfig
    path: Path
    """Path of the record; weights, hypotheses and checkpoints are stored beside it."""
    device: str
    checkpoint_every_s: float
    tensorboard: bool = False
    """Whether it writes curves for TensorBoard."""
    trained: Path | None = None
    """Folder from which the run is taken, if it has been trained there."""
    n_snapshots: int = 0
    """Snapshots of its training; see `Snapshots`."""

    @property
    def name(self) -> str:
        """Return the name of its arm."""
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
    def snapshots(self) -> Snapshots:
        """Return what takes its snapshots, if it has any."""
        return Snapshots(self.task, self.n_snapshots, self.device)

    @property
    def status(self) -> StatusFile:
        """Return its status file."""
        return StatusFile(self.path, self.title, self.cfg.tokens)

    def checkpoints(self, about: Mapping[str, Any] | None = None) -> Checkpoints:
        """Return its checkpoints, with their own timer."""
        return Checkpoints(self.path, self.checkpoint_every_s, about)

    def remove(self) -> None:
        """Delete all its files."""
        self.checkpoints().remove()
        self.status.delete()
        for suffix in (".json", ".jsonl", record.SUMS_SUFFIX, snapshots.SUFFIX, ".safetensors"):
            self.path.with_suffix(suffix).unlink(missing_ok=True)
        shutil.rmtree(self.curves, ignore_errors=True)

    def settings(self) -> dict[str, Any]:
        """Return everything its result depends on, as a flat dictionary."""
        sizes = {"model": self.name, **model_sizes(self.name, self.task)}
        return shared_settings(self.task) | sizes | self.cfg.settings()


def train_if_missing(run: Run, patience_s: float | None = None) -> dict[str, Any]:
    """Train, evaluate and record one model, unless another process has; return the record.

    Raises ValueError if another process does so at present, and has not ended in `patience_s`; see
    Lock.
    """
    run.spec.register()
    with hold_lock(run.path.parent, f".{run.path.stem}{LOCK}", patience_s):
        if run.path.exists():
            return record.load(run.path)
        with (status := run.status).running():
            return train_and_record(run, status)


@contextmanager
def hold_lock(folder: Path, name: str = LOCK, patience_s: float | None = None) -> Iterator[None]:
    """Hold a folder's lock."""
    lock = Lock(folder, name, patience_s)
    try:
        yield
    finally:
        lock.release()


def build_model(run: Run) -> SequenceModel:
    """Build a run's model, as it is before its first step."""
    torch.manual_seed(run.cfg.seed)
    model = build(run.name, **model_sizes(run.name, run.task))
    if run.task.begin:
        run.task.begin(model, run.name, run.cfg.seed)
    return model.to(run.device)


def train_and_record(run: Run, status: StatusFile) -> dict[str, Any]:
    """Train, evaluate and record one model; return the record."""
    task, device = run.task, run.device
    provenance.reset_peak_memory(device)
    model = build_model(run)
    progress = load_trained(run, model) or fit(run, model, status)
    since, rows, tests = time.perf_counter(), [], []
    for test in task.tests:
        status.detail = f"test set {test.name}"
        test_rows, scores = evaluate(model, task, test, device, status)
        rows += test_rows
        tests.append(scores)
    status.detail = ""
    evaluate_s = time.perf_counter() - since
    result = build_record(run, model, progress, tests) | {
        "analyses": {},
        "speed": {
            "train_tokens_per_s": progress.curve[-1]["tokens"] / progress.curve[-1]["seconds"],
            "evaluate_sentences_per_s": len(rows) / evaluate_s,
        },
        "evaluate_s": evaluate_s,
    }
    taken = None
    if run.n_snapshots:
        taken = run.snapshots.finish(model, progress, rows, result["alignment"])
        if task.follow:
            shots = taken["snapshots"]
            result["analyses"]["training"] = [{"tokens": s["tokens"], **s["scores"]} for s in shots]
    untrained = build_model(run) if task.measure else model
    for i, (name, measure) in enumerate(task.measure.items()):
        status.update("analysis", i, len(task.measure), name)
        result["analyses"][name] = measure(model.eval(), untrained.eval())
    with defer_signals():
        weights = run.path.with_suffix(".safetensors")
        result["weights_sha256"] = checkpoint.save_weights(weights, model.state_dict())
        snapshots.save(snapshots.path_of(run.path), taken)
        record.save(run.path, result, rows)
        run.checkpoints().remove()
    return result


def list_contrasts(run: Run) -> list[str] | None:
    """Return the models from which a run's difference is tested; None: all others.

    A changed model is compared with the unchanged one, and with the same change of the models that
    the unchanged one is compared with.
    """
    if not run.spec.is_changed or run.spec.varies is None:
        return run.task.contrasts_of(run.name)
    change = run.name.removeprefix(run.spec.varies)
    named = run.task.contrasts_of(run.spec.varies) or []
    return [run.spec.varies, *(f"{other}{change}" for other in named)]


def build_record(
    run: Run, model: SequenceModel, progress: Progress, tests: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a run's record without its speed, weights and the task's own measurements."""
    task, device = run.task, run.device
    state_bytes = measure_cache_bytes(model, device)
    return {
        "schema": record.SCHEMA,
        "task": task.name,
        "model": run.name,
        **({"arm": run.spec.recorded()} if run.spec.is_changed else {}),
        "seed": run.cfg.seed,
        "model_config": model_sizes(run.name, task),
        "train_config": run.cfg.settings(),
        "beam": task.beam,
        "n_parameters": count_parameters(model),
        "contrasts": list_contrasts(run),
        "data": task.data,
        "provenance": provenance.collect(device),
        "curve": progress.curve,
        "events": progress.events,
        "tests": tests,
        "signatures": sacrebleu_signatures(task.bleu_tokenize),
        "alignment": example_alignment(model, task, device),
        "source_bytes": [(n, 4 * model.config.source_floats(n)) for n, _ in state_bytes],
        "cache_bytes": state_bytes,
        "flops_per_token": flops_per_token(model, task.train, run.cfg),
        "peak_memory_bytes": provenance.peak_memory_bytes(device),
        "train_s": progress.curve[-1]["seconds"],
        "hypotheses": run.path.with_suffix(".jsonl").name,
        "intervals": interval_methods(name for test in tests for name in test["overall"]),
    }


# --------------------------------------------------------------------------------------- Training


def fit(run: Run, model: SequenceModel, status: StatusFile = SILENT) -> Progress:
    """Train a run's model; return the progress.

    It resumes from its latest checkpoint, if there is one. Raises ValueError if that is of another
    run.
    """
    trainer = Trainer(model, run.cfg, status)
    about = {"settings": run.settings(), "provenance": provenance.collect(run.device)}
    checkpoints = run.checkpoints(about)
    if saved := checkpoints.latest(trainer.log):
        resume(trainer, saved, about)
    else:
        if not {*ancestors(run.name)} & {*run.task.recipes}:
            trainer.log_event(
                "recipe", "no recipe of its own: default sizes, default lr for its kind of memory"
            )
        trainer.log(f"training on {run.cfg.tokens:,} tokens")
    shown = TensorBoard(run.curves, trainer.progress.step) if run.tensorboard else nullcontext()
    with shown as curves:
        train(
            trainer,
            run.task.train,
            run.task.valid,
            checkpoints,
            curves,
            run.snapshots.take_if_due,
        )
    return trainer.progress


def resume(trainer: Trainer, saved: checkpoint.Checkpoint, about: Mapping[str, Any]) -> None:
    """Restore a checkpoint; raise ValueError if it belongs to another run."""
    check_same_settings(saved.path, saved.settings, about["settings"])
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
    note = f"; other {', '.join(keys)} than before: last digits may differ" if keys else ""
    trainer.log_event("resumed", f"resumed after {share}{note}")


def load_trained(run: Run, model: SequenceModel) -> Progress | None:
    """Load the weights of the same run of another folder; return its progress, or None without one.

    Raises ValueError if it was made with other settings.
    """
    from seqmodels.experiments.inference import load_model

    if run.trained is None or not (path := run.trained / run.path.name).exists():
        return None
    old = record.load(path)
    check_same_settings(path, recorded_settings(old), run.settings())
    model.load_state_dict(load_model(old, path.with_suffix(".safetensors")).state_dict())
    last, what = old["curve"][-1]["step"], f"trained by the task {old['task']}"
    event = {"step": last, "kind": "trained", "what": what}
    return Progress(curve=old["curve"], events=[*old["events"], event])


# ------------------------------------------------------------------------------------ Measurement

N_BATCHES, N_ROWS = 4, 4
"""How many batches are counted, and how many rows of each: more give the same within 2 %."""


def evaluate(
    model: SequenceModel, task: Task, test: TestSet, device: str, status: StatusFile = SILENT
) -> tuple[list[Row], dict[str, Any]]:
    """Return a test set's rows and its entry in the record."""
    model = test.adapt(model, device, status) if test.adapt else model
    beam = test.beam or task.beam
    rows = build_rows(model, task, test, beam, device, status)
    overall, buckets = compute_scores_by_bucket(rows, test.buckets, task.bleu_tokenize)
    entry = {
        "name": test.name,
        "axis": test.axis,
        "kind": test.kind,
        "unit": test.unit,
        "primary_metric": test.primary_metric,
        **({"beam": beam} if test.is_generated else {}),
        "max_train_length": test.max_train_length,
        "noun": test.noun,
        "grouped_by": test.grouped_by or None,
        "baseline": test.baseline_name or None,
        "overall": overall,
        "buckets": buckets,
    }
    return rows, entry


def build_rows(
    model: SequenceModel,
    task: Task,
    test: TestSet,
    beam: int,
    device: str,
    status: StatusFile = SILENT,
) -> list[Row]:
    """Return a row per example: its texts, losses and, if generated, the hypothesis."""
    rows = score_teacher_forced(model, test.examples, device, status=status)
    free = None
    if test.is_generated:
        free = generate_targets(model, test.examples, beam, device, status)
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
    for i, nats in shuffled_sources(model, test.examples, device, status).items():
        rows[i]["nats_shuffled"] = nats
    return rows


def shuffled_sources(
    model: SequenceModel, examples: Sequence[Example], device: str, status: StatusFile = SILENT
) -> dict[int, float]:
    """Return the nats of each target given the source of another example of similar length.

    Examples whose source is BOS alone are left out.
    """
    real = []
    if longest(examples)[0] > 1:
        real = [i for i, example in enumerate(examples) if list(example.src) != [BOS]]
    if len(real) < 2:
        return {}
    own = [examples[i] for i in real]
    swapped = [
        example._replace(src=own[j].src)
        for example, j in zip(own, pair_by_length([len(e.src) for e in own]), strict=True)
    ]
    rows = score_teacher_forced(model, swapped, device, "sources shuffled", status)
    return {i: row["nats"] for i, row in zip(real, rows, strict=True)}


def example_alignment(model: SequenceModel, task: Task, device: str) -> dict[str, Any] | None:
    """Return the attention weights for the shown example's reference target, if there are any."""
    if task.alignment_example is None or not model.cross_attentions:
        return None
    example, links = task.alignment_example
    alpha = align_target(model, example, device)
    tgt = [token for token in example.tgt if token != EOS]
    return {
        "src": task.tokenizer.tokens(example.src),
        "tgt": task.tokenizer.tokens(tgt),
        "alpha": [[round(a, 4) for a in row] for row in alpha],
        "gold": links,
    }


class CountFlops(TorchDispatchMode):
    """The operations of torch's products inside the context: FlopCounterMode, faster."""

    total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator and count it."""
        out = func(*args, **(kwargs or {}))
        if count := flop_registry.get(func._overloadpacket):
            self.total += count(*args, **(kwargs or {}), out_val=out)
        return out


def flops_per_token(model: SequenceModel, examples: Sequence[Example], cfg: TrainConfig) -> float:
    """Return the operations of one forward and backward pass of training, per target token.

    They are those of the matrix products in some rows of the first batches, two for a
    multiplication and an addition; sums over vectors and activations are left out, as usual. The
    model's gradients are dropped.
    """
    n_flops = n_tokens = 0
    device = next(model.parameters()).device
    for batch in islice(training_batches(examples, cfg.batch_tokens, cfg.seed), N_BATCHES):
        every = -(-len(batch.src) // N_ROWS)  # rows are sorted by length, padded to the longest
        rows = Batch(*(tensor[::every].to(device) for tensor in batch))
        with CountFlops() as counted, sdpa_kernel(SDPBackend.MATH):
            loss_of(model, rows).backward()
        n_flops += counted.total
        n_tokens += int((rows.tgt_out != PAD).sum())
    model.zero_grad()
    return n_flops / n_tokens
