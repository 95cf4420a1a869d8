"""The flags of the tasks.

No torch: `python -m tasks.translation --help`, or a typo, is answered at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from seqmodels.catalog import CATALOG, TOKENIZERS
from seqmodels.data import presets
from seqmodels.utils.terminal import Parser, not_negative, positive, positive_float

PAIRS = (
    f"a corpus by name ({', '.join(presets.PARALLEL)}); two text files, the first of which is the "
    "source unless --source or --target choose by their endings; a folder of "
    "train|valid|test.{xx,yy}; a .tsv, .csv, .jsonl or .parquet file, or a folder of them; "
    "OWNER/NAME or OWNER/NAME:CONFIG on the hub"
)
TEXT = (
    f"a text by name ({', '.join(presets.TEXT)}); text files, one after the other; a .tsv, .csv, "
    ".jsonl or .parquet file, or a folder of them; OWNER/NAME or OWNER/NAME:CONFIG on the hub"
)
OF_PAIRS = (
    "source", "target", "test", "limit", "lowercase", "clean", "max_tokens", "tokenizer", "vocab",
    "parameters", "bleu_tokenize",
)  # fmt: skip
"""Flags of translation that go with --data alone."""
OF_TEXT = ("column", "limit", "block", "stride", "tokenizer", "vocab", "parameters")
"""Flags of next_token that go with --data alone."""


def parser(name: str, doc: str | None) -> Parser:
    """Return the command line that all tasks share; a task adds its own flags."""
    p = Parser(
        prog=f"python -m tasks.{name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = list(CATALOG)
    p.add_argument("--models", nargs="+", choices=names, default=names, metavar="NAME",
                   help=f"which of {', '.join(names)} (default: all)")  # fmt: skip
    p.add_argument("--seeds", nargs="+", type=not_negative, default=[1], metavar="N",
                   help="one run of each model per seed (default: 1)")  # fmt: skip
    p.add_argument("--size", choices=["smoke", "laptop"], default="laptop",
                   help="smoke: everything once, in a minute; laptop: the comparison")  # fmt: skip
    p.add_argument("--tokens", type=positive, metavar="N",
                   help="budget: target tokens to train each model on; more than a finished "
                        "run had train it further")  # fmt: skip
    p.add_argument("--lr", type=positive_float, metavar="R",
                   help="peak learning rate of all models (default: each recipe's)")  # fmt: skip
    p.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto",
                   help="auto: cuda where there is one (default)")  # fmt: skip
    p.add_argument("--precision", choices=["auto", "float32", "bfloat16"], default="auto",
                   help="of products in training; auto: the faster here (default)")  # fmt: skip
    p.add_argument("--out", type=Path, metavar="DIR",
                   help="folder of records and figures (default: runs/TASK-SIZE)")  # fmt: skip
    p.add_argument("--fresh", action="store_true",
                   help="begin these runs again; what the folder has of them goes")  # fmt: skip
    p.add_argument("--checkpoint-every", type=positive_float, default=30.0, metavar="S",
                   help="seconds between checkpoints; at most 1 %% of the time goes into them "
                        "(default: 30)")  # fmt: skip
    return p


def parse(p: Parser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; no run is to be made twice."""
    args = p.parse_args(argv)
    for flag in ("models", "seeds"):
        given = getattr(args, flag)
        if twice := [str(value) for value in given if given.count(value) > 1]:
            p.error(f"--{flag}: {twice[0]} is given twice; give each once")
    return args


def translation(doc: str | None, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line of the task translation."""
    p = parser("translation", doc)
    p.add_argument("--no-source-eos", action="store_true",
                   help="leave out the end-of-sequence token that ends each source")  # fmt: skip
    p.add_argument("--data", nargs="+", metavar="WHAT", help=PAIRS)
    own_data = p.add_argument_group("with --data")
    add = own_data.add_argument
    add("--source", metavar="LANG",
        help="language to translate from: the ending of one of the files, which is chosen by it, "
             "or what to call the first where endings say nothing (a.txt b.txt); or a column: its "
             "name, or its number in a table without a header")  # fmt: skip
    add("--target", metavar="LANG", help="language or column to translate to")
    add("--test", metavar="SET", help="test on one of sacreBLEU's sets, such as wmt14")
    add("--limit", type=positive, metavar="N",
        help="stream N pairs of a table or of the hub, instead of reading all")  # fmt: skip
    add("--lowercase", action="store_true", help="lower-case both sides")
    add("--clean", action="store_true",
        help="leave out of train what is double, unequal, or in valid or test")  # fmt: skip
    add("--max-tokens", type=positive, default=200, metavar="N",
        help="leave out pairs with more on a side, in test with more than twice as many "
             "(default: 200)")  # fmt: skip
    add("--tokenizer", choices=TOKENIZERS, default="bpe", metavar="KIND",
        help=f"{', '.join(TOKENIZERS)} (default: bpe)")  # fmt: skip
    add("--vocab", type=positive, metavar="N", help="its size (default: 4,000)")
    add("--parameters", type=positive, metavar="N", help="of every model (default: 2 M)")
    add("--bleu-tokenize", metavar="NAME",
        help="sacreBLEU's tokenizer, for BLEU (default: by the target language)")  # fmt: skip
    args = parse(p, argv)
    given = [name for name in OF_PAIRS if getattr(args, name) != p.get_default(name)]
    if given and not args.data:
        flag = given[0].replace("_", "-")
        p.error(f"--{flag} goes with --data; the embedded grammar is English to German")
    return args


def next_token(doc: str | None, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line of the task next_token."""
    p = parser("next_token", doc)
    p.add_argument("--context", type=not_negative, metavar="N",
                   help="longest, in tokens; 0: none (default: 128; or the text's)")  # fmt: skip
    p.add_argument("--data", nargs="+", metavar="WHAT", help=TEXT)
    own_data = p.add_argument_group("with --data")
    add = own_data.add_argument
    add("--column", metavar="NAME",
        help="column with the texts, or its number (default: text or sentence)")  # fmt: skip
    add("--limit", type=positive, metavar="N",
        help="stream N rows of a table or of the hub, instead of reading all")  # fmt: skip
    add("--block", type=positive, metavar="N",
        help="tokens of a target at --context 0 (default: 64)")  # fmt: skip
    add("--stride", type=positive, metavar="S",
        help="score the last S tokens of each block (default: all)")  # fmt: skip
    add("--tokenizer", choices=TOKENIZERS, metavar="KIND",
        help=f"{', '.join(TOKENIZERS)} (default: bpe, or the text's own)")  # fmt: skip
    add("--vocab", type=positive, metavar="N", help="its size (default: 2000)")
    add("--parameters", type=positive, metavar="N",
        help="of every model (default: 1.5 million, or 0.8)")  # fmt: skip
    args = parse(p, argv)
    given = [f"--{name}" for name in OF_TEXT if getattr(args, name) is not None]
    if given and not args.data:
        p.error(f"{given[0]} goes with --data; the stories are made here")
    return args


OWN = {"translation": translation, "next_token": next_token}
"""Tasks with flags of their own."""


def of(task: str, doc: str | None, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line of a task."""
    if own := OWN.get(task):
        return own(doc, argv)
    return parse(parser(task, doc), argv)


def driver(doc: str | None) -> tuple[argparse.Namespace, list[str]]:
    """Parse the command line of `python -m tasks`; return what is passed on to each task, too."""
    p = Parser(
        prog="python -m tasks",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--corpora", action="store_true", help="compare on real text, too")
    p.add_argument("--out", type=Path, default=Path("results"), metavar="DIR",
                   help="folder of the folders of records (default: results)")  # fmt: skip
    return p.parse_known_args()
