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
# # Compare models by length
#
# Five papers, trained by the same harness on the same data with the same number of parameters. How
# does the quality of their translations fall with the length of the source?

# %%
import seqmodels

# %% [markdown]
# ## Run a comparison
#
# `size="smoke"` runs every step once, in about a minute: too little training to learn anything.
# Leave it and `models` out for a real comparison, of the five models, in 7 minutes on two cores.

# %%
comparison = seqmodels.compare(
    "translation",
    size="smoke",
    models=["rnn_encdec", "bahdanau", "transformer"],
    out="runs/notebook",
)
comparison

# %%
comparison.figures["score-length"]

# %% [markdown]
# ## The numbers
#
# Each run is one record, from which the tables and figures are made:

# %%
for record in comparison.records:
    bleu = record.tests[0].overall["bleu"]
    print(f"{record.model:16} {bleu.value:6.2f} [{bleu.low:.2f}, {bleu.high:.2f}]")

# %% [markdown]
# All scores, by run, bucket of lengths and metric, as a table of pandas:

# %%
comparison.to_frame().query("metric == 'bleu' and low > 30")

# %% [markdown]
# ## Change one thing
#
# `set` gives all models a value of a field of their Config or of their training. `vary` trains a model
# as it is, and once more with each of these values: here, the Transformer with one head. All have the
# same number of parameters. With three seeds or more, a verdict says whether they differ: here, after
# so little training, that is not shown.

# %%
varied = seqmodels.compare(
    "translation",
    size="smoke",
    models=["transformer"],
    set={"dropout": 0.1},
    vary={"n_heads": [1]},
    seeds=[1, 2, 3],
    tokens=3_000,
    out="runs/notebook-heads",
)
print(varied)

# %% [markdown]
# ## With training
#
# Small models that were trained for longer come with the package. After this training, the scores of
# the models that read the source from one vector fall with its length.

# %%
trained = seqmodels.Comparison("translation-live")
trained.figures["score-length"]

# %%
trained
