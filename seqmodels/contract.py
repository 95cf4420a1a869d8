"""The contract of a model: what training, search and evaluation rely on, checked at tiny sizes.

`list_violations` builds a model with random parameters in float64, so that a property holds to the
last digits or not at all, and says of each property that fails, in a sentence, what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqmodels.interface import PAD, SequenceModel, reorder
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

    `sizes` are fields of the model's Config, such as those of a variant. The first three properties
    are needed for the others: where one fails, no further property is checked.
    """
    torch.manual_seed(1)
    case = None
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
        if fault and name in FIRST:
            return


def require(is_right: bool | Tensor, fault: str) -> None:
    """Raise ContractError with a sentence unless something is right."""
    if not is_right:
        raise ContractError(fault)


def build_again(model: SequenceModel) -> SequenceModel:
    """Build a model of the same sizes as it is before training."""
    return type(model)(model.config)


def largest(difference: Tensor) -> float:
    """Return the largest absolute value; infinite if a value is not a number."""
    return difference.abs().nan_to_num(torch.inf).max().item()


def other(tokens: Tensor) -> Tensor:
    """Return a different word for each word."""
    return (tokens - 4 + 1) % (V - 4) + 4


# ------------------------------------------------------------------------------------ Properties


def check_class(model_type: type, **sizes: Value) -> Case:
    """Check the class and its Config; return a case for the other properties."""
    if not issubclass(model_type, SequenceModel):
        raise ContractError("It is not a subclass of seqmodels.SequenceModel.")
    config_type = getattr(model_type, "config_type", None)
    if not is_dataclass(config_type):
        raise ContractError("Its config_type is not a dataclass.")
    names = [field.name for field in fields(config_type)]
    require(names[:1] == ["vocab_size"], "The first field of its Config is not vocab_size.")
    counts = hasattr(config_type, "source_floats")
    require(counts, "Its Config lacks the method source_floats(n).")
    small = {name: size for name, size in SIZES.items() if name in names}
    model = model_type(model_type.config_type(**small | sizes)).eval().double()
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    src_mask = torch.arange(5) < torch.tensor([5, 1, 3, 4]).unsqueeze(1)
    src = torch.randint(4, V, (4, 5)) * src_mask
    tgt_in = torch.cat([torch.ones(4, 1, dtype=torch.long), torch.randint(4, V, (4, 5))], 1)
    return Case(model, src, src_mask, tgt_in)


def check_dtype(case: Case) -> None:
    """Check that a model in float32 computes in float32."""
    model = build_again(case.model).eval()
    dtype = model(case.src, case.src_mask, case.tgt_in).dtype
    require(dtype == torch.float32, f"In float32, forward returns {dtype}.")


def check_state(case: Case) -> None:
    """Check that `encode` returns a NamedTuple of tensors and caches, the batch first."""
    state = case.model.encode(case.src, case.src_mask)
    require(hasattr(state, "_fields"), "encode returns something else than a NamedTuple.")
    for name, field in zip(state._fields, state, strict=True):
        is_known = isinstance(field, Tensor) or hasattr(field, "reorder")
        require(is_known, f"The State's {name} is neither a tensor nor a KVCache.")
        if isinstance(field, Tensor):
            shape = tuple(field.shape)
            require(shape[:1] == (4,), f"The State's {name} {shape} does not begin with B = 4.")


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
    plain = {path: dict_of(module) for path, module in model.named_modules()}
    state = model.encode(case.src, case.src_mask)
    kept = [t.clone() for t in tensors_of(state)]
    once, _ = model.step(case.tgt_in[:, 0], state)
    is_kept = all(map(torch.equal, kept, tensors_of(state)))
    require(is_kept, "step changes the State that it is given; it must return a new one.")
    again, _ = model.step(case.tgt_in[:, 0], state)
    require(torch.equal(once, again), "step gives something else the second time.")
    model(case.src, case.src_mask, case.tgt_in)
    for path, module in model.named_modules():
        names = [k for k, v in dict_of(module).items() if plain[path].get(k) != v]
        where = f"{path}.{names[0]}" if path and names else "".join(names[:1])
        require(not names, f"The module changes while it computes: {where}.")
    is_same = all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    require(is_same, "A parameter or buffer changes while the model computes.")


def dict_of(module: nn.Module) -> dict[str, str]:
    """Return the attributes of a module, but for torch's own, as text."""
    return {k: repr(v) for k, v in vars(module).items() if not k.startswith("_")}


def check_padding(case: Case) -> None:
    """Check that a row has the same logits alone as padded in a batch, whatever stands at pads."""
    model, src, mask, tgt_in, logits = case.parts()
    words = torch.where(mask, src, torch.randint(4, V, src.shape))
    gap = largest(model(words, mask, tgt_in) - logits)
    require(gap < TOLERANCE, "What stands in the source beyond src_mask changes the logits.")
    wide = model(F.pad(src, (0, 2), value=PAD), F.pad(mask, (0, 2), value=False), tgt_in)
    require(largest(wide - logits) < TOLERANCE, "More padding of the source changes the logits.")
    for i, n in enumerate(mask.sum(1).tolist()):
        row = slice(i, i + 1)
        alone = model(src[row, :n], mask[row, :n], tgt_in[row])
        is_same = largest(alone - logits[row]) < TOLERANCE
        require(is_same, "A row has other logits in a batch than alone.")


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
    for t, gap in enumerate(moved):
        fault = f"Target token {t + 1} does not change the logits at its own place."
        require(gap[t] > LEAST, fault)


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
    is_finite = model(bos, bos.bool(), tgt_in).isfinite().all()
    require(is_finite, "With BOS alone as the source, the logits are not finite.")


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
    is_same = largest(found - expected) < TOLERANCE
    require(is_same, "After beams are reordered, step goes on from the wrong place.")


def check_length(case: Case) -> None:
    """Check that targets may be as long as `max_target` says, at least 64 tokens."""
    model, src, mask, _, _ = case.parts()
    n = min(64, model.max_target(src.shape[1]))
    require(n > 0, "max_target leaves no room for a target after a source of 5 tokens.")
    logits = model(src, mask, torch.randint(4, V, (4, n)))
    is_whole = logits.shape[1] == n and logits.isfinite().all()
    require(is_whole, f"With a target of {n} tokens, logits are missing or not finite.")


def check_attention(case: Case) -> None:
    """Check that the weights of attention are shares of the source's words."""
    model, src, mask, tgt_in, _ = case.parts()
    if not model.cross_attentions:
        return
    weights = model.align(src, mask, tgt_in)
    shape, wanted = tuple(weights.shape), (4, 6, 5)
    require(shape == wanted, f"align returns {shape}; (B, T, S) is {wanted}.")
    require((weights >= 0).all(), "Some weights of attention are negative.")
    total = weights.sum(-1).max().item()
    require(total < 1 + TOLERANCE, f"The weights of a target token add up to {total:.3g}.")
    on_pads = weights.masked_fill(mask.unsqueeze(1), 0).max().item()
    require(on_pads < TOLERANCE, f"{100 * on_pads:.3g} % of a token's attention is on padding.")


def check_gradients(case: Case) -> None:
    """Check that every parameter gets a gradient within two steps from a fresh start."""
    model = build_again(case.model).double().train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for _ in range(2):  # a vector that starts at zero hides what it multiplies
        optimizer.zero_grad()
        loss_of(model, case.src, case.src_mask, case.tgt_in).backward()
        optimizer.step()
    for name, p in model.named_parameters():
        require(p.grad is not None, f"The parameter {name} is not used.")
        require(p.grad is None or p.grad.any(), f"The gradient of {name} is zero.")


def check_learning(case: Case) -> None:
    """Check that six pairs, whose targets begin alike, can be learned by heart."""
    src, tgt_in = torch.randint(4, V, (6, 4)), torch.randint(4, V, (6, 7))
    tgt_in[:, 0] = 1
    losses = []
    for lr in (1e-2, 3e-3):
        torch.manual_seed(2)
        model = build_again(case.model).train()
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
    raise ContractError(
        f"Six pairs are not learned by heart: after 300 steps, {' and '.join(losses)} nats a token "
        "are left, at learning rates of 0.01 and 0.003."
    )


def loss_of(model: SequenceModel, src: Tensor, src_mask: Tensor, tgt: Tensor) -> Tensor:
    """Return the mean nats per token of targets, whose first column is BOS."""
    logits = model(src, src_mask, tgt[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten())


CHECKS: dict[str, Callable[..., object]] = {
    "class and Config": check_class,
    "State": check_state,
    "logits": check_logits,
    "number type": check_dtype,
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
FIRST = ("class and Config", "State", "logits")
"""Those without which the others cannot be checked."""
