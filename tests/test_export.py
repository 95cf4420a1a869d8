"""Export: the graphs compute what the model computes, for sources of any length."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from conftest import TINY, Call, Tiny, V

import seqmodels
from seqmodels import MODELS
from seqmodels.cli import main
from seqmodels.interface import BOS, EOS, PAD
from seqmodels.site import export, graphs

NAMES = "bahdanau", "lstm_seq2seq", "gpt"
"""The models of the toy runs."""


def printed(script: str, *argv: object) -> str:
    """Run a script in a process of its own: shapes that tests execute cannot be traced."""
    given = [sys.executable, "-W", "ignore", "-c", script, *map(str, argv)]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def exported(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export three toy runs, the last one with rounded weights."""
    out = tmp_path_factory.mktemp("exported")
    for name in NAMES:
        half = ["--half"] if name == "gpt" else []
        script, run = "from seqmodels.cli.main import main; main()", trained / f"{name}-seed1"
        said = printed(script, "export", run, "--out", out / name, *half)
        assert "checked with onnxruntime over" in said
    return out


def greedy(
    folder: Path, src: list[int], most: int
) -> tuple[list[int], list[np.ndarray], list[np.ndarray]]:
    """Translate with the files alone, as their manifest says; return tokens, logits, attention."""
    manifest = json.loads((folder / "manifest.json").read_text())
    encode, step = (onnxruntime.InferenceSession(folder / f"{n}.onnx") for n in ("encode", "step"))
    names = [part["name"] for part in manifest["state"]]
    state = dict(zip(names, encode.run(None, {"src": np.array([src])}), strict=True))
    y, tokens, logits, weights = manifest["ids"]["BOS"], [], [], []
    while len(tokens) < most and y != manifest["ids"]["EOS"]:
        taken = {i.name for i in step.get_inputs()}
        given = {name: value for name, value in state.items() if name in taken}
        found, *after = step.run(None, given | {"y": np.array([y])})
        state = dict(zip(names, after[: len(names)], strict=True))
        logits.append(found[0])
        weights += [row[..., : len(src)] for row in after[len(names) :]]
        y = int(found[0, 2:].argmax()) + 2
        tokens.append(y)
    return [token for token in tokens if token != EOS], logits, weights


@pytest.mark.parametrize("name", NAMES)
def test_graphs_translate_as_the_model(trained: Path, exported: Path, name: str) -> None:
    """Keeps out graphs that are right for the length they were traced with, and for no other."""
    run = seqmodels.load(trained / f"{name}-seed1")
    if name == "gpt":
        for p in run.model.parameters():
            p.data = p.data.half().float()
    lines = (trained / f"{name}-seed1.jsonl").read_text().splitlines()
    words = " ".join(json.loads(line)["src"] for line in lines).split()
    for n in (1, 2, 5, 8):
        src = run.encode_source(" ".join(words[:n]))
        tokens, logits, weights = greedy(exported / name, src, 12)
        state = run.model.encode(torch.tensor([src]), torch.ones(1, len(src), dtype=torch.bool))
        y = torch.tensor([BOS])
        for found, token in zip(logits, [*tokens, EOS], strict=False):
            with torch.inference_mode():
                true, state = run.model.step(y, state)
            np.testing.assert_allclose(found, true[0], atol=1e-3)
            y = torch.tensor([token])
        if name == "lstm_seq2seq":
            assert not weights
            continue
        known = json.loads((exported / name / "manifest.json").read_text())["attention"]
        assert weights[0].shape[:2] == (known["layers"], known["heads"])
        row = np.stack(weights, 2)[known["aligned_layers"]].mean((0, 1))[: len(tokens)]
        if tokens:
            np.testing.assert_allclose(row, run.align_ids(" ".join(words[:n]), tokens).weights,
                                       atol=1e-5)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_belongs_together(trained: Path, exported: Path, name: str) -> None:
    """Keeps out a manifest of other files, weights stored twice, and paths of this machine."""
    folder, record = exported / name, trained / f"{name}-seed1.json"
    manifest, made = (json.loads(p.read_text()) for p in (folder / "manifest.json", record))
    assert {p.name for p in folder.iterdir()} == {*manifest["files"], "manifest.json"}
    for path in folder.iterdir():
        if path.name in manifest["files"]:
            known = hashlib.sha256(path.read_bytes()).hexdigest()
            assert manifest["files"][path.name] == known
    assert manifest["record"]["sha256"] == hashlib.sha256(record.read_bytes()).hexdigest()
    assert manifest["run_weights_sha256"] == made["weights_sha256"]
    assert manifest["source_end"] == made["data"]["source_end"]
    width = 2 if name == "gpt" else 4
    assert manifest["precision"] == ("float16" if name == "gpt" else "float32")
    n_bytes = (folder / "weights.bin").stat().st_size
    assert 0.95 < n_bytes / (width * made["n_parameters"]) < 1.05
    for part in ("encode", "step"):
        graph = (folder / f"{part}.onnx").read_bytes()
        assert b".py" not in graph
        onnx.checker.check_model(str(folder / f"{part}.onnx"))
    (growing,) = [s for s in manifest["state"] if s["name"].endswith("mask")] or [None]
    assert (growing is None) == (name == "lstm_seq2seq") or name == "bahdanau"
    if name == "gpt":
        assert growing == {"name": "cache.mask", "dtype": "bool", "shape": [1, "P"]}
        assert manifest["max_tokens"] == made["model_config"]["n_positions"]
    graph = (manifest["attention"] or {}).get("graph")
    assert graph == (None if name == "lstm_seq2seq" else "step")


def test_the_documentations_lines_run(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out lines that were never tried, or that translate otherwise."""
    text = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(import json\n.*?)^```$", text, re.M | re.S)
    monkeypatch.chdir(exported)
    (exported / "exported").symlink_to(exported / "bahdanau")
    names: dict[str, Any] = {}
    exec(block, names)
    tokens, _, _ = greedy(exported / "bahdanau", [17, 4, 95, EOS], 40)
    assert [token for token in names["text"] if token != EOS] == tokens
    assert tokens


@pytest.mark.slow
def test_every_model_can_be_exported() -> None:
    """Keeps out a model whose graphs are wrong, or that has no graph."""
    script = f"""
import tempfile, torch
from pathlib import Path
from seqmodels import build
from seqmodels.site import export, graphs
for name, sizes in { ({name: TINY[name] for name in [*MODELS, "bahdanau_4"]})!r}.items():
    torch.manual_seed(1)
    model = build(name, {V}, **sizes | ({{"n_positions": 128}} if "n_positions" in sizes else {{}}))
    for p in model.eval().parameters():
        torch.nn.init.normal_(p, std=0.4)
    made = graphs.trace(model)
    with tempfile.TemporaryDirectory() as folder:
        weights = export.deduplicate_weights(made.protos.values(), False)
        (Path(folder) / export.WEIGHTS).write_bytes(weights)
        for part, proto in made.protos.items():
            (Path(folder) / f"{{part}}.onnx").write_bytes(proto.SerializeToString())
        found = export.check(model, made, export.runner(Path(folder), made.protos))
    assert 0 < found.difference < 1e-5 and found.attention_difference < 1e-5
    print(name, found.n_tokens, made.attention)
"""
    seen = dict.fromkeys(MODELS) | {"bahdanau": "step", "transformer": "step", "gpt": "step"}
    seen |= {"linear_attention": "attend", "bahdanau_4": None}  # whose weights are over sums
    assert printed(script).splitlines() == [f"{name} 60 {where}" for name, where in seen.items()]


def test_only_rounded_weights_are_halved() -> None:
    """Keeps out constants of a graph, such as frequencies of positions, that lose their digits."""
    values = {"rounded": np.linspace(0, 1, 129, dtype=np.float32)}
    values["constant"] = np.float32(1e4) ** -values["rounded"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", [*values], ["y"])], "sum", [],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [129])],
        [onnx.numpy_helper.from_array(array, name) for name, array in values.items()],
    )  # fmt: skip
    model = onnx.helper.make_model(graph)
    assert len(export.deduplicate_weights([model], is_half=True)) == 5 * 64 + 4 * 129  # aligned
    assert [t.name for t in model.graph.initializer] == ["rounded.half", "constant"]


def test_scans_are_the_loops() -> None:
    """Keeps out a scan that reads something else than the chapter, with and without pads."""
    names = "rnn_encdec", "bahdanau", "lstm_seq2seq", "linear_attention"
    script = f"""
import torch
from seqmodels import build
from seqmodels.site import graphs
for name, sizes in { ({name: TINY[name] for name in names})!r}.items():
    model = build(name, {V}, **sizes).double().eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.4)
    src_mask = torch.arange(9) < torch.tensor([[9], [1], [4]])
    src = torch.randint(4, {V}, (3, 9)) * src_mask
    with torch.no_grad():
        true = graphs.flatten_state(model.encode(src, src_mask))
        with graphs.replaced([*graphs.SCANS, *graphs.UNCHECKED]):
            found = graphs.flatten_state(model.encode(src, src_mask))
    assert found.keys() == true.keys()
    for part, tensor in true.items():
        torch.testing.assert_close(found[part], tensor)
    print(name)
"""
    assert printed(script).split() == [*names]


def test_loops_come_back() -> None:
    """Keeps out scans that stay in the models when a trace fails."""

    def methods() -> list[Any]:
        return [getattr(owner, attribute) for owner, attribute, _ in graphs.SCANS]

    def fail() -> None:
        with graphs.replaced([*graphs.SCANS, *graphs.UNCHECKED]):
            assert before != methods()
            raise ArithmeticError

    before = methods()
    with pytest.raises(ArithmeticError):
        fail()
    assert before == methods()


def changed(model: Any, by: float, weights_by: float) -> export.Run:
    """Return what computes the same as the model, and changes some of it."""
    states: list[Any] = []

    def run(name: str, given: dict[str, np.ndarray]) -> list[Any]:
        src, *rest = (torch.tensor(tokens) for tokens in given.values())
        if name == "encode":
            states.append(model.encode(src, src != PAD))
            return []
        if name == "step":
            logits, state = model.step(src, states[-1])
            states.append(state)
            return [(logits * (1 + by)).numpy()]
        return [(model.attention_weights(src, src != PAD, *rest)[0] + weights_by).numpy()]

    return run


def test_a_difference_is_found(fresh: Tiny) -> None:
    """Keeps out graphs that nobody has compared with their model."""
    model, traced = fresh("gpt", n_positions=128), graphs.Graphs({}, [], "attend")
    assert export.check(model, traced, changed(model, 0.0, 0.0)) == (60, 0.0, 0.0)
    for by in ((0.01, 0.0), (float("nan"), 0.0), (0.0, 0.01), (0.0, float("nan"))):
        with pytest.raises(ValueError, match="differ from the model"):
            export.check(model, traced, changed(model, *by))


def test_mistakes(
    call: Call, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a traceback for what cannot be exported."""
    code, _, said = call(main, "export", tmp_path / "none-seed1", "--out", tmp_path / "out")
    assert (code, said.count("\n")) == (2, 1)
    (tmp_path / "file").write_text("")
    code, _, said = call(main, "export", trained / "gpt-seed1", "--out", tmp_path / "file")
    assert (code, "is not a folder" in said) == (2, True)
    monkeypatch.setitem(sys.modules, "seqmodels.site.export", None)
    monkeypatch.delattr("seqmodels.site.export")
    code, _, said = call(main, "export", trained / "gpt-seed1", "--out", tmp_path / "out")
    assert (code, "pip install onnx" in said) == (2, True)
