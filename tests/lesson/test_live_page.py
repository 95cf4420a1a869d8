"""The live page: its exported graphs, what it embeds, and how it behaves and writes."""

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
import torch
from browser import FAKE_RUNS, FAKE_WEIGHTS, PHONE, Tab, data_of, replace_runtime
from conftest import RESULTS, ROOT, TINY, Call, V, check_one_line, copy_records, copy_seed, rows_of
from fake_records import as_records, fake_record
from torch.testing import assert_close

import seqmodels
from lesson import graphs, live
from seqmodels import BOS, EOS, MODELS, UNK, build, search
from seqmodels.cli import main
from seqmodels.report.load import load_folder
from tasks.inside.parts import muted


# ---------------------------------------------------------------------------------- Exported graphs
def run_script(script: str, *argv: object) -> str:
    """Run a script in a process of its own: shapes that tests execute cannot be traced."""
    given = [sys.executable, "-W", "ignore", "-c", script, *map(str, argv)]
    process = subprocess.run(given, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bahdanau", "lstm_seq2seq", "gpt"])
def test_an_exported_run_holds_each_weight_once(
    name: str, trained: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    folder, path, is_half = tmp_path / "exported", trained / f"{name}-seed1.json", name == "gpt"
    given = ["export", trained / f"{name}-seed1", "--out", folder, *["--half"] * is_half]
    printed = run_script("from seqmodels.cli.main import main; main()", *given)
    assert str(folder / "manifest.json") in printed
    manifest, record = (json.loads(p.read_text()) for p in (folder / "manifest.json", path))
    names = {p.name for p in folder.glob("[!.]*")} - {"manifest.json"}
    files = {name: (folder / name).read_bytes() for name in names}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    assert manifest["files"] == sums
    assert manifest["record"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert manifest["run_weights_sha256"] == record["weights_sha256"]
    assert manifest["source_end"] == record["data"]["source_end"]
    assert manifest["precision"] == ("float16" if is_half else "float32")
    width = 2 if is_half else 4
    assert 0.95 < len(files["weights.bin"]) / (width * record["n_parameters"]) < 1.05
    for part in ("encode", "step"):
        assert b".py" not in files[f"{part}.onnx"]
        onnx.checker.check_model(str(folder / f"{part}.onnx"))
    if name == "gpt":
        mask = {"name": "cache.mask", "dtype": "bool", "shape": [1, "P"]}
        assert mask in manifest["state"]
        assert manifest["max_tokens"] == record["model_config"]["n_positions"]
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(import json\n.*?)^```$", text, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(block, names)
    model, src = seqmodels.load(trained / f"{name}-seed1").model, torch.tensor([[17, 4, 95, EOS]])
    for p in model.parameters() if is_half else ():
        p.data = p.data.half().float()
    expected = search.greedy(model, src, src > 0, min(40, model.max_target(4)))
    assert [[token for token in names["text"] if token != EOS]] == expected


@pytest.mark.slow
def test_the_graphs_of_every_model_are_right() -> None:
    """Those of `test_an_exported_run_holds_each_weight_once` are checked there."""
    elsewhere = {"bahdanau", "lstm_seq2seq", "gpt"}
    script = f"""
import tempfile, torch
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch
from seqmodels import build
from lesson import export, graphs
for name, sizes in { ({name: TINY[name] for name in [*MODELS, "bahdanau_4"]})!r}.items():
    torch.manual_seed(1)
    model = build(name, {V}, **sizes | ({{"n_positions": 128}} if "n_positions" in sizes else {{}}))
    for p in model.eval().parameters():
        torch.nn.init.normal_(p, std=0.4)
    if name not in {elsewhere}:
        traced = graphs.trace(model)
        with tempfile.TemporaryDirectory() as folder:
            weights = export.deduplicate_weights(traced.protos.values(), False)
            (Path(folder) / export.WEIGHTS).write_bytes(weights)
            for part, proto in traced.protos.items():
                (Path(folder) / f"{{part}}.onnx").write_bytes(proto.SerializeToString())
            check = export.check(model, traced, export.make_runner(Path(folder), traced.protos))
        assert 0 < check.difference < 1e-5 and check.attention_difference < 1e-5
        print(name, check.n_tokens, traced.attention)
    model, src_mask = model.double(), torch.arange(9) < torch.tensor([[9], [1], [4]])
    src = torch.randint(4, {V}, (3, 9)) * src_mask
    with torch.no_grad():
        looped = graphs.flatten_state(model.encode(src, src_mask))
        read_in_steps = [part for part in graphs.UNCHECKED if part[1] != "join"]
        with ExitStack() as patches:
            for replaced in [*graphs.SCANS, *read_in_steps]:
                patches.enter_context(patch.object(*replaced))
            scanned = graphs.flatten_state(model.encode(src, src_mask))
    assert scanned.keys() == looped.keys()
    for part, tensor in looped.items():
        torch.testing.assert_close(scanned[part], tensor)
"""
    attending = dict.fromkeys(name for name in MODELS if name not in elsewhere)
    attending |= {"transformer": "step", "linear_attention": "attend"}
    attending["bahdanau_4"] = None  # its weights are over sums
    assert run_script(script).splitlines() == [f"{name} 60 {g}" for name, g in attending.items()]


def test_what_cannot_be_exported_is_named(
    call: Call, trained: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "file").write_text("")
    argv = "export", trained / "gpt-seed1", "--out"
    check_one_line(call(main, *argv, tmp_path / "file"), str(tmp_path / "file"))
    monkeypatch.delitem(sys.modules, "lesson.export")
    monkeypatch.setitem(sys.modules, "onnx", None)
    check_one_line(call(main, *argv, tmp_path / "out"), "onnx", "pip install onnx")


# ----------------------------------------------------------------------------------------- The page
@pytest.fixture(scope="module")
def page(site_folder: Path) -> Path:
    """Return the live page of three toy runs in a site, with fake models."""
    return site_folder / "live.html"


def unpack(packed: str) -> bytes:
    return gzip.decompress(base64.b64decode(packed))


def parts_of(page: Path) -> dict[str, str]:
    """Return the packed parts of a page, in their order."""
    return dict(re.findall(r' data-part id="(.*?)">([^<]*)</script>', page.read_text()))


def test_the_page_holds_its_models_in_order(trained: Path, page: Path) -> None:
    data, parts = data_of(page), parts_of(page)
    assert [*parts] == ["worker", "examples", "wasm", "model-2", "model-0", "model-1"]
    assert data["sizes"] == {name: len(base64.b64decode(part)) for name, part in parts.items()}
    assert [run["label"] for run in data["runs"]] == ["Bahdanau", "LSTM seq2seq", "GPT"]
    assert [run["is_vector"] for run in data["runs"]] == [False, True, False]
    assert [len(run["sizes"]) for run in data["runs"]] == [3, 3, 4]
    shown = re.findall(r'<h2>([\w ]+?) <|class="run" id="run-(\d)"', page.read_text())
    assert "".join(map("".join, shown)) == "One vector1Looks back02"
    assert unpack(parts["wasm"]) == b"\0asm"
    content, model, end = unpack(parts["model-1"]), {}, 0
    for name, size in data["runs"][1]["sizes"]:
        model[name], end = content[end : end + size], end + size
    assert (json.loads(model["step"])["n"], end) == (1, len(content))
    planes = np.frombuffer(model["weights"], np.uint8)
    assert planes.reshape(2, -1).T.tobytes() == FAKE_WEIGHTS
    records = [json.loads((trained / f"{name}-seed1.json").read_text()) for name in FAKE_RUNS]
    sizes = [(r["n_parameters"], r["train_config"]["tokens"]) for r in records]
    assert [(run["n_parameters"], run["tokens"]) for run in data["runs"]] == sizes
    rows = rows_of(trained / "gpt-seed1")
    examples = {(row["x"], row["src"], row["ref"]) for row in rows}
    in_page = json.loads(unpack(parts["examples"]))
    assert {*map(tuple, in_page)} <= examples
    lengths = [x for x, *_ in in_page]
    assert lengths == sorted(lengths)
    settings = [data[key] for key in ("case", "continues", "has_source_end", "unit", "limit")]
    limit = records[0]["tests"][0]["max_train_length"]
    assert settings == [None, None, records[0]["data"]["source_end"] == "EOS", "words", limit]


def test_a_limit_of_ones_own_is_in_the_manifest() -> None:
    from lesson import export

    run, traced = seqmodels.load("gpt"), graphs.Graphs({}, [], None, [])
    assert export.describe_run(run, traced)["max_tokens"] == run.model.config.n_positions
    run.model.config, run.model.max_target = SimpleNamespace(), lambda n: 6 - n
    assert export.describe_run(run, traced)["max_tokens"] == 6


def test_a_model_of_few_positions_has_the_same_state() -> None:
    few, many = (build("gpt", V, **TINY["gpt"] | {"n_positions": n}) for n in (6, 32))
    assert graphs.Functions(few).state == graphs.Functions(many).state


def test_the_first_examples_of_each_bucket_are_in_the_page(monkeypatch: Any) -> None:
    rows = [
        SimpleNamespace(set=kind, x=20 - 10 * (i % 2), src=f"{i}", ref=kind)
        for kind in ("other", "length")
        for i in range(3 * live.EXAMPLES_PER_BUCKET)
    ]
    monkeypatch.setattr(live.report, "read_rows", lambda path: rows)
    (test,) = as_records([fake_record("gpt", 1)])[0].tests  # a bucket for each ten words
    found = live.sample_hypotheses([Path("a.json")], test)
    kept = range(2 * live.EXAMPLES_PER_BUCKET)
    assert found == sorted((20 - 10 * (i % 2), f"{i}", "length") for i in kept)


def test_heads_are_named_by_most_of_their_weight_beyond_chance() -> None:
    (record,) = as_records([fake_record("transformer", 1)])
    shares = {
        "a": (("encoder", 1, 1), 60, 31, 2),  # not twice what the offset gives
        "b": (("encoder", 1, 2), 49, 1, 2),
        "c": (("source", 2, 1), 51, 4, 25),
        "d": (("source", 2, 1), 97, 3, 48),
    }
    record.analyses["heads"] = [
        {"attention": a, "layer": n, "head": h, "pair": pair, "n": 9, "share": share,
         "by_offset": offset, "by_part_of_speech": part}
        for pair, ((a, n, h), share, offset, part) in shares.items()
    ]  # fmt: skip
    paths = ["encoder.0.self_attention", "decoder.1.self_attention", "decoder.1.src_attention"]
    assert live.name_heads(record, paths, 2) == [["", ""], ["", ""], ["d, 97 %", ""]]


def test_only_records_of_the_same_weights_count() -> None:
    shipped = load_folder(RESULTS / "translation-live").records
    measured = live.find_measured(shipped["transformer-seed1.json"])
    assert measured == load_folder(live.MEASURED).records["transformer-seed1.json"]
    assert live.find_measured(shipped["gpt-seed1.json"]) is None


def test_the_sentence_without_a_head_is_exact_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (record,) = as_records([fake_record("transformer", 1)])
    heads = ((1, 1, 55.0), (2, 2, 60.0))
    record.analyses["article"] = [
        {"attention": "encoder", "layer": layer, "head": head, "share": share}
        for layer, head, share in heads
    ]
    run = Mock(**{"translate.side_effect": [["x", "b", "c"], ["y", "b", "z"]]})
    monkeypatch.setattr(live.inference, "load", lambda _: run)
    monkeypatch.setattr(live, "mute_heads", lambda *_: nullcontext())
    paths = {"attentions": ["encoder.0.self_attention", "encoder.1.self_attention"], "n": 2}
    examples = [(3, "1", "a"), (3, "2", "b"), (3, "3", "c")]  # wrong, unchanged, and as wanted
    found = live.mute_article_head(record, Path("a"), {"heads": paths}, examples)
    assert found == ("3", 1, 1)


def test_a_language_model_continues_texts(
    chromium: Any, language_model: Path, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        replace_runtime(patch)
        data = data_of(live.write(language_model, tmp_path / "live.html"))
    tab = Live(chromium, tmp_path / "live.html")
    assert tab.messages == []
    assert not tab.page.is_visible(".scores")
    tab.context.close()
    assert (data["continues"], data["block"], data["has_source_end"]) == ("prefix", 12, False)


def test_the_first_seed_with_weights_is_in_the_page(
    call: Call, trained: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    replace_runtime(monkeypatch)
    folder = copy_records(trained, tmp_path / "seeds", "vocabulary.json", model="gpt")
    check_one_line(call(main, "live", folder, "--out", tmp_path / "live.html"), str(folder))
    for seed in (2, 3):
        copy_seed(trained / "gpt-seed1", folder, seed)
    code, out, _ = call(main, "live", folder, "--out", tmp_path / "live.html")
    assert (code, re.findall(r"gpt-seed\d", out)) == (0, ["gpt-seed2"])
    assert len(data_of(tmp_path / "live.html")["runs"]) == 1


class Live(Tab):
    """The live page, once its models are ready and have written their first texts."""

    def __init__(self, chromium: Any, path: Path, **settings: Any):
        super().__init__(chromium, path, **settings)
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until the models are unpacked and have written."""
        self.page.wait_for_selector("body[data-ready]", timeout=60_000)
        self.wait()

    def wait(self) -> None:
        """Wait until all models have written."""
        self.page.wait_for_timeout(50)
        turn = self.page.evaluate("turn")
        self.page.wait_for_selector(f'body[data-done="{turn}"]', timeout=60_000)
        self.page.wait_for_timeout(50)  # texts are drawn with the next frame

    def ask(self, text: str) -> list[list[int]]:
        self.page.fill("#text", text)
        self.page.click("#ask button")
        self.wait()
        return self.tokens()

    def tokens(self) -> list[list[int]]:
        n = self.page.locator(".run").count()
        rows = [self.page.get_attribute(f"#run-{i}", "data-tokens") for i in range(n)]
        return [[*map(int, (row or "").split())] for row in rows]


def test_choices_are_kept_by_mouse_and_by_keyboard(
    chromium: Any, trained: Path, page: Path
) -> None:
    tab = Live(chromium, page)
    examples = json.loads(unpack(parts_of(page)["examples"]))
    run, lengths = seqmodels.load(trained / "gpt-seed1"), [x for x, *_ in examples]
    last = next(src for x, src, _ in examples if x == lengths[-1])  # nearest to 27 words
    ids = run.encode(last)
    assert (tab.page.input_value("#text"), tab.tokens()) == (last, [ids, ids[:1], ids])
    tab.page.focus("#length")
    tab.page.keyboard.press("Home")
    tab.wait()
    first = examples[0][1]
    tab.page.focus('[data-key="m"]')
    tab.page.keyboard.press("ArrowDown")
    tab.wait_until("document.activeElement.dataset.key === 'm'")
    tab.page.get_by_role("button", name="choose a head to mute").click()
    tab.wait_until("document.querySelector('[data-key=h]')?.value === '0'")
    assert tab.page.input_value('[data-key="l"]') == "1"  # the layer whose mean was shown
    ids = run.encode(first)
    tab.page.check('[data-key="mute"]')
    tab.wait()
    assert tab.tokens() == [ids, ids[:1], ids[:3]]  # three heads are before the muted one
    address, text = tab.page.url, tab.page.input_value("#text")
    tab.page.reload()
    tab.wait_until_ready()
    assert (tab.page.url, tab.page.input_value("#text")) == (address, text)
    assert (tab.page.input_value('[data-key="m"]'), tab.tokens()[2]) == ("2", ids[:3])
    hostile = "</script><script>self.ran = 1</script>\u202e\x07<img src=x onerror='self.ran = 1'>"
    tab.ask(hostile)
    assert tab.page.input_value("#text") == hostile
    assert tab.page.evaluate("self.ran") is None
    assert tab.messages == []
    tab.context.close()


def test_accessible_on_a_phone(chromium: Any, page: Path) -> None:
    tab = Live(chromium, page, **PHONE)
    tab.check_isolation()
    tab.check_access()
    assert tab.width() == 390
    tab.context.close()


@pytest.mark.slow
def test_the_page_writes_what_the_committed_runs_write(chromium: Any, tmp_path: Path) -> None:
    folder, path = RESULTS / "translation-live", tmp_path / "live.html"
    try:
        run_script("from seqmodels.cli.main import main; main()", "live", folder, "--out", path)
    except AssertionError as error:
        if "npm" in str(error):
            pytest.skip(str(error))
        raise
    projector = {"viewport": {"width": 853, "height": 480}, "device_scale_factor": 1.5}
    tab = Live(chromium, path, **projector)
    tab.page.wait_for_selector("body[data-played]", timeout=20_000)
    assert float(tab.page.get_attribute("body", "data-played")) < 10  # seconds, without a touch
    marks = [tab.page.locator(f"#run-{i} mark").count() for i in range(3)]
    assert (marks[0] > 0, marks[1], marks[2] > 0) == (True, 0, True)
    shipped = [name for name in MODELS if (folder / f"{name}-seed1.json").exists()]
    for part in ("#length", *(f"#score-{i} .bar" for i in range(len(shipped)))):
        box = tab.page.locator(part).bounding_box()
        assert 0 < box["y"] < box["y"] + box["height"] < 480, part
    tab.check_isolation()
    assert path.stat().st_size < 19_500_000
    runs = [seqmodels.load(folder / f"{name}-seed1") for name in shipped]
    data = data_of(path)
    for k, run in enumerate(runs):
        cells = tab.page.locator(f"tr:has(#sum-{k}) td").all_inner_texts()
        files = data["runs"][k]["manifest"]["files"]
        assert cells[2:4] == [files["weights.bin"], run.record.weights_sha256]
    aligned = data["runs"][shipped.index("transformer")]["manifest"]["attention"]
    assert aligned["aligned_layers"] == [aligned["layers"] - 1] != [0]
    rows = rows_of(folder / "bahdanau-seed1")
    words = [word.strip(".,") for row in rows[-5:] for word in row["src"].split()]
    for n in (2, 3, 5, 8, 11, 20, 36, 51, 86):
        text = " ".join(words[n : 2 * n - 1])
        assert len(runs[0].encode_source(text)) == n
        for run, tokens in zip(runs, tab.ask(text), strict=True):
            assert tokens == run.search([run.encode_source(text)])[0], (run.name, n)
    longest = " ".join(words[:15])
    tab.ask(longest)
    muting = [shipped.index(name) for name in ("transformer", "gpt")]
    for k in muting:  # all weights, and a word in place of the model's own
        run, src = runs[k], torch.tensor([runs[k].encode_source(longest)])
        tgt = torch.tensor([[BOS, *tab.tokens()[k][:-1]]])
        paths = graphs.multi_head_attentions(run.model)
        with torch.inference_mode():
            maps = graphs.weights_of(run.model, paths, src, tgt)
        for i, weights in enumerate(maps):
            found = tab.page.evaluate(f"Array.from(written[{k}].maps[{i}].weights)")
            assert_close(torch.tensor(found), weights.flatten(), atol=1e-4, rtol=0)
        with torch.inference_mode():
            top = run.model(src, src > 0, tgt)[0, 2, UNK - 1 :].topk(5).indices + UNK - 1
        assert [t for t, _ in tab.page.evaluate(f"written[{k}].tops[2]")] == top.tolist()
    changed = 0
    for i in range(20):
        text, names, expected = " ".join(words[i : 2 * i + 8]), [], {}
        for k in muting:
            run = runs[k]
            paths, n = graphs.multi_head_attentions(run.model), run.model.config.n_heads
            names.append(f"{k}-{i % len(paths)}-{i % n}")
            with muted(run.model.get_submodule(paths[i % len(paths)]).W_o, i % n + 1, n):
                expected[k] = run.search([run.encode_source(text)])[0]
            changed += expected[k] != run.search([run.encode_source(text)])[0]
        tab.page.evaluate("mute => changeAddress({ mute })", ",".join(names))
        tab.wait()
        tokens = tab.ask(text)
        assert {k: tokens[k] for k in expected} == expected, (i, names)
    assert changed > 10
    assert tab.messages == []
    tab.context.close()
