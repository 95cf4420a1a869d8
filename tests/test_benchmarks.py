"""Cost against length, measured at toy size."""

import json
from pathlib import Path

from conftest import Call

from benchmarks import __main__ as command


def test_growth_is_measured_at_each_length(call: Call, tmp_path: Path) -> None:
    models = ["bahdanau", "gpt"]
    code, out, _ = call(command, "--size", "smoke", "--models", *models, "--out", tmp_path)
    path, figure = map(Path, out.split())
    assert (code, figure.read_bytes()[:5]) == (0, b"<?xml")
    parts = json.loads(path.read_text(encoding="utf-8"))["parts"]
    for axis, column in (("length", "step_s"), ("writing", "token_s")):
        points = parts[f"growth-{axis}"]["points"]
        assert [(p["model"], p["n"]) for p in points] == [
            ("bahdanau", 8), ("bahdanau", 16), ("gpt", 8), ("gpt", 16),
        ]  # fmt: skip
        assert all(p[column] > 0 for p in points)
    assert all(p["pass_s"] > 0 for p in points)
    gpt = [p["state_bytes"] for p in points if p["model"] == "gpt"]
    assert gpt[1] > 1.9 * gpt[0] > 0  # keys and values of each token
