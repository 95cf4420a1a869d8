"""Train one model from A to Z, and translate with it, without the harness: a minute on one core.

    python examples/train_one.py

Data, model, loop and search are all that it needs. `seqmodels/training/loop.py` is the same loop
with what makes it survive: checkpoints, the best weights, GPUs, a budget for many models.
"""

import random

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from seqmodels.interface import BOS, EOS, PAD, UNK, Batch
from seqmodels.models.bahdanau import Bahdanau, Config
from seqmodels.search import greedy
from tasks.synthetic.grammar import draw_corpus

N_STEPS, BATCH_SIZE, LR = 700, 64, 6e-3

Pair = tuple[list[int], list[int]]


def pad(rows: list[list[int]]) -> torch.Tensor:
    """Return rows of tokens as one tensor (rows, longest), padded on the right."""
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def make_batch(pairs: list[Pair]) -> Batch:
    """Return pairs as a batch: the decoder reads BOS y1 y2 …, and is to write y1 y2 … EOS."""
    src = pad([[*src, EOS] for src, _ in pairs])
    tgt_in = pad([[BOS, *tgt] for _, tgt in pairs])
    return Batch(src, src != PAD, tgt_in, pad([[*tgt, EOS] for _, tgt in pairs]))


def loss_of(model: Bahdanau, batch: Batch) -> torch.Tensor:
    """Return the mean loss of the true next token, in nats, with the tokens before it given."""
    logits = model(batch.src, batch.src_mask, batch.tgt_in)  # (B, T, V)
    return cross_entropy(logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD)


def main(n_steps: int = N_STEPS, n_train: int = 10_000) -> list[str]:
    """Train on sentences of the built-in grammar; return translations of those of the test set."""
    # 1. Data: English and German sentences of 4 to 10 words, as numbers.
    corpus = draw_corpus(seed=1, n_train=n_train, n_valid=200, max_train=10, max_test=10)
    known = sorted({word for split in corpus for s in split for word in (*s.en, *s.de)})
    ids = {word: UNK + 1 + i for i, word in enumerate(known)}  # after the special tokens
    words = {i: word for word, i in ids.items()}
    train, valid, test = (
        [([ids[w] for w in s.en], [ids[w] for w in s.de]) for s in split] for split in corpus
    )

    # 2. Model: a chapter, smaller than in its paper.
    torch.manual_seed(1)
    sizes = {"d_model": 96, "d_embed": 64, "d_align": 48, "d_maxout": 64}
    model = Bahdanau(Config(vocab_size=UNK + 1 + len(ids), **sizes, dropout=0.0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, total_iters=n_steps)

    # 3. Training: batch, loss, gradient, clip, step.
    rng = random.Random(1)
    for step in range(1, n_steps + 1):
        loss = loss_of(model, make_batch(rng.choices(train, k=BATCH_SIZE)))
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == n_steps:
            with torch.no_grad():
                valid_loss = loss_of(model, make_batch(valid))
            print(f"step {step}: training loss {loss:.3f}, validation loss {valid_loss:.3f}")

    # 4. Search: the most likely word, again and again, until the model writes EOS.
    model.eval()
    batch = make_batch(test[:5])
    found = greedy(model, batch.src, batch.src_mask, torch.full((5,), 30))
    written = [" ".join(words.get(i, "?") for i in row) for row in found]
    for sentence, german in zip(corpus.test, written, strict=False):
        print(f"\n{' '.join(sentence.en)}\n  model:     {german}")
        print(f"  reference: {' '.join(sentence.de)}")
    return written


if __name__ == "__main__":
    main()
