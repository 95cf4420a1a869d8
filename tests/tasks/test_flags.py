"""Flags of tasks, on the command line and from Python."""

from pathlib import Path

import pytest
from conftest import Call, check_one_line

from seqmodels.experiments import launch
from seqmodels.models import PAPERS
from tasks import flags
from tasks.bottleneck import __main__ as bottleneck
from tasks.copy import __main__ as recall
from tasks.translation import __main__ as translation


def test_all_stands_for_the_models_with_a_chapter() -> None:
    parse, chapters = translation.PARSER.parse_args, list(PAPERS)
    assert parse([]).models == [chapters[i] for i in (0, 1, 4, 3, 2)]
    assert parse(["--models", "all"]).models == chapters
    assert parse(["--models", "gpt_rms", "all"]).models == ["gpt_rms", *chapters]


def test_each_comparison_has_a_default_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spoken.v1" / "said").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "spoken.v1")
    for program, words, folder in (
        (bottleneck, "", "bottleneck-laptop"), (recall, "--bits --size full", "copy-bits-full"),
        (translation, "--preset ladder", "translation-ladder-laptop"),
        (translation, "--data my/de-en.tsv --size smoke", "translation-my-de-en.tsv-smoke"),
        (translation, "--data . said", "translation-spoken-laptop"),
    ):  # fmt: skip
        assert flags.default_folder(program.PARSER.parse(words.split())) == Path("runs", folder)
    with pytest.raises(ValueError, match="has files"):
        recall.PARSER.parse(["--out", "."])
    assert recall.PARSER.parse(["--out", ".", "--dry-run"]).out == Path(".")  # not written to


def test_a_failed_run_is_an_error_after_the_others_are_drawn(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, failed = [], ["gpt, seed 1: no memory", "gpt, seed 2: none"]
    monkeypatch.setattr(launch, "run_all", lambda *_: failed)
    monkeypatch.setattr(flags, "draw_and_print", lambda out: drawn.append(out))
    check_one_line(call(recall, "--size", "smoke", "--out", tmp_path / "a"), "; ".join(failed))
    assert drawn == [tmp_path / "a"]
