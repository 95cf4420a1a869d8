"""Arms: a model and what is changed in it, from the command line to records and figures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from conftest import Call, Run
from toy_task import flags, toy

import seqmodels
from seqmodels import models
from seqmodels.comparison import arm, compare
from seqmodels.comparison.arm import count_parameters, model_sizes
from seqmodels.records import record
from seqmodels.report import reading, style
from seqmodels.training.config import TrainConfig
from tasks.positions import __main__ as positions
from tasks.recall import __main__ as recall

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _own_variants() -> Iterator[None]:
    """Take away what a test has registered."""
    before = dict(models.VARIANTS)
    yield
    models.VARIANTS.clear()
    models.VARIANTS.update(before)


def test_an_arm_changes_one_field() -> None:
    """Keeps out a grid, a value of the base trained twice, and a recipe that wins over the arm."""
    vary = [("n_heads", ["1", "2", "4"]), ("lr", ["0.01", "0.02"]), ("width", ["3"])]
    made = arm.make_arms(["gpt"], vary)
    for a in made:
        a.register()
    made = arm.without_repeats(made, toy(), None)
    names = ["gpt", "gpt-n_heads-1", "gpt-n_heads-4", "gpt-lr-0.02", "gpt-width-3"]
    assert [a.name for a in made] == names
    assert [a.training for a in made] == [{}, {}, {}, {"lr": 0.02}, {}]
    sizes = [model_sizes(name, toy()) for name in names]
    assert [s["n_heads"] for s in sizes] == [2, 1, 4, 2, 2]
    assert sizes[4]["d_model"] == 3 * sizes[0]["d_model"]
    with torch.device("meta"):
        n = [count_parameters(seqmodels.build(m, **s)) for m, s in zip(names, sizes, strict=True)]
    assert all(abs(x / toy().n_parameters - 1) <= 0.05 for x in n[:4])
    assert n[4] > 2 * n[0]


def test_the_precision_is_chosen_before_arms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a model that is trained twice in the precision that was measured."""
    monkeypatch.setattr(compare, "fastest_precision", lambda device: "bfloat16")
    vary = [("precision", ["float32", "bfloat16"])]
    args = flags(tmp_path, models=["gpt"], precision="auto", vary=vary)
    runs = [run for run, _ in compare.plan(tmp_path, "cpu", toy(), args)]
    assert [(run.name, run.cfg.precision) for run in runs] == [
        ("gpt", "bfloat16"), ("gpt-precision-float32", "float32"),
    ]  # fmt: skip


def test_an_arm_of_a_variant_keeps_its_switch() -> None:
    """Keeps out an arm of a variant that is one of its model, and a recipe that is overlooked."""
    *_, last = arm.make_arms(["transformer_rotary"], [("rotary_base", ["30"])])
    last.register()
    sizes = model_sizes(last.name, toy())
    assert (sizes["positions"], sizes["rotary_base"], sizes["d_ff"]) == ("rotary", 30.0, 32)
    assert models.model_of(last.name) == "transformer"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n_hats=3", ["transformer", "n_hats", "n_heads", "lr", "width"]),
        ("n_heads=two", ["n_heads=two"]),
        ("n_heads=0", ["n_heads=0", "positive"]),
        ("lr=nan", ["lr=nan", "finite"]),
        ("is_prenorm=perhaps", ["is_prenorm=perhaps"]),
        ("seed=3", ["seed"]),
        ("n_heads", ["FIELD=A,B,C"]),
        ("n_heads=2,,4", ["FIELD=A,B,C"]),
    ],
)
def test_a_mistake_is_refused_at_once(text: str, words: list[str], call: Call) -> None:
    """Keeps out a comparison that starts, and fails in the middle over a field that is misspelt."""
    code, _, err = call(recall, "--models", "transformer", "--vary", text)
    assert code == 2
    assert all(word in err for word in words)


def test_values_have_the_type_of_their_field() -> None:
    """Keeps out the text "False", which is true, and an optional size that cannot be None."""
    fields = {"is_prenorm": "false", "d_k": "None", "dropout": "0", "n_layers": "3"}
    values = [arm.parse_value("transformer", field, text) for field, text in fields.items()]
    assert values == [False, None, 0.0, 3]
    assert [type(value) for value in values] == [bool, type(None), float, int]


def test_no_field_of_a_config_hides_one_of_training() -> None:
    """Keeps out a --vary that changes a size where a learning rate is meant."""
    training = {*TrainConfig.__dataclass_fields__, arm.WIDTH}
    for name in models.papers():
        assert not training & set(models.MODELS[name].config_type.__dataclass_fields__), name


def test_arms_run_like_models(run: Run, tmp_path: Path) -> None:
    """Keeps out an arm without record, resume, figure or translation in a process of its own."""
    given = ["--models", "transformer_rotary", "--vary", "rotary_base=30", "--vary", "warmup=0.2"]
    assert run(positions, *given, "--out", tmp_path) == 0
    rotary = "transformer_rotary"
    names = [rotary, f"{rotary}-rotary_base-30.0", f"{rotary}-warmup-0.2"]
    records = {r["model"]: r for r in reading.load_records(tmp_path)}
    assert list(records) == names
    assert records[names[0]].get("arm") is None
    assert records[names[1]]["model_config"]["rotary_base"] == 30.0
    assert records[names[2]]["train_config"]["warmup"] == 0.2
    assert records[names[2]]["arm"]["training"] == {"warmup": 0.2}
    looks = style.looks(names)
    assert len({look.colour for look in looks.values()}) == 3
    assert len({look.marker for look in looks.values()}) == 3
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.safetensors")}
    assert run(positions, *given[:2], "--out", tmp_path) == 0  # beside arms of other training
    assert run(positions, *given, "--out", tmp_path) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.safetensors")} == written
    program = (
        f"import seqmodels; run = seqmodels.load({str(tmp_path / names[1])!r} + '-seed1');"
        "print(run.model.config.rotary_base, len(run.translate(['the cat sleeps .'])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "30.0 1\n"
    program = (
        "import sys; sys.modules['torch'] = None; from pathlib import Path;"
        f"from seqmodels.report import reading, style; out = Path({str(tmp_path)!r});"
        "names = [r['model'] for r in reading.load_records(out)];"
        "print([look.label for look in style.looks(names).values()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "'Transformer, rotary positions, rotary_base 30.0'" in done.stdout


def test_a_record_cannot_rename_a_model(tmp_path: Path) -> None:
    """Keeps out a stranger's record that gives a built-in model another label."""
    path = next((ROOT / "results").glob("*/gpt-seed1.json"))
    made = json.loads(path.read_text(encoding="utf-8"))
    made["arm"] = {"varies": "transformer", "label": "Mine", "sizes": {}, "width": 1}
    made["arm"]["training"] = {}
    (tmp_path / "gpt-seed1.json").write_text(json.dumps(made), encoding="utf-8")
    record.load(tmp_path / "gpt-seed1.json")
    assert style.looks(["gpt"])["gpt"].label == "GPT"
