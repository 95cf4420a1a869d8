"""The contract of a model: what training, search and evaluation rely on, checked at tiny sizes.

`list_violations` builds a model with random parameters in float64, so that a property holds to the
last digits or not at all, and says of each property that fails, in a sentence, what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from seqmodels.interface import EOS, PAD, SequenceModel, reorder
from seqmodels.models import Value
from seqmodels.models.cache import tensors_of
from seqmodels.search import unroll

V = 23
SIZES = {"vocab_size": V, "d_model": 32, "d_ff": 64, "n_layers": 2, "n_heads": 4, "dropout": 0.0}
"""Sizes of the model, as far as its Config has them; the others are its defaults."""
TOLERANCE, LEAST = 1e-8, 1e-11
"""Largest difference between equal logits in float64, and least one that a token must make."""


class ContractError(ValueError):
    """A property that a model lacks."""


@dataclass
class Case:
    """A model with random parameters in float64, sources of unequal lengths, and their targets."""

    model: SequenceModel
    src: Tensor
    src_mask: Tensor
    tgt_in: Tensor

    @cached_property
    def logits(self) -> Tensor:
        """Return what `forward` returns."""
        with torch.no_grad():
            return self.model(self.src, self.src_mask, self.tgt_in)

    def parts(self) -> tuple[SequenceModel, Tensor, Tensor, Tensor, Tensor]:
        """Return the model, what it reads and what `forward` returns."""
        return self.model, self.src, self.src_mask, self.tgt_in, self.logits


def list_violations(model_type: type, **sizes: Value) -> Iterator[tuple[str, str]]:
    """Yield the name of each property, and the fault that was found in it: empty if it holds.

    `sizes` are fields of the model's Config, such as those of a variant. Without the first property
    no other is checked.
    """
    torch.manual_seed(1)
    case: Any = None
    for name, check in CHECKS.items():
        fault = ""
        try:
            if case is None:
                case = check(model_type, **sizes)
            else:
                check(case)
        except ContractError as error:
            fault = str(error)
        except Exception as error:  # the model's code is unknown
            fault = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        yield name, fault
        if case is None:
            return


def require(is_right: bool | Tensor, fault: str) -> None:
    """Raise ContractError with a sentence unless something is right."""
    if not is_right:
        raise ContractError(fault)


def largest(difference: Tensor) -> float:
    """Return the largest absolute value; infinite if a value is not a number."""
    return difference.abs().nan_to_num(torch.inf).max().item()


def other(tokens: Tensor) -> Tensor:
    """Return a different word for each word."""
    return (tokens - 4 + 1) % (V - 4) + 4


# ------------------------------------------------------------------------------------ Properties


def check_class(model_type: type, **sizes: Value) -> Case:
    """Check the class and its Config; return a case for the other properties."""
    config_type = getattr(model_type, "config_type", None)
    if not (issubclass(model_type, SequenceModel) and is_dataclass(config_type)):
        raise ContractError("It is not a SequenceModel whose config_type is a dataclass.")
    names = [field.name for field in fields(config_type)]
    require(names[:1] == ["vocab_size"], "The first field of its Config is not vocab_size.")
    has_floats = model_type.source_floats is not SequenceModel.source_floats
    require(has_floats, "It lacks source_floats(n).")
    small = {name: size for name, size in SIZES.items() if name in names}
    model = model_type(model_type.config_type(**small | sizes)).eval().double()
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    src_mask = torch.arange(5) < torch.tensor([5, 1, 3, 4]).unsqueeze(1)
    src = torch.randint(4, V, (4, 5)) * src_mask
    src[2, 2] = EOS  # as the sources of most tasks end
    tgt_in = torch.cat([torch.ones(4, 1, dtype=torch.long), torch.randint(4, V, (4, 5))], 1)
    return Case(model, src, src_mask, tgt_in)


def check_state(case: Case) -> None:
    """Check that `encode` returns a NamedTuple of tensors and caches, the batch first."""
    state = case.model.encode(case.src, case.src_mask)
    require(hasattr(state, "_fields"), "encode returns something else than a NamedTuple.")
    for name, field in zip(state._fields, state, strict=True):
        is_known = isinstance(field, Tensor) or hasattr(field, "reorder")
        require(is_known, f"The State's {name} is neither a tensor nor a KVCache.")
        is_batched = not isinstance(field, Tensor) or field.shape[:1] == (4,)
        require(is_batched, f"The State's {name} does not begin with the batch.")


def check_logits(case: Case) -> None:
    """Check the shape of what `forward` returns, and that it is finite and before the softmax."""
    shape = tuple(case.logits.shape)
    require(shape == (4, 6, V), f"forward returns {shape}; (B, T, V) is {(4, 6, V)}.")
    require(case.logits.isfinite().all(), "forward returns numbers that are not finite.")
    is_share = (case.logits >= 0).all() and largest(case.logits.sum(-1) - 1) < TOLERANCE
    require(not is_share, "forward returns probabilities; logits are wanted, before the softmax.")


def check_steps(case: Case) -> None:
    """Check that `step` gives, token by token, what `forward` gives at once."""
    logits, _ = unroll(case.model, case.model.encode(case.src, case.src_mask), case.tgt_in)
    gap = (logits - case.logits).abs().amax((0, 2))
    first = next((t for t, value in enumerate(gap.tolist(), 1) if not value < TOLERANCE), 0)
    require(not first, f"step and forward differ from target token {first} on.")


def check_memory(case: Case) -> None:
    """Check that nothing but the State changes: not the module, nor a State that was handed on."""
    model = case.model
    before = {k: v.clone() for k, v in model.state_dict().items()}
    plain = attributes_of(model)
    state = model.encode(case.src, case.src_mask)
    kept = [t.clone() for t in tensors_of(state)]
    once, _ = model.step(case.tgt_in[:, 0], state)
    require(all(map(torch.equal, kept, tensors_of(state))), "step changes a State in place.")
    again, _ = model.step(case.tgt_in[:, 0], state)
    require(torch.equal(once, again), "step gives something else the second time.")
    model(case.src, case.src_mask, case.tgt_in)
    changed = attributes_of(model).items() - plain.items()
    require(not changed, f"The module changes while it computes: {dict(changed)}.")
    is_same = all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    require(is_same, "A parameter or buffer changes while the model computes.")


def attributes_of(model: nn.Module) -> dict[str, str]:
    """Return the attributes of all parts, but for torch's own, as text."""
    parts = model.named_modules()
    own = ((f"{path}.{k}", v) for path, part in parts for k, v in vars(part).items())
    return {k.lstrip("."): repr(v) for k, v in own if not k.rpartition(".")[2].startswith("_")}


def check_padding(case: Case) -> None:
    """Check that a row has the same logits alone as padded in a batch, whatever stands at pads."""
    model, src, mask, tgt_in, logits = case.parts()
    words = torch.where(mask, src, torch.randint(4, V, src.shape))
    gap = largest(model(words, mask, tgt_in) - logits)
    require(gap < TOLERANCE, "What stands in the source beyond src_mask changes the logits.")
    wide = model(nn.functional.pad(src, (0, 2)), nn.functional.pad(mask, (0, 2)), tgt_in)
    require(largest(wide - logits) < TOLERANCE, "More padding of the source changes the logits.")
    for i, n in enumerate(mask.sum(1).tolist()):
        row = slice(i, i + 1)
        alone = model(src[row, :n], mask[row, :n], tgt_in[row])
        gap = largest(alone - logits[row])
        require(gap < TOLERANCE, "A row has other logits in a batch than alone.")


def check_future(case: Case) -> None:
    """Check that a target token moves the logits from its place on, and none before."""
    (model, src, mask, tgt_in, logits), moved = case.parts(), []
    for t in range(tgt_in.shape[1]):
        changed = tgt_in.clone()
        changed[:, t] = other(tgt_in[:, t])
        moved.append((model(src, mask, changed) - logits).abs().amax((0, 2)))
    for t, gap in enumerate(moved):
        is_blind = (gap[:t] < TOLERANCE).all()
        require(is_blind, f"The logits before target token {t + 1} depend on it: the future leaks.")
        require(gap[t] > LEAST, f"Target token {t + 1} does not change the logits at its place.")


def check_source(case: Case) -> None:
    """Check that each token of a source moves its row's logits."""
    model, src, mask, tgt_in, logits = case.parts()
    for s in range(src.shape[1]):
        changed = src.clone()
        changed[:, s] = torch.where(mask[:, s], other(src[:, s]), PAD)
        is_moved = (model(changed, mask, tgt_in) - logits).abs().amax((1, 2)) > LEAST
        unread = (mask[:, s] & ~is_moved).any()
        require(not unread, f"Token {s + 1} of a source does not change the logits.")
        require(not (is_moved & ~mask[:, s]).any(), "A row depends on another row's source.")
    bos = torch.ones(4, 1, dtype=torch.long)
    require(model(bos, bos.bool(), tgt_in).isfinite().all(), "BOS alone gives no finite logits.")


def check_reorder(case: Case) -> None:
    """Check that beams go on where they were, with their own sources."""
    model, src, mask, tgt_in, _ = case.parts()
    rows, sources = torch.arange(4).repeat_interleave(2), torch.tensor([2, 0])
    state = reorder(model.encode(src, mask), rows, shared=model.beam_shared_fields)
    _, state = unroll(model, state, tgt_in[rows][:, :2])
    beams = torch.tensor([5, 4, 0, 0])
    state = reorder(state, beams, sources, model.beam_shared_fields)
    found, _ = unroll(model, state, tgt_in[[3, 1, 0, 2], 2:])
    text = torch.cat([tgt_in[rows[beams], :2], tgt_in[[3, 1, 0, 2], 2:]], 1)
    expected = model(src[rows[beams]], mask[rows[beams]], text)[:, 2:]
    require(largest(found - expected) < TOLERANCE, "step goes on wrongly after reorder.")


def check_length(case: Case) -> None:
    """Check that targets may be as long as `max_target` says, or 64 tokens."""
    n = min(64, case.model.max_target(case.src.shape[1]))
    logits = case.model(case.src, case.src_mask, torch.randint(4, V, (4, n)))
    is_whole = n > 0 and logits.shape[1] == n and logits.isfinite().all()
    require(is_whole, f"With a target of {n} tokens, logits are missing or not finite.")


def check_attention(case: Case) -> None:
    """Check that the weights of attention are shares of the source's words."""
    model, src, mask, tgt_in, _ = case.parts()
    if not model.cross_attentions:
        return
    weights = model.align(src, mask, tgt_in)
    shape = tuple(weights.shape)
    require(shape == (4, 6, 5), f"align returns {shape}; (B, T, S) is {(4, 6, 5)}.")
    is_share = (weights >= 0).all() and weights.sum(-1).max() < 1 + TOLERANCE
    require(is_share, "The weights of a target token are no shares, which add up to 1.")
    on_pads = weights.masked_fill(mask.unsqueeze(1), 0).max().item()
    require(on_pads < TOLERANCE, f"{100 * on_pads:.3g} % of a token's attention is on padding.")


def check_gradients(case: Case) -> None:
    """Check that every parameter gets a gradient within two steps from a fresh start."""
    model = type(case.model)(case.model.config).double().train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for _ in range(2):  # a vector that starts at zero hides what it multiplies
        optimizer.zero_grad()
        loss_of(model, case.src, case.src_mask, case.tgt_in).backward()
        optimizer.step()
    for name, p in model.named_parameters():
        require(p.grad is not None and p.grad.any(), f"The parameter {name} gets no gradient.")


def check_learning(case: Case) -> None:
    """Check that six pairs, whose targets begin alike, can be learned by heart."""
    src, tgt_in = torch.randint(4, V, (6, 4)), torch.randint(4, V, (6, 7))
    tgt_in[:, 0] = 1
    losses = []
    for lr in (1e-2, 3e-3):
        torch.manual_seed(2)
        model = type(case.model)(case.model.config).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr)
        for _ in range(300):
            optimizer.zero_grad()
            loss = loss_of(model, src, torch.ones_like(src, dtype=torch.bool), tgt_in)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if loss < 0.1:
                return
        losses.append(f"{loss.item():.2f}")
    left = " and ".join(losses)
    raise ContractError(f"Six pairs are not learned by heart: {left} nats are left in 300 steps.")


def loss_of(model: SequenceModel, src: Tensor, src_mask: Tensor, tgt: Tensor) -> Tensor:
    """Return the mean nats per token of targets, whose first column is BOS."""
    logits = model(src, src_mask, tgt[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten())


CHECKS: dict[str, Callable[..., object]] = {
    "class and Config": check_class,
    "State": check_state,
    "logits": check_logits,
    "future": check_future,
    "step = forward": check_steps,
    "no hidden memory": check_memory,
    "padding and batch": check_padding,
    "source": check_source,
    "beams": check_reorder,
    "length": check_length,
    "attention": check_attention,
    "gradients": check_gradients,
    "learning": check_learning,
}
"""The properties by name, in the order in which they are checked; the first one makes the case."""
