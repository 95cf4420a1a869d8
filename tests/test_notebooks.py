"""From a notebook: comparisons by name, what its cells show, and the notebooks themselves."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Call, Run, check_one_line

import seqmodels
from seqmodels.cli import main
from seqmodels.records.io import build
from seqmodels.utils import html

recall = pytest.importorskip("tasks.recall.__main__")


def test_a_comparison_by_name_has_the_records_of_the_command(run: Run, tmp_path: Path) -> None:
    given: dict[str, Any] = {"size": "smoke", "tokens": 200, "device": "cpu", "models": ["gpt"]}
    given["precision"] = "float32"
    command = "--models", "gpt", "--precision", "float32", "--out", tmp_path / "command"
    assert run(recall, *command) == 0
    found = seqmodels.compare("recall", **given, out=tmp_path / "named")
    theirs = json.loads((tmp_path / "command" / "gpt-seed1.json").read_text())
    assert [record.weights_sha256 for record in found.records] == [theirs["weights_sha256"]]
    assert found.records[0].tests == build(theirs).tests
    score = f"{theirs['tests'][0]['overall']['accuracy']['value']:.1f}"
    assert all(shown in repr(found) for shown in (score, "GPT"))
    shown = found.figures["curves"]._repr_svg_()
    assert re.search('<svg style="max-width: 100%; height: auto" xml[^>]* width="[^>]*>', shown)
    assert {f"{name}.svg" for name in found.figures} <= {p.name for p in found.out.iterdir()}
    assert seqmodels.compare("recall", **given, dry_run=True, out=tmp_path / "dry") is None
    with pytest.raises(ValueError, match=r"choose from .*recall"):
        seqmodels.compare("recal", **given)
    with pytest.raises(ValueError, match="nowhere holds no record"):
        seqmodels.Comparison(tmp_path / "nowhere")
    assert len(seqmodels.Comparison("translation-live").records) == 6


def test_a_task_is_run_by_its_name_from_any_folder(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "tasks.recall.__main__")  # as in a process of its own
    code, out, _ = call(main, "run", "recall", "--help")
    assert (code, out[:28], "--seeds N" in out) == (0, "usage: seqmodels run recall ", True)
    check_one_line(call(main, "run", "recall", "--size", "x"), "seqmodels run recall: ", "'x'")
    program = "import sys; from seqmodels.utils.imports import import_beside as i; i('tasks.flags')"
    command = [sys.executable, "-c", program]  # in another folder than the clone's
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0


def test_cells_show_tables_with_text_escaped() -> None:
    table = html.format_table([["", "<b>", "c"], ["d", 1, 2]], [[0.25, 0.5]])
    assert re.search("&lt;b&gt;.*0.150.*>1<.*0.300.*>2<", table)
    run, source = seqmodels.load("bahdanau"), "My friendly horse ran."
    scores = run.score([source] * 2, ["Mein freundliches Pferd lief.", "Mein Hund lief heute ."])
    scores["bleu"] |= {"low": 1.0, "high": 2.0}
    tables = (each._repr_html_() for each in (run, run.align(source), scores))
    shown = [" ".join(re.sub("<[^>]+>", " ", table).split()) for table in tables]
    assert f" {sum(p.numel() for p in run.model.parameters()):,} " in shown[0]
    assert shown[1].startswith("My friendly horse ran . &lt;eos&gt; Mein 0.")
    assert f"BLEU {scores['bleu']['value']:.1f} 1.0–2.0 chrF" in shown[2]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(ROOT.glob("notebooks/*.py")), ids=lambda p: p.stem)
def test_notebooks_run_and_show_numbers_of_their_records(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbclient, jupytext = map(pytest.importorskip, ("nbclient", "jupytext"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), *sys.path])))
    notebook = jupytext.read(path)
    client = nbclient.NotebookClient(notebook, resources={"metadata": {"path": tmp_path}})
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    text = "".join(str(o.get("text", "")) + str(o.get("data", {})) for o in outputs)
    for record in map(json.loads, (p.read_text() for p in tmp_path.glob("runs/*/*-seed1.json"))):
        assert f"{record['tests'][0]['overall']['bleu']['value']:.1f}" in text
    assert "image/svg+xml" in text or "rgba(" in text
