"""Search, written once for every model: greedy, beam and sampling over `step`.

All functions take padded sources and return lists of token ids without BOS and EOS. `max_len` is
the number of tokens, EOS included, after which a text is cut: one for all rows, or one for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqmodels.interface import BOS, EOS, PAD, SequenceModel, reorder
from seqmodels.ops.kernels import prepack

Choose = Callable[[Float[Tensor, "R V"]], Int[Tensor, " R"]]


def unroll(
    model: SequenceModel, state: Any, tgt_in: Int[Tensor, "B T"]
) -> tuple[Float[Tensor, "B T V"], Any]:
    """Feed `tgt_in` token by token through `step`; return all logits and the last State."""
    logits = []
    for y in tgt_in.unbind(1):
        logits_t, state = model.step(y, state)
        logits.append(logits_t)
    return torch.stack(logits, 1), state


def strip(tokens: list[int]) -> list[int]:
    """Cut at the first EOS."""
    return tokens[: tokens.index(EOS)] if EOS in tokens else tokens


def is_due(t: int, device: torch.device) -> bool:
    """Return whether to ask who has finished: a GPU would wait for the answer, so not always."""
    return device.type == "cpu" or t % 16 == 0


class Limits:
    """After how many tokens the text of each row is cut, and which rows go on."""

    def __init__(self, max_len: int | Int[Tensor, " B"], src: Int[Tensor, "B S"]):
        self.rows = torch.as_tensor(max_len, device=src.device).expand(len(src))
        self.ends = {*self.rows.tolist()}
        self.longest = max(self.ends)

    def unfinished(self, t: int, done: Bool[Tensor, " R"]) -> Int[Tensor, " R2"] | None:
        """Return the rows to go on with after t tokens; None if all stay.

        The finished ones stay while it does not pay to let them go. At its limit a row always goes:
        a model may have no position for another token.
        """
        if t not in self.ends and not is_due(t, done.device):
            return None
        left = (~done & (self.rows > t)).nonzero().squeeze(1)
        if t not in self.ends and len(left) > 0.8 * len(done):
            return None
        self.rows = self.rows[left]
        return left


@torch.inference_mode()
def write(
    model: SequenceModel,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    max_len: int | Int[Tensor, " B"],
    choose: Choose,
    begun: Int[Tensor, "B P"] | None = None,
) -> list[list[int]]:
    """Write one token after the other, each picked from its logits by `choose`.

    The first ones may have `begun` already.
    """
    state, limits = model.encode(src, src_mask), Limits(max_len, src)
    model = prepack(model, len(src))
    y = torch.full((len(src),), BOS, device=src.device)
    done, texts = torch.zeros_like(y, dtype=torch.bool), torch.arange(len(y), device=y.device)
    written = torch.full((len(src), limits.longest), EOS, device=src.device)
    for t in range(limits.longest):
        logits, state = model.step(y, state)
        if begun is not None and t < begun.shape[1]:
            y = begun[texts, t]
        else:
            y = choose(logits).masked_fill(done, EOS)
        written[texts, t] = y
        done = done | (y == EOS)
        if (rows := limits.unfinished(t + 1, done)) is not None:
            if not len(rows):
                break
            state, y = reorder(state, rows, rows), y[rows]
            texts, done = texts[rows], done[rows]
    return [strip(row) for row in written.tolist()]


def greedy(
    model: SequenceModel,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    max_len: int | Int[Tensor, " B"],
) -> list[list[int]]:
    """Take the likeliest token at every step."""
    return write(model, src, src_mask, max_len, allowed_argmax)


def forbid(logits: Float[Tensor, "*B V"]) -> Float[Tensor, "*B V"]:
    """Rule out PAD and BOS, the first two tokens, which no text holds."""
    return logits.index_fill(-1, torch.arange(BOS + 1, device=logits.device), -torch.inf)


def allowed_argmax(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
    """Return the likeliest token that a text may hold."""
    return forbid(logits).argmax(-1)


def sample(
    model: SequenceModel,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    max_len: int | Int[Tensor, " B"],
    generator: torch.Generator,
    temperature: float = 1.0,
) -> list[list[int]]:
    """Draw every token from its distribution, sharpened (< 1) or flattened (> 1)."""
    return write(model, src, src_mask, max_len, drawn(generator, temperature))


def sample_after(
    model: SequenceModel,
    begun: Int[Tensor, "B P"],
    max_len: int,
    generator: torch.Generator,
    temperature: float = 1.0,
) -> list[list[int]]:
    """Go on with targets that have begun, after a source of BOS; return them from their beginning.

    So does a plain language model: it has a text so far, and nothing else to read.
    """
    src = torch.full((len(begun), 1), BOS, device=begun.device)
    return write(model, src, src == BOS, max_len, drawn(generator, temperature), begun)


def drawn(generator: torch.Generator, temperature: float) -> Choose:
    """Return how to draw a token."""
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature {temperature} is not above zero; for 0 use greedy search")

    def draw(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
        p = (forbid(logits) / temperature).softmax(-1)
        return torch.multinomial(p, 1, generator=generator).squeeze(1)

    return draw


@torch.inference_mode()
def beam(
    model: SequenceModel,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    max_len: int | Int[Tensor, " B"],
    width: int,
) -> list[list[int]]:
    """Keep the `width` likeliest beginnings; return the best by log p / length.

    The length counts EOS. A finished text stays among the beginnings and is not continued.
    """
    B, device, limits = len(src), src.device, Limits(max_len, src)
    state = model.encode(src, src_mask)
    model, shared = prepack(model, B * width), model.shared_by_beams
    beams = torch.arange(B, device=device).repeat_interleave(width)
    state = reorder(state, beams, shared=shared)
    y = torch.full((B * width,), BOS, device=device)
    log_p = torch.full((B, width), -torch.inf, device=device)
    log_p[:, 0] = 0.0  # all beginnings are equal at the start: keep one
    length = torch.zeros_like(log_p)
    done = torch.zeros_like(log_p, dtype=torch.bool)
    written = torch.full((B, width, limits.longest), EOS, device=device)
    texts, best = torch.arange(B, device=device), torch.full_like(written[:, 0], EOS)
    for t in range(limits.longest):
        logits, state = model.step(y, state)
        log_p, parent, token = extend(log_p, forbid(logits), done)
        length = length.gather(1, parent) + ~done.gather(1, parent)
        done = done.gather(1, parent) | (token == EOS)
        written = written.gather(1, parent.unsqueeze(2).expand_as(written))
        written[:, :, t] = token
        best[texts] = written[torch.arange(len(texts), device=device), (log_p / length).argmax(1)]
        if (rows := limits.unfinished(t + 1, done.all(1))) is not None:
            if not len(rows):
                break
            texts, log_p, length, done = texts[rows], log_p[rows], length[rows], done[rows]
            written, parent, token = written[rows], parent[rows], token[rows]
            first = rows.unsqueeze(1) * width
        else:
            first = torch.arange(len(texts), device=device).unsqueeze(1) * width
        state = reorder(state, (first + parent).flatten(), rows, shared)
        y = token.flatten()
    return [strip(row) for row in best.tolist()]


def extend(
    log_p: Float[Tensor, "B K"], logits: Float[Tensor, "R V"], done: Bool[Tensor, "B K"]
) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K"], Int[Tensor, "B K"]]:
    """Return log p, parent and last token of the K likeliest continuations of each source.

    A text that is done has one continuation, by PAD, for sure. No beginning has more than its own
    K likeliest tokens among the K likeliest of all, so the rest is not looked at.
    """
    B, K = log_p.shape
    step, token = logits.topk(min(K, logits.shape[1]), dim=1)
    step = (step - logits.logsumexp(1, keepdim=True)).view(B, K, -1)
    only_one = torch.full_like(step[0, 0], -torch.inf)
    only_one[0] = 0.0
    total = log_p.unsqueeze(2) + torch.where(done.unsqueeze(2), only_one, step)
    token = token.view(B, K, -1).masked_fill(done.unsqueeze(2), PAD)
    log_p, best = total.flatten(1).topk(K, dim=1)
    return log_p, best // step.shape[2], token.flatten(1).gather(1, best)
