"""The opening picture: its numbers are what the trained models compute."""

import json
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
import torch
from conftest import RESULTS

import seqmodels
from seqmodels.interface import BOS, EOS
from tools import opening

MADE: dict[str, Any] = json.loads(
    (RESULTS / "translation-live" / "opening.json").read_text(encoding="utf-8")
)
ROWS = MADE["rows"]
SVG = "{http://www.w3.org/2000/svg}"


def levels(rows: list[str], low: float = -1.0) -> np.ndarray:
    """Return the numbers of the digits, as base64 counts them."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    places = np.array([[digits.index(digit) for digit in row] for row in rows])
    return low + (1 - low) * places / 63


def test_numbers_are_rounded_to_the_nearest_of_64_levels() -> None:
    assert opening.write_levels(torch.tensor([[-1.0, 1.0, 0.02, -0.99]])) == ["A/gA"]
    assert opening.write_levels(torch.tensor([[0.0], [0.26]]), low=0.0) == ["A", "Q"]
    assert opening.read_levels(["A/"]).tolist() == [[-1, 1]]


@pytest.mark.parametrize("row", [ROWS[0], ROWS[3]], ids=["short", "long"])
def test_states_and_attention_are_those_of_the_models(row: dict[str, Any]) -> None:
    one, many = (seqmodels.load(name) for name in ("rnn_encdec", "bahdanau"))
    src = one.encode_source(row["src"])
    with torch.inference_mode():
        for n in (1, 4, len(src)):
            prefix = torch.tensor([src[:n]])
            c = one.model.encode(prefix, prefix == prefix).c[0]
            np.testing.assert_allclose(levels(row["vectors"])[n - 1], c, atol=1 / 63 + 1e-4)
        whole = torch.tensor([src])
        h = many.model.encode(whole, whole == whole).h[0]
    np.testing.assert_allclose(levels(row["annotations"]), h, atol=1 / 63 + 1e-4)
    weights = many.align(row["src"]).weights
    np.testing.assert_allclose(levels(row["weights"], 0.0), weights, atol=1 / 126 + 1e-4)
    outputs = [run.translate([row["src"]])[0] for run in (one, many)]
    assert row["outputs"][:2] == outputs


def test_the_decoder_says_the_third_text_from_the_kept_numbers() -> None:
    run = seqmodels.load("rnn_encdec")
    for row in ROWS:
        c = torch.tensor(levels(row["best"][-1:]), dtype=torch.float32)
        token, written = torch.tensor([BOS]), list[int]()
        with torch.inference_mode():
            state = run.model.encode(token[None], token[None] == BOS)
            state = state._replace(c=c, s=torch.tanh(run.model.V_start(c)))
            while len(written) < 200:
                logits, state = run.model.step(token, state)
                token = logits.argmax(-1)
                if int(token) == EOS:
                    break
                written.append(int(token))
        assert run.tokenizer.decode(written) == row["outputs"][2]


@pytest.mark.slow
def test_the_vector_is_written_anew_from_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "STEPS", MADE["steps"][:1])
    (row,) = opening.measure([5])["rows"]
    assert row["src"] == ROWS[0]["src"]
    assert np.abs(levels(row["best"]) - levels(ROWS[0]["best"][:1])).max() < 0.1
    assert row["best"] != row["vectors"][-1:]


def test_the_film_shows_the_numbers_as_they_are() -> None:
    film = opening.draw(ROWS[opening.SHOWN])
    assert film == (RESULTS / "opening-film.svg").read_text("utf-8"), (
        "run python -m tools.opening --film"
    )
    root = ET.fromstring(film)
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert {"39 % right: 12 of 31 words", "100 % right: 31 of 31 words"} <= {*texts}
    assert "200 numbers, rewritten at each word" in texts
    assert " ".join(texts).count("verschwinden") == 1  # a wrong word of the first machine
    lines = [line for line in root.iter(f"{SVG}path") if "l" in line.get("class", "").split()]
    kept = [line for line in lines if "f" not in line.get("class", "").split()]
    weights = levels(ROWS[5]["weights"], 0.0)
    n_words = len(ROWS[5]["weights"]) + len(texts_of(ROWS[5], 0)) + len(texts_of(ROWS[5], 2))
    assert len(kept) == (weights >= 0.05).sum() + n_words - len(weights)
    before, _, moving = film.partition("@media (prefers-reduced-motion:no-preference)")
    assert "animation" not in before
    assert moving.partition("</style>")[0].count("animation:") == 2


def texts_of(row: dict[str, Any], k: int) -> list[str]:
    """Return the words and signs of an output, by a rule of this test's own."""
    return row["outputs"][k].replace(",", " ,").replace(".", " .").split()
