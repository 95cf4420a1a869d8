"""Records read from a folder: their order, their versions, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fake_records import MODELS, fake_record, row, several, write

from seqmodels.report import figures, reading, style, tables


def test_models_are_in_order_of_history(tmp_path: Path) -> None:
    """Keeps out a reader's own model that is dropped, or that borrows a colour of the five."""
    seeds = [fake_record("gpt", seed) for seed in (10, 9)]
    folder = write(tmp_path, [fake_record("a_sixth", 1), *seeds, *several(1)])
    records = reading.load_records(folder)
    names = [*MODELS[:-1], "gpt", "gpt", "gpt", "a_sixth"]
    assert [r["model"] for r in records] == names
    assert [r["seed"] for r in records] == [1, 1, 1, 1, 1, 9, 10, 1]
    assert row(tables.format_tables(records).split("### Costs")[1], "a_sixth")[1] == "1.03 M"
    looks = style.looks(names)
    assert list(looks) == [*MODELS, "a_sixth"]
    assert len({look.colour for look in looks.values()}) == 6


@pytest.mark.parametrize(
    "path", ["n_parameters", "data.name", "train_config.tokens", "tests[0].buckets[2].n"]
)
def test_a_record_that_lacks_a_field_is_named(path: str, tmp_path: Path) -> None:
    """Keeps out a KeyError that names neither the file nor the field."""
    record: Any = fake_record("gpt", 1)
    folder = tmp_path
    inner, keys = record, path.replace("[", ".").replace("]", "").split(".")
    for key in keys[:-1]:
        inner = inner[int(key) if key.isdigit() else key]
    del inner[keys[-1]]
    write(folder, [record])
    with pytest.raises(ValueError, match=r"gpt-seed1\.json") as error:
        reading.load_records(folder)
    assert f": {path}" in str(error.value)


def test_only_records_are_read(tmp_path: Path) -> None:
    """Keeps out other JSON files drawn as records, or an empty figure for an empty folder."""
    (tmp_path / "other.json").write_text('{"schema": "something else"}')
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="holds no record"):
        reading.load_records(tmp_path)
    write(tmp_path, several(1))
    assert len(reading.load_records(tmp_path)) == 5
    (tmp_path / "torn.json").write_text('{"schema": "seqmod')
    with pytest.raises(ValueError, match=r"torn\.json is not JSON"):
        reading.load_records(tmp_path)


def test_a_record_of_another_version_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a record that is dropped in silence: which file, and why; alone it is an error."""
    newer = fake_record("gpt", 1) | {"schema": "seqmodels.record/9"}
    folder = write(tmp_path / "made", [newer])
    why = r"gpt-seed1\.json has the schema 'seqmodels\.record/9'; this version reads "
    for draw in (figures.plot_folder, reading.load_records):
        with pytest.raises(ValueError, match=rf"holds no record that can be drawn \(.*{why}"):
            draw(folder)
    with pytest.raises(ValueError, match=why):
        figures.plot_results(tmp_path)
    write(folder, [fake_record("bahdanau", 1)])
    (folder / "made.json").write_text('{"n": 3}')
    monkeypatch.setattr(style, "save", lambda figure, path: path)
    figures.plot_folder(folder)
    assert re.fullmatch(rf"not drawn: .*{why}seqmodels\.record/4\n", capsys.readouterr().err)


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    """Keeps out two tasks, two runs or two sets of sentences blended into one line."""
    other = fake_record("gpt", 1, "recall")
    with pytest.raises(ValueError, match="mixes the tasks"):
        reading.load_records(write(tmp_path / "a", [fake_record("bahdanau", 1), other]))
    folder = write(tmp_path / "b", [fake_record("gpt", 1)])
    (folder / "copy.json").write_text((folder / "gpt-seed1.json").read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match="second record of gpt, seed 1"):
        reading.load_records(folder)
    records = several(1)
    records[3]["tests"][0]["buckets"][1]["n"] += 1
    with pytest.raises(ValueError, match="transformer, seed 1: test 'length'"):
        tables.format_tables(records)
