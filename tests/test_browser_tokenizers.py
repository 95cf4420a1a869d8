"""The tokenizers of the live page: in a browser, texts get the tokens that they get here."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqmodels.data.tokenizers import BPE, Bytes, Characters, Spaces, Tokenizer, Words
from seqmodels.site import live, vocabulary

LINES = [
    "Although the cat watched them, the hat had disappeared.",
    "Don't well-known 1234567 naïve Ångström, straße; привет мир! 你好，世界。",
    "a\u0301e\u0308 \u200d family 👩\u200d👩\u200d👧 ½ ² Ⅷ ٣ 𝒜𝟘 ﬁ _under_score @,@ <unk>",
] * 4
TOKENIZERS: list[Tokenizer] = [
    Words.train(LINES), Spaces.train(LINES), Characters.train(LINES), Bytes(),
    BPE.train(LINES, 400),
]  # fmt: skip
HOSTILE = [
    "", " ", "\n", "\r\n\t ", "\x00\x01\x1c\x1d\x1e\x1f\x7f\x85\xa0\u2028\ufeff",
    "<script>alert(1)</script>", "12345678901234567890",
    "\u202eright to left\u202c שלום عليكم", "’'-'’ --- '''", "e\u0301" * 50,
    "x" * 2_000, " " * 500 + "x",
    "\n" * 300, "\U0001f1e9\U0001f1ea" * 20, "\U0010ffff\ue000\ufffe", "ſK\u212a İi̇ ẞß ΑΣ",
    "Straße\u00adn", "ab\u200bcd", "\u3000全角\u3000", "<eos> <pad> ⁇",
]  # fmt: skip
ASSIGNED = [*range(0x40000), *range(0xE0000, 0xE1000)]
"""Where Unicode has characters; of the rest, private or unassigned, a few are tried."""
Encode = Callable[[Tokenizer, list[str]], list[list[Any]]]


@pytest.fixture
def in_browser(chromium: Any) -> Any:
    """Return a function that gives the tokens of texts, and what becomes of them, in a browser."""
    context = chromium.new_context()
    opened = context.new_page()
    script = (Path(live.__file__).parent / "templates" / "tokenizers.js").read_text()
    opened.add_script_tag(content=script)

    def encode(tokenizer: Tokenizer, texts: list[str]) -> list[list[Any]]:
        """Encode and decode each (as JSON: a million numbers, one by one, take a minute)."""
        given = {"vocabulary": vocabulary.described(tokenizer), "texts": texts}
        return json.loads(opened.evaluate("""(given) => {
            const { vocabulary, texts } = JSON.parse(given);
            const tokenizer = tokenizerOf(vocabulary);
            return JSON.stringify(texts.map((text) => {
                const ids = tokenizer.encode(text);
                return [ids, tokenizer.decode(ids)];
            }));
        }""", json.dumps(given)))  # fmt: skip

    yield encode
    context.close()


def here(tokenizer: Tokenizer, texts: list[str]) -> list[list[Any]]:
    """Do the same in Python."""
    ids = [tokenizer.encode(text) for text in texts]
    return [[tokens, tokenizer.decode(tokens)] for tokens in ids]


def drawn(n: int) -> list[str]:
    """Draw texts of characters from all of Unicode, from the training lines, and of spaces."""
    rng = random.Random(1)
    kinds = [
        vocabulary.CHARACTERS,
        "".join(LINES),
        " \n\t\xa0\x1c'-.,",
        vocabulary.CHARACTERS[:3000],
    ]
    return [
        "".join(rng.choice(rng.choice(kinds)) for _ in range(rng.randrange(60))) for _ in range(n)
    ]


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda one: type(one).__name__)
def test_hostile_texts(in_browser: Encode, tokenizer: Tokenizer) -> None:
    """Keeps out another idea of what a letter, a space or the end of a word is."""
    texts = HOSTILE + drawn(2_000)
    for text, found, true in zip(
        texts, in_browser(tokenizer, texts), here(tokenizer, texts), strict=True
    ):
        assert found == true, repr(text)


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda one: type(one).__name__)
def test_every_character(in_browser: Encode, tokenizer: Tokenizer) -> None:
    """Keeps out a character that only one of the two versions of Unicode knows."""
    assigned = {*ASSIGNED}
    every = [c for c in vocabulary.CHARACTERS if ord(c) in assigned or ord(c) % 101 == 0]
    texts = ["a" + "1".join(every[i : i + 600]) for i in range(0, len(every), 600)]
    assert in_browser(tokenizer, texts) == here(tokenizer, texts)


def test_bible(in_browser: Encode, data: Path) -> None:
    """Keeps out another tokenization of what was tested on."""
    lines = {
        part: [
            line
            for language in ("de", "en")
            for line in (data / "bible" / f"{part}.{language}").read_text().splitlines()
        ]
        for part in ("train", "test")
    }
    train = lines["train"][::5]
    for tokenizer in (BPE.train(train, 4_000), Words.train(train, 2), Characters.train(train)):
        assert in_browser(tokenizer, lines["test"]) == here(tokenizer, lines["test"])
