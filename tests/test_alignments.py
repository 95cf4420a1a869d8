"""Word alignments: bases, marks, and the error rate."""

import os
from pathlib import Path

import pytest

from seqmodels.analysis.alignments import Links, alignment_error_rate, read_alignments
from seqmodels.data.readers import read_lines

DATA = Path(os.environ.get("SEQMODELS_DATA", Path(__file__).parents[1] / "../shared/data"))


def write(folder: Path, text: str) -> Path:
    """Write a file of links."""
    (folder / "links.txt").write_text(text)
    return folder / "links.txt"


def test_marks_and_numbers(tmp_path: Path) -> None:
    """Keep out a possible link that counts as sure, and a line's number as a link."""
    path = write(tmp_path, "0\t0-1 2p3 0-1\n1\t\n\n4-0\n")
    assert read_alignments(path) == [
        Links(frozenset({(0, 1)}), frozenset({(0, 1), (2, 3)})),
        Links(frozenset(), frozenset()),
        Links(frozenset(), frozenset()),
        Links(frozenset({(4, 0)}), frozenset({(4, 0)})),
    ]


@pytest.mark.parametrize(
    ("text", "first", "fault"),
    [
        ("1-1 2-0\n", 1, r"line 1: '2-0', where words are counted from 1$"),
        ("0-0\n0:1\n", 0, r"line 2: '0:1' is no link such as 3-4 or 3p4$"),
        ("0-0 1\n", 0, r"line 1: '1' is no link"),
        ("-1-0\n", 0, r"line 1: '-1-0' is no link"),
        ("", 0, r"links\.txt is empty$"),
    ],
)
def test_bad_lines(text: str, first: int, fault: str, tmp_path: Path) -> None:
    """Keep out a traceback, and a link that is dropped in silence."""
    with pytest.raises(ValueError, match=fault):
        read_alignments(write(tmp_path, text), first)


def test_error_rate_by_hand() -> None:
    """Keep out |P| in the denominator: sure links must be found, possible ones may be."""
    gold = [Links(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (2, 1)}))]
    found = frozenset({(0, 0), (2, 1), (3, 3)})
    rate = alignment_error_rate([Links(found, found)], gold)
    assert rate == pytest.approx(1 - (1 + 2) / (3 + 2))
    assert alignment_error_rate(gold, gold) == 0.0
    with pytest.raises(ValueError, match=r"^1 and 2 alignments cannot be compared$"):
        alignment_error_rate(gold, gold * 2)
    nothing = [Links(frozenset(), frozenset())]
    with pytest.raises(ValueError, match="there is nothing to compare"):
        alignment_error_rate(nothing, nothing)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real text at {DATA}")
def test_known_answer() -> None:
    """Keep out the wrong base, by which a good system looks useless."""
    folder = DATA / "align_awesome"
    system = read_alignments(folder / "roen.awesome-align.out")
    gold = read_alignments(folder / "roen.gold", first=1)
    assert alignment_error_rate(system, gold) == pytest.approx(0.2075, abs=5e-5)
    assert alignment_error_rate(system, read_alignments(folder / "roen.gold")) > 0.5
    with pytest.raises(ValueError, match=r"where words are counted from 1$"):
        read_alignments(folder / "roen.awesome-align.out", first=1)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real text at {DATA}")
def test_numbered_lines() -> None:
    """Keep out links that stand beside the words: French first, from 0, after number and tab."""
    folder = DATA / "align_alibi_fren"
    n_pairs = 0
    for path in sorted(folder.glob("*__ali_w2w_*.txt")):
        french, english = path.name.removesuffix(".txt").split("__ali_w2w_")[1].split("_")
        story = path.name.split("__")[0]
        sides = [
            [line.partition("\t")[2].split() for line in read_lines(found)]
            for name in (french, english)
            for found in folder.glob(f"{story}__{name}_sents.txt")
        ]
        for links, src, tgt in zip(read_alignments(path), *sides, strict=True):
            assert links.sure <= links.possible
            assert all(i < len(src) and j < len(tgt) for i, j in links.possible)
            n_pairs += 1
    assert n_pairs == 522
