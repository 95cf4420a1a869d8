"""GPT-2's published weights in this repository's GPT: the same numbers under other names.

A folder, or a repository on the Hub, has config.json, model.safetensors and tokenizer.json, as
Hugging Face's library writes them. Ids are theirs plus the four of this repository; BOS and EOS
have the embedding of <|endoftext|>.
"""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from seqmodels.data.tokenizers import N_SPECIALS, HuggingFace, load
from seqmodels.interface import BOS, EOS, SequenceModel
from seqmodels.records.schema import Data
from seqmodels.search import Choose
from seqmodels.training import checkpoint
from seqmodels.utils import files

CONFIG, WEIGHTS = "config.json", "model.safetensors"
EXPECTED = {"model_type": "gpt2", "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
"""What the released models have in common; another value would be another function."""
SIZES = {"n_embd": "d_model", "n_head": "n_heads", "n_layer": "n_layers"}
SIZES |= {"n_positions": "n_positions", "vocab_size": "n_ids"}
"""Their names of sizes, and ours."""
PARTS = {
    "ln_1": "norm_1", "ln_2": "norm_2", "attn.c_attn": "self_attention.W_qkv",
    "attn.c_proj": "self_attention.W_o", "mlp.c_fc": "ff.0", "mlp.c_proj": "ff.2",
}  # fmt: skip
"""Their names of the parts of a block, and ours."""
MAX_SIZE = 2**16


def load_gpt2(folder: Path) -> tuple[SequenceModel, HuggingFace, Data]:
    """Return GPT-2's model, its tokenizer and what a record says of a run.

    Raises ValueError for another model, or for weights that do not fit their config.
    """
    config, tokenizer = files.read_json(folder / CONFIG), load(folder / "tokenizer.json")
    if not isinstance(config, dict) or not isinstance(tokenizer, HuggingFace):
        raise ValueError(f"{folder} is not a model of Hugging Face's library")
    for name, value in EXPECTED.items():
        if config.get(name, value) != value or "model_type" not in config:
            raise ValueError(f"{folder / CONFIG}: {name} is {config.get(name)}, not {value}")
    sizes = dict[str, int]()
    for theirs, ours in SIZES.items():
        if not isinstance(value := config.get(theirs), int) or not 0 < value <= MAX_SIZE:
            raise ValueError(f"{folder / CONFIG}: {theirs} is {value}")
        sizes[ours] = value
    n_ids = sizes.pop("n_ids")
    try:
        content = files.read(folder / WEIGHTS, checkpoint.MAX_WEIGHTS_BYTES)
        tensors = safetensors.torch.load(content)
        weights = rename(tensors, n_ids, tokenizer.vocab_size, sizes["n_layers"])
        model = checkpoint.build_with(weights, "gpt", vocab_size=tokenizer.vocab_size, **sizes)
    except (SafetensorError, KeyError, RuntimeError, ValueError) as error:
        raise ValueError(f"{folder / WEIGHTS} is not GPT-2 of this config: {error}") from None
    data = Data.model_validate({"name": "GPT-2's", "sha256": "", "n_ids": n_ids})
    return model, tokenizer, data


def rename(theirs: dict[str, Tensor], n_ids: int, n_rows: int, n_layers: int) -> dict[str, Tensor]:
    """Return the weights under our names; matrices of blocks are stored (in, out) in theirs."""
    theirs = {name.removeprefix("transformer."): tensor.float() for name, tensor in theirs.items()}
    words = theirs["wte.weight"]
    if len(words) != n_ids or n_rows < N_SPECIALS + n_ids:
        raise ValueError(f"{len(words)} embeddings, {n_ids} ids")
    embedding = torch.zeros(n_rows, words.shape[1])
    embedding[[BOS, EOS]] = words[-1]
    embedding[N_SPECIALS : N_SPECIALS + n_ids] = words
    ours = {"embedding.weight": embedding, "positions.weight": theirs["wpe.weight"]}
    for kind in ("weight", "bias"):
        ours[f"norm.{kind}"] = theirs[f"ln_f.{kind}"]
        for i in range(n_layers):
            for name, part in PARTS.items():
                tensor = theirs[f"h.{i}.{name}.{kind}"]
                ours[f"decoder.{i}.{part}.{kind}"] = tensor.T if tensor.dim() == 2 else tensor
    return {name: tensor.contiguous() for name, tensor in ours.items()}


@torch.inference_mode()
def continue_gpt2(
    model: SequenceModel, text: list[int], n: int, n_ids: int, choose: Choose
) -> list[int]:
    """Continue a text by up to n tokens; the last of the tokenizer's ids ends it.

    An empty text is continued as <|endoftext|>. Raises ValueError for one without room after it.
    """
    *before, y = text or [BOS]
    if (n := min(n, model.max_target(len(text)))) < 1:
        raise ValueError(f"the text has {len(text)} tokens; this model reads less")
    src = torch.tensor([before or [BOS]])
    state, tokens = model.encode(src, torch.ones_like(src, dtype=torch.bool)), list[int]()
    while len(tokens) < n:
        logits, state = model.step(torch.tensor([y]), state)
        logits[:, :N_SPECIALS] = logits[:, N_SPECIALS + n_ids :] = -torch.inf
        if (y := int(choose(logits))) == N_SPECIALS + n_ids - 1:
            break
        tokens.append(y)
    return tokens
