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
# # Your own data
#
# Two text files whose lines correspond are enough. Here they are written by the notebook: replace
# them by your own.

# %%
from itertools import product
from pathlib import Path

import sacrebleu

import seqmodels

NUMBERS = {"one": "ein", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf"}
PLURALS = {"dogs": "Hunde", "cats": "Katzen", "horses": "Pferde", "birds": "Vögel"}
VERBS = {"see": "sehen", "hear": "hören", "know": "kennen"}

rows = [*product(NUMBERS, PLURALS, VERBS, NUMBERS, PLURALS)]
rows = [row for row in rows if "one" not in row]
german = NUMBERS | PLURALS | VERBS
Path("mine.en").write_text("".join(f"{' '.join(row)} .\n" for row in rows), encoding="utf-8")
Path("mine.de").write_text(
    "".join(f"{' '.join(german[word] for word in row)} .\n" for row in rows), encoding="utf-8"
)
print(len(rows), "pairs, such as:", " ".join(rows[7]))

# %% [markdown]
# ## Train
#
# The pairs for validation and test are drawn from the file, unless `valid` and `test` name others.
# `tokens` is the budget: the number of target tokens that each model is trained on.

# %%
mine = seqmodels.compare(
    "translation",
    data=["mine.en", "mine.de"],
    tokenizer="words",
    models=["rnn_encdec", "bahdanau"],
    set={"n_parameters": 200_000},
    tokens=60_000,
    size="smoke",
    out="runs/mine",
)
mine

# %%
mine.figures["curves"]

# %% [markdown]
# ## Use it

# %%
run = seqmodels.load("runs/mine/bahdanau-seed1")
run.model

# %%
sources = ["four birds see three dogs .", "two cats hear five horses ."]
references = ["vier Vögel sehen drei Hunde .", "zwei Katzen hören fünf Pferde ."]
translations = run.translate(sources, beam=5)
print(*translations, sep="\n")
sacrebleu.corpus_bleu(translations, [references])

# %%
run.align(sources[0])

# %% [markdown]
# ## What is next
#
# `seqmodels report runs/mine --out report.html` writes a page that leads from each score to its
# sentences. Tables, Parquet files and datasets of the Hub work as well.
