"""Public functions, called from Python: what stands for a right argument, and wrong ones."""

import pickle
from pathlib import Path

import numpy as np
import pytest

import seqmodels
from seqmodels.utils.imports import import_beside

RUN = seqmodels.load("bahdanau")
TEXTS = ["The cat sleeps.", "The dog sees the cat."]


def test_a_single_text_is_not_taken_for_a_list_of_letters() -> None:
    with pytest.raises(ValueError, match=r"'The cat sleeps\.' is a single text"):
        RUN.translate(TEXTS[0])
    for sources, references in ((TEXTS[:1], TEXTS[0]), (TEXTS[0], TEXTS[:1])):
        with pytest.raises(ValueError, match="is a single text; give a list"):
            RUN.score(sources, references)


def test_what_stands_for_a_right_argument_works() -> None:
    wanted = RUN.translate(TEXTS, 2)
    for given in ((text for text in TEXTS), dict(enumerate(TEXTS)).values(), np.array(TEXTS)):
        assert RUN.translate(given, 2) == wanted
    assert seqmodels.load(Path("bahdanau")).translate(TEXTS, 2) == wanted


def test_tokens_that_the_vocabulary_lacks_are_refused() -> None:
    n = RUN.tokenizer.vocab_size
    for token in (-1, n):
        for method, *given_tokens in (
            (RUN.search, [[5, token]]), (RUN.search_n_best, [[token]], 1, 2),
            (RUN.align_ids, "a", [token]),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=f"no token {token}; tokens are from 0 to {n - 1}"):
                method(*given_tokens)
    assert RUN.align_ids("a", [n - 1]).tgt == RUN.tokenizer.tokens([n - 1])


def test_public_functions_are_pickled() -> None:
    for function in (seqmodels.load, seqmodels.compare, seqmodels.reorder):
        assert pickle.loads(pickle.dumps(function)) is function


def test_switches_are_true_or_false() -> None:
    for value in ("no", 0, [], "False"):
        with pytest.raises(ValueError, match=r"^fresh="):
            seqmodels.compare("recall", fresh=value)
    for name, value in (
        ("tokens", True),
        ("tokens", (0, (5,), 0)),
        ("lr", True),
        ("seeds", [True]),
    ):
        with pytest.raises(ValueError, match=rf"^{name}(\[0\])?="):
            seqmodels.compare("recall", **{name: value})
    read = import_beside("tasks.recall.__main__").PARSER.read_values
    for seeds in (np.array([3, 2]), (n for n in np.array([3, 2])), {5: 3, 6: 2}.values()):
        assert read({"seeds": seeds}).seeds == [3, 2]
    assert read({"tokens": np.int64(7), "lr": np.float32(0.5)}).tokens == 7
    assert read({"models": ["gpt"], "vary": {"n_heads": (n for n in (1, 2))}}).vary == [
        ("n_heads", [1, 2])
    ]
