"""Reproduce `results`: run every comparison with its defaults, then draw all figures and tables.

    python -m tasks                 on built-in data: two hours on two cores
    python -m tasks --full          also with larger budgets and several seeds: hours
    python -m tasks --corpora       also on real text, from the folder that SEQMODELS_DATA names or
                                    from the hub: hours

A run that has a record is not trained again: an interrupted command resumes, and the committed
records stay unless --out names another folder. Flags that all tasks share, such as --device or
--seeds, are passed on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from seqmodels.utils import files
from seqmodels.utils.terminal import Parser, run_cli

from .flags import TaskParser

Comparison = tuple[str, str, str]
"""Its folder, its task, its own flags."""

BUILTIN: list[Comparison] = [
    ("translation-grammar-laptop", "translation", ""),
    ("lookup", "lookup", ""),
    ("lookup-again", "lookup", "--again"),
    ("tracking-3", "tracking", ""),
    ("recall", "recall", ""),
    ("next_token", "next_token", ""),
    ("positions-laptop", "positions", ""),
    ("choices", "choices", ""),
    ("mistakes", "mistakes", ""),
    ("heads", "heads", ""),
    ("smoothing", "smoothing", ""),
    ("vector-laptop", "vector", ""),
    ("ladder-laptop", "ladder", ""),
    ("ladder-transformer", "ladder", "--to transformer"),
    ("distance-laptop", "distance", ""),
    ("bottleneck-laptop", "bottleneck", ""),
]
WIDTHS = (32, 64, 128, 256)
BY_WIDTH = "rnn_encdec bahdanau lstm_seq2seq gpt linear_attention transformer_rotary"
CONVOLVED = "transformer transformer_conv gpt_conv linear_attention linear_attention_conv"
STATE = "--width 64 --pairs 32 --tokens 320_000 --seeds 1 2 3"
VARIED = (
    " ".join(f"--vary {change}" for change in ("n_heads=2,8", "n_layers=3,4", "d_k=1,4,16"))
    + " --vary label_smoothing=0.1 --vary dropout=0.1"
)
BIASED = "lstm_seq2seq lstm_seq2seq_forward"
SHIPPED = "--size full --models gpt --precision bfloat16 --trained results/translation-live"
WRITTEN = "--size full --best-state 400"
FULL: list[Comparison] = [
    ("translation-grammar-laptop", "translation", "--seeds 1 2 3 4 5"),
    ("translation-grammar-laptop", "translation", "--models linear_attention --seeds 1 2 3 4 5"),
    ("translation-grammar-bfloat16", "translation", "--precision bfloat16"),
    ("translation-grammar", "translation", "--size full --seeds 1 2 3"),
    (
        "budgets", "translation",
        f"{WRITTEN} --seeds 1 2 3 --models rnn_encdec lstm_seq2seq --vary tokens=1600000,15000000",
    ),
    ("budgets", "translation", "--size full --models bahdanau --vary tokens=500000,1600000"),
    ("budgets", "translation", f"{WRITTEN} --models rnn_encdec --vary tokens=40000000"),
    (
        "widths", "translation",
        f"{WRITTEN} --models rnn_encdec --vary d_model=100,400 --vary tokens=15000000 --grid",
    ),
    ("widths", "translation", "--size full --models rnn_encdec --vary d_model=100,400"),
    *(
        (
            "batches", "translation",
            "--size full --tokens 1600000 --models rnn_encdec --vary batch_tokens=400 "
            f"--vary lr={lr} --vary muon_lr={muon_lr} --grid",
        )
        for lr, muon_lr in ((0.001, 0.00375), (0.002, 0.0075), (0.004, 0.015))
    ),
    (
        "encoders", "translation",
        "--size full --tokens 10000000 --models rnn_encdec rnn_encdec_both rnn_encdec_pooled "
        "--decoder OUT/budgets",
    ),
    ("next_token", "next_token", "--models lstm_seq2seq_forward"),
    ("next_token-source-loss", "next_token", "--models gpt --vary source_loss=1 --seeds 1 2 3"),
    ("lookup", "lookup", "--seeds 1 2 3"),
    (
        "lookup-convolution", "lookup",
        f"--tokens 160_000 --seeds 1 2 3 4 5 --models {CONVOLVED}",
    ),
    ("lookup-state", "lookup", f"{STATE} --models gpt_conv"),
    (
        "lookup-state", "lookup",
        f"{STATE} --models linear_attention_conv --vary n_heads=1,4,8,16 --same-width",
    ),
    ("lookup-again", "lookup", "--again --seeds 1 2 3 4 5"),
    *((f"tracking-{n}", "tracking", f"--cups {n} --seeds 1 2 3 4 5") for n in (2, 3, 5)),
    *((f"lookup-width-{n}", "lookup", f"--width {n} --models {BY_WIDTH}") for n in WIDTHS),
    ("positions", "positions", "--size full --seeds 1 2 3 4 5"),
    (
        "positions", "positions",
        "--size full --seeds 6 7 --models transformer_rotary transformer_learned",
    ),
    ("choices", "choices", "--seeds 1 2 3 4 5"),
    (
        "choices", "choices",
        "--seeds 6 7 8 9 10 --models transformer transformer_no_norm",
    ),
    ("choices", "choices", f"--seeds 1 2 --models transformer {VARIED}"),
    ("mistakes", "mistakes", "--seeds 1 2 3 4 5"),
    ("mistakes", "mistakes", "--models gpt --vary source_loss=1 --seeds 1 2 3 4 5"),
    ("choices-gpt", "choices", "--of gpt --seeds 1 2 3 4 5"),
    ("heads", "heads", "--seeds 1 2 3"),
    ("heads-full", "heads", "--size full --seeds 1 2 3 --models transformer"),
    ("heads-gpt", "heads", SHIPPED),
    ("smoothing", "smoothing", "--seeds 1 2 3"),
    ("smoothing-gpt", "smoothing", SHIPPED),
    ("vector", "vector", "--size full --seeds 1 2 3"),
    ("ladder-transformer", "ladder", "--to transformer --seeds 1 2 3 4 5"),
    ("ladder", "ladder", "--size full --seeds 1 2 3"),
    (
        "ladder-bias", "ladder",
        f"--size full --seeds 1 2 3 4 5 --vary forget_bias=0 --models {BIASED}",
    ),
    ("distance", "distance", "--size full --seeds 1 2 3"),
    ("bottleneck", "bottleneck", "--size full --seeds 1 2 3"),
]  # fmt: skip
CORPORA: list[Comparison] = [
    ("translation-multi30k", "translation", "--data multi30k --source de --lowercase"),
    (
        "translation-multi30k-en-de", "translation",
        "--data multi30k --source en --lowercase --models transformer",
    ),
    ("translation-bible", "translation", "--data bible --source de --seeds 1 2 3"),
    (
        "translation-bible-muon", "translation",
        "--data bible --source de --optimizer muon --models bahdanau transformer gpt",
    ),
    (
        "translation-bible-30m", "translation",
        "--data bible --source de --optimizer muon --models transformer --tokens 30000000 --grid "
        "--vary batch_tokens=1600 --vary dropout=0.3 --vary muon_lr=0.008",
    ),
    (
        "translation-bible-8m", "translation",
        "--data bible --source de --tokens 8000000 --models bahdanau transformer",
    ),
    ("next_token-shakespeare", "next_token", "--data shakespeare"),
    ("next_token-war-and-peace", "next_token", "--data war-and-peace"),
]  # fmt: skip


def run_all(out: Path, comparisons: Sequence[Comparison], forwarded: Sequence[str]) -> None:
    """Run each comparison into its own folder, up to the first failure; then draw all records.

    A forwarded flag replaces a comparison's own.
    """
    todo = []
    files.claim_file(out / "README.md")
    for folder, task, own_flags in comparisons:
        own = [f"--{flag}".split() for flag in own_flags.replace("OUT", str(out)).split("--")[1:]]
        own_left = [word for flag in own if flag[0] not in forwarded for word in flag]
        todo.append((folder, task, [*own_left, *forwarded, "--out", str(out / folder)]))
    for _, task, passed in todo:  # find mistakes before anything is trained
        import_module(f"tasks.{task}.__main__").PARSER.parse_args(passed)
    from seqmodels.report.render_folder import plot_results  # takes a second to import

    for n, (folder, task, passed) in enumerate(todo, start=1):
        since = time.perf_counter()
        print(f"[{n}/{len(todo)}] {folder}")
        try:
            import_module(f"tasks.{task}.__main__").main(passed)
        except SystemExit as ended:
            if ended.code:
                raise
        print(f"[{n}/{len(todo)}] {folder}: {(time.perf_counter() - since) / 60:.1f} minutes\n")
    print("\n".join(str(path) for path in plot_results(out)))


def parse_flags() -> tuple[argparse.Namespace, list[str]]:
    """Parse the command line; also return the flags to pass on to tasks."""
    p = Parser(
        passes_on=True,
        prog="python -m tasks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--full", action="store_true",
                   help="also compare with larger budgets and several seeds")  # fmt: skip
    p.add_argument("--corpora", action="store_true", help="also compare on real text")
    p.add_argument("--out", type=Path, default=Path("results"), metavar="DIR",
                   help="folder for the folders of records (default: results)")  # fmt: skip
    args, forwarded = p.parse_known_args()
    TaskParser("tasks", None).parse_args(forwarded)  # answer typos before slow imports
    return args, forwarded


def main() -> None:
    """Run all comparisons."""
    args, forwarded = parse_flags()
    chosen = [*BUILTIN, *(FULL if args.full else []), *(CORPORA if args.corpora else [])]
    run_cli("tasks", lambda: run_all(args.out, chosen, forwarded))


if __name__ == "__main__":
    main()
