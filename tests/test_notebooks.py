"""From a notebook: comparisons by name, what its cells show, and the notebooks themselves."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import ROOT, Call, Run, check_one_line

import seqmodels
from seqmodels.cli import main
from seqmodels.experiments import launch
from seqmodels.records.io import build

recall = pytest.importorskip("tasks.copy.__main__")


def test_a_comparison_by_name_has_the_records_of_the_command(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"size": "smoke", "tokens": 200, "device": "cpu", "models": ["gpt"]}
    given["precision"] = "float32"
    command = "--models", "gpt", "--precision", "float32", "--out", tmp_path / "command"
    with monkeypatch.context() as patch:
        patch.setattr("seqmodels.report.figures.plot_folder", lambda *_, **__: [])
        assert run(recall, *command) == 0
    found = seqmodels.compare("copy", **given, out=tmp_path / "named")
    theirs = json.loads((tmp_path / "command" / "gpt-seed1.json").read_text())
    assert [record.weights_sha256 for record in found.records] == [theirs["weights_sha256"]]
    assert found.records[0].tests == build(theirs).tests
    score = f"{theirs['tests'][0]['overall']['accuracy']['value']:.1f}"
    assert all(shown in str(found) for shown in (score, "GPT"))
    shown = found.figures["curves"]._repr_svg_()
    assert re.search('<svg style="max-width: 100%; height: auto" xml[^>]* width="[^>]*>', shown)
    assert {f"{name}.svg" for name in found.figures} <= {p.name for p in found.out.iterdir()}
    asked = Mock(return_value=None)
    monkeypatch.setattr(launch, "compare", asked)
    told = {"models": ["gpt"], "tokens": 7, "device": "cuda", "seeds": [3, 4], "out": tmp_path}
    told |= {"fresh": True, "dry_run": True}
    chosen = {"set": {"dropout": 0.5}, "vary": {"n_heads": [1, 2]}}
    assert seqmodels.compare("copy", **told, **chosen, size="smoke") is None
    options = vars(asked.call_args.args[1])
    assert {name: options[name] for name in told} == told
    assert [*options["set"], *options["vary"]] == [("dropout", "0.5"), ("n_heads", ["1", "2"])]
    with pytest.raises(ValueError, match=r"choose from .*copy"):
        seqmodels.compare("coppy", **given)
    with pytest.raises(ValueError, match="nowhere holds no record"):
        seqmodels.Comparison(tmp_path / "nowhere")


def test_a_task_is_run_by_its_name_from_any_folder(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "tasks.copy.__main__")  # as in a process of its own
    code, out, _ = call(main, "run", "copy", "--help")
    assert (code, out[:26], "--seeds N" in out) == (0, "usage: seqmodels run copy ", True)
    check_one_line(call(main, "run", "copy", "--size", "x"), "seqmodels run copy: ", "'x'")
    program = "import sys; from seqmodels.utils.imports import import_beside as i; i('tasks.flags')"
    command = [sys.executable, "-c", program]  # in another folder than the clone's
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0


def test_a_cell_shows_an_alignment_with_text_escaped() -> None:
    alignment = seqmodels.load("bahdanau").align("My friendly horse ran.")
    table = alignment._repr_html_()
    shown = " ".join(re.sub("<[^>]+>", " ", table).split())
    (first,) = re.findall(r"90, 200, (0\.\d+)\)\">(0\.\d\d)", table)[:1]
    assert float(first[0]) == pytest.approx(0.6 * float(first[1]), abs=4e-3)
    assert shown.startswith("My friendly horse ran . &lt;eos&gt; Mein 0.")


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
    assert ("1 head" in text and "verdict" in text) == (path.stem == "compare_by_length")
