"""Use a trained run: translate, align and score with it.

run = seqmodels.load("runs/translation-laptop/bahdanau-seed1")
run.translate(["The cat sleeps."], beam=5)
"""

from __future__ import annotations

import sys
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError

from seqmodels.data import tokenizers
from seqmodels.data.batches import Example, collate
from seqmodels.evaluation.evaluate import generate_targets, search_in_batches
from seqmodels.evaluation.metrics import METRICS, sacrebleu_signatures
from seqmodels.interface import BOS, EOS, SequenceModel
from seqmodels.models import PAPERS
from seqmodels.records import io as record
from seqmodels.records.schema import Data, Record
from seqmodels.search import Hypothesis, search_beams
from seqmodels.training import checkpoint
from seqmodels.utils import files
from seqmodels.utils.imports import SHIPPED
from seqmodels.utils.values import check_arguments

MAX_TEXT_TOKENS = 2_000
"""Maximum tokens in an input text: most models have no limit of their own."""
MAX_BEAM = 64
MAX_LENGTH_PENALTY = 10


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


@dataclass
class TrainedModel:
    """A trained run: its model, tokenizer and record."""

    model: SequenceModel
    tokenizer: tokenizers.Tokenizer
    data: Data
    record: Record | None = None
    """None: it was trained elsewhere."""

    @check_arguments
    def translate(
        self, texts: Sequence[str], beam: int = 1, length_penalty: float = 1.0
    ) -> list[str]:
        """Translate each line of each source; a beam of 1 is greedy search. Blank lines stay blank.

        The best hypothesis of a beam has the highest log p / length ** length_penalty. Raises
        ValueError for a line that is too long for the model.
        """
        sources = [self.encode_line(line) for text in texts for line in text.split("\n")]
        translated = map(self.tokenizer.decode, self.search(sources, beam, length_penalty))
        return ["\n".join(islice(translated, 1 + text.count("\n"))) for text in texts]

    @check_arguments
    def align(self, source: str, target: str | None = None) -> Alignment:
        """Return the target's attention to the source; by default, the target is the greedy one.

        Raises ValueError for a model without attention, and for an empty target.
        """
        target_ids = (
            self.search([self.encode_source(source)])[0] if target is None else self.encode(target)
        )
        return self.align_ids(source, target_ids)

    @check_arguments
    def score(
        self, sources: Sequence[str], references: Sequence[str], beam: int = 1
    ) -> dict[str, Any]:
        """Return BLEU and chrF of the translations, with 95 % intervals and sacreBLEU's signatures.

        A run that was trained on lower-cased text is scored against lower-cased references.

        Raises ValueError unless there is one reference for each source.
        """
        if len(sources) != len(references) or not sources:
            raise ValueError(
                f"{len(sources)} sources and {len(references)} references; give one reference for "
                "each source, and at least one"
            )
        tokenize = self.data.bleu_tokenize
        hyps, refs = self.translate(sources, beam), [*map(self.normalize, references)]
        scores: dict[str, Any] = {"n": len(hyps)}
        rows = [{"hyp": hyp, "ref": ref} for hyp, ref in zip(hyps, refs, strict=True)]
        for key, metric in METRICS.items():
            if metric.sacrebleu and (terms := metric.terms(rows, tokenize)) is not None:
                scores[key] = metric.score(terms)
        scores["signatures"] = sacrebleu_signatures(tokenize)
        return scores

    def search(
        self, sources: Sequence[list[int]], beam: int = 1, length_penalty: float = 1.0
    ) -> list[list[int]]:
        """Return the generated tokens for each source; none for a blank line's."""
        check_search(beam, length_penalty)
        examples = [self.make_example(src, src) for src in sources if src]
        found = iter(generate_targets(self.model, examples, beam, length_penalty=length_penalty))
        return [next(found) if src else [] for src in sources]

    def search_n_best(
        self, sources: Sequence[list[int]], n: int, beam: int, length_penalty: float = 1.0
    ) -> list[list[Hypothesis]]:
        """Return the n best hypotheses of a beam for each source, the best first."""
        check_search(beam, length_penalty, n)
        examples = [self.make_example(src, src) for src in sources if src]
        search = partial(search_beams, width=beam, length_penalty=length_penalty)
        found = iter(search_in_batches(search, self.model, examples, beam))
        return [next(found)[:n] if src else [Hypothesis([], 0.0)] for src in sources]

    def make_example(self, src: list[int], tgt: list[int]) -> Example:
        """Return tokens as an example; raise ValueError for one that the vocabulary lacks."""
        n = self.tokenizer.vocab_size
        if unknown := [token for token in (*src, *tgt) if not 0 <= token < n]:
            raise ValueError(f"there is no token {unknown[0]}; tokens are from 0 to {n - 1}")
        return Example(src, tgt)

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
        batch = collate([self.make_example(src, target_ids)])
        with torch.inference_mode():
            weights = self.model.align(batch.src, batch.src_mask, batch.tgt_in)[0]
        tokens = self.tokenizer.tokens
        return Alignment(tokens(src), tokens(target_ids), weights.numpy())

    def encode_source(self, text: str, has_source_eos: bool | None = None) -> list[int]:
        """Return the source's tokens, with EOS if the run was trained with it; BOS if empty."""
        if has_source_eos is None:
            has_source_eos = self.data.get("source_end") == "EOS"
        tokens, end = self.encode(text), [EOS] if has_source_eos else []
        src = [*tokens, *end] or [BOS]
        limit = min(MAX_TEXT_TOKENS, len(src) + self.model.max_target(len(src)) - 1 - len(end))
        if len(tokens) > limit:
            raise ValueError(f"the text has {len(tokens)} tokens; this model reads at most {limit}")
        return src

    def encode_line(self, line: str) -> list[int]:
        """Return the source's tokens; none for a blank line."""
        return self.encode_source(line) if line.strip() else []

    def encode(self, text: str) -> list[int]:
        """Return the text's tokens."""
        try:
            text.encode()
        except UnicodeEncodeError as error:  # from a shell with another encoding
            raise ValueError(f"the text is not UTF-8: character {error.start + 1}") from None
        return self.tokenizer.encode(self.normalize(text))

    def normalize(self, text: str) -> str:
        """Return the text as the run's training text was: in normal form C, in lower case."""
        if self.data.get("n_not_nfc") is not None:
            text = unicodedata.normalize("NFC", text)
        return text.lower() if self.data.get("case") == "lower" else text


def check_search(beam: int, length_penalty: float, n: int = 1) -> None:
    """Raise ValueError for settings of a search that are out of range or without effect."""
    if not 1 <= beam <= MAX_BEAM:
        raise ValueError(f"a beam of {beam}: choose 1 (greedy) to {MAX_BEAM}")
    if not 1 <= n <= beam:
        raise ValueError(f"the {n} best of a beam of {beam}: choose 1 to {beam}, or a wider beam")
    if not 0 <= length_penalty <= MAX_LENGTH_PENALTY:
        raise ValueError(f"length penalty {length_penalty}: choose 0 to {MAX_LENGTH_PENALTY}")
    if beam == 1 and length_penalty != 1:
        raise ValueError("a length penalty chooses from a beam; give a beam of 2 or more")


@check_arguments
def load(run: str | Path) -> TrainedModel:
    """Load a run: FOLDER/MODEL-seedN, with or without .json.

    The name of a paper alone, such as bahdanau, means the small model of it that comes with the
    package, which was trained on the built-in grammar.

    Raises ValueError if it is not a run, or does not work: it may come from a stranger.
    """
    path = find_record(run)
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
    if run_record.weights_sha256 is None:
        print(f"{path} has no checksum of the weights; they are not checked", file=sys.stderr)
    tokenizer = tokenizers.load(path.with_name("tokenizer.json"))
    if (n := model.config.vocab_size) != tokenizer.vocab_size:
        raise ValueError(
            f"{path} has a vocabulary of {n}, the tokenizer beside it {tokenizer.vocab_size}; "
            "one of them belongs to another run"
        )
    return TrainedModel(model, tokenizer, run_record.data, run_record)


def find_record(run: str | Path) -> Path:
    """Return the path of a run's record; see `load`."""
    name = str(run)
    path = Path(name)
    if not path.name:
        raise ValueError(f"{name!r} is a folder; name a RUN in it, such as FOLDER/gpt-seed1")
    path = path if name.endswith(".json") else Path(f"{path}.json")
    is_shipped = name in PAPERS and not path.exists()
    return SHIPPED / f"{name}-seed1.json" if is_shipped else path


def load_model(record: Record, path: Path) -> SequenceModel:
    """Build the record's model with the weights at PATH, in evaluation mode.

    Raises ValueError if the weights are missing (results are committed without them), or are not
    those of the record, by the checksum that it contains. A rounded run's float16 weights are
    computed with in float32.
    """
    if not path.exists():
        raise ValueError(f"{path}: the weights of this run are missing; train it again")
    content = files.read(path, checkpoint.MAX_WEIGHTS_BYTES)
    if (wanted := record.weights_sha256) and wanted != checkpoint.sha256(content):
        raise ValueError(
            f"{path} is damaged or belongs to another run: its SHA-256 is not {wanted[:16]}…, "
            "as in its record; restore the file or train the run again"
        )
    try:
        weights = safetensors.torch.load(content)
        if record.rounded_from_sha256:
            weights = {name: tensor.float() for name, tensor in weights.items()}
        sizes: dict[str, Any] = dict(record.settings)
        if sizes.get("n_layers", 1) > len(weights):
            raise ValueError(f"{len(weights)} tensors cannot be {sizes['n_layers']} layers")
        return checkpoint.build_with(weights, record.base, **sizes)
    except (SafetensorError, RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"{path} does not match its record; train it again: {error}") from error
