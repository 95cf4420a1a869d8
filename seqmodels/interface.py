"""The interface of every model: three methods, one state, one batch.

    encode(src, src_mask)          -> State                 read the source
    step(y, state)                 -> (logits (R,V), State)  one target token; search uses it
    forward(src, src_mask, tgt_in) -> logits (B,T,V)         all tokens, teacher forced; training

A State is a NamedTuple of tensors, each with the batch first, and of `KVCache`s, the keys and
values of past tokens (`models/cache.py`). Modules hold parameters and nothing that changes from
step to step, so any search can keep, drop and reorder states. With beams, `step` takes R = B × J
rows, the J beams of each source.

Letters of shapes, in all chapters:

    B  sources in a batch             E  width of an embedding
    R  rows of a step: B, or B × J    D  width of the model
    J  beams of a source in search    A  width of the alignment model
    S  length of the source           O  maxout units of the output
    T  length of the target           L  layers
    N  length of any text             H  heads
    M  keys that are attended to      K  width of a head
    C  tokens of a chunk
    V  vocabulary                     F  features of a head, a row of its memory for each
    P  learned positions              Kv width of a head's values, if not K
    W  tokens before the present one that a short convolution sees

D2, D3 and D4 are 2, 3 and 4 D, K1 is K + 1 (W1 likewise), `*B` any axes, `#` an axis that may be 1,
`_` one without a letter; a letter alone has a blank before it, for linters. So `Float[Tensor, "B S
D2"]` is a tensor of floats, such as (32, 20, 2000): 32 sources of 20 words, each with 2 × 1000
numbers; tests check it at every call. Masks are bool, True = real token. Weight matrices have the
papers' names, such as W and U_a.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.utils.values import NonNegative, Positive, Share, Size, check_fields  # noqa: F401

PAD, BOS, EOS, UNK = range(4)
"""The first four ids of every vocabulary."""

AnyState = TypeVar("AnyState", bound=tuple[Any, ...])


class Batch(NamedTuple):
    """Sources and targets, padded on the right with PAD."""

    src: Int[Tensor, "B S"]
    src_mask: Bool[Tensor, "B S"]
    tgt_in: Int[Tensor, "B T"]
    """BOS y1 … y_{T-1}."""
    tgt_out: Int[Tensor, "B T"]
    """y1 … y_T, the last one EOS if the text ends there; PAD is not scored."""


class SequenceModel(nn.Module):
    """The base class of all models; a subclass writes out the three methods."""

    config_type: ClassVar[type]
    """A frozen dataclass of sizes; its first field is `vocab_size`. `d_model` is chosen so that
    models have equal numbers of parameters."""
    beam_shared_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of the State that the beams of a source share: they have B rows, the others R."""
    alignment_layers: ClassVar[slice] = slice(None)
    """Layers over which `align` averages."""
    undecayed: ClassVar[tuple[str, ...]] = ()
    """Endings of the names of parameters that weight decay spares."""

    def __init__(self, config: Any):
        super().__init__()
        check_fields(config)
        self.config = config
        self.cross_attentions: list[Any] = []
        """The modules that attend to the source, layer by layer, by their `attention_weights`."""

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]) -> Any:
        """Read the source; return the State before the first target token."""
        raise NotImplementedError

    def step(self, y: Int[Tensor, " R"], state: Any) -> tuple[Float[Tensor, "R V"], Any]:
        """Take the previous target token; return the next one's logits and the new State."""
        raise NotImplementedError

    def forward(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of all target tokens, each given the true ones before it."""
        raise NotImplementedError

    def text_logits(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B S+T V"]:
        """Return the logits after each token of source and target, for a loss on both.

        Raises ValueError for a model that does not read them as one text.
        """
        raise ValueError("this model does not read source and target as one text")

    def attention_weights(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B L H T S"]:
        """Return the weights over the source of every layer and head, in one teacher-forced pass.

        A module of attention is called once for all target tokens or once per token, and its
        weights are with or without an axis of heads. Raises ValueError for a model that has none.
        """
        if not self.cross_attentions:
            raise ValueError(
                "this model has no attention to show: the whole source is in one vector; choose "
                "a model that attends to each word"
            )
        with watch_attention(self.cross_attentions) as calls:
            self(src, src_mask, tgt_in)
        n_tgt, n_src = tgt_in.shape[1], src.shape[1]  # GPT's weights cover source and target
        layers = [torch.cat(alphas, -2)[..., -n_tgt:, :n_src] for alphas in calls]
        return torch.stack([w if w.dim() == 4 else w.unsqueeze(1) for w in layers], 1)

    def align(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T S"]:
        """Return `attention_weights`, averaged over heads and layers, as an alignment."""
        return self.attention_weights(src, src_mask, tgt_in)[:, self.alignment_layers].mean((1, 2))

    def source_floats(self, n: int) -> int:
        """Return how many numbers about a source of n tokens the decoder is given."""
        raise NotImplementedError("the model lacks source_floats(n)")

    def max_target(self, n_source: int) -> int:
        """Return how many target tokens can follow a source of `n_source` tokens."""
        return sys.maxsize


def device_of(model: nn.Module) -> str:
    """Return the device of a model's parameters; the CPU if it has none."""
    return str(next((p.device for p in model.parameters()), "cpu"))


@contextmanager
def watch_attention(modules: Sequence[nn.Module]) -> Iterator[list[list[Tensor]]]:
    """Collect the weights of each of these modules inside the context, one tensor per call.

    A module's `attention_weights` is called with the same arguments as the module.
    """
    calls: list[list[Tensor]] = [[] for _ in modules]
    with ExitStack() as hooks:
        for module, alphas in zip(modules, calls, strict=True):

            def watch(module: Any, args: Any, _: object, alphas: list[Tensor] = alphas) -> None:
                alphas.append(module.attention_weights(*args))

            hooks.enter_context(module.register_forward_hook(watch))
        yield calls


def reorder(
    state: AnyState,
    rows: Int[Tensor, " R"],
    sources: Int[Tensor, " B"] | None = None,
    shared: tuple[str, ...] = (),
) -> AnyState:
    """Return the State whose row i continues the old row `rows[i]`, for any model and search.

    `rows` picks beams. What the beams of a source share, the fields named in `shared` and the keys
    and values of a `KVCache`, is picked by `sources`; None leaves it as it is, uncopied.
    """
    fields: list[Any] = []
    for name, field in zip(state._fields, state, strict=True):  # type: ignore[attr-defined]
        picked = sources if name in shared else rows
        if picked is None:
            fields.append(field)
        elif isinstance(field, Tensor):
            fields.append(field.index_select(0, picked))
        else:
            fields.append(field.reorder(picked, sources))
    return type(state)(*fields)


def check_positions(position: Tensor, n_positions: int) -> None:
    """Raise ValueError if a text needs more positions than a model has learned."""
    if (n := int(position.max()) + 1) > n_positions:
        raise ValueError(
            f"source and target need {n} positions, this model has {n_positions}; shorten the "
            "text or build it with more n_positions"
        )


@contextmanager
def mute_heads(
    outputs: Sequence[nn.Module], mask: Sequence[Tensor] | Tensor = ()
) -> Iterator[None]:
    """Multiply the output of each head by its number in the mask inside the context.

    The mask (L,H) has a row for each of `outputs`, the layers W_o that merge the heads of an
    attention: they are called with (B, N, H × K).
    """
    with ExitStack() as hooks:
        for layer, row in zip(outputs, mask, strict=True):

            def mute(_: nn.Module, args: tuple[Tensor], row: Tensor = row) -> Tensor:
                return (args[0].unflatten(-1, (len(row), -1)) * row.unsqueeze(-1)).flatten(-2)

            hooks.enter_context(layer.register_forward_pre_hook(mute))
        yield
