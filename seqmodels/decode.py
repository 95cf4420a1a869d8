"""Search, written once for every model: greedy, beam and sampling over `step`.

All functions take padded sources and return lists of token ids without BOS and EOS. `max_len` is
the number of tokens, EOS included, after which a text is cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqmodels.interface import BOS, EOS, PAD, SequenceModel, attention_weights, select_rows


def strip(tokens: list[int]) -> list[int]:
    """Cut at the first EOS."""
    return tokens[: tokens.index(EOS)] if EOS in tokens else tokens


@torch.inference_mode()
def write(
    model: SequenceModel,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    max_len: int,
    choose: Callable[[Float[Tensor, "B V"]], Int[Tensor, " B"]],
) -> list[list[int]]:
    """Write one token after the other, each picked from its logits by `choose`."""
    state = model.encode(src, src_mask)
    y = torch.full((len(src),), BOS, device=src.device)
    done = torch.zeros_like(y, dtype=torch.bool)
    written = []
    for _ in range(max_len):
        logits, state = model.step(y, state)
        y = choose(logits).masked_fill(done, EOS)
        done = done | (y == EOS)
        written.append(y)
        if done.all():
            break
    return [strip(row) for row in torch.stack(written, 1).tolist()]


def greedy(
    model: SequenceModel, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], max_len: int
) -> list[list[int]]:
    """Take the likeliest token at every step."""
    return write(model, src, src_mask, max_len, allowed_argmax)


def forbid(logits: Float[Tensor, "*B V"]) -> Float[Tensor, "*B V"]:
    """Rule out PAD and BOS, which no text holds."""
    return logits.index_fill(-1, torch.tensor([PAD, BOS], device=logits.device), -torch.inf)


def allowed_argmax(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
    """Return the likeliest token that a text may hold."""
    return forbid(logits).argmax(-1)


def sample(
    model: SequenceModel,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    max_len: int,
    generator: torch.Generator,
    temperature: float = 1.0,
) -> list[list[int]]:
    """Draw every token from its distribution, sharpened (< 1) or flattened (> 1)."""
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature {temperature} is not above zero; for 0 use greedy search")

    def draw(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
        p = (forbid(logits) / temperature).softmax(-1)
        return torch.multinomial(p, 1, generator=generator).squeeze(1)

    return write(model, src, src_mask, max_len, draw)


@torch.inference_mode()
def beam(
    model: SequenceModel,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    max_len: int,
    width: int,
) -> list[list[int]]:
    """Keep the `width` likeliest beginnings; return the best by log p / length.

    The length counts EOS. A finished text stays among the beginnings and is not continued.
    """
    B, device = len(src), src.device
    first = torch.arange(B, device=device).unsqueeze(1) * width
    state = select_rows(
        model.encode(src, src_mask), torch.arange(B, device=device).repeat_interleave(width)
    )
    y = torch.full((B * width,), BOS, device=device)
    log_p = torch.full((B, width), -torch.inf, device=device)
    log_p[:, 0] = 0.0  # all beginnings are equal at the start: keep one
    length = torch.zeros_like(log_p)
    done = torch.zeros_like(log_p, dtype=torch.bool)
    written = torch.empty(B, width, 0, dtype=torch.int64, device=device)
    for _ in range(max_len):
        logits, state = model.step(y, state)
        step = forbid(logits).log_softmax(-1).view(B, width, -1)
        only_pad = torch.full_like(step[0, 0], -torch.inf)
        only_pad[PAD] = 0.0
        total = log_p.unsqueeze(2) + torch.where(done.unsqueeze(2), only_pad, step)
        log_p, best = total.flatten(1).topk(width, dim=1)
        parent, token = best // step.shape[2], best % step.shape[2]
        length = length.gather(1, parent) + ~done.gather(1, parent)
        done = done.gather(1, parent) | (token == EOS)
        written = torch.cat(
            [written.gather(1, parent.unsqueeze(2).expand_as(written)), token.unsqueeze(2)], 2
        )
        if done.all():
            break
        state = select_rows(state, (first + parent).flatten())
        y = token.flatten()
    best_row = (log_p / length).argmax(1)
    return [strip(rows[i]) for rows, i in zip(written.tolist(), best_row.tolist(), strict=True)]


@torch.inference_mode()
def align(
    model: SequenceModel,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    tgt_in: Int[Tensor, "B T"],
) -> Float[Tensor, "B T S"]:
    """Return the weights over the source with which each token of a given target is written.

    Raises ValueError for a model without attention.
    """
    state, rows = model.encode(src, src_mask), []
    for y in tgt_in.unbind(1):
        _, state = model.step(y, state)
        rows.append(attention_weights(state))
    return torch.stack(rows, 1)
