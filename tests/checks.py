"""What several test files check: a model's memory, a task's files, the one line of a mistake."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from xml.etree import ElementTree

from conftest import V
from torch import Tensor

from seqmodels import SequenceModel
from seqmodels.data import tokenizers
from seqmodels.models import paper_of
from seqmodels.records import record
from seqmodels.report import reading


class Snapshot(NamedTuple):
    """All that a module could remember."""

    tensors: dict[str, Tensor]
    attributes: dict[str, dict[str, Any]]


def snapshot(model: SequenceModel) -> Snapshot:
    """Copy parameters, buffers and every plain attribute of every submodule."""
    plain = {
        path: {k: repr(v) for k, v in vars(module).items() if not k.startswith("_")}
        | {k: sorted(v) for k, v in vars(module).items() if k in ("_parameters", "_buffers")}
        for path, module in model.named_modules()
    }
    return Snapshot({k: v.clone() for k, v in model.state_dict().items()}, plain)


def other(token: Tensor) -> Tensor:
    """Return a different real token."""
    return (token - 4 + 1) % (V - 4) + 4


def check_folder(folder: Path, models: Sequence[str]) -> list[dict[str, Any]]:
    """Check all that a task leaves behind; return the records."""
    records = reading.load_records(folder)
    assert {r["model"] for r in records} == set(models)
    for made in records:
        path = folder / f"{made['model']}-seed{made['seed']}.json"
        assert record.load(path) == made
        lines = path.with_suffix(".jsonl").read_text(encoding="utf-8").split("\n")[:-1]
        rows = [json.loads(line) for line in lines]
        for test in made["tests"]:
            own = [row for row in rows if row["set"] == test["name"]]
            assert sum(b["n"] for b in test["buckets"]) == len(own) > 0
            assert test["primary_metric"] in test["overall"]
        assert {row["set"] for row in rows} == {test["name"] for test in made["tests"]}
        assert len(made["data"]["sha256"]) == 64
        assert (made["alignment"] is not None) <= paper_of(made["model"]).attends
    drawn = ["curves", "state", *(f"score-{test['name']}" for test in records[0]["tests"])]
    drawn += ["alignment"] * any(r["alignment"] for r in records)
    for name in drawn:
        assert ElementTree.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")
        assert (folder / f"{name}.png").exists()
    table = (folder / "tables.md").read_text(encoding="utf-8")
    assert all(paper_of(model).label in table for model in models)
    assert f"{records[0]['n_parameters'] / 1e6:.2f}" in table
    n_tokens = tokenizers.load(folder / "tokenizer.json").vocab_size
    assert {r["model_config"]["vocab_size"] for r in records} == {n_tokens}
    return records


def copy_records(trained: Path, to: Path, *suffixes: str, model: str = "") -> Path:
    """Copy a folder's records, of one model or all, and the files with these suffixes."""
    to.mkdir()
    for path in trained.iterdir():
        if path.name.endswith((f"{model}-seed1.json", *suffixes)):
            shutil.copy(path, to)
    return to


def copy_seed(run: Path, folder: Path, seed: int) -> None:
    """Copy a run of the first seed as one of another seed."""
    for suffix in (".json", ".jsonl", ".safetensors"):
        shutil.copy(run.with_suffix(suffix), folder / f"{run.name[:-1]}{seed}{suffix}")
    path = folder / f"{run.name[:-1]}{seed}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seed": seed}))


def check_one_line(result: tuple[int, str, str], *words: str, code: int = 2) -> None:
    """Check that a mistake got one line with these words on stderr, and the exit code."""
    found, _, err = result
    assert found == code, err
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1, err
    for word in words:
        assert word in err


def no_network(address: str, timeout: float) -> None:
    """Fail as a machine without network does."""
    raise URLError("no route")
