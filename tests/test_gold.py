"""Word alignments against a gold standard: known answers, and the line that a mistake gets."""

from __future__ import annotations

import json
import os
import random
import re
import threading
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import check_one_line
from conftest import Call

import seqmodels
from seqmodels.cli import main
from seqmodels.data.readers import read_lines
from seqmodels.evaluation.external import RATES, Links, Text, link_counts, parse_links

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("SEQMODELS_DATA", ROOT / "../shared/data"))
Write = Callable[..., Path]
Score = Callable[..., tuple[int, str, str]]

SRC = ["the small house", "no", "he reads", "", "they see it"]
TGT = ["das kleine Haus", "nein", "er liest gern", "", "sie sehen es"]
GOLD = ["0-0 1-1 2-2", "0-0", "0-0 1-1 1?2", "", "0-0 1-1 2p1 2-2"]
GOOD = ["0-0 1-1 2-2", "0-0", "0-0 1-2", "", "0-0 2-1 2-2"]
POOR = ["0-2 1-1", "", "0-0", "", "0-2 1-1 2-0"]


@pytest.fixture
def run(call: Call) -> Score:
    """Return a function that runs `seqmodels score`: exit code, stdout and stderr."""
    return partial(call, main, "score")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file of lines."""

    def lines(name: str, content: list[str]) -> Path:
        (tmp_path / name).write_bytes("".join(f"{line}\n" for line in content).encode())
        return tmp_path / name

    return lines


@pytest.fixture
def files(write: Write) -> dict[str, Path]:
    """Write texts, a gold standard and two alignments; return them by name."""
    texts = {"src": SRC, "tgt": TGT, "gold": GOLD, "good.out": GOOD, "poor.out": POOR}
    return {name: write(name, lines) for name, lines in texts.items()}


def scored(run: Score, out: Path, *argv: object) -> dict[str, Any]:
    """Score into a folder; return what the JSON says."""
    code, _, err = run(*argv, "--out", out)
    assert (code, err) == (0, "")
    return json.loads((out / "alignments.json").read_text(encoding="utf-8"))


def values(part: dict[str, Any]) -> dict[str, float]:
    """Return the rates without their intervals."""
    return {key: part[key]["value"] for key in RATES}


def real(*names: str) -> list[Path]:
    """Return files of real text, or skip the test."""
    paths = [DATA / name for name in names]
    if missing := [path for path in paths if not path.exists()]:
        pytest.skip(f"no real text at {missing[0]}")
    return paths


# -------------------------------------------------------------------------------- Known answers


def test_rates_by_hand(run: Score, files: dict[str, Path], tmp_path: Path) -> None:
    """Keeps out |P| for |S| below recall or AER, rates averaged over sentences, blank lines lost.

    Good finds 9 links, all of which are gold, 7 of the 9 sure ones. Poor: 6, 3 gold, all 3 sure.
    """
    found = scored(run, tmp_path, "--gold", files["gold"], files["good.out"], files["poor.out"])
    good, poor = found["systems"]
    assert found["n"] == good["overall"]["n"] == 5
    assert (found["gold"]["n_sure"], found["gold"]["n_links"]) == (9, 11)
    assert (good["n_links"], poor["n_links"]) == (9, 6)
    right = {"aer": 100 * (1 - (7 + 9) / (9 + 9)), "precision": 100 * 9 / 9, "recall": 100 * 7 / 9}
    assert values(good["overall"]) == pytest.approx(right)
    right = {"aer": 100 * (1 - (3 + 3) / (6 + 9)), "precision": 100 * 3 / 6, "recall": 100 * 3 / 9}
    assert values(poor["overall"]) == pytest.approx(right)
    assert good["overall"]["aer"]["low"] is None  # five sentences


def test_a_published_example(run: Score, write: Write, tmp_path: Path) -> None:
    """Keeps out another definition than NLTK's documentation has: 0.6666666666666667."""
    gold, found = write("gold", ["0-0 1-1 2-2"]), write("found", ["0-0 1-2 2-1"])
    (system,) = scored(run, tmp_path, "--gold", gold, found)["systems"]
    assert system["overall"]["aer"]["value"] == pytest.approx(66.66666666666667)


def test_published_alignments_have_their_known_rate(run: Score, tmp_path: Path) -> None:
    """Keeps out a gold standard read with the wrong base: nothing in its file tells."""
    gold, found, pairs = real(
        *(f"align_awesome/roen.{name}" for name in ("gold", "awesome-align.out", "src-tgt"))
    )
    sides = zip(*(line.split(" ||| ") for line in read_lines(pairs)), strict=True)
    for name, side in zip(("src", "tgt"), sides, strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    texts = ["--src", tmp_path / "src", "--ref", tmp_path / "tgt"]
    argv = ["--gold", gold, "--gold-one-based", found, *texts]
    result = scored(run, tmp_path, *argv)
    (system,) = result["systems"]
    assert result["n"] == sum(part["n"] for part in system["buckets"]) == 248
    assert system["overall"]["aer"]["value"] == pytest.approx(20.75, abs=5e-3)
    assert system["overall"]["aer"]["low"] < 20.75 < system["overall"]["aer"]["high"]
    code, said, _ = run("--gold", gold, found)
    assert code == 0
    assert f"{gold}: no link to word 0; are its words counted from 1?" in said
    assert f"{found}: no link" not in said
    assert float(re.findall(r"\| *([\d.]+) \[", said)[0]) > 50
    hint = " links word 2; ", "has 2 words there, counted from 0; if --gold counts them from 1"
    check_one_line(run("--gold", gold, found, *texts), "roen.gold, line 1", *hint)


def test_numbered_lines() -> None:
    """Keeps out a line's number read as a link: French first, from 0, after number and tab."""
    folder = DATA / "align_alibi_fren"
    n_pairs = n_possible = 0
    for path in sorted(folder.glob("*__ali_w2w_*.txt")):
        names = path.name.removesuffix(".txt").split("__ali_w2w_")[1].split("_")
        story, sides = path.name.split("__")[0], []
        for name in names:
            (found,) = folder.glob(f"{story}__{name}_sents.txt")
            sides.append(Text(found, [line.partition("\t")[2] for line in read_lines(found)]))
        parsed = parse_links(Text(path, read_lines(path)), sides=sides)
        n_pairs += len(parsed.links)
        n_possible += sum(len(pair.possible - pair.sure) for pair in parsed.links)
    if not n_pairs:
        pytest.skip(f"no real text at {folder}")
    assert n_pairs == 522
    assert n_possible > 1000


def test_rates_are_those_of_a_naive_loop() -> None:
    """Keeps out links counted by sentence, by word or twice, on alignments that nobody chose."""
    draw = random.Random(1)

    def some(p: float) -> frozenset[tuple[int, int]]:
        return frozenset((i, j) for i in range(4) for j in range(4) if draw.random() < p)

    gold = [Links(sure := some(0.3), sure | some(0.2)) for _ in range(40)]
    found = [Links(links := some(0.3), links) for _ in range(40)]
    n = dict.fromkeys(("A", "S", "A and S", "A and P"), 0)
    for ours, true in zip(found, gold, strict=True):
        for link in ((i, j) for i in range(4) for j in range(4)):
            in_a, in_s, in_p = (link in x for x in (ours.possible, true.sure, true.possible))
            n["A"] += in_a
            n["S"] += in_s
            n["A and S"] += in_a and in_s
            n["A and P"] += in_a and in_p
    expected = {
        "aer": 1 - (n["A and S"] + n["A and P"]) / (n["A"] + n["S"]),
        "precision": n["A and P"] / n["A"],
        "recall": n["A and S"] / n["S"],
    }
    sums = link_counts(found, gold).sum(0, keepdims=True)
    for key, rate in RATES.items():
        assert rate.of(sums) == pytest.approx(100 * expected[key])
        interval = rate.interval(link_counts(found, gold))
        assert interval["low"] < 100 * expected[key] < interval["high"]
    with pytest.raises(ValueError, match=r"^40 and 39 alignments cannot be compared$"):
        link_counts(found, gold[1:])


# ------------------------------------------------------------------------------------- Reading


def test_marks_and_numbers() -> None:
    """Keeps out possible links that count as sure, and a link before a tab that is lost."""
    lines = ["0\t0-1 2p3 0-1 5?6", "1\t", "", "4-0", "10-11\t1-1", "2-2 2?2"]
    assert parse_links(Text(Path("gold"), lines)).links == [
        Links(frozenset({(0, 1)}), frozenset({(0, 1), (2, 3), (5, 6)})),
        Links(frozenset(), frozenset()),
        Links(frozenset(), frozenset()),
        Links(frozenset({(4, 0)}), frozenset({(4, 0)})),
        Links(frozenset({(10, 11), (1, 1)}), frozenset({(10, 11), (1, 1)})),
        Links(frozenset({(2, 2)}), frozenset({(2, 2)})),
    ]
    (pair,) = parse_links(Text(Path("gold"), ["1-1 2?3"]), first=1).links
    assert pair == Links(frozenset({(0, 0)}), frozenset({(0, 0), (1, 2)}))


def test_pipes_are_read_once(run: Score, files: dict[str, Path], tmp_path: Path) -> None:
    """Keeps out a gold standard that is read a second time, when the pipe is empty."""
    os.mkfifo(tmp_path / "pipe")
    text = files["gold"].read_bytes()
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(text,), daemon=True)
    writer.start()
    by_pipe = run("--gold", tmp_path / "pipe", files["good.out"])
    writer.join(5)
    by_file = run("--gold", files["gold"], files["good.out"])
    assert by_pipe[1].replace(f"{tmp_path}/pipe", str(files["gold"])) == by_file[1]
    assert by_pipe[0] == by_file[0] == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gold": None}, ["gold does not exist", "UTF-8 text file"]),
        ({"gold": ""}, ["gold is empty"]),
        ({"gold": "\n" * 5}, ["gold has no sure links (such as 3-4)"]),
        ({"gold": "0?0\n\n\n\n\n"}, ["gold has no sure links"]),
        ({"gold": "0-0\n" * 4}, ["gold has 4 lines and", "good.out has 5; line n of one must"]),
        ({"good.out": "0-0\n" * 4}, ["gold has 5 lines and", "good.out has 4"]),
        ({"tgt": "a\n" * 6}, ["gold has 5 lines and", "tgt has 6"]),
        ({"good.out": b"0-0\n\xff\n"}, ["good.out, line 2: not UTF-8 (byte 0xff)"]),
        ({"good.out": "0-0\n".encode("utf-16")}, ["good.out, line 1: not UTF-8"]),
        ({"good.out": "0-0\n0:1\n\n\n\n"}, ["good.out, line 2: '0:1' is not a link such as 3-4"]),
        ({"gold": "0-0\n\n1\n\n\n"}, ["gold, line 3: '1' is not a link"]),
        ({"gold": "0-0 -1-0\n\n\n\n\n"}, ["gold, line 1: '-1-0' is not a link"]),
        ({"gold": "0-0 ٣-٤\n\n\n\n\n"}, ["gold, line 1: '٣-٤' is not a link"]),
        ({"gold": "0-0 1000000-1\n\n\n\n\n"}, ["gold, line 1: '1000000-1' is not a link"]),
        ({"gold": "0001 1 1 S\n" * 5}, ["gold, line 1: '0001' is not a link"]),
        ({"good.out": "\n\n0-0 1?1\n\n\n"}, ["good.out, line 3: '1?1'", "only --gold has"]),
        ({"good.out": "3-0\n\n\n\n\n"}, ["good.out, line 1: '3-0' links word 3;", "src has 3"]),
        ({"good.out": "\n0-1\n\n\n\n"}, ["good.out, line 2: '0-1' links word 1;", "tgt has 1"]),
        ({"gold": "0-0\n\n\n0-0\n\n"}, ["gold, line 4: '0-0' links word 0;", "has 0 words"]),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_scored(
    change: dict[str, str | bytes | None],
    words: list[str],
    run: Score,
    files: dict[str, Path],
    tmp_path: Path,
) -> None:
    """Keeps out tracebacks, links dropped in silence, and a folder made for nothing."""
    for name, content in change.items():
        files[name].unlink()
        if content is not None:
            files[name].write_bytes(content if isinstance(content, bytes) else content.encode())
    texts = ["--src", files["src"], "--ref", files["tgt"]]
    result = run("--gold", files["gold"], *texts, files["good.out"], "--out", tmp_path / "out")
    check_one_line(result, *words)
    assert result[1] == ""
    assert not (tmp_path / "out").exists()


def test_a_base_that_cannot_be(run: Score, files: dict[str, Path]) -> None:
    """Keeps out word -1, and an out-of-range word called by another number than the file's."""
    argv = ["--gold", files["gold"], "--gold-one-based", files["good.out"]]
    check_one_line(run(*argv), "gold, line 1: '0-0' links word 0;", "words begin at 1")
    files["gold"].write_text("4-1\n1-1\n1-1\n\n1-1\n")
    said = "gold, line 1: '4-1' links word 4;", "3 words there, counted from 1\n"
    check_one_line(run(*argv, "--src", files["src"]), *said)


def test_flags_that_do_not_go_together(run: Score, files: dict[str, Path]) -> None:
    """Keeps out flags that are silently passed over, and a file scored against itself."""
    gold = ["--gold", files["gold"], files["good.out"]]
    texts = "are for texts; leave them out with --gold"
    check_one_line(run(*gold, "--tokenize", "13a"), texts)
    check_one_line(run(*gold, "--lowercase"), texts)
    check_one_line(run(*gold, "--buckets", "5,9"), "--buckets needs --src")
    check_one_line(run(*gold, files["gold"]), "are the same file; give each file once")
    check_one_line(run(*gold, "--src", files["gold"]), "are the same file")
    check_one_line(run(*gold[:2]), "required: HYP")
    without = ["--ref", files["tgt"], "--src", files["src"], files["good.out"]]
    check_one_line(run(*without, "--gold-one-based"), "--gold-one-based needs --gold")
    check_one_line(run(*without[2:]), "give --ref and --src to score translations, or --gold")


# ------------------------------------------------------------------------- By length, in pairs


def test_bins_count_words_of_the_source(run: Score, files: dict[str, Path], tmp_path: Path) -> None:
    """Keeps out lengths of the target or of the links, and a blank source in the first bin."""
    argv = ["--gold", files["gold"], files["good.out"], "--src", files["src"], "--buckets", "1,2"]
    found = scored(run, tmp_path, *argv)
    bins = found["systems"][0]["buckets"]
    assert [(b["low"], b["high"], b["n"]) for b in bins] == [(1, 1, 1), (2, 2, 1), (3, 3, 2)]
    assert values(bins[1]) == pytest.approx({"aer": 25.0, "precision": 100, "recall": 50})
    assert "1 blank lines; they are in no bucket." in run(*argv)[1]
    assert scored(run, tmp_path, *argv[:3])["systems"][0]["buckets"] == []


def test_others_are_compared_with_the_first(
    run: Score, files: dict[str, Path], write: Write, tmp_path: Path
) -> None:
    """Keeps out a difference with the wrong sign, or of draws that are not the same for both."""
    gold = write("long", GOLD * 10)
    good, poor = (write(name, lines * 10) for name, lines in (("a.x", GOOD), ("b.x", POOR)))
    same = write("c.x", GOOD * 10)
    found = scored(run, tmp_path, "--gold", gold, good, poor, same)
    first, second, third = found["systems"]
    assert "against_first" not in first
    pair = second["against_first"]["aer"]
    by = second["overall"]["aer"]["value"] - first["overall"]["aer"]["value"]
    assert pair["value"] == pytest.approx(by)
    assert 0 < pair["low"] < by < pair["high"]
    assert third["against_first"]["aer"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    back = scored(run, tmp_path, "--gold", gold, poor, good)["systems"][1]["against_first"]
    assert back["aer"]["value"] == pytest.approx(-by)


def test_nothing_found_is_no_traceback(run: Score, files: dict[str, Path], write: Write) -> None:
    """Keeps out a division by zero, a precision of what is not there, and NaN in the JSON."""
    mute = write("mute", [""] * 5)
    argv = ["--gold", files["gold"], mute, "--src", files["src"], "--buckets", "1,2"]
    code, said, err = run(*argv, "--out", mute.parent)
    assert (code, err) == (0, "")
    assert re.search(r"\| mute +\| +100\.0 \[–\]\* \| +–\*? \| +0\.0 \[–\]\* \| +0 \|", said)
    found = json.loads((mute.parent / "alignments.json").read_text())["systems"][0]
    assert found["overall"]["precision"] == {"value": None, "low": None, "high": None}
    files["gold"].write_text("\n\n0-0\n\n\n")  # a bin without any link
    code, said, _ = run(*argv)
    assert code == 0
    assert re.search(r"\| 1 +\| +1 \| +–\*? +\|\n\| 2 +\| +1 \| +100\.0", said)


# -------------------------------------------------------------------------------------- Showing


def test_the_table_says_what_the_json_says(
    run: Score, files: dict[str, Path], write: Write, tmp_path: Path
) -> None:
    """Keeps out a column under another name, a row of another bin, a thin bin that looks sure."""
    long = {name: write(f"{name}.x", lines * 11) for name, lines in (("gold", GOLD), ("src", SRC))}
    good, poor = (write(name, lines * 11) for name, lines in (("a.x", GOOD), ("b.x", POOR)))
    argv = ["--gold", long["gold"], good, poor, "--src", long["src"], "--buckets", "1,2"]
    code, said, _ = run(*argv, "--out", tmp_path / "out")
    assert code == 0
    found = json.loads((tmp_path / "out" / "alignments.json").read_text(encoding="utf-8"))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in said.splitlines()]
    assert rows[2][:5] == ["alignment", "AER (%)", "precision (%)", "recall (%)", "links"]
    assert rows[2][5] == "AER against a"
    for row, system in zip(rows[4:6], found["systems"], strict=True):
        parts = [system["overall"][key] for key in RATES]
        cells = ["{value:.1f} [{low:.1f}, {high:.1f}]".format(**part) for part in parts]
        assert row[:5] == [system["name"], *cells, f"{system['n_links']:,}"]
    pair = found["systems"][1]["against_first"]["aer"]
    assert rows[5][5] == "{value:+.1f} [{low:+.1f}, {high:+.1f}]".format(**pair)
    assert rows[4][5] == ""
    assert rows[9][:4] == ["source words", "n", "a", "b"]
    for row, i in zip(rows[11:14], range(3), strict=True):
        for cell, system in zip(row[2:], found["systems"], strict=True):
            part = system["buckets"][i]
            assert cell.startswith(f"{part['aer']['value']:.1f} [")
            assert cell.endswith("*") == (part["n"] < 30)
            assert int(row[1]) == part["n"]
    assert rows[14][:2] == ["all", "55"]
    assert f"Gold: {long['gold']}, 55 sentences, 99 sure links, 22 possible ones" in said
    assert said.split("\n\n")[-1].split() == [str(tmp_path / "out" / "alignments.json")]


def test_the_same_files_make_the_same_json(
    run: Score, files: dict[str, Path], tmp_path: Path
) -> None:
    """Keeps out unseeded draws, and files in the folder of whoever wants the numbers alone."""
    argv = ["--gold", files["gold"], files["good.out"], files["poor.out"], "--src", files["src"]]
    one, two = (scored(run, tmp_path / name, *argv) for name in ("one", "two"))
    assert one == two
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["alignments.json"]
    before = set(tmp_path.rglob("*"))
    assert run(*argv)[0] == 0
    assert set(tmp_path.rglob("*")) == before


def test_the_documentations_lines_run(
    run: Score, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Keeps out lines that were never tried, links to EOS, and source and target swapped."""
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(import seqmodels\n.*?)^```$", text, re.M | re.S)
    (shell,) = re.findall(r"^seqmodels score --gold .*$", text, re.MULTILINE)

    def align(source: str, target: str) -> Any:
        n_src, n_tgt = len(source.split()), len(target.split())
        weights = np.full((n_tgt, n_src + 1), 0.1)
        weights[:, -1] = 0.9  # what a run has beside the words: EOS
        weights[range(n_tgt), np.minimum(range(n_tgt), n_src - 1)] += 0.2
        return types.SimpleNamespace(weights=weights)

    asked = []
    monkeypatch.setattr(
        seqmodels, "load", lambda path: asked.append(path) or types.SimpleNamespace(align=align)
    )
    monkeypatch.chdir(tmp_path)
    for name, lines in (("test.de", TGT), ("test.en", SRC), ("test.gold", GOLD)):
        write(name, [line for line in lines if line])
    exec(block, {})
    assert len(asked) == 1
    argv = shell.split()[2:]
    written = (tmp_path / argv[-1]).read_text().splitlines()
    assert written == ["0-0 1-1 2-2", "0-0", "0-0 1-1 1-2", "0-0 1-1 2-2"]
    found = scored(run, tmp_path / "out", *argv[:-2], argv[-1])
    assert found["systems"][0]["overall"]["aer"]["value"] == 0.0
