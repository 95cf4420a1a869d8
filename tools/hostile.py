"""A list of hostile calls: programs, their arguments, and how they must end.

Each call names the words that its one line on stderr must contain. The exit code is 2 unless given.
`@` stands for a folder with the files below.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple


class Call(NamedTuple):
    """One call."""

    program: str
    argv: list[str]
    words: tuple[str, ...]
    """Words that the message must contain."""
    code: int = 2


def call(program: str, argv: str, *words: str, code: int = 2) -> Call:
    """Return a call from space-separated arguments."""
    return Call(program, argv.split(), words, code)


# ------------------------------------------------------------------------------------- The files

TEXTS: dict[str, bytes] = {
    "src.de": b"ein Satz\nzwei mehr Worte\nund\n",
    "ref.en": b"a sentence\ntwo more words\nand\n",
    "hyp.en": b"a sentence\ntwo other words\nand\n",
    "crlf.en": b"a sentence\r\ntwo other words\r\nand\r\n",
    "bom.en": b"\xef\xbb\xbfa sentence\ntwo other words\nand\n",
    "esc.en": b"a \x1b[2Jsentence\ntwo other words\nand\n",
    "u2028.en": "a\u2028b\ntwo\u0085other words\nand\n".encode(),
    "blank.en": b"\n\n\n",
    "sure.gold": b"0-0 1-1\n0-0\n0?0\n",
    "some.links": b"0-0 1-0\n0-0\n0-0\n",
    "far.links": b"0-0\n0-3\n\n",
    "wide.links": b"9999999-0\n\n\n",
    "empty.en": b"",
    "short.en": b"a sentence\n",
    "long.en": b"a\n" * 4,
    "latin.en": "größer\nb\nc\n".encode("latin-1"),
    "utf16.en": "a\nb\nc\n".encode("utf-16"),
    "utf32.en": "a\nb\nc\n".encode("utf-32"),
    "nul.en": b"a\0b\nb\nc\n",
    "cr.en": b"a\rb\rc\r",
    "surrogate.en": b"\xed\xa0\x80\nb\nc\n",
    "cut.en": b"a\nb\n\xe2\x82",
    "pickle.en": b"\x80\x04\x95a\nb\nc\n",
    "zip.en": b"PK\x03\x04a\nb\nc\n",
    "wide.en": b"a" * (2**24 + 1) + b"\nb\nc\n",
    "notes.md": b"# a file of another kind\n",
    "broken.jsonl": b'{"de": "a", "en"\n',
    "list.jsonl": b'["a", "b"]\n',
    "deep.jsonl": b"[" * 100_000 + b"\n",
    "numbers.jsonl": b'{"de": 1, "en": 2}\n',
    "one.csv": b"de\na\nb\n",
    "ragged.csv": b"de,en\na,b\nc\n",
    "quote.csv": b'de,en\n"a,b\n',
    "ragged.tsv": b"de\ten\na\tb\nc\n",
    "nothing.tsv": b"",
    "fake.parquet": b"not one\n",
    "tables.json": b"{}",
}
"""Texts and tables, good and bad."""

RECORDS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "type-seed": (("seed",), "one"),
    "type-curve": (("curve",), {}),
    "type-tests": (("tests",), None),
    "type-bins": (("tests", 0, "buckets"), "all"),
    "type-n": (("tests", 0, "buckets", 0, "n"), 1.5),
    "type-version": (("schema",), 1),
    "no-curve": (("curve",), []),
    "no-bins": (("tests", 0, "buckets"), []),
    "negative": (("n_parameters",), -1),
    "huge": (("n_parameters",), 10**30),
    "huge-seed": (("seed",), 2**63),
    "name-path": (("model",), "../../etc/passwd"),
    "name-esc": (("model",), "a\x1b[2J"),
    "name-newline": (("task",), "a\nb"),
    "name-long": (("model",), "x" * 5_000),
    "name-empty": (("task",), ""),
    "text-long": (("data", "name"), "x" * 100_000),
    "unknown": (("surprise",), 1),
    "other-version": (("schema",), "seqmodels.record/99"),
    "nested": (("data", "name"), [[[[[[["a"]]]]]]]),
    "hypotheses": (("hypotheses",), "/etc/passwd"),
}
"""Faults of a record: a place, and its faulty value."""

RUNS = (
    "no-record", "no-weights", "no-tokenizer", "empty-record", "list-record", "nan-record",
    "deep-record", "pickle-weights", "zip-weights", "empty-weights", "cut-weights", "text-weights",
    "nan-weights", "other-weights", "folder-weights", "fifo-weights", "device-weights",
    "loop-weights", "empty-tokenizer", "list-tokenizer", "kind-tokenizer", "small-tokenizer",
    "deep-tokenizer", "fifo-tokenizer", "many-layers", "no-layers", "huge-width", "odd-heads",
    "unknown-model", "unknown-size",
)  # fmt: skip
"""Faults of a run; see `break_run`."""


def edited(record: dict[str, Any], place: tuple[Any, ...], value: Any) -> bytes:
    """Return a record with one value replaced."""
    record = json.loads(json.dumps(record))
    holder: Any = record
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return json.dumps(record).encode()


def break_run(run: Path, fault: str, record: dict[str, Any]) -> None:
    """Apply a fault to a working run, gpt-seed1 in its own folder."""
    what, _, part = fault.partition("-")
    path = run / {
        "record": "gpt-seed1.json", "weights": "gpt-seed1.safetensors",
        "tokenizer": "tokenizer.json",
    }.get(part, "gpt-seed1.json")  # fmt: skip
    good = path.read_bytes()
    path.unlink()
    config = "model_config"
    contents = {
        "empty": b"", "list": b"[1]", "deep": b"[" * 100_000, "pickle": b"\x80\x04\x95x",
        "zip": b"PK\x03\x04x", "cut": good[:-7], "text": b"weights\n", "kind": b'{"kind": "x"}',
        "small": b'{"kind": "words", "words": ["a"]}',
        "other": (8).to_bytes(8, "little") + b"{}      ",
        "many": edited(record, (config, "n_layers"), 2**20),
        "huge": edited(record, (config, "d_model"), 2**24),
        "odd": edited(record, (config, "n_heads"), 7),
    }  # fmt: skip
    contents["nan"] = good[:-400] + b"\xff" * 400 if part == "weights" else b"NaN"
    if what == "unknown":
        place = ("model",) if part == "model" else (config, "n_wings")
        path.write_bytes(edited(record, place, "bert" if part == "model" else 2))
    elif fault == "no-layers":
        path.write_bytes(edited(record, (config, "n_layers"), 0))
    elif what == "folder":
        path.mkdir()
    elif what == "loop":
        path.symlink_to(path.name)
    elif what == "device":
        path.symlink_to("/dev/zero")
    elif what == "fifo":
        os.mkfifo(path)
    elif what in contents:
        path.write_bytes(contents[what])


# ------------------------------------------------------------------------------------- The calls

TASKS = ("translation", "recall", "next_token")
BAD_COUNTS = dict.fromkeys(
    ["0", "-1", "1.5", "nan", "inf", "x", "9" * 30, "1e99999", "1e-5", "0x10", "1,000", "\udcff",
     "\x1b[2J"],
    "whole number",
)  # fmt: skip
BAD_NUMBERS = dict.fromkeys(["0", "-1", "nan", "inf", "x"], "finite number")
LONG = "x" * 5_000
SCORE = "score --src @/src.de --ref @/ref.en"
GOLD = "score --gold @/sure.gold"

CALLS = [
    # no command, no flag
    call("seqmodels", "paint", "paint"),
    call("seqmodels", "--nope", "--nope"),
    call("seqmodels", "models extra", "extra"),
    call("seqmodels", "doctor --loud", "--loud"),
    call("seqmodels", "score", "HYP"),
    call("seqmodels", "score @/hyp.en", "--ref and --src"),
    call("seqmodels", "translate", "required"),
    call("seqmodels", "generate @/x", "text"),
    call("seqmodels", "plot", "required"),
    call("seqmodels", "plot a b", "a"),
    Call("seqmodels", ["plot\x1b[2J"], ("\\x1b",)),
    Call("seqmodels", ["\udcff"], ("\\udcff",)),
    Call("seqmodels", [""], ("invalid choice",)),
    # folders to draw
    call("seqmodels", "plot @/nope", "does not exist"),
    call("seqmodels", "plot @/notes.md", "Not a directory"),
    call("seqmodels", "plot @/empty-folder", "no record"),
    call("seqmodels", "plot @/loop", "cannot be read"),
    call("seqmodels", "plot /dev/null", "Not a directory"),
    call("seqmodels", "plot @/fifo", "Not a directory"),
    call("seqmodels", f"plot @/{LONG}", "too long"),
    call("seqmodels", "plot @/twice", "second record"),
    call("seqmodels", "plot @/two-tasks", "mixes the tasks"),
    call("seqmodels", "plot @/not-json", "not JSON"),
    call("seqmodels", "plot @/json-fifo", "regular file"),
    call("seqmodels", "plot @/json-pickle", "not JSON"),
    call("seqmodels", "plot @/json-latin", "not JSON"),
    call("seqmodels", "plot @/json-deep", "nested"),
    call("seqmodels", "plot @/json-folder", "directory"),
    call("seqmodels", "plot @/json-loop", "gpt-seed1.json"),
    Call("seqmodels", ["plot", "a\nb\x1b\udcff"], ("does not exist", "\\x1b\\udcff")),
    *(call("seqmodels", f"plot @/record-{fault}", f"record-{fault}") for fault in RECORDS),
    # a run to use
    *(
        call("seqmodels", f"{command} @/run-{fault}/gpt-seed1 a", "run-" + fault)
        for fault in RUNS
        for command in ("translate", "generate")
    ),
    Call("seqmodels", ["translate", "@/run/gpt-seed1", "a\udcff"], ("not UTF-8",)),
    Call("seqmodels", ["generate", "@/run/gpt-seed1", "\udcff"], ("not UTF-8",)),
    Call("seqmodels", ["translate", "@/run/gpt-seed1", "w1 " * 5_000], ("tokens",)),
    Call("seqmodels", ["generate", "@/run/gpt-seed1", "w1 " * 5_000], ("tokens",)),
    Call("seqmodels", ["translate", "", "a"], ("empty name",)),
    Call("seqmodels", ["translate", "@", "a"], ("no such record",)),
    Call("seqmodels", ["translate", "@/run/gpt-seed1\x1b", "a"], ("no such record", "\\x1b")),
    call("seqmodels", "translate @/run/gpt-seed1 a --beam 65", "at most 64"),
    call("seqmodels", "translate @/run/gpt-seed1 a --alignment @/a.doc", code=2),
    call("seqmodels", "generate @/run/gpt-seed1 a --length 10001", "at most 10,000"),
    call("seqmodels", "generate @/run/gpt-seed1 a --temperature 1e-9", "not between"),
    call("seqmodels", "generate @/run/gpt-seed1 a --seed -1", "whole"),
    *(
        Call("seqmodels", [command, "x", "a", f"{flag}={n}"], (word,))
        for command, flag in (("translate", "--beam"), ("generate", "--length"))
        for n, word in BAD_COUNTS.items()
    ),
    *(
        Call("seqmodels", ["generate", "x", "a", f"--temperature={n}"], (w,))
        for n, w in BAD_NUMBERS.items()
    ),
    # texts to score
    *(
        call("seqmodels", f"{SCORE} @/{name}", code=0)
        for name in (
            "hyp.en", "crlf.en", "bom.en", "esc.en", "u2028.en", "blank.en", "zip.en", "wide.en",
        )
    ),
    *(
        call("seqmodels", f"{SCORE} @/{name}", word)
        for name, word in {
            "empty.en": "is empty", "short.en": "lines", "long.en": "lines", "latin.en": "UTF-8",
            "utf16.en": "line 1", "utf32.en": "line 1", "nul.en": "zero byte", "cr.en": "line feed",
            "surrogate.en": "UTF-8", "cut.en": "UTF-8", "pickle.en": "UTF-8",
            "nope.en": "does not exist", "empty-folder": "directory",
            "loop": "cannot be read", LONG: "too long", "ref.en": "the same file",
            "src.de": "the same file",
            "./ref.en": "the same file", "link.en": "the same file",
        }.items()
    ),
    call("seqmodels", f"{SCORE} /dev/null", "regular file"),
    call("seqmodels", f"{SCORE} /dev/zero", "regular file"),
    call("seqmodels", "score --src @/blank.en --ref @/ref.en @/hyp.en", "no words"),
    call("seqmodels", "score --src @/empty.en --ref @/ref.en @/hyp.en", "is empty"),
    call("seqmodels", "score --src @/src.de --ref @/nope @/hyp.en", "does not exist"),
    call("seqmodels", f"{SCORE} @/hyp.en @/hyp.en", "the same file"),
    call("seqmodels", f"{SCORE} @/hyp.en --tokenize nope", "nope"),
    call("seqmodels", f"{SCORE} @/hyp.en --buckets 5,5", "increase"),
    call("seqmodels", f"{SCORE} @/hyp.en --buckets 0,5", "whole"),
    call("seqmodels", f"{SCORE} @/hyp.en --buckets ,", "whole"),
    call("seqmodels", f"{SCORE} @/hyp.en --out @/notes.md", "is not a folder"),
    call("seqmodels", f"{SCORE} @/hyp.en --out @/notes.md/x", "is not a folder"),
    call("seqmodels", f"{SCORE} @/hyp.en --out @/{LONG}", "too long"),
    call("seqmodels", f"{SCORE} @/hyp.en --out /proc/nope", "is not a folder"),
    Call("seqmodels", [*SCORE.split(), "@/\udcff"], ("does not exist", "\\udcff")),
    # alignments to score
    call("seqmodels", f"{GOLD} @/some.links", code=0),
    call("seqmodels", f"{GOLD} @/blank.en --src @/src.de --ref @/ref.en --buckets 1,2", code=0),
    *(
        call("seqmodels", f"{GOLD} @/{name} --ref @/ref.en", word)
        for name, word in {
            "empty.en": "is empty", "short.en": "lines", "hyp.en": "not a link",
            "utf16.en": "line 1", "wide.en": "line 1", "nope": "does not exist",
            "empty-folder": "directory", "sure.gold": "the same file", "far.links": "line 2",
            "wide.links": "not a link",
        }.items()
    ),
    call("seqmodels", "score --gold @/some.links @/sure.gold", "only --gold has such links"),
    call("seqmodels", "score --gold @/blank.en @/some.links", "no sure links"),
    call("seqmodels", f"{GOLD} --gold-one-based @/some.links", "words begin at 1"),
    call("seqmodels", f"{GOLD} @/some.links --lowercase", "--lowercase"),
    call("seqmodels", f"{GOLD} @/some.links --buckets 1,2", "--src"),
    call("seqmodels", f"{GOLD} /dev/zero", "regular file"),
    # flags of the comparisons
    *(
        Call(task, [f"--tokens={n}"], ("--tokens", word))
        for task in TASKS for n, word in BAD_COUNTS.items()
    ),
    *(Call("recall", [f"--lr={n}"], ("--lr", word)) for n, word in BAD_NUMBERS.items()),
    *(
        call(task, argv, word)
        for task in TASKS
        for argv, word in {
            "--models bert": "bert", "--models": "--models", "--seeds": "--seeds",
            "--tok 5": "--tok",
            "--seeds 1 1": "twice", "--models gpt gpt": "twice", "--size huge": "huge",
            "--device tpu": "tpu", "--precision int4": "int4", "--checkpoint-every 0": "finite",
            "--out @/notes.md --size smoke": "is not a folder", "stray": "stray",
        }.items()
    ),
    call("tasks", "--nope", "--nope"),
    call("tasks", "--tokens nan", "whole"),
    call("tasks", "--corp", "--corp"),
    # corpora
    call("translation", "--source de", "--data"),
    call("translation", "--lowercase", "--data"),
    call("translation", "--data", "--data"),
    call("translation", "--data a b c", "3 files"),
    call("translation", "--data @/nope.de @/nope.en", "does not exist"),
    call("translation", "--data @/src.de @/short.en", "lines"),
    call("translation", "--data @/src.de @/src.de", "src.de"),
    call("translation", "--data @/src.de @/empty.en", "is empty"),
    call("translation", "--data @/src.de @/latin.en", "UTF-8"),
    call("translation", "--data @/src.de @/utf16.en", "utf16.en"),
    call("translation", "--data @/src.de @/nul.en", "zero byte"),
    call("translation", "--data @/src.de @/pickle.en", "UTF-8"),
    call("translation", "--data @/src.de @/fifo", "regular file"),
    call("translation", "--data @/src.de /dev/zero", "regular file"),
    call("translation", "--data @/src.de @/empty-folder", "empty-folder"),
    call("translation", "--data @/src.de @/loop", "cannot be read"),
    call("translation", "--data @/empty-folder", "empty-folder"),
    call("translation", "--data @/notes.md", "notes.md"),
    call("translation", "--data @/broken.jsonl", "broken.jsonl"),
    call("translation", "--data @/list.jsonl", "list.jsonl"),
    call("translation", "--data @/deep.jsonl", "deep.jsonl"),
    call("translation", "--data @/numbers.jsonl", "numbers.jsonl"),
    call("translation", "--data @/one.csv", "one.csv"),
    call("translation", "--data @/quote.csv --source de --target en", "quote.csv"),
    call("translation", "--data @/nothing.tsv", "nothing.tsv"),
    call("translation", "--data @/fake.parquet", "fake.parquet"),
    call("translation", "--data nobody", "does not exist"),
    call("translation", "--data nobody/nothing", "nobody/nothing"),
    call("translation", "--data nobody/nothing:part --limit 3", "nobody/nothing"),
    call("translation", "--data a/b/c/d", "a/b/c/d"),
    call("translation", "--data @/src.de @/ref.en --tokenizer bert", "bert"),
    call("translation", "--data @/src.de @/ref.en --vocab 0", "whole"),
    call("translation", "--data @/src.de @/ref.en --limit -1", "whole"),
    Call("translation", ["--data", "\udcff", "\x1b"], ("does not exist", "\\udcff")),
    Call("translation", ["--data", ""], ("train",)),
    call("next_token", "--block 9", "--data"),
    call("next_token", "--context x", "whole"),
    call("next_token", "--data @/nope", "does not exist"),
    call("next_token", "--data @/empty.en", "is empty"),
    call("next_token", "--data @/latin.en", "UTF-8"),
    call("next_token", "--data @/nul.en", "zero byte"),
    call("next_token", "--data @/fifo", "regular file"),
    call("next_token", "--data @/zip.en", "zip.en"),
    call("next_token", "--data @/hyp.en", "hyp.en"),
    call("next_token", "--data @/empty-folder", "empty-folder"),
    call("next_token", "--data @/broken.jsonl", "broken.jsonl"),
    call("next_token", "--data @/numbers.jsonl", "numbers.jsonl"),
    call("next_token", "--data nobody/nothing", "nobody/nothing"),
    Call("next_token", ["--data", "\udcff/x"], ("udcff",)),
    call("recall", "--data x", "--data"),
    # the other programs
    call("benchmarks", "--only nope", "nope"),
    call("benchmarks", "--rounds 0", "whole"),
    call("benchmarks", "--size huge", "huge"),
    call("benchmarks", "--draw @/nope.json", "nope.json"),
    call("benchmarks", "--draw @/tables.json", "tables.json"),
    call("benchmarks", "--dra x", "--dra"),
    call("survival", "--kills 0", "whole"),
    call("survival", "--kil 1", "--kil"),
    call("survival", "--tokens nan", "whole"),
]  # fmt: skip
