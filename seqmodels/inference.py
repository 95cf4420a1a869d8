"""Use a trained run: translate, continue a text, align.

run = seqmodels.load("runs/translation-laptop/bahdanau-seed1")
run.translate(["The cat sleeps."], beam=5)
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
import torch
from pydantic import validate_call

from seqmodels import search
from seqmodels.data import tokenizers
from seqmodels.data.batches import Example, collate
from seqmodels.evaluation.evaluate import generate_targets
from seqmodels.interface import BOS, EOS, PAD, SequenceModel, device_of
from seqmodels.models import PAPERS, register_file
from seqmodels.records import io as record
from seqmodels.records.schema import Record
from seqmodels.search import LENGTH_PENALTY
from seqmodels.training.checkpoint import load_model
from seqmodels.utils.imports import SHIPPED

MAX_TEXT_TOKENS = 2_000
"""Maximum tokens in an input text: most models have no limit of their own."""


class Alignment(NamedTuple):
    """How much each target token attends to each source token; a notebook shows a shaded table."""

    src: list[str]
    tgt: list[str]
    weights: np.ndarray
    """A row per target token, a column per source token; GPT's rows sum to less than one."""

    def _repr_html_(self) -> str:
        rows = [f"<tr>{''.join(f'<th>{escape(token)}</th>' for token in ['', *self.src])}</tr>"]
        for token, weights in zip(self.tgt, self.weights.tolist(), strict=True):
            shades = (f"background: rgba(0, 90, 200, {0.6 * weight:.3f})" for weight in weights)
            cells = (f'<td style="{s}">{w:.2f}</td>' for s, w in zip(shades, weights, strict=True))
            rows.append(f"<tr><th>{escape(token)}</th>{''.join(cells)}</tr>")
        return f"<table>{''.join(rows)}</table>"


@dataclass(repr=False)
class TrainedModel:
    """A trained run: its model, tokenizer and record; it computes where its model is."""

    model: SequenceModel
    tokenizer: tokenizers.Tokenizer
    record: Record

    def __repr__(self) -> str:
        return repr(self.record).replace("Record", "TrainedModel", 1)

    @overload
    def translate(  # type: ignore[overload-overlap]  # a text is a sequence of texts
        self, texts: str, beam: int = ..., length_penalty: float = ...
    ) -> str: ...
    @overload
    def translate(
        self, texts: Sequence[str], beam: int = ..., length_penalty: float = ...
    ) -> list[str]: ...
    @validate_call
    def translate(
        self, texts: str | Sequence[str], beam: int = 1, length_penalty: float = LENGTH_PENALTY
    ) -> str | list[str]:
        """Translate each line of a text, or of each text of a list; blank lines stay blank.

        A beam of 1 is greedy search; the best hypothesis of a wider one has the highest log p /
        length ** length_penalty. Raises ValueError for a line that is too long for the model.
        """
        if isinstance(texts, str):
            return self.translate([texts], beam, length_penalty)[0]
        sources = [self.encode_line(line) for text in texts for line in text.split("\n")]
        translated = map(self.tokenizer.decode, self.search(sources, beam, length_penalty))
        return ["\n".join(islice(translated, 1 + text.count("\n"))) for text in texts]

    def generate(
        self, text: str, length: int = 100, temperature: float = 0.8, top_k: int | None = None,
        top_p: float = 1.0, seed: int = 1,
    ) -> str:  # fmt: skip
        """Return a text, as the run reads it, followed by its continuation of `length` tokens.

        A model that translates generates a target instead. See `search.sampler`.
        """
        generator = torch.Generator(device_of(self.model)).manual_seed(seed)
        choose = search.sampler(generator, temperature, top_k, top_p)
        model, data = self.model, self.record.data
        if data.get("context") == 0:
            tokens = self.encode(text)
            block = min(int(data.get("block") or sys.maxsize), model.max_target(1))
            generated = search.continue_text(model, tokens, length, max(1, block), choose)
        else:
            tokens = self.encode(text) or [BOS]
            src = torch.tensor([tokens], device=device_of(model))
            length = min(length, model.max_target(len(tokens)))
            (generated,) = search.generate(model, src, src != PAD, length, choose)
        return self.tokenizer.decode([*tokens, *generated])

    @validate_call
    def align(self, source: str, target: str | Sequence[int] | None = None) -> Alignment:
        """Return the target's attention to the source; by default, the target is the greedy one.

        Raises ValueError for a model without attention, and for an empty target.
        """
        src = self.encode_source(source)
        tgt = self.search([src])[0] if target is None else target
        tgt = self.encode(tgt) if isinstance(tgt, str) else [*tgt]
        most = self.model.max_target(len(src))
        if not 0 < len(tgt) <= most:
            raise ValueError(f"the target to align has {len(tgt)} tokens; it can have 1 to {most}")
        batch = collate([Example(src, tgt)], device_of(self.model))
        with torch.inference_mode():
            weights = self.model.align(batch.src, batch.src_mask, batch.tgt_in)[0]
        return Alignment(
            self.tokenizer.tokens(src), self.tokenizer.tokens(tgt), weights.cpu().numpy()
        )

    def search(
        self, sources: Sequence[list[int]], beam: int = 1, length_penalty: float = LENGTH_PENALTY
    ) -> list[list[int]]:
        """Return the generated tokens for each source; none for one without tokens."""
        examples = [Example(src, src) for src in sources if src]
        best = iter(generate_targets(self.model, examples, beam, length_penalty=length_penalty))
        return [next(best) if src else [] for src in sources]

    def encode_source(self, text: str) -> list[int]:
        """Return the source's tokens, with EOS if the run was trained with it; BOS if empty."""
        end = [EOS] if self.record.data.get("source_end") == "EOS" else []
        src = [*self.encode(text), *end] or [BOS]
        if len(src) > MAX_TEXT_TOKENS or self.model.max_target(len(src)) < 1:
            raise ValueError(f"the text has {len(src)} tokens, more than this model reads")
        return src

    def encode_line(self, line: str) -> list[int]:
        """Return the source's tokens; none for a blank line."""
        return self.encode_source(line) if line.strip() else []

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, in normal form C and lower case as those of training."""
        text = unicodedata.normalize("NFC", text)
        is_lower = self.record.data.get("case") == "lower"
        return self.tokenizer.encode(text.lower() if is_lower else text)


@validate_call
def load(run: str | Path, device: str = "cpu", model: str | Path | None = None) -> TrainedModel:
    """Load a run, FOLDER/MODEL-seedN with or without .json, to compute on a device of torch.

    The name of a paper alone, such as bahdanau, means the small model of it that comes with the
    package, which was trained on the built-in grammar. `model` is the FILE.py, or FILE.py:CLASS, of
    a run of your own model. Raises ValueError if it is not a run, or if its class has changed.
    """
    if model:
        register_file(str(model))
    path = find_record(run)
    run_record = record.load(path)
    trained = load_model(run_record, path.with_suffix(".safetensors"))
    tokenizer = tokenizers.load(path.with_name("vocabulary.json"))
    if (n := trained.config.vocab_size) != tokenizer.vocab_size:
        raise ValueError(
            f"{path} has a vocabulary of {n}, the tokenizer beside it {tokenizer.vocab_size}; "
            "one of them belongs to another run"
        )
    return TrainedModel(trained.to(device), tokenizer, run_record)


def find_record(run: str | Path) -> Path:
    """Return the path of a run's record; see `load`."""
    path = Path(run)
    path = path if path.suffix == ".json" else Path(f"{path}.json")
    if str(run) not in PAPERS or path.exists():
        return path
    if not (shipped := SHIPPED / f"{run}-seed1.json").exists():
        raise ValueError(f"{run}: the package has no small model of it; name a RUN of yours")
    return shipped
