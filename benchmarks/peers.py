"""Adapters: the same work done by other libraries, each used in its usual way.

Peers are built from sizes alone: nothing is downloaded. Dropout is off everywhere. Where a peer has
an option that makes it faster with the same result, it is on: fused optimiser, fused attention, KV
cache, tied embeddings.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from benchmarks.measure import RATE, Work, training
from seqmodels.interface import BOS, EOS, PAD, UNK, Batch
from seqmodels.models.lstm_seq2seq import LSTMSeq2Seq, reverse
from seqmodels.models.rnn_encdec import RNNEncDec
from seqmodels.training.config import Precision

INSTALL = {
    "ctranslate2": "pip install ctranslate2",
    "joeynmt": "pip install joeynmt==2.3.0 importlib_metadata",
    "transformers": "pip install transformers",
    "x_transformers": "pip install x-transformers",
}


class Setting(NamedTuple):
    """The sizes and data that all sides of a contest share."""

    vocab_size: int
    width: int
    n_layers: int
    """Layers of the encoder and of the decoder, where there are two."""
    n_heads: int
    batches: list[Batch]
    """Training batches, each of similar lengths."""
    mixed: list[Batch]
    """Training batches of sentences in random order, as Joey NMT makes them."""
    shown: list[tuple[Batch, int]]
    """Batches to translate or continue, each with the number of tokens to generate per row."""


def library(name: str) -> Any:
    """Import a peer; raise ImportError with the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{error}; {INSTALL[name.split('.')[0]]}") from None


def usual(
    model: nn.Module, loss: Callable[[Batch], Tensor], batches: list[Batch], precision: Precision
) -> Work:
    """Return the work of a standard training loop, in bfloat16 by one line of autocast."""
    optimiser = torch.optim.AdamW(model.train().parameters(), RATE, fused=True)

    def update(batch: Batch) -> Tensor:
        optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            nats = loss(batch)
        nats.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return nats

    return training(update, batches)


def text(batch: Batch) -> Tensor:
    """Return BOS followed by the target."""
    return torch.cat([batch.tgt_in[:, :1], batch.tgt_out], 1)


# ---- Joey NMT


def joey_model(kind: str, setting: Setting) -> Any:
    """Build the model for a configuration of these sizes; `kind` is recurrent or transformer."""
    special = SimpleNamespace(sep_token=None, lang_tags=[])
    for i, name in enumerate(("unk", "pad", "bos", "eos")):
        vars(special).update({f"{name}_token": f"<{name}>", f"{name}_id": i})
    words = library("joeynmt.vocabulary").Vocabulary(
        [f"w{i}" for i in range(setting.vocab_size - 4)], special
    )
    is_transformer = kind == "transformer"
    side: dict[str, Any] = {"type": kind, "hidden_size": setting.width, "dropout": 0.0}
    side["embeddings"] = {"embedding_dim": setting.width, "scale": is_transformer}
    if is_transformer:
        side |= {"num_layers": setting.n_layers, "num_heads": setting.n_heads}
        side |= {"ff_size": 4 * setting.width, "layer_norm": "post"}
    else:
        side |= {"rnn_type": "gru", "attention": "bahdanau", "num_layers": 1}
    cfg = {"encoder": side, "decoder": side, "tied_embeddings": True}
    cfg["tied_softmax"] = is_transformer
    model = library("joeynmt.model").build_model(cfg, words, words)
    model.loss_function = ("crossentropy", 0.0)
    return model


def joey_batch(batch: Batch) -> Any:
    """Convert a batch to Joey NMT's, whose special tokens have other ids."""
    src, trg = (
        sum((ids == old) * (new - old) for new, old in enumerate((UNK, PAD, BOS, EOS))) + ids
        for ids in (batch.src, text(batch))
    )
    joey = library("joeynmt.batch").Batch(
        *(src, batch.src_mask.sum(1), None, trg, None),
        *(torch.arange(len(trg)), torch.device("cpu"), 1, 3),
    )
    joey.sort_by_src_length()
    return joey


def joey_training(
    kind: str, setting: Setting, batches: list[Batch], precision: Precision = "float32"
) -> Work:
    """Return the work of its training loop: `TrainManager._train_step` and the update."""
    model = joey_model(kind, setting)
    joey = {id(batch): joey_batch(batch) for batch in batches}

    def loss(batch: Batch) -> Tensor:
        ours = joey[id(batch)]
        ours.sort_by_src_length()
        total, _, _, n_right = model(return_type="loss", **vars(ours))
        mean = ours.normalize(total, normalization="tokens")
        mean.item(), n_right.item()  # its loop does this at every step
        return mean

    return usual(model, loss, batches, precision)


def joey_beam(kind: str, setting: Setting) -> Work:
    """Return the work of its beam search of width 5."""
    model, search = joey_model(kind, setting).eval(), library("joeynmt.search").search
    shown = [(joey_batch(batch), n) for batch, n in setting.shown]

    def work() -> float:
        for joey, n in shown:
            lengths = {"min_output_length": n, "max_output_length": n}
            written, _, _ = search(model, joey, beam_size=5, beam_alpha=1.0, **lengths)
            assert written.shape == (len(joey.src), n)
        return sum(len(joey.src) for joey, _ in shown)

    return work


# ---- transformers

SPECIALS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}


def generate(model: Any, batch: Batch, n: int, **how: Any) -> Tensor:
    """Generate n tokens per row with `generate` and its KV cache."""
    how |= {"attention_mask": batch.src_mask, "use_cache": True}
    how |= dict.fromkeys(("min_new_tokens", "max_new_tokens"), n)
    return model.eval().generate(batch.src, **how)


def marian(setting: Setting, vocab_size: int) -> Any:
    """Build Marian."""
    hf = library("transformers")
    config: dict[str, Any] = {
        "vocab_size": vocab_size,
        "d_model": setting.width,
        "dropout": 0.0,
        **SPECIALS,
    }
    for side in ("encoder", "decoder"):
        config |= {f"{side}_layers": setting.n_layers, f"{side}_ffn_dim": 4 * setting.width}
        config |= {f"{side}_attention_heads": setting.n_heads}
    config |= {"activation_function": "relu", "scale_embedding": True}
    config |= {"decoder_start_token_id": BOS, "forced_eos_token_id": None}
    return hf.MarianMTModel(hf.MarianConfig(**config))


def marian_beam(setting: Setting) -> Work:
    """Return the work of Marian's beam search of width 5."""
    model = marian(setting, setting.vocab_size)

    def work() -> float:
        for batch, n in setting.shown:
            written = generate(model, batch, n, num_beams=5, do_sample=False)
            assert written.shape == (len(batch.src), 1 + n)
        return sum(len(batch.src) for batch, _ in setting.shown)

    return work


# ---- CTranslate2


def ctranslate2_search(setting: Setting, width: int, precision: str) -> Work:
    """Return the work of its search with a converted Marian, greedy or with a beam."""
    ct2 = library("ctranslate2")
    loader = library("ctranslate2.converters.transformers").MarianMTLoader()
    spec = loader.get_model_spec(marian(setting, setting.vocab_size + 1))  # it drops the last token
    tokens = [str(i) for i in range(setting.vocab_size)]
    loader.set_vocabulary(spec, tokens)
    spec.config.unk_token, spec.config.eos_token = tokens[UNK], tokens[EOS]
    spec.config.decoder_start_token = tokens[BOS]
    spec.validate()
    spec.optimize(quantization=precision)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        threads = {"inter_threads": 1, "intra_threads": torch.get_num_threads()}
        translator = ct2.Translator(folder, compute_type=precision, **threads)

    def work() -> float:
        for batch, n in setting.shown:
            rows = [[*map(str, src[src != PAD].tolist())] for src in batch.src]
            lengths = {"min_decoding_length": n, "max_decoding_length": n}
            found = translator.translate_batch(rows, beam_size=width, **lengths)
            assert {len(one.hypotheses[0]) for one in found} == {n}
        return sum(len(batch.src) for batch, _ in setting.shown)

    return work


def gpt2(setting: Setting, n_positions: int) -> Any:
    """Build GPT-2 with fused attention, in float32."""
    hf = library("transformers")
    sizes = {"vocab_size": setting.vocab_size, "n_positions": n_positions, "n_embd": setting.width}
    sizes |= {"n_layer": setting.n_layers, "n_head": setting.n_heads}
    dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = hf.GPT2Config(attn_implementation="sdpa", **sizes, **dropout, **SPECIALS)
    return hf.GPT2LMHeadModel(config)


def gpt2_training(setting: Setting, precision: Precision = "float32") -> Work:
    """Return the work of training with the model's own loss."""
    model = gpt2(setting, text(setting.batches[0]).shape[1])
    return usual(model, lambda b: model(text(b), labels=text(b)).loss, setting.batches, precision)


def gpt2_sampling(setting: Setting) -> Work:
    """Return the work of sampling from the full distribution."""
    [(batch, n)] = setting.shown
    n_rows, n_read = batch.src.shape
    model = gpt2(setting, n_read + n)

    def work() -> float:
        written = generate(model, batch, n, do_sample=True, top_k=0)
        assert written.shape == (n_rows, n_read + n)
        return n_rows * n

    return work


# ---- x-transformers


def x_training(setting: Setting, precision: Precision = "float32") -> Work:
    """Return the work of training its encoder–decoder with flash attention."""
    side = {"num_tokens": setting.vocab_size, "max_seq_len": 256, "depth": setting.n_layers}
    side |= {"heads": setting.n_heads, "attn_dim_head": setting.width // setting.n_heads}
    both = {
        f"{at}_{k}": v for at in ("enc", "dec") for k, v in (side | {"attn_flash": True}).items()
    }
    model = library("x_transformers").XTransformer(
        dim=setting.width, tie_token_emb=True, ignore_index=PAD, pad_value=PAD, **both
    )
    return usual(
        model, lambda b: model(b.src, text(b), mask=b.src_mask), setting.batches, precision
    )


def x_decoder_training(setting: Setting, precision: Precision = "float32") -> Work:
    """Return the work of training its decoder-only model with flash attention."""
    x = library("x_transformers")
    sizes = {"dim": setting.width, "depth": setting.n_layers, "heads": setting.n_heads}
    layers = x.Decoder(**sizes, attn_dim_head=setting.width // setting.n_heads, attn_flash=True)
    n_positions = text(setting.batches[0]).shape[1]
    net = x.TransformerWrapper(
        num_tokens=setting.vocab_size,
        max_seq_len=n_positions,
        attn_layers=layers,
        tie_embedding=True,
    )
    model = x.AutoregressiveWrapper(net)
    return usual(model, lambda b: model(text(b)), setting.batches, precision)


# ---- torch.nn


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` plus embeddings, sinusoidal positions and a tied output."""

    def __init__(self, setting: Setting):
        super().__init__()
        D, n = setting.width, setting.n_layers
        self.embed = nn.Embedding(setting.vocab_size, D)
        self.net = nn.Transformer(D, setting.n_heads, n, n, 4 * D, dropout=0.0, batch_first=True)
        angle = torch.arange(256).unsqueeze(1) * 1e4 ** (-torch.arange(0, D, 2) / D)
        self.pe = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss."""
        src, tgt = (
            self.embed(ids) * self.net.d_model**0.5 + self.pe[: ids.shape[1]]
            for ids in (batch.src, batch.tgt_in)
        )
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1], dtype=torch.bool)
        pads = dict.fromkeys(("src_key_padding_mask", "memory_key_padding_mask"), ~batch.src_mask)
        x = self.net(src, tgt, tgt_mask=causal, tgt_is_causal=True, **pads)
        logits = x @ self.embed.weight.T
        return F.cross_entropy(logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD)


def torch_training(setting: Setting, precision: Precision = "float32") -> Work:
    """Return the work of training `torch.nn.Transformer`."""
    model = TorchTransformer(setting)
    return usual(model, model, setting.batches, precision)


def packed(e: Tensor, mask: Tensor) -> Any:
    """Pack the sources, so that padding is not read."""
    return pack_padded_sequence(e, mask.sum(1), batch_first=True, enforce_sorted=False)


class TorchLSTM(LSTMSeq2Seq):
    """Our LSTM model with `torch.nn.LSTM` layers."""

    def __init__(self, cfg: Any):
        super().__init__(cfg)
        sizes = cfg.d_embed, cfg.d_model, cfg.n_layers
        self.encoder = nn.LSTM(*sizes, batch_first=True)  # type: ignore[assignment]
        self.decoder = nn.LSTM(*sizes, batch_first=True)  # type: ignore[assignment]

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        """Return the logits of all target tokens."""
        _, state = self.encoder(packed(self.embed(reverse(src, src_mask)), src_mask))
        return self.output(self.decoder(self.embed(tgt_in), state)[0])


class TorchGRU(RNNEncDec):
    """Our RNN encoder–decoder with `torch.nn.GRU` layers.

    It does not compute the same function: torch's reset gate acts after the recurrent matrix,
    r (U h + b), the paper's before it, U (r h). So torch needs one matrix product per step where
    the paper needs two.
    """

    def __init__(self, cfg: Any):
        super().__init__(cfg)
        D, E = cfg.d_model, cfg.d_embed
        del self.W, self.C, self.unit
        self.encoder = nn.GRU(E, D, batch_first=True)  # type: ignore[assignment]
        self.decoder = nn.GRU(E + D, D, batch_first=True)

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        """Return the logits of all target tokens."""
        h = self.encoder(packed(self.embed(src), src_mask))[1][0]
        c, e = torch.tanh(self.V(h)), self.embed(tgt_in)
        x = torch.cat([e, c.unsqueeze(1).expand(-1, e.shape[1], -1)], -1)
        s, _ = self.decoder(x, torch.tanh(self.V_start(c)).unsqueeze(0))
        return self.output(s, e, c.unsqueeze(1))
