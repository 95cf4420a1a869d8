"""The `seqmodels` command: list models, draw figures, score texts, use a trained run."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seqmodels.cli import score
from seqmodels.utils.terminal import (
    Parser,
    check_memory_limit,
    ensure_out_folder,
    for_terminal,
    guard,
    non_negative,
    positive,
    positive_float,
    printable,
)

MAX_DRAWN_TOKENS = 100
"""Maximum tokens in a drawn alignment: the figure has a cell per pair of tokens."""
MAPS = 24
"""Examples of a report that have attention maps, unless another number is given."""
MAX_NEW_TOKENS = 10_000
"""Maximum tokens to generate."""


def models(args: argparse.Namespace) -> None:
    """Print the models in order of history."""
    import torch

    from seqmodels.comparison.sizes import count_parameters
    from seqmodels.models import MODELS, PAPERS

    print(f"{'name':16} {'year':5} {'label':20} {'paper':39} {'parameters':>12}  file")
    for name, model_type in MODELS.items():
        paper, module = PAPERS[name], sys.modules[model_type.__module__]
        config = next(v for v in vars(module).values() if isinstance(v, model_type.config_type))
        with torch.device("meta"):
            n = count_parameters(model_type(config))
        known = f"{name:16} {paper.year:<5} {paper.label:20} {paper.cite:39}"
        print(f"{known} {n:12,}  {module.__file__}")
    print("\nParameters at the paper's sizes and vocabulary (the first Config in each file).")


def check_folder(folder: Path) -> None:
    """Raise ValueError for a folder that cannot be read."""
    try:
        os.listdir(folder)
    except OSError as error:
        why = (
            "does not exist" if error.errno == errno.ENOENT else f"cannot be read: {error.strerror}"
        )
        raise ValueError(f"{folder} {why}; name a folder of records") from None


def check_page(out: Path) -> None:
    """Raise ValueError for a page that cannot be written there."""
    if out.suffix.lower() != ".html":
        raise ValueError(f"--out {out}: name a file that ends in .html")
    if not out.parent.is_dir():
        raise ValueError(f"--out {out}: the folder {out.parent} does not exist")


def plot(args: argparse.Namespace) -> None:
    """Draw the figures and tables of a folder of records."""
    check_folder(args.folder)
    from seqmodels.report.figures import plot_results

    print("\n".join(printable(str(file)) for file in plot_results(args.folder)))


def status(args: argparse.Namespace) -> None:
    """Print how far each run of a folder is."""
    check_folder(args.folder)
    from seqmodels.cli.status import table

    print(for_terminal(table(args.folder)))


def report(args: argparse.Namespace) -> None:
    """Write the report on folders of records, or serve it."""
    for folder in args.folders:
        check_folder(folder)
    if args.port is not None:
        from seqmodels.site.serve import serve

        serve(args.folders, args.maps, args.port)
        return
    check_page(args.out)
    from seqmodels.site.report import write

    print(printable(str(write(args.folders, args.out, args.maps))))


def site(args: argparse.Namespace) -> None:
    """Write the lesson, a folder of pages."""
    check_folder(args.runs)
    if args.live:
        check_folder(args.live)
    from seqmodels.site.build import build

    with exporting():
        print(printable(str(build(ensure_out_folder(args.out), args.runs, args.live)[0])))


def live(args: argparse.Namespace) -> None:
    """Write a page in which the models of a folder run."""
    check_folder(args.folder)
    check_page(args.out)
    with exporting():
        from seqmodels.site.live import write

    print(printable(str(write(args.folder, args.out))))


def doctor(args: argparse.Namespace) -> None:
    """Print what is installed, and whether each model works."""
    from seqmodels.cli.doctor import run_checks

    run_checks()


def warn_unknown(src: Sequence[int]) -> None:
    """Warn how many words of a source are unknown to the run."""
    from seqmodels.interface import EOS, UNK

    if n := src.count(UNK):
        n_words = len(src) - src.count(EOS)
        print(f"{n} of {n_words} words are unknown to this run and read as ⁇", file=sys.stderr)


def translate(args: argparse.Namespace) -> None:
    """Translate one source with a trained run."""
    from seqmodels.comparison.trained import MAX_BEAM, load
    from seqmodels.interface import EOS
    from seqmodels.report.alignment import draw_alignment

    if args.beam > MAX_BEAM:
        raise ValueError(f"--beam {args.beam}: at most {MAX_BEAM}")
    run = load(args.run)
    src = run.encode_source(args.text)
    if args.alignment and (n := len(src) - src.count(EOS)) > MAX_DRAWN_TOKENS:
        raise ValueError(
            f"--alignment: the text has {n} tokens; at most {MAX_DRAWN_TOKENS} are drawn"
        )
    generated = run.search([args.text], args.beam)[0]
    print(for_terminal(run.tokenizer.decode(generated)))
    if args.alignment:
        found = run.align_ids(args.text, generated)
        drawn = {"src": found.src, "tgt": found.tgt, "alpha": found.weights.tolist(), "gold": None}
        draw_alignment({args.run.stem.split("-")[0]: drawn}, args.alignment)
    warn_unknown(src)


def generate(args: argparse.Namespace) -> None:
    """Print a text, as the run reads it, followed by its continuation."""
    import torch

    from seqmodels.comparison.trained import MAX_TEXT_TOKENS, load
    from seqmodels.interface import PAD
    from seqmodels.search import sample

    if args.length > MAX_NEW_TOKENS:
        raise ValueError(f"--length {args.length}: at most {MAX_NEW_TOKENS:,}")
    if not 1e-3 <= args.temperature <= 1e3:
        raise ValueError(f"--temperature {args.temperature} is not between 0.001 and 1000")
    run = load(args.run)
    model, data = run.model, run.record["data"]
    draw = torch.Generator().manual_seed(args.seed)
    if data.get("context") == 0:
        tokens = run.encode(args.text)
        if len(tokens) > MAX_TEXT_TOKENS:
            raise ValueError(
                f"the text has {len(tokens)} tokens; at most {MAX_TEXT_TOKENS} are read"
            )
        block = data.get("block")
        block = min(block if isinstance(block, int) else sys.maxsize, model.max_target(1))
        generated = continue_text(model, tokens, args.length, max(1, block), draw, args.temperature)
    else:
        tokens = run.encode_source(args.text, has_source_eos=False)
        src, n = torch.tensor([tokens]), min(args.length, model.max_target(len(tokens)))
        (generated,) = sample(model, src, src != PAD, n, draw, args.temperature)
    print(for_terminal(run.tokenizer.decode([*tokens, *generated])))
    warn_unknown(tokens)


def continue_text(
    model: Any, text: list[int], n: int, block: int, draw: Any, temperature: float
) -> list[int]:
    """Continue a text by up to n tokens, with a model that was trained on blocks without context.

    When a block is full, its second half becomes the beginning of the next.
    """
    import torch

    from seqmodels.search import sample_from_prefix

    tokens = text
    while (n_left := len(text) + n - len(tokens)) > 0:
        prefix = tokens if len(tokens) < block else tokens[len(tokens) - block // 2 :]
        max_len = len(prefix) + min(block - len(prefix), n_left)
        rows = torch.tensor([prefix], dtype=torch.long)
        (generated,) = sample_from_prefix(model, rows, max_len, draw, temperature)
        tokens = [*tokens, *generated[len(prefix) :]]
        if len(generated) < max_len:
            break
    return tokens[len(text) :]


@contextmanager
def exporting() -> Iterator[None]:
    """Name the packages that exporting needs, if one is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{error.name} is not installed; pip install onnx onnxscript onnxruntime"
        ) from None


def export(args: argparse.Namespace) -> None:
    """Write a run as ONNX graphs."""
    with exporting():
        from seqmodels.site import export as onnx

    paths, check = onnx.export(args.run, ensure_out_folder(args.out), args.half)
    print(*(printable(str(path)) for path in paths), sep="\n")
    print(
        f"checked with onnxruntime over {check.n_tokens} tokens: logits differ from the model's by "
        f"at most {check.difference:.0e} of the largest, weights of attention by "
        f"{check.attention_difference:.0e}"
    )


class Version(argparse.Action):
    """Print the installed version and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Look up the version, which no other command needs."""
        from importlib.metadata import version

        parser._print_message(f"seqmodels {version('seqmodels')}\n", sys.stdout)
        parser.exit()


def add_report(commands: Any) -> None:
    """Add the command `report`."""
    c = commands.add_parser("report", help="write a page that links scores, sentences, attention")
    c.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="folder of records")
    where = c.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", type=Path, metavar="FILE.html", help="write the page to a file")
    where.add_argument("--serve", dest="port", type=port, nargs="?", const=8000, metavar="PORT",
                       help="show it at http://127.0.0.1:PORT, and follow runs in training; "
                            "default: 8000")  # fmt: skip
    c.add_argument("--maps", type=non_negative, default=MAPS, metavar="N",
                   help=f"examples with attention maps; default: {MAPS}")  # fmt: skip
    c.set_defaults(run_command=report)


def add_site(commands: Any) -> None:
    """Add the command `site`."""
    c = commands.add_parser("site", help="write the lesson: papers, equations, code, results")
    c.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the pages")
    c.add_argument("--runs", type=Path, default=Path("results"), metavar="DIR",
                   help="folder of records, or of such folders; default: results")  # fmt: skip
    c.add_argument("--live", type=Path, metavar="FOLDER",
                   help="add a page in which the models of this folder run")  # fmt: skip
    c.set_defaults(run_command=site)


def add_exports(commands: Any) -> None:
    """Add the commands `export` and `live`."""
    c = commands.add_parser("export", help="write a trained run as ONNX graphs")
    c.add_argument("run", type=Path, metavar="RUN", help="such as runs/NAME/bahdanau-seed1")
    c.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the files")
    c.add_argument("--half", action="store_true", help="round the weights to float16")
    c.set_defaults(run_command=export)
    c = commands.add_parser("live", help="write a page in which trained models run")
    c.add_argument("folder", type=Path, metavar="FOLDER", help="folder of runs, with weights")
    c.add_argument("--out", type=Path, required=True, metavar="FILE.html", help="the page")
    c.set_defaults(run_command=live)


def port(text: str) -> int:
    """Parse a port; 0 takes any that is free."""
    if (number := non_negative(text)) >= 2**16:
        raise argparse.ArgumentTypeError(f"{text} is not a port; the highest is 65535")
    return number


def build_parser() -> Parser:
    """Return the command line."""
    p = Parser(prog="seqmodels", description=__doc__)
    p.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    p.set_defaults(run_command=lambda args: p.print_help())
    commands = p.add_subparsers(metavar="COMMAND", parser_class=Parser)
    c = commands.add_parser("models", help="list the models: year, paper, file, parameters")
    c.set_defaults(run_command=models)
    c = commands.add_parser("doctor", help="check the installation, the folders and each model")
    c.set_defaults(run_command=doctor)
    c = commands.add_parser("plot", help="draw figures and tables from records")
    c.add_argument(
        "folder", type=Path, metavar="FOLDER", help="folder of records, or of such folders"
    )
    c.set_defaults(run_command=plot)
    c = commands.add_parser("status", help="show how far the runs of a folder are, on all machines")
    c.add_argument("folder", type=Path, metavar="FOLDER", help="folder of a comparison")
    c.set_defaults(run_command=status)
    add_report(commands)
    add_site(commands)
    score.add_to(commands)
    c = commands.add_parser("translate", help="translate one text with a trained run")
    c.add_argument("run", type=Path, metavar="RUN", help="such as runs/NAME/bahdanau-seed1")
    c.add_argument("text")
    c.add_argument("--beam", type=positive, default=1, metavar="K", help="default: 1, greedy")
    c.add_argument(
        "--alignment", type=Path, metavar="FILE.svg", help="draw the attention to the source"
    )
    c.set_defaults(run_command=translate)
    c = commands.add_parser("generate", help="continue one text with a trained run")
    c.add_argument("run", type=Path, metavar="RUN", help="such as runs/NAME/gpt-seed1")
    c.add_argument("text")
    c.add_argument("--length", type=positive, default=100, metavar="N", help="tokens; default: 100")
    c.add_argument("--temperature", type=positive_float, default=0.8, metavar="X",
                   help="default: 0.8")  # fmt: skip
    c.add_argument("--seed", type=non_negative, default=1, metavar="N", help="default: 1")
    c.set_defaults(run_command=generate)
    add_exports(commands)
    return p


def main() -> None:
    """Run the command line."""
    args = build_parser().parse_args()
    check_memory_limit("seqmodels")
    guard("seqmodels", lambda: args.run_command(args))


if __name__ == "__main__":
    main()
