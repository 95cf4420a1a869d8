"""The flags of the tasks.

This module does not import torch, so that `--help` and typos are answered at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from seqmodels.data import presets
from seqmodels.data.presets import TOKENIZERS
from seqmodels.models import PAPERS, VARIANTS
from seqmodels.utils.terminal import Parser, non_negative, positive, positive_float

PARALLEL_HELP = (
    f"a corpus by name ({', '.join(presets.PARALLEL)}); two text files, the first of which is the "
    "source unless --source or --target say otherwise; a folder of train|valid|test.{xx,yy}; a "
    ".tsv, .csv, .jsonl or .parquet file, or a folder of them; OWNER/NAME or OWNER/NAME:CONFIG on "
    "the hub"
)
TEXT_HELP = (
    f"a text by name ({', '.join(presets.TEXT)}); text files, concatenated in order; a .tsv, .csv, "
    ".jsonl or .parquet file, or a folder of them; OWNER/NAME or OWNER/NAME:CONFIG on the hub"
)
PARALLEL_FLAGS = (
    "source", "target", "test", "limit", "lowercase", "clean", "max_tokens", "tokenizer", "vocab",
    "parameters", "bleu_tokenize",
)  # fmt: skip
"""Flags of translation that require --data."""
TEXT_FLAGS = ("column", "limit", "block", "stride", "tokenizer", "vocab", "parameters")
"""Flags of next_token that require --data."""


SIZES = {
    "smoke": "run everything once, in a minute",
    "laptop": "the comparison, in minutes",
    "full": "with larger budgets, in hours",
}
FULL = ("translation", "positions", "heads", "ladder", "distance", "bottleneck")
"""Tasks that have all sizes; the others lack `full`."""
MODELS = {
    "positions": [f"transformer_{kind}" for kind in ("sinusoids", "learned", "rotary", "none")],
    "heads": ["transformer"],
    "bottleneck": [
        *(f"rnn_encdec_{d}" for d in (32, 64, 128, 256, 512)),
        *(f"bahdanau_{k}" for k in (1, 2, 4, 8, 16)), "bahdanau",
    ],
    "ladder": [
        "lstm_seq2seq_forward", "lstm_seq2seq",
        *(f"lstm_seq2seq_{kind}{fed}" for kind in ("last", "dot", "general", "additive")
          for fed in ("", "_fed")),
    ],
}  # fmt: skip
"""Tasks that compare variants."""


def parser(name: str, doc: str | None) -> Parser:
    """Return a parser with the flags that all tasks share."""
    sizes = [size for size in SIZES if size != "full" or name in FULL]
    p = Parser(
        prog=f"python -m tasks.{name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known, names = [*PAPERS, *VARIANTS], MODELS.get(name, list(PAPERS))
    others = ", ".join(other for other in known if other not in names)
    p.add_argument("--models", nargs="+", choices=known, default=names, metavar="NAME",
                   help=f"models to train: {', '.join(names)} (default: these), or any of "
                        f"{others}")  # fmt: skip
    p.add_argument("--vary", action="append", type=vary, default=[], metavar="FIELD=A,B,C",
                   help="besides each model, train it with each of these values of a field of its "
                        "Config (d_k), its learning rate (lr), another field of training "
                        "(label_smoothing) or a multiple of its width (width); can be "
                        "repeated")  # fmt: skip
    p.add_argument("--seeds", nargs="+", type=non_negative, default=[1], metavar="N",
                   help="train each model once per seed (default: 1)")  # fmt: skip
    p.add_argument("--size", choices=sizes, default="laptop",
                   help="; ".join(f"{size}: {SIZES[size]}" for size in sizes)
                        + " (default: laptop)")  # fmt: skip
    training_flags(p)
    p.add_argument("--out", type=Path, metavar="DIR",
                   help="folder for records and figures (default: runs/TASK-SIZE)")  # fmt: skip
    p.add_argument("--fresh", action="store_true",
                   help="start these runs again, deleting what the folder has of them")  # fmt: skip
    p.add_argument("--dry-run", action="store_true",
                   help="train nothing; print the estimated FLOPs, time, memory and disk of the "
                        "missing runs")  # fmt: skip
    p.add_argument("--checkpoint-every", type=positive_float, default=30.0, metavar="S",
                   help="seconds between checkpoints, which take at most 1 %% of the time "
                        "(default: 30)")  # fmt: skip
    p.add_argument("--launcher", choices=["ray", "slurm"],
                   help="train each run on a cluster, whose machines share the disk, instead of "
                        "on this machine; see docs/scale.md")  # fmt: skip
    p.add_argument("--address", metavar="HOST:PORT",
                   help="with --launcher ray: the cluster's head (default: RAY_ADDRESS, or this "
                        "machine alone)")  # fmt: skip
    p.add_argument("--tensorboard", action="store_true",
                   help="also write curves for TensorBoard, to the folder tensorboard in "
                        "--out")  # fmt: skip
    return p


def vary(text: str) -> tuple[str, list[str]]:
    """Parse FIELD=A,B,C."""
    field, _, values = text.partition("=")
    if not field or not all(values.split(",")):
        raise argparse.ArgumentTypeError(f"expected FIELD=A,B,C, not {text!r}")
    return field, values.split(",")


def training_flags(p: Parser) -> None:
    """Add the flags that say how a model is trained."""
    p.add_argument("--tokens", type=positive, metavar="N",
                   help="budget: target tokens to train each model on; a larger budget trains a "
                        "finished run further")  # fmt: skip
    p.add_argument("--lr", type=positive_float, metavar="R",
                   help="peak learning rate of all models (default: each recipe's)")  # fmt: skip
    p.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto",
                   help="auto: cuda if available (default)")  # fmt: skip
    p.add_argument("--precision", choices=["auto", "float32", "bfloat16"], default="auto",
                   help="in training; auto (default): the task's, or the faster one on this "
                        "machine")  # fmt: skip
    p.add_argument("--shards", type=positive, default=1, metavar="N",
                   help="with torchrun: shares in which each batch is dealt to the processes, a "
                        "multiple of their number; the result depends on it (default: "
                        "1)")  # fmt: skip


def parse(p: Parser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; refuse models or seeds that are given twice."""
    args = p.parse_args(argv)
    for flag in ("models", "seeds"):
        given = getattr(args, flag)
        if twice := [str(value) for value in given if given.count(value) > 1]:
            p.error(f"--{flag}: {twice[0]} is given twice; give each once")
    if args.vary:
        from seqmodels.comparison.arm import check_vary  # imports torch

        try:
            check_vary(args.models, args.vary)
        except ValueError as error:
            p.error(f"--vary: {error}")
    if args.address and args.launcher != "ray":
        p.error("--address needs --launcher ray")
    return args


def translation(doc: str | None, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line of the translation task."""
    p = parser("translation", doc)
    p.add_argument("--no-source-eos", action="store_true",
                   help="do not end each source with the end-of-sequence token")  # fmt: skip
    p.add_argument("--data", nargs="+", metavar="WHAT", help=PARALLEL_HELP)
    own_data = p.add_argument_group("with --data")
    add = own_data.add_argument
    add("--source", metavar="LANG",
        help="language to translate from: the ending of the source file; a label for the first "
             "file if the endings are not languages (a.txt b.txt); or a column, by name, or by "
             "number if the table has no header")  # fmt: skip
    add("--target", metavar="LANG", help="language or column to translate to, given like --source")
    add("--test", metavar="SET", help="test on one of sacreBLEU's test sets, such as wmt14")
    add("--limit", type=positive, metavar="N",
        help="stream N pairs of a table or a hub dataset, instead of reading all")  # fmt: skip
    add("--lowercase", action="store_true", help="lower-case both sides")
    add("--clean", action="store_true",
        help="leave duplicate pairs, pairs of very unequal length, and sources in valid or test "
             "out of train")  # fmt: skip
    add("--max-tokens", type=positive, default=200, metavar="N",
        help="leave out pairs with more tokens on a side; in test, with more than twice as many "
             "(default: 200)")  # fmt: skip
    add("--tokenizer", choices=TOKENIZERS, default="bpe", metavar="KIND",
        help=f"{', '.join(TOKENIZERS)} (default: bpe)")  # fmt: skip
    add("--vocab", type=positive, metavar="N", help="vocabulary size (default: 4,000)")
    add("--parameters", type=positive, metavar="N", help="parameters per model (default: 2 M)")
    add("--bleu-tokenize", metavar="NAME",
        help="sacreBLEU's tokenizer for BLEU (default: by the target language)")  # fmt: skip
    args = parse(p, argv)
    given = [name for name in PARALLEL_FLAGS if getattr(args, name) != p.get_default(name)]
    if given and not args.data:
        flag = given[0].replace("_", "-")
        p.error(f"--{flag} needs --data; the built-in grammar is English to German")
    if args.data and args.size == "full":
        p.error("--size full is for the built-in grammar; with --data, give a budget with --tokens")
    return args


def next_token(doc: str | None, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line of the next-token task."""
    p = parser("next_token", doc)
    p.add_argument("--context", type=non_negative, metavar="N",
                   help="longest context in tokens; 0: none (default: 128, or "
                        "the text's own)")  # fmt: skip
    p.add_argument("--data", nargs="+", metavar="WHAT", help=TEXT_HELP)
    own_data = p.add_argument_group("with --data")
    add = own_data.add_argument
    add("--column", metavar="NAME",
        help="column with the texts, by name or number (default: text or sentence)")  # fmt: skip
    add("--limit", type=positive, metavar="N",
        help="stream N rows of a table or a hub dataset, instead of reading all")  # fmt: skip
    add("--block", type=positive, metavar="N",
        help="target tokens per example at --context 0 (default: 64)")  # fmt: skip
    add("--stride", type=positive, metavar="S",
        help="score the last S tokens of each block (default: all)")  # fmt: skip
    add("--tokenizer", choices=TOKENIZERS, metavar="KIND",
        help=f"{', '.join(TOKENIZERS)} (default: bpe, or the text's own)")  # fmt: skip
    add("--vocab", type=positive, metavar="N", help="vocabulary size (default: 2,000)")
    add("--parameters", type=positive, metavar="N",
        help="parameters per model (default: 1.5 M, or the text's own)")  # fmt: skip
    args = parse(p, argv)
    given = [f"--{name}" for name in TEXT_FLAGS if getattr(args, name) is not None]
    if given and not args.data:
        p.error(f"{given[0]} needs --data; the built-in stories have fixed settings")
    return args


def lookup(doc: str | None, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line of the look-up task."""
    p = parser("lookup", doc)
    p.set_defaults(models=[*PAPERS, "transformer_rotary"])
    p.add_argument("--width", type=positive, metavar="D",
                   help="d_model of all models (default: chosen for equal parameters)")  # fmt: skip
    return parse(p, argv)


WITH_FLAGS = {"translation": translation, "next_token": next_token, "lookup": lookup}
"""Tasks with flags of their own."""


def parse_task(task: str, doc: str | None, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line of a task."""
    if own := WITH_FLAGS.get(task):
        return own(doc, argv)
    return parse(parser(task, doc), argv)


def driver(doc: str | None) -> tuple[argparse.Namespace, list[str]]:
    """Parse the command line of `python -m tasks`; also return the flags to pass on to tasks."""
    p = Parser(
        prog="python -m tasks",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--full", action="store_true",
                   help="also compare with larger budgets and several seeds")  # fmt: skip
    p.add_argument("--corpora", action="store_true", help="also compare on real text")
    p.add_argument("--out", type=Path, default=Path("results"), metavar="DIR",
                   help="folder for the folders of records (default: results)")  # fmt: skip
    return p.parse_known_args()
