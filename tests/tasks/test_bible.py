"""The Bible's splits, from eBible's files at an address or in a folder."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from toys import read_pairs

from seqmodels.data import SPLITS
from seqmodels.data.text import read_lines
from tasks.translation import bible

pytestmark = pytest.mark.usefixtures("cached")


TEST_VERSES = [*read_lines(bible.TEST_VERSES)]
VERSES = {
    "train": [(f"GEN 90:{i}", f"Vers {i} ", f"verse {i}") for i in range(30)],
    "valid": [(f"{book} 1:2", f"{book} deutsch", book) for book in ("EST", "HOS", "GAL", "JAS")],
    "test": [(ref, f"{ref} deutsch", f"{ref} english") for ref in TEST_VERSES],
    "test_books": [
        (f"{book} 4:3", f"{book} deutsch", book) for book in ("RUT", "JON", "MRK", "PHP")
    ],
}


def write_ebible(splits: dict[str, list[tuple[str, str, str]]]) -> dict[str, bytes]:
    """Write verses as eBible has them: three files, with blank lines and ranges between verses."""
    lines = []
    for i, verse in enumerate(verse for split in splits.values() for verse in split):
        lines.append(verse)
        if i % 50 == 7:
            lines += [("GEN 99:1", "", "only one has it"), ("GEN 99:2", "nur einer", " ")]
        if i % 50 == 9:
            lines += [("GEN 99:3", "zwei", "two"), ("GEN 99:4", "<range>", "more")]
            lines += [("GEN 99:5", "", ""), ("GEN 99:6", "drei", "three")]
            lines += [("GEN 99:7", "mehr", "<range>")]
    names = [Path(path).name for path in bible.EBIBLE_FILES]
    sides = zip(names, zip(*lines, strict=True), strict=True)
    return {name: "".join(f"{line}\n" for line in side).encode() for name, side in sides}


@pytest.mark.parametrize("is_downloaded", [True, False])
def test_ebibles_files_are_split(is_downloaded: bool, tmp_path: Path, monkeypatch: Any) -> None:
    contents = write_ebible(VERSES)

    (tmp_path / "bible").mkdir()
    for name, content in contents.items():
        (tmp_path / "bible" / name).write_bytes(content)
    if is_downloaded:
        monkeypatch.setattr(
            bible, "download", lambda address: tmp_path / "bible" / address.rpartition("/")[2]
        )
    else:
        monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    opened = bible.open_bible(("de", None))
    assert (opened.name, opened.languages) == ("bible", ("de", "en"))
    for split in SPLITS:
        verses = [(de.strip(), en) for _, de, en in VERSES[split]]
        assert read_pairs(opened, split) == verses
    back = bible.open_bible(("en", None))
    assert read_pairs(back, "valid") == [(en, de) for _, de, en in VERSES["valid"]]
    english = tmp_path / "bible" / Path(bible.EBIBLE_FILES[2]).name
    english.write_bytes(english.read_bytes().replace(b"verse 3\n", b"verse III\n"))
    assert bible.open_bible(("de", None)).key != opened.key
    english.write_bytes(english.read_bytes().replace(f"{TEST_VERSES[3]} english".encode(), b""))
    with pytest.raises(ValueError, match=f"1 test verses, such as {TEST_VERSES[3]}, are not in"):
        bible.open_bible(("de", None))
    english.write_bytes(english.read_bytes() + b"one more\n")
    with pytest.raises(ValueError, match="each needs one line per verse"):
        bible.open_bible(("de", None))
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    for split, code in product(SPLITS, ("de", "en")):
        (tmp_path / "bible" / f"{split}.{code}").write_text(f"{split} {code}\n")
    made = bible.open_bible(("en", "de"))  # splits, in place of the files
    assert (made.name, read_pairs(made, "test")) == ("bible", [("test en", "test de")])
