"""Use a trained run: translate, align and score with it.

run = seqmodels.load("runs/translation-laptop/bahdanau-seed1")
run.translate(["The cat sleeps."], beam=5)
"""

from __future__ import annotations

import sys
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError

from seqmodels.data import tokenizers
from seqmodels.data.batches import Example, collate
from seqmodels.evaluation.evaluate import generate_targets
from seqmodels.evaluation.metrics import METRICS, sacrebleu_signatures
from seqmodels.interface import BOS, EOS, SequenceModel
from seqmodels.models import build
from seqmodels.records import record
from seqmodels.training import checkpoint
from seqmodels.training.trainer import check_shapes
from seqmodels.utils import files

MAX_TEXT_TOKENS = 2_000
"""Maximum tokens in an input text: most models have no limit of their own."""
MAX_BEAM = 64


class Alignment(NamedTuple):
    """How much each target token attends to each source token."""

    src: list[str]
    tgt: list[str]
    weights: np.ndarray
    """A row per target token, a column per source token; GPT's rows sum to less than one."""


@dataclass
class TrainedRun:
    """A trained run: its model, tokenizer and record."""

    model: SequenceModel
    tokenizer: tokenizers.Tokenizer
    record: dict[str, Any]

    def translate(self, texts: Sequence[str], beam: int = 1) -> list[str]:
        """Translate each line of each source; a beam of 1 is greedy search. Blank lines stay blank.

        Raises ValueError for a line that is too long for the model.
        """
        check_texts(texts, "texts")
        lines = [line for text in texts for line in text.split("\n")]
        targets = iter(self.search([line for line in lines if line.strip()], beam))
        decode = self.tokenizer.decode
        translated = iter([decode(next(targets)) if line.strip() else "" for line in lines])
        return ["\n".join(islice(translated, 1 + text.count("\n"))) for text in texts]

    def align(self, source: str, target: str | None = None) -> Alignment:
        """Return the target's attention to the source; by default, the target is the greedy one.

        Raises ValueError for a model without attention, and for an empty target.
        """
        target_ids = self.search([source])[0] if target is None else self.encode(target)
        return self.align_ids(source, target_ids)

    def score(
        self, sources: Sequence[str], references: Sequence[str], beam: int = 1
    ) -> dict[str, Any]:
        """Return BLEU and chrF of the translations, with 95 % intervals and sacreBLEU's signatures.

        A run that was trained on lower-cased text is scored against lower-cased references.

        Raises ValueError unless there is one reference for each source.
        """
        check_texts(references, "references")
        if len(sources) != len(references) or not sources:
            raise ValueError(
                f"{len(sources)} sources and {len(references)} references; give one reference for "
                "each source, and at least one"
            )
        tokenize = self.record["data"].get("bleu_tokenize", "13a")
        hyps, refs = self.translate(sources, beam), [*map(self.normalize, references)]
        scores: dict[str, Any] = {"n": len(hyps)}
        rows = [{"hyp": hyp, "ref": ref} for hyp, ref in zip(hyps, refs, strict=True)]
        for key, metric in METRICS.items():
            if metric.sacrebleu and (terms := metric.terms(rows, tokenize)) is not None:
                scores[key] = metric.score(terms)
        return scores | {"signatures": sacrebleu_signatures(tokenize)}

    def search(self, texts: Sequence[str], beam: int = 1) -> list[list[int]]:
        """Return the generated tokens for each source."""
        check_texts(texts, "texts")
        if not 1 <= beam <= MAX_BEAM:
            raise ValueError(f"a beam of {beam}: choose 1 (greedy) to {MAX_BEAM}")
        examples = [Example(src, src) for src in map(self.encode_source, texts)]
        return generate_targets(self.model, examples, beam) if examples else []

    def align_ids(self, source: str, target_ids: list[int]) -> Alignment:
        """Return how target tokens attend to the source."""
        if not target_ids:
            raise ValueError(
                "nothing to align: the target is empty, or the model generated nothing"
            )
        src = self.encode_source(source)
        n = self.model.max_target(len(src))
        if len(target_ids) > n:
            raise ValueError(f"the target has {len(target_ids)} tokens; at most {n} fit")
        batch = collate([Example(src, target_ids)])
        with torch.inference_mode():
            weights = self.model.align(batch.src, batch.src_mask, batch.tgt_in)[0]
        tokens = self.tokenizer.tokens
        return Alignment(tokens(src), tokens(target_ids), weights.numpy())

    def encode_source(self, text: str, has_source_eos: bool | None = None) -> list[int]:
        """Return the source's tokens, with EOS if the run was trained with it; BOS if empty."""
        if has_source_eos is None:
            has_source_eos = self.record["data"].get("source_end") == "EOS"
        tokens, end = self.encode(text), [EOS] if has_source_eos else []
        src = [*tokens, *end] or [BOS]
        limit = min(MAX_TEXT_TOKENS, len(src) + self.model.max_target(len(src)) - 1 - len(end))
        if len(tokens) > limit:
            raise ValueError(f"the text has {len(tokens)} tokens; this model reads at most {limit}")
        return src

    def encode(self, text: str) -> list[int]:
        """Return the text's tokens."""
        try:
            text.encode()
        except UnicodeEncodeError as error:  # from a shell with another encoding
            raise ValueError(f"the text is not UTF-8: character {error.start + 1}") from None
        return self.tokenizer.encode(self.normalize(text))

    def normalize(self, text: str) -> str:
        """Return the text as the run's training text was: in normal form C, in lower case."""
        data = self.record["data"]
        text = unicodedata.normalize("NFC", text) if "n_not_nfc" in data else text
        return text.lower() if data.get("case") == "lower" else text


def check_texts(texts: Sequence[str], name: str) -> None:
    """Raise ValueError for a single text instead of a list of texts."""
    if isinstance(texts, str):
        raise ValueError(f"{name} is a single text; give a list of texts, such as [text]")


def load(run: str | Path) -> TrainedRun:
    """Load a run: FOLDER/MODEL-seedN, with or without .json.

    Raises ValueError if it is not a run, or does not work: it may come from a stranger.
    """
    run = Path(run)
    path = run if run.suffix == ".json" else run.with_name(run.name + ".json")
    run_record, weights = record.load(path), path.with_suffix(".safetensors")
    token = torch.tensor([EOS])
    try:
        # Warnings are about empty tensors: the error below is enough.
        with warnings.catch_warnings(action="ignore"):
            model = load_model(run_record, weights)
        with torch.inference_mode():  # sizes that fit the weights need not fit each other
            model.step(token, model.encode(token[None], token[None] == EOS))
    except (ArithmeticError, RuntimeError, TypeError) as error:
        raise ValueError(f"{path} does not describe a working model: {error}") from error
    if not all(tensor.isfinite().all() for tensor in model.state_dict().values()):
        raise ValueError(f"{weights} contains non-finite numbers; train the run again")
    if run_record["weights_sha256"] is None:
        print(f"{path} has no checksum of the weights; they are not checked", file=sys.stderr)
    tokenizer = tokenizers.load(path.with_name("tokenizer.json"))
    if (n := model.config.vocab_size) != tokenizer.vocab_size:
        raise ValueError(
            f"{path} has a vocabulary of {n}, the tokenizer beside it {tokenizer.vocab_size}; "
            "one of them belongs to another run"
        )
    return TrainedRun(model, tokenizer, run_record)


def load_model(record: Mapping[str, Any], path: Path) -> SequenceModel:
    """Build the record's model with the weights at PATH, in evaluation mode.

    Raises ValueError if the weights are missing (results are committed without them), or are not
    those of the record, by the checksum that it contains.
    Names and shapes are compared before anything is built, so that a model takes no more memory
    than its file has bytes. A rounded run's float16 weights are computed with in float32.
    """
    if not path.exists():
        raise ValueError(f"{path}: the weights of this run are missing; train it again")
    content = files.read(path, checkpoint.MAX_WEIGHTS_BYTES)
    if (wanted := record.get("weights_sha256")) not in (None, checkpoint.sha256(content)):
        raise ValueError(
            f"{path} is damaged or belongs to another run: its SHA-256 is not {wanted[:16]}…, "
            "as in its record; restore the file or train the run again"
        )
    try:
        weights = safetensors.torch.load(content)
        if "rounded_from_sha256" in record:
            weights = {name: tensor.float() for name, tensor in weights.items()}
        if record["model_config"].get("n_layers", 1) > len(weights):
            raise ValueError(
                f"{len(weights)} tensors cannot be {record['model_config']['n_layers']} layers"
            )
        with torch.device("meta"):
            expected = build(record["model"], **record["model_config"]).state_dict()
        check_shapes(weights, expected)
        model = build(record["model"], **record["model_config"])
        model.load_state_dict(weights)
    except (SafetensorError, RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"{path} does not match its record; train it again: {error}") from error
    return model.eval()
