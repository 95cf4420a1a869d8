"""`seqmodels score`: translations and word alignments from elsewhere, and users' mistakes."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from browser import data_of
from conftest import Call, check_one_line
from matplotlib.figure import Figure
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from lesson import report
from lesson import rows as page_rows
from seqmodels.cli import main
from seqmodels.data.readers import read_lines
from seqmodels.evaluation import external
from seqmodels.evaluation.external import RATES, Links, Text, link_counts, parse_links
from seqmodels.report import drawing, style
from seqmodels.report.tidy import Drawing

Score = Callable[..., dict[str, Any]]
Write = Callable[[str, list[str]], Path]
Argv = list[object]
Files = dict[str, Path]

SRC = ["the cat sees a dog", "no", "one two three four five six seven", "a cat sleeps ."]
REF = ["Die Katze sieht einen Hund.", "Nein.", "Eins zwei drei vier fünf sechs, sieben.", "Sie ."]
GOOD = ["Die Katze sieht einen Hund.", "Nein!", "Eins zwei drei vier sechs sieben.", "sie ."]
POOR = ["Eine Katze sah einen Hund.", "Nein.", "Eins zwei vier drei fünf sechs.", "Ein Hund ."]


@pytest.fixture
def run(call: Call) -> Call:
    return partial(call, main, "score")


@pytest.fixture
def score(run: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Score:
    """Return a function that scores files and returns the JSON; figures and page are not made."""
    monkeypatch.setattr(drawing, "draw_systems", lambda *_: Drawing(Figure(), []))
    monkeypatch.setattr(style, "save", lambda _, path: path)
    monkeypatch.setattr(report, "write_systems", lambda *_: "")

    def result(*argv: object) -> dict[str, Any]:
        code, out, err = run(*argv, "--out", tmp_path / "out", "--json")
        assert (code, err) == (0, "")
        name = "alignments.json" if "--gold" in argv else "score.json"
        written = json.loads((tmp_path / "out" / name).read_text(encoding="utf-8"))
        assert json.loads(out) == written
        return written

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


# ---------------------------------------------------------------- Translations: known answers


@pytest.mark.parametrize(
    ("tokenize", "is_lowercase"), [("13a", False), ("intl", True), ("char", False), ("none", True)]
)
def test_flags_are_sacrebleus(tokenize: str, is_lowercase: bool, score: Score, flags: Argv) -> None:
    """Keeps out a flag that reaches one of the two scores, and a bucket with the ratio of all."""
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


def test_the_script_chooses_the_tokenizer(score: Score, write: Write) -> None:
    """Keeps out 13a for Chinese, each of whose sentences is one token to it."""
    files = [write(name, ["我们都很喜欢你。"]) for name in ("src", "ref", "hyp")]
    result = score("--src", files[0], "--ref", files[1], files[2])
    assert "tok:zh|" in result["signatures"]["bleu"]
    assert (result["unit"], result["systems"][0]["buckets"][0]["high"]) == ("characters", 10)


def test_several_references(run: Call, flags: Argv, write: Write, tmp_path: Path) -> None:
    """Keeps out the last reference alone, in scores and in the page's scores of sentences."""
    out = tmp_path / "out"
    assert run(*flags, "--ref", write("other.de", POOR), "--out", out)[0] == 0
    result = json.loads((out / "score.json").read_text(encoding="utf-8"))
    assert [Path(ref["file"]).name for ref in result["refs"]] == ["ref.de", "other.de"]
    for system, lines in zip(result["systems"], (GOOD, POOR), strict=True):
        assert system["overall"]["bleu"]["value"] == BLEU().corpus_score(lines, [REF, POOR]).score
    (page,) = data_of(out / "report.html")["folders"]
    examples = page["tests"][0]["examples"]
    assert [e["ref"] for e in examples] == [f"{a} / {b}" for a, b in zip(REF, POOR, strict=True)]
    assert {e["scores"][1][0] for e in examples} == {100.0}


def test_systems_compare_as_sacrebleus(score: Score, run: Call, flags: Argv, write: Write) -> None:
    """Keeps out a wrong sign or system, and a p-value of 1 / 1001 between two equal texts."""
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
    """Keeps out a system that gains by silence, and a blank source in the shortest bucket."""
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
    """Keeps out two systems of one name, and names that all end in the same way."""
    for paths, names in (
        ("a/out.de", ["out.de"]),
        ("a/x.test.de b/y.test.de", ["x", "y"]),
        ("v1.2-x.de v1.3-x.de", ["v1.2-x", "v1.3-x"]),
        ("out.de two/out.de other.de", ["out", "two/out", "other"]),
        ("a\x1b[2J.de b.de", [r"a\x1b[2J", "b"]),
    ):
        assert external.name_systems([Path(path) for path in paths.split(" ")]) == names


# ------------------------------------------------------- Translations: tables, figures and pages
def test_the_table_has_the_numbers_of_the_json(run: Call, flags: Argv, tmp_path: Path) -> None:
    """Keeps out a column under another system's name, a thin bucket that looks sure, and files."""
    before = set(tmp_path.rglob("*"))
    code, out, _ = run(*flags, "--buckets", "5,9")
    assert code == 0
    assert set(tmp_path.rglob("*")) == before
    texts = external.read_translations(tmp_path / "src.en", [tmp_path / "ref.de"], flags[4:])
    result = external.score_translations(texts, "13a", False, [5, 9])
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


def test_the_page_has_the_sentences_of_the_systems(run: Call, flags: Argv, tmp_path: Path) -> None:
    """Keeps out a sentence under another system or bucket, and scores of other settings."""
    folder = tmp_path / "out"
    settings = ["--buckets", "5,9", "--lowercase", "--tokenize", "char", "--out", folder]
    assert run(*flags, *settings)[0] == 0
    names = {"score.json", "score-length.svg", "score-length.png", "report.html"}
    assert {path.name for path in folder.iterdir()} == names
    result = json.loads((folder / "score.json").read_text(encoding="utf-8"))
    (page,) = data_of(folder / "report.html")["folders"]
    (test,) = page["tests"]
    assert [run["label"] for run in page["runs"]] == ["good", "poor"]
    parts = [(b["low"], b["high"], b["n"]) for b in result["systems"][0]["buckets"]]
    assert [(b["low"], b["high"], b["n"]) for b in test["buckets"]] == parts
    bleu = BLEU(effective_order=True, lowercase=True, tokenize="char")
    for e, src, ref, *hyps in zip(test["examples"], SRC, REF, GOOD, POOR, strict=True):
        assert (e["x"], e["src"], e["ref"], e["hyps"]) == (len(src.split()), src, ref, hyps)
        theirs = [round(bleu.sentence_score(hyp, [ref]).score, 1) for hyp in hyps]
        assert [scores[0] for scores in e["scores"]] == theirs
    text = (folder / "report.html").read_text(encoding="utf-8")
    pair = result["systems"][1]["against_first"]["chrf"]
    assert f"<td>chrF</td><td>{pair['difference']:+.2f} (p = {pair['p']:.3f})</td>" in text
    ratios = [bucket["length_ratio"] for bucket in result["systems"][1]["buckets"]]
    assert "".join(f"<td>{ratio:.3f}</td>" for ratio in ratios) in text


def test_runs_are_aligned() -> None:
    """Keeps out a sentence beside another's, other scores than sacreBLEU's, and summed losses."""

    def row(src: str, hyp: str, name: str = "length") -> page_rows.Row:
        return page_rows.Row(set=name, x=3, src=src, ref=ref, hyp=hyp, nats=6.0, n_tokens=4)

    said, ref = "The cat sat there .", "The cat sits there ."
    test = {"name": "length", "primary_metric": "bleu", "buckets": [{"low": 1, "high": 9}]}
    a = [row("a b", "x"), row("q", "y", "greedy"), row("d", ref)]
    b = [row("a b", "z"), row("d", said)]
    first, second = page_rows.side_by_side({"a": a, "b": b}, test, "13a")
    assert (first["src"], first["hyps"]) == ("a b", ["x", "z"])
    assert (second["src"], second["hyps"]) == ("d", [ref, said])
    with pytest.raises(ValueError, match="a and b have other examples of the test 'length'"):
        page_rows.side_by_side({"a": a, "b": b[:1]}, test, "13a")
    bleu = BLEU(effective_order=True).sentence_score(said, [ref]).score
    chrf = CHRF().sentence_score(said, [ref]).score
    assert second["scores"][1] == {"bleu": round(bleu, 1), "chrf": round(chrf, 1), "nats": 1.5}
    assert bleu > 20


# -------------------------------------------------------------------- Alignments: known answers
WORDS = ["the small house", "no", "he reads", "", "they see it"]
TARGETS = ["das kleine Haus", "nein", "er liest gern", "", "sie sehen es"]
GOLD = ["0-0 1-1 2-2", "0-0", "0-0 1-1 1?2", "", "0-0 1-1 2p1 2-2"]
CLOSE = ["0-0 1-1 2-2", "0-0", "0-0 1-2", "", "0-0 2-1 2-2"]
FAR = ["0-2 1-1", "", "0-0", "", "0-2 1-1 2-0"]
ALIGNMENT_FILES = {"src": WORDS, "tgt": TARGETS, "gold": GOLD, "close": CLOSE, "far": FAR}


@pytest.fixture
def links(write: Write) -> Files:
    return {name: write(name, lines) for name, lines in ALIGNMENT_FILES.items()}


def values(part: dict[str, Any]) -> dict[str, float]:
    return {key: part[key]["value"] for key in RATES}


def test_rates_by_hand(score: Score, links: Files) -> None:
    """Keeps out |P| for |S| below recall or AER, means of sentences' rates, blank lines counted."""
    words = ["--src", links["src"], "--buckets", "1,2"]
    result = score("--gold", links["gold"], links["close"], links["far"], *words)
    close, far = result["systems"]
    buckets = close["buckets"]
    assert [(b["low"], b["high"], b["n"]) for b in buckets] == [(1, 1, 1), (2, 2, 1), (3, 3, 2)]
    assert values(buckets[1]) == pytest.approx({"aer": 25.0, "precision": 100, "recall": 50})
    assert result["n"] == close["overall"]["n"] == 5
    assert (result["gold"]["n_sure"], result["gold"]["n_links"]) == (9, 11)
    assert (close["n_links"], far["n_links"]) == (9, 6)
    right = {"aer": 100 * (1 - (7 + 9) / (9 + 9)), "precision": 100 * 9 / 9, "recall": 100 * 7 / 9}
    assert values(close["overall"]) == pytest.approx(right)
    right = {"aer": 100 * (1 - (3 + 3) / (6 + 9)), "precision": 100 * 3 / 6, "recall": 100 * 3 / 9}
    assert values(far["overall"]) == pytest.approx(right)
    assert close["overall"]["aer"]["low"] is None  # five sentences
    with pytest.raises(ValueError, match="2 and 1"):
        link_counts([Links(frozenset(), frozenset())] * 2, [Links(frozenset(), frozenset())])


def test_marks_and_numbers_of_links() -> None:
    """Keeps out possible links that count as sure, and a link before a tab that is lost."""

    def pair(*sure: tuple[int, int], possible: set[tuple[int, int]] = frozenset()) -> Links:
        return Links(frozenset(sure), frozenset({*sure, *possible}))

    lines = ["0\t0-1 2p3 0-1 5?6", "1\t", "", "4-0", "10-11\t1-1", "2-2 2?2"]
    assert parse_links(Text(Path("gold"), lines)).links == [
        pair((0, 1), possible={(2, 3), (5, 6)}), pair(), pair(), pair((4, 0)),
        pair((10, 11), (1, 1)), pair((2, 2)),
    ]  # fmt: skip
    one_based = parse_links(Text(Path("gold"), ["1-1 2?3"]), first=1).links
    assert one_based == [pair((0, 0), possible={(1, 2)})]


def test_the_gold_standard_alone_counts_from_one(score: Score, run: Call, write: Write) -> None:
    """Keeps out systems whose links are shifted as well, and silence about a wrong base."""
    gold, found = write("a.gold", ["1-1 2-3"]), write("a.out", ["0-0 1-2"])
    (system,) = score("--gold", gold, "--gold-one-based", found)["systems"]
    assert values(system["overall"]) == {"aer": 0.0, "precision": 100.0, "recall": 100.0}
    notes = re.findall("(.*): .* counted from 1", run("--gold", gold, found)[1])
    assert notes == [str(gold)]


def test_the_alignment_table_is_that_of_the_json(score: Score, run: Call, write: Write) -> None:
    """Keeps out a column under another name, a wrong sign, and thin buckets without a mark."""
    gold, src = write("long.gold", GOLD * 11), write("long.src", WORDS * 11)
    close, far, same = (
        write(name, lines * 11) for name, lines in (("a.x", CLOSE), ("b.x", FAR), ("c.x", CLOSE))
    )
    argv = ["--gold", gold, close, far, same, "--src", src, "--buckets", "1,2"]
    printed = run(*argv)[1]
    systems, rows = score(*argv)["systems"], table_rows(printed)
    assert "long.gold, 55 sentences, 99 sure links, 22 possible ones" in printed
    first, second, third = systems
    pair = second["against_first"]["aer"]
    difference = second["overall"]["aer"]["value"] - first["overall"]["aer"]["value"]
    assert pair["value"] == pytest.approx(difference)
    assert 0 < pair["low"] < difference < pair["high"]
    assert third["against_first"]["aer"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    last = "", "{value:+.1f} [{low:+.1f}, {high:+.1f}]".format(**pair), "+0.0 [+0.0, +0.0]"
    for row, system, cell in zip(rows[4:7], systems, last, strict=True):
        parts = [system["overall"][key] for key in RATES]
        cells = ["{value:.1f} [{low:.1f}, {high:.1f}]".format(**part) for part in parts]
        assert row == [system["name"], *cells, f"{system['n_links']:,}", cell]
    assert rows[10][:5] == ["source words", "n", "a", "b", "c"]
    for i, row in enumerate(rows[12:15]):
        parts = [system["buckets"][i] for system in systems]
        assert int(row[1]) == parts[0]["n"]
        for cell, part in zip(row[2:], parts, strict=True):
            assert cell.startswith(f"{part['aer']['value']:.1f} [")
            assert cell.endswith("*") == (part["n"] < 30)


def test_no_links_are_no_traceback(score: Score, run: Call, links: Files) -> None:
    """Keeps out a division by zero, a precision of what is not there, and NaN in the JSON."""
    links["far"].write_text("\n" * 5)
    argv = ["--gold", links["gold"], links["far"], "--src", links["src"], "--buckets", "1,2"]
    (system,) = score(*argv)["systems"]
    assert system["overall"]["precision"] == {"value": None, "low": None, "high": None}
    assert system["overall"]["aer"]["value"] == 100
    assert ["far", "100.0 [–]*", "–*", "0.0 [–]*", "0"] in table_rows(run(*argv)[1])
    links["gold"].write_text("\n\n0-0\n\n\n")  # a bucket without any link
    rows = table_rows(run(*argv)[1])
    assert ["1", "1", "–*"] in rows
    assert ["2", "1", "100.0 [–]*"] in rows


# --------------------------------------------------------------------------------- Users' mistakes
@pytest.mark.parametrize(("name", "content", "words"), [
    ("good.de", None, ["good.de does not exist"]),
    ("poor.de", b"a\nb\nc\n", ["src.en has 4", "poor.de has 3"]),
    ("src.en", b"a\nb\n", ["src.en has 2", "ref.de has 4"]), ("ref.de", b"", ["ref.de is empty"]),
    ("src.en", b"\n \n\n\n", ["src.en has no words"]),
    ("good.de", b"a\nb\n\xe4\nd\n", ["good.de, line 3", "0xe4"]),
    ("gold", None, ["gold does not exist"]), ("gold", b"0?0\n\n\n\n\n", ["gold has no sure links"]),
    ("gold", b"0-0\n" * 4, ["gold has 4", "close has 5"]),
    ("tgt", b"a\n" * 6, ["gold has 5", "tgt has 6"]),
    ("close", b"0-0\n0:1\n\n\n\n", ["close, line 2: '0:1'"]),
    ("gold", "0-0\n٣-٤\n\n\n\n".encode(), ["gold, line 2: '٣-٤'"]),
    ("gold", b"0-0 1000000-1\n\n\n\n\n", ["gold, line 1: '1000000-1'"]),
    ("close", b"\n\n0-0 1?1\n\n\n", ["close, line 3: '1?1'", "--gold"]),
    ("close", b"3-0\n\n\n\n\n", ["close, line 1: '3-0'", "src has 3"]),
    ("close", b"\n0-1\n\n\n\n", ["close, line 2: '0-1'", "tgt has 1"]),
    ("gold", b"0-0\n\n\n0-0\n\n", ["gold, line 4: '0-0'", "has 0 words", "--gold-one-based"]),
])  # fmt: skip
def test_files_that_cannot_be_scored(
    name: str, content: bytes | None, words: list[str], run: Call, flags: Argv, links: dict
) -> None:
    """Keeps out tracebacks, lines that do not pair, and links that are dropped in silence."""
    folder = links["src"].parent
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    if name in links:
        texts = ["--src", links["src"], "--ref", links["tgt"]]
        flags = ["--gold", links["gold"], *texts, links["close"]]
    check_one_line(run(*flags, "--out", folder / "out"), *words)
    assert not (folder / "out").exists()


def test_words_counted_from_1(run: Call, links: Files) -> None:
    """Keeps out word -1, and an out-of-range word called by another number than the file's."""
    argv = ["--gold", links["gold"], "--gold-one-based", links["close"]]
    check_one_line(run(*argv), "gold, line 1: '0-0'", "word 0")
    links["gold"].write_text("4-1\n1-1\n1-1\n\n1-1\n")
    check_one_line(run(*argv, "--src", links["src"]), "gold, line 1: '4-1'", "word 4", "3 words")


def test_flags_that_do_not_go_together(run: Call, flags: Argv, links: Files) -> None:
    """Keeps out flags that are silently passed over, and a score against nothing."""
    gold = ["--gold", links["gold"], links["close"]]
    links["src"].unlink()
    links["src"].symlink_to(links["close"])
    for argv, *words in (
        (flags[2:], "--ref", "--src", "--gold"), ([*flags[:2], *flags[4:]], "--ref", "--src"),
        (flags[:4], "HYP"), ([*gold, "--tokenize", "13a"], "--tokenize", "--gold"),
        ([*gold, "--lowercase"], "--lowercase", "--gold"), ([*gold, links["src"]], "same file"),
        ([*gold, "--buckets", "5,9"], "--buckets", "--src"),
        ([*gold, "--src", links["gold"]], "the same file"),
    ):  # fmt: skip
        check_one_line(run(*argv), *words)


def test_too_many_lines_to_compare(run: Call, flags: Argv, monkeypatch: Any) -> None:
    """Keeps out a process killed for the memory that the paired test takes; one system may pass."""
    monkeypatch.setattr(external, "MAX_LINES", 3)
    check_one_line(run(*flags), "4 lines", "at most 3")
    assert run(*flags[:5])[0] == 0
    monkeypatch.setattr(external, "MAX_LINES", 4)
    assert run(*flags)[0] == 0
