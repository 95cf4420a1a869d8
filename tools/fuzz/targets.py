"""The targets of fuzzing. Each takes bytes and ends in a value, or in one line naming the file.

Random bytes are hardly ever JSON. So the first byte decides how the rest is read: as a file's
content, or as a list of edits to a valid file.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import tiktoken
import torch
from matplotlib.figure import Figure

from seqmodels import MODELS, search
from seqmodels.cli import main
from seqmodels.comparison import compare, trained
from seqmodels.data import corpus, presets, readers, tokenizers
from seqmodels.evaluation import evaluate, intervals
from seqmodels.interface import PAD, UNK
from seqmodels.models import build
from seqmodels.records import ledger, record, schema
from seqmodels.report import alignment, figures, reading, scores, tables
from seqmodels.training import checkpoint
from seqmodels.utils import terminal
from tasks.next_token import __main__ as next_token
from tasks.recall import __main__ as recall
from tasks.translation import __main__ as translation
from tools.sizes import sizes_of

RESULT = Path(__file__).parents[2] / "results" / "recall" / "gpt-seed1.json"
"""A valid record."""
SIZES = {
    "d_model": 8, "d_embed": 6, "d_maxout": 4, "d_align": 4, "d_ff": 8, "n_heads": 2, "n_layers": 2,
    "n_positions": 40, "dropout": 0.1,
}  # fmt: skip
LINES = ["ka lo mi so. ka lo!", "mi so ka", "Où est-ce ?", "12 345"] * 2
ODD: list[Any] = [
    None, True, -1, 0, 1, 2, 7, 20_000, 2**24, 2**62, 10**30, 0.5, -1e308, math.nan, math.inf,
    "", "a", "../up", "/etc/passwd", "\0", "\x1b[2J", "\ud800", "x" * 3_000, [], [[]], [0], {},
    {"a": 1}, *tokenizers.TOKENIZERS, "published", "rnn_encdec", "bahdanau", "transformer",
    "(a+)+$",
]  # fmt: skip
"""Values that an edit inserts."""
MAX_EDITS = 3
"""With more edits, nearly every file would be refused."""
EDIT, RAW = b"\0", b"\xff"


class Target(NamedTuple):
    """Something that takes bytes."""

    seeds: list[bytes]
    """Inputs that are accepted."""
    run: Callable[[bytes], bool]
    """Run an input; return whether it was accepted instead of refused. Raises a fault."""


def is_taken(call: Callable[[], Any], folder: Path) -> bool:
    """Return whether a call returns; a refusal is a ValueError that names the file."""
    try:
        call()
    except ValueError as error:
        if str(folder) not in str(error):
            raise AssertionError(f"does not name the file: {error!r}") from error
        return False
    return True


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a JSON value as its container and its key."""
    for key in range(len(value)) if isinstance(value, list) else list(value):
        yield value, key
        if isinstance(value[key], list | dict):
            yield from places(value[key])


def edited(valid: Any, edits: bytes) -> Any:
    """Return the edited JSON value: two bytes choose a place, one byte its new value."""
    for i in range(0, min(len(edits), MAX_EDITS * 3) - 2, 3):
        if not (found := list(places(valid))):
            break
        holder, key = found[int.from_bytes(edits[i : i + 2]) % len(found)]
        if edits[i + 2] >= 2 * len(ODD):
            del holder[key]
        else:
            holder[key] = deepcopy(ODD[edits[i + 2] % len(ODD)])
    return valid


def written(valid: bytes, data: bytes) -> bytes:
    """Return a file's content: the bytes, or an edited JSON file."""
    if data and data[0] < 192:
        return json.dumps(edited(json.loads(valid), data[1:])).encode(errors="surrogatepass")
    return data[1:]


# ------------------------------------------------------------------------------------ Readers


def text_file(folder: Path) -> Target:
    """Read a file as lines and as text."""
    path = folder / "file.txt"

    def run(data: bytes) -> bool:
        path.write_bytes(data)
        if not is_taken(lambda: readers.read_lines(path), folder):
            return is_taken(lambda: readers.read_text(path), folder)
        lines = readers.read_lines(path)
        assert not any("\n" in line or "\0" in line for line in lines)
        assert len(lines) == (data.removesuffix(b"\n") + b"\n").count(b"\n")
        whole = readers.read_text(path).removesuffix("\n")
        assert "\n".join(lines) in (whole, whole.removesuffix("\r"))
        return True

    return Target([b"a\nb\r\nc", "\ufeffOù\u2028?\n".encode(), "a\x85\x0c".encode()], run)


def parallel_files(folder: Path) -> Target:
    """Read six files, whose contents are separated by `===`."""

    def run(data: bytes) -> bool:
        parts = [*data.split(b"==="), *[b"a"] * 6][:6]
        names = [f"{split}.{code}" for split in corpus.SPLITS for code in ("xx", "yy")]
        for name, part in zip(names, parts, strict=True):
            (folder / name).write_bytes(part)
        if not is_taken(lambda: [*presets.read_parallel([folder]).pairs(*corpus.SPLITS)], folder):
            return False
        read = presets.read_parallel([folder], ("yy", "xx"))
        for split in corpus.SPLITS:
            lines = readers.read_lines(folder / f"{split}.yy")
            assert [pair.src for _, pair in read.pairs(split)] == lines
        return True

    return Target([b"a\nb===c\nd===e===f===g===h", b"a\n\nb===\nc\nd===e===f===g===h"], run)


def table_file(folder: Path) -> Target:
    """Read a table of pairs; the first byte chooses its format."""

    def run(data: bytes) -> bool:
        path = folder / f"x{readers.TEXT_TABLES[data[0] % len(readers.TEXT_TABLES) if data else 0]}"
        path.write_bytes(data[1:])

        def read() -> list[tuple[str, corpus.Pair]]:
            opened = presets.read_parallel([path], ("de", "en"))
            return [*opened.pairs(*corpus.SPLITS)]

        if not is_taken(read, folder):
            return False
        n_lines = len(readers.read_lines(path))
        assert all(1 <= pair.line <= n_lines for _, pair in read())
        return True

    rows = ["de\ten\nka\tlo\n", 'de,en\n"ka ""lo""",mi\n', '{"de": "ka", "en": null}\n']
    seeds = [bytes([i]) + row.encode() for i, row in enumerate(rows)]
    return Target([*seeds, b'\x02{"translation": {"de": "ka", "en": "lo"}}\n'], run)


def tokenizer_file(folder: Path) -> Target:
    """Load a tokenizer; if it loads, it encodes, and decodes what has no UNK."""
    path = folder / "tokenizer.json"
    valid = []
    for kind in tokenizers.TOKENIZERS:
        tokenizers.make(kind, LINES, 270).save(path)
        valid.append(path.read_bytes())

    def run(data: bytes) -> bool:
        path.write_bytes(
            written(valid[data[1] % len(valid) if data[1:] else 0], data[:1] + data[2:])
        )
        if not is_taken(lambda: tokenizers.load(path), folder):
            return False
        tokenizer = tokenizers.load(path)
        assert all(label and label.isprintable() for label in tokenizer.labels)
        for line in (*LINES, " \n\x1b\u2028漢", ""):
            ids = tokenizer.encode(line)
            assert all(0 <= i < tokenizer.vocab_size for i in ids)
            is_known = UNK not in ids and not isinstance(tokenizer, tokenizers.Words)
            assert tokenizer.decode(ids) == line or not is_known
        return True

    edits = [EDIT + bytes([i]) for i in range(len(valid))]
    return Target([*edits, *(RAW + b"\0" + content for content in valid)], run)


# ------------------------------------------------------------------------------------ Loaders


def record_file(folder: Path) -> Target:
    """Load a record, and a folder of records; if they load, they can be tabulated."""
    path, valid = folder / "gpt-seed1.json", RESULT.read_bytes()

    def run(data: bytes) -> bool:
        path.write_bytes(written(valid, data))
        one = is_taken(lambda: record.load(path), folder)
        all_of_them = is_taken(lambda: reading.load_records(folder), folder)
        if all_of_them:
            tables.table(reading.load_records(folder))
        return one and all_of_them

    return Target([EDIT, RAW + valid], run)


def ledger_file(folder: Path) -> Target:
    """Load a ledger of published figures; if it loads, it can be tabulated."""
    path, valid = folder / ledger.FILE, (RESULT.parents[1] / ledger.FILE).read_bytes()

    def run(data: bytes) -> bool:
        path.write_bytes(written(valid, data))
        if not is_taken(lambda: ledger.load(folder), folder):
            return False
        tables.published(ledger.load(folder), {}).encode()
        return True

    return Target([EDIT, RAW + valid], run)


def make_run(folder: Path, name: str) -> list[Path]:
    """Make a run of a tiny model; return its record (shortened), weights and tokenizer."""
    tokenizer = tokenizers.BPE.train(LINES, 270)
    sizes = {"vocab_size": tokenizer.vocab_size, **sizes_of(name, **SIZES)}
    made = schema.load(RESULT)
    made |= {"model": name, "model_config": sizes, "alignment": None, "weights_sha256": None}
    made |= {"tests": made["tests"][:1], "curve": made["curve"][:1]}
    made["tests"][0]["buckets"] = made["tests"][0]["buckets"][:1]
    stem = f"{name}-seed1"
    paths = [folder / f"{stem}.json", folder / f"{stem}.safetensors", folder / "tokenizer.json"]
    paths[0].write_text(json.dumps(made))
    checkpoint.save_weights(paths[1], build(name, **sizes).state_dict())
    tokenizer.save(paths[2])
    return paths


def edited_weights(valid: bytes, edits: bytes) -> bytes:
    """Return a safetensors file with an edited header; the weights' bytes stay the same."""
    n = int.from_bytes(valid[:8], "little")
    header = json.dumps(edited(json.loads(valid[8 : 8 + n]), edits)).encode()
    return len(header).to_bytes(8, "little") + header + valid[8 + n :]


def run_folder(folder: Path) -> Target:
    """Open a run in which one file was replaced; if it opens, it works."""
    paths = {name: make_run(folder, name) for name in MODELS}
    valid = {name: [path.read_bytes() for path in own] for name, own in paths.items()}

    def run(data: bytes) -> bool:
        model_of, which = divmod(data[0] % (3 * len(MODELS)) if data else 0, 3)
        name, rest = [*MODELS][model_of], data[1:]
        for path, content in zip(paths[name], valid[name], strict=True):
            path.write_bytes(content)
        content = valid[name][which]
        if which == 0 and rest[:1] < b"\x60":  # only the sizes that the model is built from
            made = json.loads(content)
            edited(made["model_config"], rest[1:])
            content = json.dumps(made).encode(errors="surrogatepass")
        elif which == 1 and rest[:1] < b"\x60":
            content = edited_weights(content, rest[1:])
        elif which == 1 and rest[:1] < b"\xc0":  # other weights, at the end of the file
            content = content[: len(content) - len(rest)] + rest
        else:
            content = written(content, rest)
        paths[name][which].write_bytes(content)
        if not is_taken(lambda: trained.load(paths[name][0]), folder):
            return False
        run = trained.load(paths[name][0])
        src = torch.tensor([run.encode_source("ka lo", has_source_eos=False)])
        search.sample(run.model, src, src != PAD, 2, torch.Generator())
        return True

    seeds = [bytes([i, 0]) for i in range(3 * len(MODELS))]
    gpt = 3 * [*MODELS].index("gpt")
    seeds += [bytes([gpt + which]) + RAW + valid["gpt"][which] for which in range(3)]
    return Target([*seeds, bytes([gpt + 1]) + b"\xa0" + valid["gpt"][1][-50:]], run)


# ------------------------------------------------------------------------------- Command lines

PROGRAMS = {"seqmodels": main, "recall": recall, "translation": translation}
PROGRAMS |= {"next_token": next_token}
WORDS = [
    *PROGRAMS, "models", "plot", "translate", "generate", "--models", "gpt", "bahdanau", "--seeds",
    "1", "2", "0", "-1", "1e3", "nan", "9" * 30, "--size", "smoke", "laptop", "--data", "spoken",
    "text.txt", "nowhere", ".", "--source", "xx", "yy", "--tokens", "--lr", "0.1", "--device",
    "cpu", "cuda", "auto", "--precision", "float32", "--out", "made", "--context", "8", "--beam",
    "--alignment", "a.svg", "a.doc", "--length", "--temperature", "--seed", "--help", "--", "",
    "runs/gpt-seed1", "runs", "runs/gpt-seed1.json", "ka lo", "\x1b[2J\n", "\udcff", "--fresh",
    "--checkpoint-every", "1e300", "1e-300", "ka " * 50, "doctor", "--block", "--stride",
    "score", "--ref", "--src", "spoken/test.xx", "spoken/test.yy", "spoken/train.xx",
    "spoken/train.yy", "--tokenize", "13a", "none", "--lowercase", "--buckets", "1,2,4", "scored",
    "--gold", "--gold-one-based", "gold.txt", "links.txt",
    "--column", "--limit", "--tokenizer", "--vocab", "300", "--parameters",
]  # fmt: skip
"""The argument that a single byte on a line stands for."""
TOY: dict[Any, dict[str, int]] = {
    recall: {"n_train": 9, "n_valid": 3, "per_length": 1, "max_train": 8, "max_test": 8},
    translation: {
        "n_train": 9, "n_valid": 3, "max_train": 10, "max_test": 10, "per_bucket": 1,
    },
    next_token: {"n_train": 9, "n_valid": 3, "max_test": 16, "per_distance": 3},
}  # fmt: skip


def unpublished(name: str) -> tiktoken.Encoding:
    """Return an encoding of single bytes under any name."""
    ranks = {bytes([value]): value for value in range(256)}
    return tiktoken.Encoding(name, pat_str=".|\n", mergeable_ranks=ranks, special_tokens={})


def stubbed(patch: Callable[..., Any]) -> None:
    """Stub out the network and slow work, but not the handling of arguments and files."""
    patch(tiktoken, "get_encoding", unpublished)
    for task, toy in TOY.items():
        patch(task, "SIZES", {"smoke": toy, "laptop": toy})
    patch(compare, "run_all", lambda *_: [])
    patch(compare, "fastest_precision", lambda device: "float32")
    patch(figures, "plot_folder", lambda folder, **_: reading.load_records(folder) and [])
    patch(alignment, "figure_of", lambda alignments, subtitle: Figure())
    patch(scores, "draw_systems", lambda systems, subtitle: Figure())
    patch(intervals, "N_BOOTSTRAP", 5)
    patch(evaluate, "beam", lambda *_: [[260, 261]])
    patch(evaluate, "greedy", lambda *_: [[260, 261]])
    patch(search, "sample", lambda *_: [[260, 261]])
    for name in ("models", "doctor"):  # they take no arguments
        patch(main, name, lambda args: None)


def arguments(data: bytes) -> list[str]:
    """Return a command line, program first; a line of one byte stands for one of WORDS.

    Paths cannot leave the folder that the program runs in.
    """
    argv = []
    for line in data.split(b"\n"):
        known = WORDS[line[0] % len(WORDS)] if len(line) == 1 else None
        word = line.decode(errors="surrogateescape") if known is None else known
        argv.append(re.sub(r"(^|=)/+", r"\1", word.replace("\0", "").replace("..", ".")))
    return argv


def command_line(folder: Path) -> Target:
    """Run any program with any arguments: exit code 0, 1 or 2, and at most one line on stderr."""
    (folder / "runs").mkdir()
    path, weights, _ = make_run(folder / "runs", "gpt")
    checksum = {"weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest()}
    made = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(made | checksum))  # without a checksum, a warning is printed
    (folder / "spoken").mkdir()
    for split in corpus.SPLITS:
        for code in ("xx", "yy"):
            (folder / "spoken" / f"{split}.{code}").write_text(
                "".join(f"{code} {s}\n" for s in LINES)
            )
    (folder / "text.txt").write_text("".join(f"{i} {line}\n" for i in range(300) for line in LINES))
    (folder / "gold.txt").write_text("1-1 2-2\n1-1 1?2\n")
    (folder / "links.txt").write_text("0-0\n0-1 1-1\n")
    (folder / "cache").mkdir()
    os.environ["SEQMODELS_CACHE"] = str(folder / "cache")
    datasets.config.HF_DATASETS_CACHE = folder / "cache"
    before = set(os.listdir(folder))

    def run(data: bytes) -> bool:
        name, *argv = arguments(data)
        program = PROGRAMS[name if name in PROGRAMS else [*PROGRAMS][len(data) % len(PROGRAMS)]]
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
        try:
            sys.argv = [name, *argv]
            with chdir(folder), redirect_stdout(out), redirect_stderr(err):
                program.main()
        except SystemExit as stopped:
            code = stopped.code or 0
        finally:
            for made in set(os.listdir(folder)) - before:
                remove(folder / made)
        err.seek(0)
        said = err.read()
        assert code in (0, 1, 2), code
        assert said.count("\n") == len(said.splitlines()) <= 1, said
        assert bool(said) or not code, "fails without a message"
        assert terminal.printable(said[:-1]) == said[:-1], said
        return not code

    word = {word: bytes([i]) for i, word in enumerate(WORDS)}
    lines = [
        "seqmodels translate runs/gpt-seed1 a --beam 2 --alignment a.svg",
        "seqmodels generate runs/gpt-seed1 a --length 2 --temperature 0.1 --seed 1",
        "seqmodels plot runs", "seqmodels models",
        "seqmodels score --ref spoken/test.xx --src spoken/test.yy spoken/train.xx spoken/train.yy",
        "seqmodels score --buckets 1,2,4 spoken/train.xx --src spoken/test.xx --ref spoken/test.yy "
        "--tokenize none --lowercase --out scored",
        "seqmodels score --gold gold.txt links.txt --gold-one-based --out scored",
        "recall --models gpt --size smoke --out made --device cpu",
        "translation --data spoken --source yy --tokens 1 --lr 0.1 --precision float32",
        "next_token --data text.txt --context 8 --seeds 1 2", "next_token --context 8 --fresh",
        "next_token --data text.txt --context 0 --block 8 --stride 2 --vocab 300 --models gpt",
    ]  # fmt: skip
    return Target([b"\n".join(word.get(w, b"??") for w in line.split()) for line in lines], run)


def remove(path: Path) -> None:
    """Remove a file, or a folder and its contents."""
    if path.is_dir() and not path.is_symlink():
        for inside in path.iterdir():
            remove(inside)
        path.rmdir()
    else:
        path.unlink()


TARGETS: dict[str, Callable[[Path], Target]] = {
    "text": text_file, "parallel": parallel_files, "table": table_file, "tokenizer": tokenizer_file,
    "record": record_file, "ledger": ledger_file, "run": run_folder, "command": command_line,
}  # fmt: skip
