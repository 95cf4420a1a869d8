"""Scores: which BLEU it is, what a source is worth, and what comes without knowing the answer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sacrebleu.metrics import BLEU
from torch import Tensor

from seqmodels.comparison import runs, task
from seqmodels.comparison.runs import evaluate
from seqmodels.data.batches import Example
from seqmodels.data.tokenizers import Words
from seqmodels.evaluation import metrics
from seqmodels.interface import BOS, EOS, SequenceModel
from tasks.translation import __main__ as translation

V = 40


def rows_of(hyps: Sequence[str], refs: Sequence[str]) -> list[dict[str, Any]]:
    """Make rows of texts."""
    fixed = {"nats": 1.0, "n_tokens": 1, "n_bytes": 1, "n_correct": 1, "n_same": 1, "n_places": 1}
    return [
        {**fixed, "exact_match": hyp == ref, "hyp": hyp, "ref": ref}
        for hyp, ref in zip(hyps, refs, strict=True)
    ]


REFS = ["Die Katze sieht einen Hund, nicht wahr?", "Der Hund sieht den alten Baum am Bach."] * 6
HYPS = ["die katze sieht einen Hund, nicht wahr?", "Der Hund sieht den Baum am BACH."] * 6
CHINESE = ["他在公园里看见了一只小狗。", "昨天晚上我们一起去看电影。"] * 6
GUESSED = ["他在公园里看见一只小狗。", "昨天我们一起去看了电影。"] * 6


@pytest.mark.parametrize("tokenize", ["13a", "zh", "char", "intl"])
@pytest.mark.parametrize(("hyps", "refs"), [(HYPS, REFS), (GUESSED, CHINESE)], ids=["de", "zh"])
def test_bleu_is_that_of_its_signature(tokenize: str, hyps: list[str], refs: list[str]) -> None:
    """Keeps out a BLEU of lower-cased text, or of another tokenizer, than its signature says."""
    said = dict(p.split(":") for p in metrics.signatures(tokenize)["bleu"].split("|"))
    theirs = BLEU(
        lowercase=said["case"] == "lc", tokenize=said["tok"], smooth_method=said["smooth"]
    )
    assert said["tok"] == tokenize
    found = metrics.scores(rows_of(hyps, refs), tokenize)["bleu"]["value"]
    assert found == pytest.approx(theirs.corpus_score(hyps, [refs]).score, rel=1e-12)


def test_chinese_is_scored_by_words_of_its_own() -> None:
    """Keeps out 13a for a language without spaces: a sentence that is one word, and BLEU 0."""
    by_13a, by_zh = (
        metrics.scores(rows_of(GUESSED, CHINESE), tokenize)["bleu"]["value"]
        for tokenize in ("13a", metrics.tokenizer_for("zh"))
    )
    assert by_13a < 5 < 30 < by_zh


def test_the_tokenizer_is_the_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out 13a where words are not set apart, and an error where a tokenizer is missing."""
    wanted = {
        "de": "13a",
        "zh": "zh",
        "zh-TW": "zh",
        "zho_Hans": "zh",
        "": "13a",
        "tha": "flores200",
    }
    checked: list[str] = []
    monkeypatch.setattr(metrics, "check_tokenizer", checked.append)
    assert {code: metrics.tokenizer_for(code) for code in wanted} == wanted
    assert metrics.tokenizer_for("ja") == "ja-mecab"
    assert metrics.tokenizer_for("KO") == "ko-mecab"

    def missing(name: str) -> None:
        raise ValueError(name)

    monkeypatch.setattr(metrics, "check_tokenizer", missing)
    assert metrics.tokenizer_for("ja") == metrics.tokenizer_for("th") == "char"


def test_a_tokenizer_that_is_not_there_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out an error after hours of training."""
    monkeypatch.setattr(translation, "open_parallel", lambda *_: pytest.fail("read the data"))
    with pytest.raises(SystemExit) as stopped:
        translation.main(["--data", "names", "--bleu-tokenize", "thai"])
    assert stopped.value.code == 2
    assert "--bleu-tokenize thai: sacreBLEU has none, zh, 13a" in capsys.readouterr().err


@pytest.mark.parametrize("n", [2, 3, 4, 7, 100])
def test_partners_are_others_of_like_length(n: int) -> None:
    """Keeps out a row that is its own partner, and a partner that is far longer."""
    lengths = [random.Random(i).randrange(5, 50) for i in range(n)]
    found = metrics.partners(lengths)
    assert sorted(found) == list(range(n))
    assert all(i != j for i, j in enumerate(found))
    assert n < 100 or all(abs(lengths[i] - lengths[j]) <= 3 for i, j in enumerate(found))


# ------------------------------------------------------------------------------- The source's use


class Copier(SequenceModel):
    """A model that says what stands at its place in the source, or always the same."""

    def __init__(self, is_looking: bool) -> None:
        super().__init__(None)
        self.is_looking = is_looking

    def encode(self, src: Tensor, src_mask: Tensor) -> Any:
        """Do nothing: it only says what is given."""
        raise NotImplementedError

    def step(self, y: Tensor, state: Any) -> Any:
        """Do nothing: it only says what is given."""
        raise NotImplementedError

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        """Return logits."""
        if not self.is_looking:
            return torch.zeros(*tgt_in.shape, V)
        return F.one_hot(src, V)[:, : tgt_in.shape[1]] * 5.0


def task_of(**fields: Any) -> task.Task:
    """Make a task of which `evaluate` asks the tokenizer, the beam and BLEU's tokenizer alone."""
    words = Words([f"w{i}" for i in range(V - 4)])
    return task.Task(
        name="copy", data={}, tokenizer=words, train=[], valid=[], tests=[], recipes={},
        training={}, n_parameters=0, **fields,
    )  # fmt: skip


def examples(n: int) -> list[Example]:
    """Make sources to be copied."""
    rng = random.Random(1)
    texts = [[rng.randrange(4, V) for _ in range(6 + i % 3)] for i in range(n)]
    return [Example([*text, EOS], [*text, EOS]) for text in texts]


def made_set(asked: Sequence[Example], **fields: Any) -> task.TestSet:
    """Make a test set of one bin."""
    return task.TestSet(
        name="copy", axis="n", unit="symbols", primary_metric="nats", examples=asked,
        x=[1] * len(asked), buckets=[(1, 1)], is_generated=False, **fields,
    )  # fmt: skip


def test_a_source_is_worth_what_is_said_with_it() -> None:
    """Keeps out a gain for a model that is blind to its source, and none for one that copies it."""
    for is_looking in (True, False):
        model: Any = Copier(is_looking)
        rows, entry = evaluate(model, task_of(), made_set(examples(31)), "cpu")
        gain = entry["overall"]["source_gain"]
        if is_looking:
            assert gain["value"] > 3
            assert 2 < gain["low"] < gain["value"] < gain["high"]
            assert entry["buckets"][0]["source_gain"] == gain
        else:
            assert gain == pytest.approx({"value": 0, "low": 0, "high": 0}, abs=1e-6)
        saved = sum(row["nats_shuffled"] - row["nats"] for row in rows)
        assert gain["value"] == pytest.approx(saved / sum(row["n_tokens"] for row in rows))


def test_no_source_has_no_use() -> None:
    """Keeps out BOS alone as a source that is shuffled."""
    model: Any = Copier(False)
    asked = [e._replace(src=[BOS]) if i < 20 else e for i, e in enumerate(examples(40))]
    rows, _ = evaluate(model, task_of(), made_set(asked), "cpu")
    assert ["nats_shuffled" in row for row in rows] == [i >= 20 for i in range(40)]
    _, entry = evaluate(model, task_of(), made_set(asked[:20]), "cpu")
    assert "source_gain" not in entry["overall"]


def test_what_a_test_set_says_reaches_its_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out groups, a baseline or a tokenizer that no score sees."""
    model: Any = Copier(True)
    asked = examples(40)
    some = made_set(asked, groups=[i // 5 for i in range(40)], grouped_by="fives")
    _, entry = evaluate(model, task_of(), some, "cpu")
    assert entry["overall"]["nats"]["low"] is None  # of eight groups
    assert entry["grouped_by"] == "fives"
    some = made_set(asked, baseline=[0.25, 0.75] * 20, baseline_name="guesses")
    _, entry = evaluate(model, task_of(), some, "cpu")
    assert entry["buckets"][0]["baseline"] == {"value": 50.0, "low": None, "high": None}
    assert entry["baseline"] == "guesses"
    by_characters = task_of(bleu_tokenize="char")
    monkeypatch.setattr(runs, "free_running", lambda *_: [e.tgt[:5] for e in asked])
    written = task.TestSet(
        name="copy",
        axis="n",
        unit="symbols",
        primary_metric="bleu",
        examples=asked,
        x=[1] * 40,
        buckets=[(1, 1)],
    )
    rows, entry = evaluate(model, by_characters, written, "cpu")
    theirs = BLEU(tokenize="char").corpus_score(
        [row["hyp"] for row in rows], [[row["ref"] for row in rows]]
    )
    for part in (entry["overall"], entry["buckets"][0]):
        assert part["bleu"]["value"] == pytest.approx(theirs.score)
        assert part["chance_bleu"]["value"] < part["bleu"]["value"]
