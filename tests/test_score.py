"""Scores of translations from elsewhere: numbers that are known, and the line a mistake gets."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import types
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from checks import check_one_line
from conftest import Call
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from seqmodels.cli import main
from seqmodels.data.readers import read_lines
from seqmodels.evaluation import external
from seqmodels.report import style

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("SEQMODELS_DATA", Path(__file__).parents[1] / "../shared/data"))
Write = Callable[..., Path]
Score = Callable[..., tuple[int, str, str]]

SRC = ["the cat sees a dog", "no", "one two three four five six seven", "a cat sleeps ."]
REF = ["Die Katze sieht einen Hund.", "Nein.", "Eins zwei drei vier fünf sechs, sieben.", "Sie ."]
GOOD = ["Die Katze sieht einen Hund.", "Nein!", "Eins zwei drei vier sechs sieben.", "sie ."]
POOR = ["Eine Katze sah einen Hund.", "Nein.", "Eins zwei vier drei fünf sechs.", "Ein Hund ."]


@pytest.fixture
def run(call: Call) -> Score:
    """Return a function that runs `seqmodels score`: exit code, stdout and stderr."""
    return partial(call, main, "score")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file of lines, in a folder of its own if need be."""

    def lines(name: str, content: list[str]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes("".join(f"{line}\n" for line in content).encode())
        return path

    return lines


@pytest.fixture
def flags(write: Write) -> list[object]:
    """Write source, reference and two systems; return the command's arguments."""
    both = [write("good.de", GOOD), write("poor.de", POOR)]
    return ["--ref", write("ref.de", REF), "--src", write("src.en", SRC), *both]


def scored(run: Score, out: Path, *argv: object) -> dict[str, Any]:
    """Score into a folder; return what the JSON says."""
    code, _, err = run(*argv, "--out", out)
    assert (code, err) == (0, "")
    return json.loads((out / "score.json").read_text(encoding="utf-8"))


# -------------------------------------------------------------------------------- Known answers

SYSTEMS = ("bpe2bpe", "bpe2char", "char2char", "sennrich2016")


def real(*names: str) -> list[Path]:
    """Return files of real text, or skip the test."""
    paths = [DATA / name for name in names]
    if missing := [path for path in paths if not path.exists()]:
        pytest.skip(f"no real text at {missing[0]}")
    return paths


def test_published_systems_have_their_known_scores(run: Score, tmp_path: Path) -> None:
    """Keeps out a BLEU of our own, and lengths counted elsewhere than in the source.

    The outputs are tokenized, and the known scores are theirs as they stand.
    """
    src, ref, *hyps = real(
        *(f"wmt_newstest_ende/newstest2015.{code}" for code in ("eng", "deu")),
        *(f"sys_lingeval97/{name}.newstest2015.de" for name in SYSTEMS),
    )
    found = scored(run, tmp_path, "--ref", ref, "--src", src, *hyps)
    assert found["n"] == 2169
    assert [system["name"] for system in found["systems"]] == list(SYSTEMS)
    overall = [system["overall"]["bleu"]["value"] for system in found["systems"]]
    assert [round(value, 2) for value in overall] == [23.02, 22.76, 22.84, 27.92]
    bins = found["systems"][0]["buckets"]
    assert [(part["low"], part["high"], part["n"]) for part in bins] == [
        (1, 10, 524), (11, 20, 797), (21, 30, 555), (31, 40, 212), (41, 50, 54), (51, 60, 21),
        (61, 80, 6),
    ]  # fmt: skip
    by_length = [round(part["bleu"]["value"], 1) for part in bins]
    assert by_length == [25.0, 24.5, 22.0, 22.6, 22.4, 19.5, 13.7]
    assert [system["n_tokenized"] > 1900 for system in found["systems"]] == [True] * 4


def test_a_figures_key_has_the_bleu_of_its_systems(
    run: Score, flags: list[object], tmp_path: Path
) -> None:
    """Keeps out chrF, or another system's score, beside a name."""
    found = scored(run, tmp_path, *flags)
    drawn = (tmp_path / "score-length.svg").read_text(encoding="utf-8")
    for system in found["systems"]:
        bleu, chrf = (system["overall"][metric]["value"] for metric in ("bleu", "chrf"))
        assert f"{bleu:.1f}" != f"{chrf:.1f}"
        assert f"{system['name']} · {bleu:.1f}" in drawn


def test_subword_marks_are_the_callers_to_join(run: Score, write: Write, tmp_path: Path) -> None:
    """Keeps out a text that is tokenized, or joined, behind the caller's back."""
    joined = [
        write(path.name, [line.replace("@@ ", "") for line in read_lines(path)])
        for path in real("sys_tfnmt/deen_ref_bpe", "sys_tfnmt/deen_output")
    ]
    src = write("src", ["a"] * 3000)
    argv = ["--ref", joined[0], "--src", src, joined[1], "--tokenize", "none"]
    found = scored(run, tmp_path / "out", *argv)
    assert found["systems"][0]["overall"]["bleu"]["value"] == pytest.approx(22.585, abs=5e-4)
    assert "tok:none" in found["signatures"]["bleu"]


# ---------------------------------------------------------------------------------- sacreBLEU's


@pytest.mark.parametrize("tokenize", ["13a", "none", "intl", "zh", "char"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_flags_are_sacrebleus(
    tokenize: str, lowercase: bool, run: Score, flags: list[object], tmp_path: Path
) -> None:
    """Keeps out a flag that reaches one of the two scores alone, or the signature alone."""
    case = ["--lowercase"] * lowercase
    found = scored(run, tmp_path / "out", *flags, "--tokenize", tokenize, *case)
    bleu, chrf = BLEU(lowercase=lowercase, tokenize=tokenize), CHRF(lowercase=lowercase)
    for system, lines in zip(found["systems"], (GOOD, POOR), strict=True):
        theirs, overall = bleu.corpus_score(lines, [REF]), system["overall"]
        assert overall["bleu"]["value"] == pytest.approx(theirs.score, rel=1e-12)
        assert overall["length_ratio"] == pytest.approx(theirs.ratio, rel=1e-12)
        assert overall["chrf"]["value"] == chrf.corpus_score(lines, [REF]).score
        assert overall["bleu"]["low"] is overall["bleu"]["high"] is None  # four sentences
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    assert found["signatures"] == signatures


def test_systems_are_compared_as_by_sacrebleu(
    run: Score, flags: list[object], write: Write, tmp_path: Path
) -> None:
    """Keeps out a test of our own, and differences with the wrong sign or to the wrong system."""
    third = write("third.de", [*GOOD[:2], *POOR[2:]])
    found = scored(run, tmp_path / "out", *flags, third)
    named = [("good", GOOD), ("poor", POOR), ("third", read_lines(third))]
    metrics = {"bleu": BLEU(), "chrf": CHRF()}
    signatures, theirs = PairedTest(named, metrics, [REF], "bs", 20)()
    assert list(found["paired_signatures"].values()) == list(map(str, signatures.values()))
    for key, (first, *others) in zip(("bleu", "chrf"), list(theirs.values())[1:], strict=True):
        for system, other in zip(found["systems"][1:], others, strict=True):
            pair = system["against_first"][key]
            assert pair["difference"] == pytest.approx(other.score - first.score)
            assert pair["p"] == other.p_value
    assert "against_first" not in found["systems"][0]


def test_the_same_text_is_not_significantly_better(
    run: Score, flags: list[object], write: Write
) -> None:
    """Keeps out the test's p of 1 / 1001 for two texts between which nothing differs."""
    code, out, _ = run(*flags[:5], write("copy.de", [f"{line} " for line in GOOD]))
    assert code == 0
    rows = [line for line in out.splitlines() if line.startswith("| against good")]
    assert len(rows) == 2
    assert all(row.rstrip(" |").endswith("the same") for row in rows)


# ------------------------------------------------------------------------------------- By length


def test_lengths_are_words_of_the_source(run: Score, flags: list[object], tmp_path: Path) -> None:
    """Keeps out a sentence in two bins or in none, and one that is longer than the last bin."""
    found = scored(run, tmp_path / "out", *flags, "--buckets", "1,3,5")
    for system in found["systems"]:
        ends = [(part["low"], part["high"], part["n"]) for part in system["buckets"]]
        assert ends == [(1, 1, 1), (4, 5, 2), (6, 7, 1)]
        assert system["overall"]["n"] == 4
    one = BLEU().corpus_score(GOOD[2:3], [REF[2:3]]).score
    assert found["systems"][0]["buckets"][2]["bleu"]["value"] == pytest.approx(one)


def test_lines_end_at_line_feeds_alone(run: Score, write: Write, tmp_path: Path) -> None:
    """Keeps out a reader that cuts inside a line, so that all that follow are beside others."""
    odd = ["a\x85b c d e f", "g\u2028h i j k", "l\x0cm n o p", "q\u00a0r s\u202ft u"]
    texts = [write(name, odd) for name in ("ref", "src", "hyp")]
    given = ["--ref", texts[0], "--src", *texts[1:], "--buckets", "5,9"]
    found = scored(run, tmp_path / "out", *given)
    (system,) = found["systems"]
    assert system["overall"]["bleu"]["value"] == pytest.approx(100)
    assert [(part["high"], part["n"]) for part in system["buckets"]] == [(5, 3), (9, 1)]


def test_blank_lines_are_scored_and_counted(
    run: Score, flags: list[object], write: Write, tmp_path: Path
) -> None:
    """Keeps out a system that gains by silence, and a blank source in the shortest bin."""
    src, silent = write("src", ["", *SRC[1:]]), write("silent.de", ["", " ", *GOOD[2:]])
    mute = write("mute.de", [""] * 4)
    code, out, _ = run(*flags[:2], "--src", src, silent, mute, "--out", tmp_path / "out")
    assert code == 0
    assert f"{src}: 1 of 4 lines are blank; they are in no bucket." in out
    assert f"{silent}: 2 of 4 lines are blank." in out
    found = json.loads((tmp_path / "out" / "score.json").read_text())
    assert [system["n_blank"] for system in found["systems"]] == [2, 4]
    assert sum(part["n"] for part in found["systems"][0]["buckets"]) == 3
    theirs = BLEU().corpus_score(read_lines(silent), [REF]).score
    overall, nothing = (system["overall"] for system in found["systems"])
    assert overall["bleu"]["value"] == pytest.approx(theirs)
    assert nothing["bleu"] == nothing["chrf"] == {"value": 0.0, "low": None, "high": None}
    assert nothing["length_ratio"] == 0.0


@pytest.mark.parametrize(
    ("n", "tokenize", "told"), [(99, "13a", 0), (100, "13a", 1), (100, "none", 0)]
)
def test_tokenized_text_is_told(n: int, tokenize: str, told: int, run: Score, write: Write) -> None:
    """Keeps out a score of a tokenized text beside those of others, without a word."""
    texts = [write("ref", ["a b."] * 101), write("src", ["a"] * 101)]
    hyp = write("hyp", ["a b ."] * n + ["a b."] * (101 - n))
    code, out, err = run("--ref", texts[0], "--src", texts[1], hyp, "--tokenize", tokenize)
    assert (code, err) == (0, "")
    assert out.count("is it tokenized?") == told


# ---------------------------------------------------------------------------- Tables and figures


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/out.de"], ["out.de"]),
        (["a/x.test.de", "b/y.test.de"], ["x", "y"]),
        (["v1.2-x.de", "v1.3-x.de"], ["v1.2-x", "v1.3-x"]),
        (["a.de", "b.txt"], ["a.de", "b.txt"]),
        ([".de", "a.de"], [".de", "a.de"]),
        (["one/beam/out.de", "two/beam/out.de"], ["one", "two"]),
        (["out.de", "two/out.de", "other.de"], ["out", "two/out", "other"]),
        (["a\x1b[2J.de", "b.de"], [r"a\x1b[2J", "b"]),
    ],
)
def test_systems_are_named_by_their_files(paths: list[str], names: list[str]) -> None:
    """Keeps out two systems of one name, and names that all end in the same way."""
    assert external.names_of([Path(path) for path in paths]) == names


def test_the_table_says_what_the_json_says(run: Score, flags: list[object], tmp_path: Path) -> None:
    """Keeps out a column under another system's name, and a thin bin that looks sure."""
    out = tmp_path / "out"
    code, said, _ = run(*flags, "--buckets", "5,9", "--out", out)
    assert code == 0
    found = json.loads((out / "score.json").read_text())
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in said.splitlines()]
    starts = [i for i, row in enumerate(rows) if row[:2] == ["source words", "n"]]
    assert [rows[i][2:] for i in starts] == [["good", "poor"]] * 3
    for i, key in zip(starts, ("bleu", "chrf"), strict=False):
        for row, part in zip(rows[i + 2 : i + 5], (0, 1, "overall"), strict=True):
            for cell, system in zip(row[2:], found["systems"], strict=True):
                value = (system[part] if part == "overall" else system["buckets"][part])[key]
                n = (system[part] if part == "overall" else system["buckets"][part])["n"]
                interval = f"{value['low']:.1f}, {value['high']:.1f}" if n >= 10 else "–"
                assert cell == f"{value['value']:.1f} [{interval}]*"
        pair = found["systems"][1]["against_first"][key]
        assert rows[i + 5][3] == f"{pair['difference']:+.2f} (p = {pair['p']:.3f})"
    for signature in (*found["signatures"].values(), *found["paired_signatures"].values()):
        assert f"`{signature}`" in said
    made = [
        out / name for name in ("score.json", "score-length.svg", "score-length.png", "report.html")
    ]
    assert said.split("\n\n")[-1].split() == list(map(str, made))


def test_the_same_texts_make_the_same_files(
    run: Score, flags: list[object], tmp_path: Path
) -> None:
    """Keeps out a date, a random id or unseeded draws."""
    for name in ("one", "two"):
        scored(run, tmp_path / name, *flags)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_nothing_is_written_unless_asked(run: Score, flags: list[object], tmp_path: Path) -> None:
    """Keeps out files in the folder of whoever wants the numbers alone."""
    before = set(tmp_path.rglob("*"))
    assert run(*flags)[0] == 0
    assert set(tmp_path.rglob("*")) == before


def test_texts_are_scored_without_torch(flags: list[object], tmp_path: Path) -> None:
    """Keeps out scores, a figure and a page only where models can run."""
    program = "import sys; sys.modules['torch'] = None; from seqmodels.cli.main import main; main()"
    argv = [sys.executable, "-c", program, "score", *flags, "--out", tmp_path / "out"]
    done = subprocess.run(
        [str(each) for each in argv], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len([*(tmp_path / "out").iterdir()]) == 4


def test_figures_show_systems_as_what_they_are(
    run: Score, flags: list[object], write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a stranger's `gpt` drawn as GPT-2, two systems of one look, and a lost one."""
    drawn: list[Any] = []
    save = style.save
    monkeypatch.setattr(
        style, "save", lambda figure, path: drawn.append(figure) or save(figure, path)
    )
    names = ["gpt", "_under", *(f"a-system-with-a-rather-long-name-{i}" for i in range(7))]
    hyps = [write(f"{name}.de", GOOD if i % 2 else POOR) for i, name in enumerate(names)]
    scored(run, tmp_path / "out", *flags[:4], *hyps)
    figure = drawn[0]
    handles, texts = figure.legends[0].legend_handles, figure.legends[0].get_texts()
    assert [text.get_text().replace("\n", "").split(" · ")[0] for text in texts] == names[:8]
    assert len({(line.get_color(), line.get_marker()) for line in handles}) == 8
    assert "first 8 of 9 systems" in figure.get_label()
    assert [ax.get_title("left") for ax in figure.axes[:2]] == ["BLEU", "chrF"]


# ------------------------------------------------------------------------------------ Bad input


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"good.de": None}, ["good.de does not exist", "UTF-8 text file"]),
        ({"ref.de": None}, ["ref.de does not exist"]),
        ({"poor.de": b"a\nb\nc\n"}, ["src.en has 4 lines and ", "poor.de has 3", "line n of"]),
        ({"src.en": b"a\nb\n"}, ["src.en has 2 lines and ", "ref.de has 4"]),
        ({"good.de": b""}, ["good.de is empty"]),
        ({"ref.de": b""}, ["ref.de is empty"]),
        ({"src.en": b"\n \n\n\n"}, ["src.en has no words"]),
        ({"good.de": b"a\nb\n\xe4\nd\n"}, ["good.de, line 3: not UTF-8 (byte 0xe4)"]),
        ({"good.de": "a\nb\nc\nd\n".encode("utf-16")}, ["good.de, line 1: not UTF-8"]),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_scored(
    change: dict[str, bytes | None],
    words: list[str],
    run: Score,
    flags: list[object],
    tmp_path: Path,
) -> None:
    """Keeps out tracebacks, scores of lines that do not pair, and a folder made for nothing."""
    for name, content in change.items():
        (tmp_path / name).unlink()
        if content is not None:
            (tmp_path / name).write_bytes(content)
    check_one_line(run(*flags, "--out", tmp_path / "out"), *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--tokenize", "14a"], ["--tokenize 14a: sacreBLEU has none, zh, 13a"]),
        (["--tokenize", ""], ["--tokenize : sacreBLEU has"]),
        (["--buckets", "10,x"], ["--buckets: 'x' is not a whole number"]),
        (["--buckets", ""], ["--buckets"]),
        (["--buckets", "0,5"], ["--buckets", "'0' is not a whole number from 1"]),
        (["--buckets", "10,5"], ["--buckets: 10,5 does not increase"]),
        (["--buckets", "5,5"], ["--buckets: 5,5 does not increase"]),
        (["--out", __file__], [f"--out {__file__} is not a folder"]),
        (["--out", f"{__file__}/below"], ["is not a folder: Not a directory"]),
        (["--rounds", "3"], ["unrecognized arguments: --rounds"]),
        (["/"], ["/ cannot be read: Is a directory"]),
        (["/dev/zero"], ["/dev/zero is not a regular file"]),
    ],
)
def test_a_mistake_gets_one_line(
    argv: list[str], words: list[str], run: Score, flags: list[object]
) -> None:
    """Keeps out tracebacks, and flags that are silently replaced by a default."""
    result = run(*flags, *argv)
    check_one_line(result, *words)
    assert result[1] == ""


def test_what_must_be_given(run: Score, flags: list[object]) -> None:
    """Keeps out a score against nothing."""
    check_one_line(run(*flags[2:]), "give --ref and --src to score translations")
    check_one_line(run(*flags[:2], *flags[4:]), "give --ref and --src to score translations")
    check_one_line(run(*flags[:4]), "required: HYP")


def test_a_file_given_twice(run: Score, flags: list[object], tmp_path: Path) -> None:
    """Keeps out a system compared with itself, under whatever name, and a reference of BLEU 100."""
    (tmp_path / "link.de").symlink_to(tmp_path / "good.de")
    for again in ("good.de", "../" + tmp_path.name + "/good.de", "link.de", "ref.de", "src.en"):
        check_one_line(run(*flags, tmp_path / again), "are the same file; give each file once")


def test_too_many_lines_to_compare(
    run: Score, flags: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a process killed for the memory that the paired test takes; one system may pass."""
    monkeypatch.setattr(external, "MAX_LINES", 3)
    check_one_line(run(*flags), "has 4 lines", "at most 3", "one system at a time")
    assert run(*flags[:5])[0] == 0


@pytest.mark.parametrize(
    ("tokenize", "module", "hidden", "words"),
    [
        ("ja-mecab", "tokenizer_ja_mecab", "MeCab", ["pip install sacrebleu[ja]"]),
        ("ko-mecab", "tokenizer_ko_mecab", "MeCab", ["pip install sacrebleu[ko]"]),
        ("flores200", "tokenizer_spm", None, ["pip install sentencepiece"]),
    ],
)
def test_a_tokenizer_that_is_not_installed(
    tokenize: str,
    module: str,
    hidden: str | None,
    words: list[str],
    run: Score,
    flags: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keeps out the tracebacks of sacreBLEU's extras, and says what to install."""
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    if hidden:
        found = importlib.import_module(f"sacrebleu.tokenizers.{module}")
        monkeypatch.setattr(found, hidden, None)
    check_one_line(run(*flags, "--tokenize", tokenize), f"--tokenize {tokenize} does not", *words)


def test_a_tokenizer_that_must_be_fetched(
    run: Score, flags: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a traceback where a tokenizer's model is not here and there is no network."""

    def no_network(url: str) -> None:
        raise URLError("no network")

    package = types.SimpleNamespace(SentencePieceProcessor=lambda: None)
    monkeypatch.setitem(sys.modules, "sentencepiece", package)
    found = importlib.import_module("sacrebleu.tokenizers.tokenizer_spm")
    monkeypatch.setattr(found, "SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    result = run(*flags, "--tokenize", "flores101")
    check_one_line(result, "--tokenize flores101 does not work here", "no network")
