"""Flags of tasks, on the command line and from Python."""

from pathlib import Path
from typing import Any

import pytest
from conftest import Call, check_one_line

from seqmodels.cli import run as by_name
from seqmodels.experiments import compare
from seqmodels.models import PAPERS
from tasks.copy import __main__ as recall
from tasks.flags import options_of
from tasks.ladder import __main__ as ladder
from tasks.translation import __main__ as translation


def test_python_and_the_command_line_fill_the_same_options() -> None:
    argv = "--models transformer --vary d_k=1,4 --vary lr=0.5 --seeds 1 3 --lr 0.01 --out a "
    argv += "--dry-run --data x.de x.en --limit 1000 --tokenizer words"
    values: dict[str, Any] = {"models": "transformer", "seeds": (1, 3), "lr": 0.01, "fresh": None}
    values |= {"vary": {"d_k": [1, 4], "lr": [0.5]}, "dry_run": True, "out": "a"}
    values |= {"data": [Path("x.de"), "x.en"], "limit": 1e3, "tokenizer": "words"}
    typed, read = (
        translation.PARSER.parse_args(argv.split()), translation.PARSER.read_values(values)
    )  # fmt: skip
    assert typed.vary == [("d_k", ["1", "4"]), ("lr", ["0.5"])]
    assert read.vary == [("d_k", [1, 4]), ("lr", [0.5])]
    assert vars(typed) | {"vary": 0} == vars(read) | {"vary": 0}
    assert options_of(read).data == ["x.de", "x.en"]
    assert recall.PARSER.read_values({}) == recall.PARSER.parse_args([])
    assert recall.PARSER.read_values({"fresh": False}) == recall.PARSER.parse_args([])
    for text in ("lr=1,2", ["lr=1,2"]):
        assert recall.PARSER.read_values({"vary": text}).vary == [("lr", ["1", "2"])]


@pytest.mark.parametrize(("values", "match"), [
    ({"size": "full"}, "--bits"), ({"tokens": -1}, "'-1' is not"), ({"lr": [1]}, "^lr="),
    ({"models": ["bert"]}, "'bert'"), ({"layers": 3}, "no flag 'layers'; choose from models"),
    ({"grid": True}, "--grid needs --vary"), ({"seeds": [2, 2]}, "2 is given twice"),
    ({"models": []}, "models: give at least one"), ({"seeds": ()}, "seeds: give at least one"),
    ({"vary": {"n_heads": 2}}, "give 'n_heads' a list"), ({"vary": {"lr": []}}, "give 'lr' a list"),
    ({"tokens": {"a": [1]}}, "^tokens="), ({"vary": [("n_heads", [1])]}, r"^vary\[0\]="),
])  # fmt: skip
def test_wrong_values_from_python_are_named(values: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        recall.PARSER.read_values(values)


def test_all_stands_for_the_models_with_a_chapter() -> None:
    parse, chapters = translation.PARSER.parse_args, list(PAPERS)
    assert parse([]).models == chapters[:5]
    assert parse(["--models", "all"]).models == chapters
    assert parse(["--models", "gpt_conv", "all"]).models == ["gpt_conv", *chapters]
    assert translation.PARSER.read_values({"models": "all"}).models == chapters


def test_a_ladder_has_its_own_models_and_folder() -> None:
    parse = ladder.PARSER.parse_args
    args = parse(["--to", "transformer", "--size", "smoke"])
    assert (args.models, args.out) == (ladder.TO_TRANSFORMER, Path("runs/ladder-transformer-smoke"))
    args = parse(["--to", "transformer", "--models", "bahdanau", "--out", "x"])
    assert (args.models, args.out) == (["bahdanau"], Path("x"))
    assert (parse([]).models, parse([]).out) == (ladder.MODELS, None)


def test_a_failed_run_is_an_error_after_the_others_are_drawn(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []

    def fail(*_: object, **__: object) -> None:
        raise compare.FailedRunsError(tmp_path, ["gpt, seed 1: no memory", "gpt, seed 2: none"])

    monkeypatch.setattr(compare, "compare", fail)
    monkeypatch.setattr(by_name, "draw_and_print", lambda out, _: drawn.append(out))
    check_one_line(call(recall, "--size", "smoke"), "gpt, seed 1: no memory; gpt, seed 2")
    assert drawn == [tmp_path]
