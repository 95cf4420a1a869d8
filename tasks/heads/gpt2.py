"""Measure what the heads of GPT-2, with its published weights, look for in English sentences.

Question
    Do the heads that everybody has read about do what those of a GPT do that one trains in minutes:
    look from a noun to its article, from a verb to its subject? A hundred sentences that were
    written for it, english.txt, say what each word is. Fetch the weights, then measure them:

    hf download openai-community/gpt2 config.json model.safetensors tokenizer.json --local-dir gpt2
    python -m tasks.heads.gpt2 --weights gpt2

    A word can be several tokens. It attends as its last token does, which has read all of it, and
    is given what all of its tokens are given. Each text begins with <|endoftext|>. What is printed
    is written to --out, with the shares of all heads, as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from seqmodels.data.text import sha256
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.experiments.gpt2 import CONFIG, load_gpt2
from seqmodels.interface import BOS, PAD, SequenceModel, watch_attention
from seqmodels.utils import files
from seqmodels.utils.terminal import Parser, format_table, run_cli

from ..analyses import Rows, list_attentions, name_head
from ..synthetic.trees import Tags
from . import measure
from .figure import find_best_heads, format_best_heads
from .pairs import PairedSentence, lay_out, look_back, pair_places, pair_words

SENTENCES = Path(__file__).with_name("english.txt")
KINDS = {"a": "article", "n": "noun", "r": "relative pronoun", "v": "verb"}
ROLES = {"s": "subject", "o": "object"}
MARK = re.compile(r"([anrv]\d)([so]\d)?")

# --------------------------------------------------------------------------------- Sentences


class English(NamedTuple):
    """The words of a sentence, full stops and commas among them, and what they are."""

    words: tuple[str, ...]
    tags: Tags


def read_sentence(line: str) -> English:
    """Read words with their marks, as in "The/a1 dog/n1s1 barked/v1 .".

    A noun and a verb have a number, n1 and v1. The article a1 and the relative pronoun r1 belong to
    that noun, and it is the subject, s1, or an object, o1, of that verb.
    """
    words, marks = zip(*(token.partition("/")[::2] for token in line.split()), strict=True)
    matches = [MARK.fullmatch(mark) for mark in marks]
    if wrong := [mark for mark, match in zip(marks, matches, strict=True) if mark and not match]:
        raise ValueError(f"{line!r}: what is /{wrong[0]}?")
    own = [match.groups() if match else ("", None) for match in matches]
    places = {name: i for i, (name, _) in enumerate(own) if name[:1] in ("n", "v")}
    heads, kinds = list[int](), list[str]()
    for word, (name, role) in zip(words, own, strict=True):
        kinds.append(KINDS.get(name[:1], word if word in (",", ".") else "other"))
        head = f"n{name[1]}" if name[:1] in ("a", "r") else f"v{role[1]}" if role else ""
        heads.append(places[head] if head else -1)
    roles = [ROLES[role[0]] if role else "" for _, role in own]
    return English(words, Tags(tuple(kinds), tuple(roles), tuple(heads)))


def pair_sentence(sentence: English) -> PairedSentence:
    """Return the pairs of a sentence after <|endoftext|>, and the kinds of its words."""
    kinds = ("start", *sentence.tags.kinds)
    pairs = [(name, i + 1, j + 1) for name, i, j in pair_words(*sentence)]
    return look_back(pairs + pair_places(len(kinds)), len(kinds)), kinds, kinds


def encode_words(sentence: English, tokenizer: Tokenizer) -> list[list[int]]:
    """Return the tokens of each word and the blank before it.

    Raises ValueError if those of the text are others.
    """
    first, *words = sentence.words
    pieces = [first, *(word if word in (",", ".") else f" {word}" for word in words)]
    ids, text = [tokenizer.encode(piece) for piece in pieces], "".join(pieces)
    if [*chain(*ids)] != tokenizer.encode(text):
        raise ValueError(f"the tokenizer joins words of {text!r}; give the folder of a GPT-2")
    return ids


# ------------------------------------------------------------------------------ Measurements


def pad_texts(ids: Sequence[Sequence[Sequence[int]]]) -> Int[Tensor, "B N"]:
    """Return the tokens of all sentences, padded, without <|endoftext|>."""
    texts = [torch.tensor([*chain(*own)]) for own in ids]
    return torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=PAD)


def read_texts(model: SequenceModel, texts: Int[Tensor, "B N"]) -> Float[Tensor, "B N2 V"]:
    """Return the logits after <|endoftext|> and after each token."""
    start = torch.full_like(texts[:, :1], BOS)
    return model.text_logits(start, start == BOS, texts)


@torch.inference_mode()
def weigh_words(
    model: SequenceModel, ids: Sequence[Sequence[Sequence[int]]]
) -> Float[Tensor, "B H M M"]:
    """Return the weights of all heads, layer by layer, between <|endoftext|> and the words."""
    with watch_attention([a.module for a in list_attentions(model)]) as calls:
        read_texts(model, pad_texts(ids))
    w = torch.cat([w.double() for (w,) in calls], 1)
    n_words = 1 + max(map(len, ids))
    found = torch.zeros(*w.shape[:2], n_words, n_words, dtype=w.dtype)
    for b, own in enumerate(ids):
        sizes = torch.tensor([1, *map(len, own)])
        word_of, n = torch.arange(len(sizes)).repeat_interleave(sizes), int(sizes.sum())
        given = w[b, :, :n, :n] @ F.one_hot(word_of).to(w)
        found[b, :, : len(sizes), : len(sizes)] = given[:, sizes.cumsum(0) - 1]
    return found


@torch.inference_mode()
def compute_nats(model: SequenceModel, texts: Int[Tensor, "B N"]) -> float:
    """Return the mean loss per token, in nats."""
    logits = read_texts(model, texts)[:, :-1]
    return F.cross_entropy(logits.flatten(0, 1), texts.flatten(), ignore_index=PAD).item()


def measure_heads(
    model: SequenceModel, tokenizer: Tokenizer, sentences: Sequence[English]
) -> dict[str, Rows]:
    """Return the rows of `describe_heads`, and the loss without a head.

    The first row of the loss is the whole model's; the others are of each relation's best head.
    """
    ids = [encode_words(sentence, tokenizer) for sentence in sentences]
    w, texts = weigh_words(model, ids), pad_texts(ids)
    grid = lay_out([pair_sentence(sentence) for sentence in sentences], is_causal=True)
    places = measure.heads_of(model)
    heads = measure.describe_heads(places, w, grid)
    muting: Rows = [{"layer": 0, "head": 0, "nats": compute_nats(model, texts)}]
    best = {(row["layer"], row["head"]) for row in find_best_heads(heads)}
    for a, head in places:
        if (a.layer, head) in best:
            with measure.muted(a.module.W_o, head, model.config.n_heads):
                muting.append({**name_head(a, head), "nats": compute_nats(model, texts)})
    return {"heads": heads, "muting": muting}


# --------------------------------------------------------------------------------------- Run

PARSER = Parser(prog="python -m tasks.heads.gpt2", description=__doc__.splitlines()[0])
PARSER.add_argument("--weights", type=Path, required=True, metavar="FOLDER",
                    help="config.json, model.safetensors and tokenizer.json of GPT-2, or of one of "
                         "its larger sizes")  # fmt: skip
PARSER.add_argument("--out", type=Path, default=Path("runs/heads-gpt2.json"), metavar="FILE",
                    help="default: runs/heads-gpt2.json")  # fmt: skip


def run(folder: Path, out: Path) -> None:
    """Measure the weights in a folder; print each relation's best head, and write all."""
    if not (folder / CONFIG).is_file():
        raise ValueError(
            f"--weights: {folder} has no {CONFIG}; fetch GPT-2 by: hf download openai-community/"
            f"gpt2 config.json model.safetensors tokenizer.json --local-dir {folder}"
        )
    if out.exists():
        raise ValueError(f"--out: {out} exists; name another file")
    model, tokenizer, _ = load_gpt2(folder)
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    analyses = measure_heads(model, tokenizer, [read_sentence(line) for line in lines])
    about = {
        "schema": "seqmodels.heads/1", "model": asdict(model.config), "n_sentences": len(lines),
        "sentences_sha256": sha256(f"{line}\n" for line in lines), "analyses": analyses,
    }  # fmt: skip
    out.parent.mkdir(parents=True, exist_ok=True)
    files.write(out, json.dumps(about, ensure_ascii=False, indent=1) + "\n")
    print(f"GPT-2, {len(lines)} sentences: the head that gives a relation the most of its weight\n")
    print("\n".join(format_table(format_best_heads(analyses["heads"]), is_right=False)))
    whole, *muted = analyses["muting"]
    print(f"\nLoss: {whole['nats']:.3f} nats per token; without one of these heads:")
    print("\n".join(f"  {row['layer']}.{row['head']}: {row['nats']:.3f}" for row in muted))
    print(f"\nAll heads are in {out}")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = PARSER.parse_args(argv)
    run_cli("heads", lambda: run(args.weights, args.out))


if __name__ == "__main__":
    main()
