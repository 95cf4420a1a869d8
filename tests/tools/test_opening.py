"""The opening picture: its numbers are what the trained models compute."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from conftest import RESULTS, fields_of

import seqmodels
from lesson import film
from seqmodels.interface import BOS, EOS
from tools import opening

ROWS: list[Any] = fields_of(RESULTS / "translation-live" / "opening.json")["rows"]


def levels(rows: list[str], low: float = -1.0) -> np.ndarray:
    """Return the numbers of the digits, as base64 counts them."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    places = np.array([[digits.index(digit) for digit in row] for row in rows])
    return low + (1 - low) * places / 63


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


def test_outputs_are_put_back_into_english_by_the_grammar() -> None:
    row, other = ROWS[film.SHOWN], ROWS[film.SHOWN] | {"outputs": ["Clara schläft."] * 3}
    glosses = opening.gloss(row)
    assert json.loads(json.dumps(glosses)) == row["glosses"]
    first, second, _ = (" ".join(gloss["en"]) for gloss in glosses)
    assert first.startswith("Clara will have loved all cars although some clever horses disappear")
    assert second == row["src"].replace(",", " ,").replace(".", " .")
    with pytest.raises(ValueError, match="no tree"):
        opening.gloss(other)


@pytest.mark.parametrize("name", film.PICTURES)
def test_the_picture_shows_the_numbers_as_they_are(name: str) -> None:
    svg = film.draw(ROWS[film.SHOWN], film.PICTURES[name])
    path = RESULTS / f"{name}.svg"
    assert svg == path.read_text("utf-8"), "run python -m lesson.film"
    assert len(svg.encode()) <= 200_000
    before, _, _ = svg.partition("@media screen and (prefers-reduced-motion:no-preference)")
    assert "animation" not in before
