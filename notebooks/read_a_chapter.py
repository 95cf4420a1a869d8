# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/#upload)
#
# # Read a chapter
#
# One sentence goes through Bahdanau's model of 2014, line by line: the shapes, the numbers, and the
# map of where each target word looks. The model is small, was trained on English–German sentences
# of a synthetic grammar, and comes with the package (`pip install seqmodels`).

# %%
import inspect

import torch

import seqmodels
from seqmodels import PAD
from seqmodels.models import bahdanau

run = seqmodels.load("bahdanau")
run

# %% [markdown]
# ## The source
#
# A sentence becomes numbers: one per word, and one for its end.

# %%
source = "My friendly horse ran."
src = torch.tensor([run.encode_source(source)])
list(zip(run.tokenizer.tokens(src[0].tolist()), src[0].tolist(), strict=True))

# %% [markdown]
# ## Annotations, equation (7)
#
# The encoder reads in both directions. Each word gets an annotation `h`: the state that has read
# everything before it beside the state that has read everything after it. Before this paper, the
# decoder received only the last state.

# %%
print(inspect.getsource(bahdanau.Encoder.forward))
with torch.inference_mode():
    state = run.model.encode(src, src != PAD)
{name: tuple(value.shape) for name, value in state._asdict().items()}

# %% [markdown]
# ## Attention, equations (5) and (6)
#
# A score says how well each annotation fits the decoder's previous state; softmax turns the scores
# into weights; their sum of annotations is what the decoder reads next.

# %%
print(inspect.getsource(bahdanau.Attention))

# %% [markdown]
# The same in two lines, for the first target word:

# %%
attention = run.model.attention
with torch.inference_mode():
    score = attention.v_a(torch.tanh(attention.W_a(state.s).unsqueeze(1) + state.keys)).squeeze(-1)
    alpha = score.softmax(-1)
    c = attention(state)
assert torch.allclose(c, (alpha.unsqueeze(1) @ state.h).squeeze(1), atol=1e-5)
print("scores ", [round(x, 2) for x in score[0].tolist()])
print("weights", [round(x, 3) for x in alpha[0].tolist()])

# %% [markdown]
# ## The map
#
# Each row is a word that the model writes, each column a word that it reads. German puts the words
# of a longer sentence in another order, and the weights follow it.

# %%
print(run.translate([source])[0])
run.align(source)

# %%
shown = run.record.alignment
longer = run.align(" ".join(shown.src[:-1]), " ".join(shown.tgt))
longer

# %% [markdown]
# That is the map of the record, which was made when the model was trained:

# %%
differences = torch.tensor(longer.weights) - torch.tensor(shown.alpha)
print(f"largest difference: {differences.abs().max():.3f}")

# %% [markdown]
# ## What is next
#
# `bahdanau.__file__` is the whole chapter, less than 260 lines. Copy it to `mine.py` and change the
# copy: `seqmodels check mine.py` says whether training and search can rely on it.
