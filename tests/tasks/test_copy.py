"""Copying and reversing random symbols, and the bits that pass through vectors."""

import pytest

from seqmodels import EOS
from seqmodels.experiments.sweep import make_spec, model_sizes
from tasks.copy import __main__ as copying


def test_each_kind_has_its_test_set() -> None:
    task = copying.make_task(copying.PARSER.parse_args(["--size", "smoke"]))
    for kind, test in zip(copying.KINDS, task.tests, strict=True):
        for e, n in zip(test.examples, test.x, strict=True):
            first, *symbols = task.tokenizer.decode(e.src).split()
            assert (first, len(symbols)) == (kind, n)
            target = task.tokenizer.decode(e.tgt).split()
            assert target == (symbols if kind == "copy" else symbols[::-1])


def test_bits_are_of_copies_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    few = copying.BITS_SIZES["full"] | {"n_train": 200, "n_valid": 10}
    monkeypatch.setitem(copying.BITS_SIZES, "full", few)
    task = copying.make_task(copying.PARSER.parse_args(["--bits", "--size", "full"]))
    (test,) = task.tests
    for e in (*task.train, *task.valid, *test.examples):
        assert [*e.tgt, EOS] == list(e.src)
        assert len(e.tgt) <= few["max_train"]
    assert [len(e.tgt) for e in test.examples] == list(test.x)
    assert task.data["n_symbols"] == 64
    sizes = {name: model_sizes(make_spec(name), task) for name in copying.BITS}
    widths = [own["d_model"] for name, own in sizes.items() if name.startswith("rnn_encdec")]
    assert widths == [32, 64, 128, 256, 512]
    pooled = [own for name, own in sizes.items() if name.startswith("bahdanau")]
    assert [own.pop("n_queries", None) for own in pooled] == [1, 2, 4, 8, 16, None]
    assert len({str(own) for own in pooled}) == 1
    given = ["--bits", "--size", "smoke", "--best-state", "3"]
    plain, best = copying.make_task(copying.PARSER.parse_args(given)).tests
    assert (plain.adapt, best.name, best.examples) == (None, "best_state", plain.examples)
    assert best.adapt.__self__.steps == 3
