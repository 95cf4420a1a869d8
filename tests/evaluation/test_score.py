"""`seqmodels score`: translations from elsewhere, and users' mistakes."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import Call, check_one_line
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from seqmodels.cli import main
from seqmodels.data.text import read_lines
from seqmodels.evaluation import external

Score = Callable[..., dict[str, Any]]
Write = Callable[[str, list[str]], Path]
Argv = list[object]

SRC = ["the cat sees a dog", "no", "one two three four five six seven", "a cat sleeps ."]
REF = ["Die Katze sieht einen Hund.", "Nein.", "Eins zwei drei vier fünf sechs, sieben.", "Sie ."]
GOOD = ["Die Katze sieht einen Hund.", "Nein!", "Eins zwei drei vier sechs sieben.", "sie ."]
POOR = ["Eine Katze sah einen Hund.", "Nein.", "Eins zwei vier drei fünf sechs.", "Ein Hund ."]


@pytest.fixture
def run(call: Call) -> Call:
    return partial(call, main, "score")


@pytest.fixture
def score(run: Call) -> Score:
    def result(*argv: object) -> dict[str, Any]:
        code, out, err = run(*argv, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return result


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def lines(name: str, content: list[str]) -> Path:
        (tmp_path / name).write_bytes("".join(f"{line}\n" for line in content).encode())
        return tmp_path / name

    return lines


@pytest.fixture
def flags(write: Write) -> Argv:
    """Write source, reference and two systems; return the command's arguments."""
    hyps = write("good.de", GOOD), write("poor.de", POOR)
    return ["--ref", write("ref.de", REF), "--src", write("src.en", SRC), *hyps]


def table_rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


# ---------------------------------------------------------------- Known answers


@pytest.mark.parametrize(
    ("tokenize", "is_lowercase"), [("13a", False), ("intl", True), ("char", False), ("none", True)]
)
def test_flags_are_sacrebleus(tokenize: str, is_lowercase: bool, score: Score, flags: Argv) -> None:
    result = score(*flags, "--buckets=4", "--tokenize", tokenize, *["--lowercase"] * is_lowercase)
    bleu, chrf = BLEU(lowercase=is_lowercase, tokenize=tokenize), CHRF(lowercase=is_lowercase)
    for system, lines in zip(result["systems"], (GOOD, POOR), strict=True):
        theirs, overall = bleu.corpus_score(lines, [REF]), system["overall"]
        assert overall["bleu"]["value"] == pytest.approx(theirs.score, rel=1e-12)
        assert overall["length_ratio"] == pytest.approx(theirs.ratio, rel=1e-12)
        assert overall["chrf"]["value"] == chrf.corpus_score(lines, [REF]).score
        assert overall["bleu"]["low"] is overall["bleu"]["high"] is None  # four sentences
        for part, places in zip(system["buckets"], ([1, 3], [0, 2]), strict=True):
            hyps, refs = ([texts[i] for i in places] for texts in (lines, REF))
            ratio = bleu.corpus_score(hyps, [refs]).ratio
            assert part["length_ratio"] == pytest.approx(ratio, rel=1e-12)
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    assert result["signatures"] == signatures


@pytest.mark.parametrize(("src", "ref", "tokenize", "unit"), [
    ("我们都很喜欢你。", "We all like you.", "13a", "characters"),
    ("We all like you.", "我们都很喜欢你。", "zh", "words"),
])  # fmt: skip
def test_scripts_choose_the_tokenizer_and_the_unit(
    src: str, ref: str, tokenize: str, unit: str, score: Score, write: Write
) -> None:
    files = [write(name, [text]) for name, text in (("src", src), ("ref", ref), ("copy", src))]
    result = score("--src", files[0], "--ref", files[1], files[2])
    assert f"tok:{tokenize}|" in result["signatures"]["bleu"]
    assert (result["unit"], result["systems"][0]["buckets"][0]["high"]) == (unit, 10)


def test_all_references_count(score: Score, flags: Argv, write: Write) -> None:
    result = score(*flags, "--ref", write("other.de", POOR))
    assert [Path(ref["file"]).name for ref in result["refs"]] == ["ref.de", "other.de"]
    for system, lines in zip(result["systems"], (GOOD, POOR), strict=True):
        assert system["overall"]["bleu"]["value"] == BLEU().corpus_score(lines, [REF, POOR]).score


def test_systems_compare_as_sacrebleus(score: Score, run: Call, flags: Argv, write: Write) -> None:
    third = write("third.de", [*GOOD[:2], *POOR[2:]])
    copy = write("copy.de", [f"{line} " for line in GOOD])
    result = score(*flags, third, copy)
    named = [("good", GOOD), ("poor", POOR), ("third", read_lines(third))]
    metrics = {"bleu": BLEU(), "chrf": CHRF()}
    signatures, theirs = PairedTest(named, metrics, [REF], "bs", 20)()
    assert list(result["paired_signatures"].values()) == list(map(str, signatures.values()))
    for key, (first, *others) in zip(("bleu", "chrf"), list(theirs.values())[1:], strict=True):
        for system, other in zip(result["systems"][1:3], others, strict=True):
            pair = system["against_first"][key]
            assert pair["difference"] == pytest.approx(other.score - first.score)
            assert pair["p"] == other.p_value
        assert result["systems"][3]["against_first"][key] == {"difference": 0.0, "p": None}
    assert "against_first" not in result["systems"][0]
    rows = [row for row in table_rows(run(*flags[:5], copy)[1]) if row[:1] == ["against good"]]
    assert [row[-1] for row in rows] == ["the same"] * 2


def test_blank_lines_are_scored_and_counted(score: Score, flags: Argv, write: Write) -> None:
    src, silent = write("src", ["", *SRC[1:]]), write("silent.de", ["", " ", *GOOD[2:]])
    argv = [*flags[:2], "--src", src, silent, write("mute.de", [""] * 4)]
    result = score(*argv)
    assert result["src"]["n_blank"] == 1
    assert [system["n_blank"] for system in result["systems"]] == [2, 4]
    assert [system["n_tokenized"] for system in result["systems"]] == [1, 0]  # "sie ."
    assert sum(part["n"] for part in result["systems"][0]["buckets"]) == 3
    theirs = BLEU().corpus_score(read_lines(silent), [REF]).score
    overall, nothing = (system["overall"] for system in result["systems"])
    assert overall["bleu"]["value"] == pytest.approx(theirs)
    assert nothing["bleu"] == nothing["chrf"] == {"value": 0.0, "low": None, "high": None}
    assert nothing["length_ratio"] == 0.0


def test_systems_are_named_by_their_files() -> None:
    for paths, names in (
        ("a/v1.2.de b/v1.3.de", ["v1.2", "v1.3"]),
        ("out.de two/out.de b.de", ["out.de", "two/out.de", "b.de"]),
        ("a\x1b[2J.de b.de", [r"a\x1b[2J", "b"]),
    ):
        assert external.name_systems([Path(path) for path in paths.split(" ")]) == names


# ----------------------------------------------------------------------------------- The table


def test_the_table_has_the_numbers_of_the_json(run: Call, score: Score, flags: Argv) -> None:
    code, out, _ = run(*flags, "--buckets", "5,9")
    assert code == 0
    result = score(*flags, "--buckets", "5,9")
    rows = table_rows(out)
    starts = [i for i, row in enumerate(rows) if row[:2] == ["source words", "n"]]
    assert [rows[i][2:] for i in starts] == [["good", "poor"]] * 3
    for i, key in zip(starts, ("bleu", "chrf"), strict=False):
        for row, name in zip(rows[i + 2 : i + 5], (0, 1, "overall"), strict=True):
            for cell, system in zip(row[2:], result["systems"], strict=True):
                part = system["overall"] if name == "overall" else system["buckets"][name]
                assert cell == f"{part[key]['value']:.1f} [–]*"
        pair = result["systems"][1]["against_first"][key]
        assert rows[i + 5][3] == f"{pair['difference']:+.2f} (p = {pair['p']:.3f})"
    for signature in (*result["signatures"].values(), *result["paired_signatures"].values()):
        assert f"`{signature}`" in out


# --------------------------------------------------------------------------------- Users' mistakes
@pytest.mark.parametrize(("name", "content", "words"), [
    ("poor.de", b"a\nb\nc\n", ["src.en has 4", "poor.de has 3"]),
    ("src.en", b"a\nb\n", ["src.en has 2", "ref.de has 4"]),
    ("src.en", b"\n \n\n\n", ["src.en has no words"]),
])  # fmt: skip
def test_files_that_cannot_be_scored(
    name: str, content: bytes, words: list[str], run: Call, flags: Argv, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    check_one_line(run(*flags), *words)


def test_flags_that_do_not_go_together(run: Call, flags: Argv, tmp_path: Path) -> None:
    for argv, *words in (
        (flags[2:], "--ref", "--src"), ([*flags[:2], *flags[4:]], "--ref", "--src"),
        (flags[:4], "HYP"),
        ([*flags, "--gold", flags[1]], "--gold"), ([*flags, "--out", tmp_path], "--out"),
    ):  # fmt: skip
        check_one_line(run(*argv), *words)
