"""Take snapshots of a model in training: what it writes for a few sentences, and its attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from seqmodels.evaluation.evaluate import align_target, generate_targets
from seqmodels.evaluation.intervals import Row
from seqmodels.experiments.task import Task
from seqmodels.interface import SequenceModel
from seqmodels.training.config import Progress
from seqmodels.training.trainer import Trainer

N_SENTENCES = 5


class Snapshots:
    """Takes n snapshots: before the first step, at log-spaced numbers of tokens, and at the end.

    Those of a training are part of its progress, so that each checkpoint has those before it.
    """

    def __init__(self, task: Task, n: int):
        self.task, self.n = task, n
        self.test = next((test for test in task.tests if test.is_generated), task.tests[0])
        by_length = sorted(range(len(self.test.x)), key=lambda i: self.test.x[i])
        places = (np.arange(N_SENTENCES) + 0.5) / N_SENTENCES * len(by_length)
        self.chosen = [*dict.fromkeys(by_length[int(place)] for place in places)]
        """The sentences, as indices into the test set: spread over its lengths."""

    def take_if_due(self, trainer: Trainer) -> None:
        """Add a snapshot to the progress, if one is due; the training goes on unchanged."""
        if self.is_due(trainer.progress, trainer.cfg.tokens):
            gpus = [trainer.device] if trainer.device.type == "cuda" else []
            with torch.random.fork_rng(gpus):
                snapshot = self.take(trainer.model, trainer.progress)
            trainer.model.train()
            trainer.progress.snapshots.append(snapshot)

    def is_due(self, progress: Progress, budget: int) -> bool:
        """Return whether one is due: at the start, then between the first step and the budget."""
        taken = [snapshot["tokens"] for snapshot in progress.snapshots]
        if not (taken and self.n):
            return self.n > 0
        first_step = taken[1] if taken[1:] else taken[0] + 1
        moments = np.geomspace(first_step, budget, self.n - 1)[:-1]
        return any(taken[-1] < moment <= progress.tokens for moment in moments)

    def take(self, model: SequenceModel, progress: Progress) -> dict[str, Any]:
        """Return a snapshot of a model, which is in evaluation mode afterwards."""
        examples = [self.test.examples[i] for i in self.chosen]
        beam = self.test.beam or self.task.beam
        targets = generate_targets(model, examples, beam)
        shown, alpha = self.task.alignment_example, None
        if shown and model.cross_attentions:
            weights = align_target(model, shown.example)
            alpha = [[round(a, 2) for a in row] for row in weights]
        hyps = [self.task.tokenizer.decode(target) for target in targets]
        scores = {"scores": self.task.follow(model)} if self.task.follow else {}
        place = {"step": progress.step, "tokens": progress.tokens}
        return {**place, "hyps": hyps, "alpha": alpha, **scores}

    def finish(
        self,
        model: SequenceModel,
        progress: Progress,
        rows: Sequence[Row],
        alignment: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """Return all snapshots with one of the evaluated model; it has the hypotheses of its rows.

        These are from the same search, but in other batches, which can decide a tie differently.
        """
        rows = [row for row in rows if row["set"] == self.test.name]
        rows = [rows[i] for i in self.chosen]
        last = self.take(model, progress)
        last["hyps"] = [row.get("hyp", hyp) for row, hyp in zip(rows, last["hyps"], strict=True)]
        return {
            "sentences": [{key: row[key] for key in ("src", "ref")} for row in rows],
            "alignment": alignment and {key: alignment[key] for key in ("src", "tgt", "gold")},
            "snapshots": [*progress.snapshots, last],
        }
