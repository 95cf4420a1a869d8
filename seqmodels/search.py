"""Search, written once for every model: greedy, beam and sampling over `step`.

All functions take padded sources and return lists of token ids without BOS and EOS. `max_len` is
the number of tokens, EOS included, after which a text is cut: one for all rows, or one for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqmodels.interface import BOS, EOS, PAD, AnyState, SequenceModel, device_of, reorder

MAX_KEPT_SHARE = 0.8
"""Finished rows are dropped when at most this share of the rows is unfinished."""
CHECK_EVERY = 16
"""Tokens between two checks for finished texts on a GPU."""
Choose = Callable[[Float[Tensor, "R V"]], Int[Tensor, " R"]]


def unroll(
    model: SequenceModel, state: AnyState, tgt_in: Int[Tensor, "B T"]
) -> tuple[Float[Tensor, "B T V"], AnyState]:
    """Feed `tgt_in` token by token through `step`; return all logits and the last State."""
    logits = []
    for y in tgt_in.unbind(1):
        logits_t, state = model.step(y, state)
        logits.append(logits_t)
    return torch.stack(logits, 1), state


def trim_at_eos(tokens: list[int]) -> list[int]:
    """Return the tokens before the first EOS."""
    return tokens[: tokens.index(EOS)] if EOS in tokens else tokens


def is_check_due(t: int, device: torch.device) -> bool:
    """Return whether to check for finished texts: on a GPU, rarely, because each check waits."""
    return device.type == "cpu" or t % CHECK_EVERY == 0


class LengthLimits:
    """The maximum length of each row, and which rows are unfinished."""

    def __init__(self, max_len: int | Int[Tensor, " B"], src: Int[Tensor, "B S"]):
        self.rows = torch.as_tensor(max_len, device=src.device).expand(len(src))
        self.ends = {*self.rows.tolist()}
        self.longest = max(self.ends)

    def unfinished(self, t: int, finished: Bool[Tensor, " R"]) -> Int[Tensor, " R2"] | None:
        """Return the rows to keep after t tokens; None to keep all.

        Finished rows are kept until dropping them pays off. A row at its limit is always dropped:
        the model may have no position for another token.
        """
        if t not in self.ends:
            n_rows = len(finished)
            if not is_check_due(t, finished.device):
                return None
            if n_rows - sum(finished.tolist()) > MAX_KEPT_SHARE * n_rows:
                return None
        left = (~finished & (self.rows > t)).nonzero().squeeze(1)
        self.rows = self.rows[left]
        return left


@torch.inference_mode()
def generate(
    model: SequenceModel,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    max_len: int | Int[Tensor, " B"],
    choose: Choose,
    prefix: Int[Tensor, "B P"] | None = None,
) -> list[list[int]]:
    """Generate token by token; `choose` picks each from its logits, after those of the prefix."""
    limits, state = LengthLimits(max_len, src), model.encode(src, src_mask)
    y = torch.full((len(src),), BOS, device=src.device)
    finished, texts = torch.zeros_like(y, dtype=torch.bool), torch.arange(len(y), device=y.device)
    generated = torch.full((limits.longest, len(src)), EOS, device=src.device)
    for t in range(limits.longest):
        logits, state = model.step(y, state)
        y = prefix[texts, t] if prefix is not None and t < prefix.shape[1] else choose(logits)
        generated[t].index_copy_(0, texts, y)
        finished |= y == EOS
        if (rows := limits.unfinished(t + 1, finished)) is not None:
            if not len(rows):
                break
            state, y = reorder(state, rows, rows), y[rows]
            texts, finished = texts[rows], finished[rows]
    return [trim_at_eos(row) for row in generated.T.tolist()]


def greedy(
    model: SequenceModel,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    max_len: int | Int[Tensor, " B"],
) -> list[list[int]]:
    """Take the most likely token at every step."""
    return generate(model, src, src_mask, max_len, allowed_argmax)


def allowed_argmax(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
    """Return the most likely token; PAD and BOS, which never occur in a text, are ruled out."""
    return logits[:, BOS + 1 :].argmax(-1) + (BOS + 1)


def continue_text(
    model: SequenceModel, text: list[int], n: int, block: int, choose: Choose
) -> list[int]:
    """Continue a text by up to n tokens, with a model that was trained on blocks without context.

    The source is only BOS. When a block is full, its second half becomes the beginning of the next.
    """
    tokens, device = text, device_of(model)
    src = torch.tensor([[BOS]], device=device)
    while (n_left := len(text) + n - len(tokens)) > 0:
        prefix = tokens if len(tokens) < block else tokens[len(tokens) - block // 2 :]
        max_len = len(prefix) + min(block - len(prefix), n_left)
        rows = torch.tensor([prefix], dtype=torch.long, device=device)
        (generated,) = generate(model, src, src == BOS, max_len, choose, rows)
        tokens = [*tokens, *generated[len(prefix) :]]
        if len(generated) < max_len:
            break
    return tokens[len(text) :]


def sampler(
    generator: torch.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
) -> Choose:
    """Return a function that samples a token from logits.

    A temperature below 1 sharpens the distribution, above 1 flattens it; 0 is greedy search. With
    `top_k` and `top_p`, only the likeliest tokens are sampled: see `keep_likeliest`. Raises
    ValueError for settings out of range.
    """
    if temperature != 0 and not 1e-3 <= temperature <= 1e3:
        raise ValueError(f"temperature {temperature}: choose 0 (greedy), or 0.001 to 1000")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top-k {top_k}: choose 1 or more")
    if not 0 < top_p <= 1:
        raise ValueError(f"top-p {top_p}: choose a number above 0, at most 1")
    if temperature == 0:
        return allowed_argmax

    def sample_token(logits: Float[Tensor, "B V"]) -> Int[Tensor, " B"]:
        logits = logits / temperature
        logits[:, : BOS + 1] = -torch.inf
        if top_k is not None or top_p < 1:
            logits = keep_likeliest(logits, top_k, top_p)
        return torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(1)

    return sample_token


def keep_likeliest(
    logits: Float[Tensor, "B V"], top_k: int | None, top_p: float
) -> Float[Tensor, "B V"]:
    """Rule out all tokens but the `top_k` likeliest; of these, keep the nucleus.

    The nucleus (Holtzman et al. 2020) is the fewest tokens whose probabilities reach `top_p`.
    """
    ranked, order = logits.topk(min(top_k or logits.shape[1], logits.shape[1]), dim=1)
    p = ranked.softmax(1)
    ranked = ranked.masked_fill(p.cumsum(1) - p >= top_p, -torch.inf)
    return torch.full_like(logits, -torch.inf).scatter(1, order, ranked)


LENGTH_PENALTY = 1.0
"""The default power of the length by which a beam divides log-probabilities."""


@torch.inference_mode()
def beam(
    model: SequenceModel,
    src: Int[Tensor, "B S"],
    src_mask: Bool[Tensor, "B S"],
    max_len: int | Int[Tensor, " B"],
    width: int,
    length_penalty: float = LENGTH_PENALTY,
) -> list[list[int]]:
    """Keep the `width` most likely hypotheses of each source; return the best one.

    The best has the highest log p / length ** length_penalty, where the length counts EOS. A
    finished hypothesis stays in the beam and is not extended.
    """
    limits, shared = LengthLimits(max_len, src), model.beam_shared_fields
    beams, best = Beams.start(src, width, limits.longest), dict[int, list[int]]()
    rows = beams.sources.repeat_interleave(width)
    state = reorder(model.encode(src, src_mask), rows, shared=shared)
    y = torch.full_like(rows, BOS)
    for t in range(limits.longest):
        logits, state = model.step(y, state)
        parent, token = beams.expand(logits, t)
        if (kept := limits.unfinished(t + 1, beams.is_finished.all(1))) is not None:
            best |= beams.finish(kept, t + 1, length_penalty)
            if not len(kept):
                break
            parent, token = parent[kept], token[kept]
        state = reorder(state, parent.flatten(), kept, shared)
        y = token.flatten()
    return [best[source] for source in range(len(src))]


@dataclass
class Beams:
    """The J most likely hypotheses of each source that is not finished; R = B × J rows."""

    sources: Int[Tensor, " B"]
    """Which sources they are."""
    first: Int[Tensor, "B 1"]
    """The first row of each source."""
    log_p: Float[Tensor, "B J"]
    is_finished: Bool[Tensor, "B J"]
    tokens: Int[Tensor, "R T"]
    """What was written so far, with room for the longest target."""

    @classmethod
    def start(cls, src: Int[Tensor, "B S"], width: int, longest: int) -> Beams:
        """Return the beams before the first token."""
        sources = torch.arange(len(src), device=src.device)
        log_p = torch.full((len(src), width), -torch.inf, device=src.device)
        log_p[:, 0] = 0.0  # all hypotheses are equal at the start: keep one
        is_finished = torch.zeros_like(log_p, dtype=torch.bool)
        tokens = sources.new_empty(len(src) * width, longest)
        return cls(sources, sources.unsqueeze(1) * width, log_p, is_finished, tokens)

    def expand(
        self, logits: Float[Tensor, "R V"], t: int
    ) -> tuple[Int[Tensor, "B J"], Int[Tensor, "B J"]]:
        """Keep the J most likely extensions by token t; return the row that each continues, and it.

        A finished hypothesis has one extension, PAD, with probability 1; PAD and BOS are ruled out
        otherwise. Only the J most likely tokens of each hypothesis can be among the J best of all.
        """
        B, J = self.log_p.shape
        logits = logits[:, BOS + 1 :]
        step, token = logits.log_softmax(1).topk(min(J, logits.shape[1]), dim=1)
        only_one = torch.full_like(step[0], -torch.inf)
        only_one[0] = 0.0
        step = torch.where(self.is_finished.unsqueeze(2), only_one, step.view(B, J, -1))
        self.log_p, best = (self.log_p.unsqueeze(2) + step).flatten(1).topk(J, dim=1)
        parent = best // step.shape[2]
        token = token.view(B, -1).gather(1, best) + (BOS + 1)
        token = token.masked_fill(self.is_finished.gather(1, parent), PAD)
        self.is_finished = token <= EOS  # EOS, or PAD after it
        parent = self.first + parent
        self.tokens = self.tokens.index_select(0, parent.flatten())
        self.tokens[:, t] = token.flatten()
        return parent, token

    def finish(
        self, kept: Int[Tensor, " B2"], length: int, length_penalty: float
    ) -> dict[int, list[int]]:
        """Drop all sources but these; return the best hypothesis of each dropped one."""
        is_dropped = torch.ones_like(self.sources, dtype=torch.bool).index_fill(0, kept, False)
        tokens = self.tokens.unflatten(0, self.log_p.shape)
        generated = tokens[is_dropped, :, :length]
        n_tokens = (generated != PAD).sum(2)
        best = (self.log_p[is_dropped] / n_tokens**length_penalty).argmax(1)
        targets = generated[torch.arange(len(best), device=best.device), best].tolist()
        dropped = self.sources[is_dropped].tolist()
        self.sources, self.first = self.sources[kept], self.first[: len(kept)]
        self.log_p, self.is_finished = self.log_p[kept], self.is_finished[kept]
        self.tokens = tokens[kept].flatten(0, 1)
        return dict(zip(dropped, map(trim_at_eos, targets), strict=True))
