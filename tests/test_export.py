"""Export: the graphs compute what the model computes, for sources of any length."""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from checks import check_one_line
from conftest import TINY, Call, Tiny, V

import seqmodels
from seqmodels import MODELS
from seqmodels.cli import main
from seqmodels.interface import BOS, EOS, PAD
from seqmodels.site import export, graphs

NAMES = [pytest.param(name, marks=pytest.mark.slow) for name in ("bahdanau", "lstm_seq2seq", "gpt")]
"""The models of the toy runs; the last one's weights are rounded."""
Export = Callable[[str], Path]


def run_script(script: str, *argv: object) -> str:
    """Run a script in a process of its own: shapes that tests execute cannot be traced."""
    given = [sys.executable, "-W", "ignore", "-c", script, *map(str, argv)]
    process = subprocess.run(given, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.fixture(scope="session")
def export_run(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Return a function that exports a toy run once and returns its folder."""
    out = tmp_path_factory.mktemp("exported")

    @cache
    def export_run(name: str) -> Path:
        script, half = "from seqmodels.cli.main import main; main()", ["--half"] * (name == "gpt")
        given = ["export", trained / f"{name}-seed1", "--out", out / name, *half]
        assert str(out / name / "manifest.json") in run_script(script, *given)
        return out / name

    return export_run


def translate(
    folder: Path, src: list[int], n_most: int
) -> tuple[list[int], list[np.ndarray], list[np.ndarray]]:
    """Translate with the files alone, as their manifest says; return tokens, logits, attention."""
    manifest = json.loads((folder / "manifest.json").read_text())
    encode, step = (onnxruntime.InferenceSession(folder / f"{n}.onnx") for n in ("encode", "step"))
    names = [part["name"] for part in manifest["state"]]
    state = dict(zip(names, encode.run(None, {"src": np.array([src])}), strict=True))
    y, tokens, logits, weights = manifest["ids"]["BOS"], [], [], []
    while len(tokens) < n_most and y != manifest["ids"]["EOS"]:
        inputs = {i.name for i in step.get_inputs()}
        given = {name: value for name, value in state.items() if name in inputs}
        row, *after = step.run(None, given | {"y": np.array([y])})
        state = dict(zip(names, after[: len(names)], strict=True))
        logits.append(row[0])
        weights += [alpha[..., : len(src)] for alpha in after[len(names) :]]
        y = int(row[0, 2:].argmax()) + 2
        tokens.append(y)
    return [token for token in tokens if token != EOS], logits, weights


@pytest.mark.parametrize("name", NAMES)
def test_graphs_translate_as_the_model(trained: Path, export_run: Export, name: str) -> None:
    """Keeps out graphs that are right for the length they were traced with, and for no other."""
    run = seqmodels.load(trained / f"{name}-seed1")
    if name == "gpt":
        for p in run.model.parameters():
            p.data = p.data.half().float()
    lines = (trained / f"{name}-seed1.jsonl").read_text().splitlines()
    words = " ".join(json.loads(line)["src"] for line in lines).split()
    attention = json.loads((export_run(name) / "manifest.json").read_text())["attention"]
    for n in (1, 5, 8):
        text = " ".join(words[:n])
        src = run.encode_source(text)
        tokens, logits, weights = translate(export_run(name), src, 12)
        state = run.model.encode(torch.tensor([src]), torch.ones(1, len(src), dtype=torch.bool))
        y = torch.tensor([BOS])
        for row, token in zip(logits, [*tokens, EOS], strict=False):
            with torch.inference_mode():
                expected, state = run.model.step(y, state)
            np.testing.assert_allclose(row, expected[0], atol=1e-3)
            y = torch.tensor([token])
        assert (attention is None) == (name == "lstm_seq2seq") == (not weights)
        if attention and tokens:
            assert weights[0].shape[:2] == (attention["layers"], attention["heads"])
            mean = np.stack(weights, 2)[attention["aligned_layers"]].mean((0, 1))[: len(tokens)]
            np.testing.assert_allclose(mean, run.align_ids(text, tokens).weights, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_manifest(trained: Path, export_run: Export, name: str) -> None:
    """Keeps out a manifest of other files, weights stored twice, and paths of this machine."""
    folder, path = export_run(name), trained / f"{name}-seed1.json"
    manifest, record = (json.loads(p.read_text()) for p in (folder / "manifest.json", path))
    files = {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "manifest.json"}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    assert manifest["files"] == sums
    assert manifest["record"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert manifest["run_weights_sha256"] == record["weights_sha256"]
    assert manifest["source_end"] == record["data"]["source_end"]
    assert manifest["precision"] == ("float16" if name == "gpt" else "float32")
    width = 2 if name == "gpt" else 4
    assert 0.95 < len(files["weights.bin"]) / (width * record["n_parameters"]) < 1.05
    for part in ("encode", "step"):
        assert b".py" not in files[f"{part}.onnx"]
        onnx.checker.check_model(str(folder / f"{part}.onnx"))
    if name == "gpt":
        mask = {"name": "cache.mask", "dtype": "bool", "shape": [1, "P"]}
        assert mask in manifest["state"]
        assert manifest["max_tokens"] == record["model_config"]["n_positions"]


@pytest.mark.slow
def test_the_lines_in_the_documentation(
    export_run: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out lines that were never tried, or that translate otherwise."""
    text = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(import json\n.*?)^```$", text, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exported").symlink_to(export_run("bahdanau"))
    names: dict[str, Any] = {}
    exec(block, names)
    tokens, _, _ = translate(export_run("bahdanau"), [17, 4, 95, EOS], 40)
    assert [token for token in names["text"] if token != EOS] == tokens != []


@pytest.mark.slow
def test_every_model_can_be_exported() -> None:
    """Keeps out a model whose graphs are wrong, and a scan that reads other than the chapter."""
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
    traced = graphs.trace(model)
    with tempfile.TemporaryDirectory() as folder:
        weights = export.deduplicate_weights(traced.protos.values(), False)
        (Path(folder) / export.WEIGHTS).write_bytes(weights)
        for part, proto in traced.protos.items():
            (Path(folder) / f"{{part}}.onnx").write_bytes(proto.SerializeToString())
        check = export.check(model, traced, export.make_runner(Path(folder), traced.protos))
    assert 0 < check.difference < 1e-5 and check.attention_difference < 1e-5
    model, src_mask = model.double(), torch.arange(9) < torch.tensor([[9], [1], [4]])
    src = torch.randint(4, {V}, (3, 9)) * src_mask
    with torch.no_grad():
        looped = graphs.flatten_state(model.encode(src, src_mask))
        with graphs.replace_methods([*graphs.SCANS, *graphs.UNCHECKED]):
            scanned = graphs.flatten_state(model.encode(src, src_mask))
    assert scanned.keys() == looped.keys()
    for part, tensor in looped.items():
        torch.testing.assert_close(scanned[part], tensor)
    print(name, check.n_tokens, traced.attention)
"""
    attending = dict.fromkeys(MODELS) | {"bahdanau": "step", "transformer": "step", "gpt": "step"}
    attending |= {"linear_attention": "attend", "bahdanau_4": None}  # whose weights are over sums
    assert run_script(script).splitlines() == [f"{name} 60 {g}" for name, g in attending.items()]


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


def change(model: Any, logits_by: float, weights_by: float, n_steps: int = 99) -> export.Run:
    """Return a runner that computes the same as the model, but for these changes at first steps."""
    states: list[Any] = []

    def run(name: str, given: dict[str, np.ndarray]) -> list[Any]:
        src, *rest = (torch.tensor(tokens) for tokens in given.values())
        if name == "encode":
            states.append(model.encode(src, src != PAD))
            return []
        if name == "step":
            logits, state = model.step(src, states[-1])
            states.append(state)
            is_changed = len(states) <= n_steps + 1
            return [(logits * (1 + logits_by * is_changed)).numpy()]
        return [(model.attention_weights(src, src != PAD, *rest)[0] + weights_by).numpy()]

    return run


def test_graphs_are_compared_with_the_model(fresh: Tiny) -> None:
    """Keeps out graphs that differ from their model."""
    model, traced = fresh("gpt", n_positions=128), graphs.Graphs({}, [], "attend")
    assert export.check(model, traced, change(model, 0.0, 0.0)) == (60, 0.0, 0.0)
    assert export.check(model, traced, change(model, 5e-4, 5e-4)).difference > 0
    assert export.check(model, traced, change(model, 5e-4, 0.0, n_steps=2)).difference > 0
    for by in ((0.002, 0.0), (float("nan"), 0.0), (0.0, 0.002), (0.0, float("nan"))):
        with pytest.raises(ValueError, match="differ"):
            export.check(model, traced, change(model, *by))


def test_mistakes(call: Call, trained: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """Keeps out a traceback for what cannot be exported."""
    (tmp_path / "file").write_text("")
    argv = "export", trained / "gpt-seed1", "--out"
    check_one_line(call(main, *argv, tmp_path / "file"), str(tmp_path / "file"))
    monkeypatch.setitem(sys.modules, "seqmodels.site.export", None)
    monkeypatch.delattr("seqmodels.site.export")
    check_one_line(call(main, *argv, tmp_path / "out"), "onnx")
