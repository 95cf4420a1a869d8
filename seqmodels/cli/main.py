"""The `seqmodels` command: list models, draw figures, score texts, use a trained run."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqmodels.cli.score import add_score_arguments, score
from seqmodels.models import PAPERS, register_file
from seqmodels.utils.imports import HOME, import_beside, list_tasks
from seqmodels.utils.terminal import (
    Parser,
    ensure_out_folder,
    escape_for_terminal,
    non_negative,
    positive,
    print_json,
    printable,
    run_cli,
    with_reason,
)

if TYPE_CHECKING:
    from seqmodels.experiments.inference import TrainedModel

MAX_DRAWN_TOKENS = 100
"""Maximum tokens in a drawn alignment: the figure has a cell per pair of tokens."""
MAPS = 24
"""Examples of a report that have attention maps, unless another number is given."""
LINES_AT_ONCE = 500
"""Lines that are translated together."""
MAX_NEW_TOKENS = 10_000
"""Maximum tokens to generate."""


def models(args: argparse.Namespace) -> None:
    """Print the models in order of history, as a table or as JSON."""
    import torch

    from seqmodels.experiments.specs import count_parameters
    from seqmodels.models import MODELS, paper_config

    rows = []
    for name, model_type in MODELS.items():
        paper, module = PAPERS[name], sys.modules[model_type.__module__]
        with torch.device("meta"):
            n = count_parameters(model_type(paper_config(name)))
        about = {"name": name, "year": paper.year, "label": paper.label, "paper": paper.cite}
        rows.append(about | {"parameters": n, "file": module.__file__})
    if args.json:
        print_json(rows)
        return
    print(f"{'name':16} {'year':5} {'label':20} {'paper':39} {'parameters':>12}  file")
    for row in rows:
        print("{name:16} {year:<5} {label:20} {paper:39} {parameters:12,}  {file}".format(**row))
    print("\nParameters at the paper's sizes and vocabulary (the first Config in each file).")


def run(args: argparse.Namespace) -> None:
    """Run a task with its own flags."""
    from seqmodels.cli.run import import_task

    import_task(args.task).main(args.flags)


def check(args: argparse.Namespace) -> None:
    """Check the contract of a model, or an exercise; raise ValueError if something is wrong."""
    if args.model.endswith(".py"):
        if fault := import_beside("lesson.exercise").check_exercise(Path(args.model)):
            raise ValueError(f"{args.model}: {fault}")
        print(f"{args.model}: every equation gives what the chapter gives")
        return
    from seqmodels.contract import list_violations
    from seqmodels.models import import_class, paper_of

    home, sizes, n = args.model, dict[str, Any](), 0
    if ":" not in home:
        paper = paper_of(home)
        home, sizes = paper.home, {**paper.sizes}
    for name, fault in list_violations(import_class(home), **sizes):
        print(f"{name:24} {fault or 'holds'}", flush=True)
        n += bool(fault)
    if n:
        raise ValueError(
            f"{args.model}: {n} {'property does' if n == 1 else 'properties do'} not hold"
        )


def exercise(args: argparse.Namespace) -> None:
    """Write a chapter without the lines of some equations."""
    write_exercise = import_beside("lesson.exercise").write_exercise
    path = write_exercise(args.chapter, args.hide, ensure_out_folder(args.out))
    print(f"{path}: write the lines that raise NotImplementedError, then: seqmodels check {path}")


def new_model(args: argparse.Namespace) -> None:
    """Write a copy of a chapter, to be changed."""
    from seqmodels.models import MODELS
    from seqmodels.utils import files

    if args.file.exists():
        raise ValueError(f"{args.file} exists; name a new file")
    name = MODELS[args.base].__name__
    text = Path(sys.modules[MODELS[args.base].__module__].__file__ or "").read_text("utf-8")
    files.write(args.file, text.replace(f"class {name}(", f"class My{name}(").encode())
    print(f"{args.file} has the class My{name}. Change it, then:")
    print(f"  seqmodels check {args.file}:My{name}")
    print(f"  seqmodels run translation --models {args.file}:My{name} {args.base}")


def print_paths(paths: Iterable[Path]) -> None:
    """Print where files were written."""
    print("\n".join(printable(str(path)) for path in paths))


def plot(args: argparse.Namespace) -> None:
    """Draw the figures and tables of a folder of records."""
    from seqmodels.report.render_folder import plot_results

    print_paths(plot_results(args.folder))


def status(args: argparse.Namespace) -> None:
    """Print the state and progress of each run of a folder."""
    from seqmodels.cli.status import format_status, read_states

    if args.json:
        print_json(read_states(args.folder))
        return
    print(escape_for_terminal(format_status(args.folder)))


def report(args: argparse.Namespace) -> None:
    """Write the report on folders of records, or serve it."""
    if (args.port is None) == (args.out is None):
        raise ValueError("report: give --out FILE.html or --serve")
    from seqmodels.records.io import find_folders

    folders = [one for folder in args.folders for one in find_folders(folder)]
    if args.out:
        print_paths([import_beside("lesson.report").write(folders, args.out, args.maps)])
    else:
        import_beside("lesson.serve").serve(folders, args.maps, args.port)


def site(args: argparse.Namespace) -> None:
    """Write the lesson, a folder of pages."""
    build = import_beside("lesson.build").build
    out = ensure_out_folder(args.out)
    print_paths(build(out, args.runs, args.live, args.single_file, args.train, args.url or "")[:1])


def live(args: argparse.Namespace) -> None:
    """Write a page in which the models of a folder run."""
    print_paths([import_beside("lesson.live").write(args.folder, args.out)])


def doctor(args: argparse.Namespace) -> None:
    """Print the installed versions, and whether the contract of each model holds."""
    from seqmodels.cli.doctor import run_checks

    run_checks()


def warn_unknown(sources: Iterable[Sequence[int]]) -> None:
    """Warn how many words of sources are unknown to the run."""
    from seqmodels.interface import EOS, UNK

    n = n_words = 0
    for src in sources:
        n += src.count(UNK)
        n_words += len(src) - src.count(EOS)
    if n:
        print(f"{n} of {n_words} words are unknown to this run and read as ⁇", file=sys.stderr)


def translate(args: argparse.Namespace) -> None:
    """Translate the lines of a text, or of standard input, with a trained run."""
    from tqdm import tqdm

    from seqmodels.data import readers
    from seqmodels.experiments.inference import check_search, load
    from seqmodels.utils import files

    check_search(args.beam, args.length_penalty, args.n_best or 1)
    if args.alignment and (args.text == "-" or "\n" in args.text or not args.text.strip()):
        raise ValueError("--alignment draws one sentence; give one")
    if args.alignment and args.n_best:
        raise ValueError("--alignment draws one translation; leave --n-best out")
    run = load(args.run)
    if args.alignment and (n := len(run.encode(args.text))) > MAX_DRAWN_TOKENS:
        raise ValueError(
            f"--alignment: the text has {n} tokens; at most {MAX_DRAWN_TOKENS} are drawn"
        )
    lines: Iterable[str] = args.text.split("\n")
    if args.text == "-":
        lines = readers.lines("standard input", files.open_stdin)
    rest, sources = iter(lines), list[list[int]]()
    with tqdm(unit=" lines", disable=None if args.text == "-" else True) as bar:
        while chunk := [run.encode_line(line) for line in islice(rest, LINES_AT_ONCE)]:
            bar.update(len(chunk))
            for row in translate_sources(run, chunk, len(sources), args):
                if args.json:
                    print_json(row)
                else:
                    print(escape_for_terminal(format_translation(row)), flush=True)
            sources += chunk
    if args.alignment:
        draw_translation(run, args)
    warn_unknown(sources)


def translate_sources(
    run: TrainedModel, sources: Sequence[list[int]], n_before: int, args: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Yield line number and text of each translation and, with --n-best, its log-probability."""
    decode = run.tokenizer.decode
    if not args.n_best:
        best = run.search(sources, args.beam, args.length_penalty)
        for number, tokens in enumerate(best, n_before + 1):
            yield {"line": number, "text": decode(tokens)}
        return
    found = run.search_n_best(sources, args.n_best, args.beam, args.length_penalty)
    for number, hypotheses in enumerate(found, n_before + 1):
        for tokens, log_p in hypotheses:
            yield {"line": number, "log_p": log_p, "text": decode(tokens)}


def format_translation(row: Mapping[str, Any]) -> str:
    """Return the text of a translation; of one of several, after line number and log p."""
    return f"{row['line']}\t{row['log_p']:z.4f}\t{row['text']}" if "log_p" in row else row["text"]


def draw_translation(run: TrainedModel, args: argparse.Namespace) -> None:
    """Draw how a text's translation attends to it."""
    from seqmodels.report.alignment import draw_alignment

    (target,) = run.search([run.encode_source(args.text)], args.beam, args.length_penalty)
    src, tgt, weights = run.align_ids(args.text, target)
    panel = {"src": src, "tgt": tgt, "alpha": weights.tolist(), "gold": None}
    draw_alignment({args.run.stem.split("-")[0]: panel}, args.alignment)


def generate(args: argparse.Namespace) -> None:
    """Print a text, as the run reads it, followed by its continuation."""
    import torch

    from seqmodels.experiments.inference import MAX_TEXT_TOKENS, load
    from seqmodels.interface import PAD
    from seqmodels.search import generate as search
    from seqmodels.search import sampler

    if args.length > MAX_NEW_TOKENS:
        raise ValueError(f"--length {args.length}: at most {MAX_NEW_TOKENS:,}")
    generator = torch.Generator().manual_seed(args.seed)
    choose = sampler(generator, args.temperature, args.top_k, args.top_p)
    run = load(args.run)
    model, data = run.model, run.record["data"]
    if data.get("context") == 0:
        tokens = run.encode(args.text)
        if len(tokens) > MAX_TEXT_TOKENS:
            raise ValueError(
                f"the text has {len(tokens)} tokens; at most {MAX_TEXT_TOKENS} are read"
            )
        block = data.get("block")
        block = min(block if isinstance(block, int) else sys.maxsize, model.max_target(1))
        generated = continue_text(model, tokens, args.length, max(1, block), choose)
    elif data.get("begins_with_text"):
        from seqmodels.experiments.gpt2 import continue_gpt2

        tokens = run.encode(args.text)
        generated = continue_gpt2(model, tokens, args.length, data["n_ids"], choose)
    else:
        tokens = run.encode_source(args.text, has_source_eos=False)
        src, n = torch.tensor([tokens]), min(args.length, model.max_target(len(tokens)))
        (generated,) = search(model, src, src != PAD, n, choose)
    print(escape_for_terminal(run.tokenizer.decode([*tokens, *generated])))
    warn_unknown([tokens])


def continue_text(model: Any, text: list[int], n: int, block: int, choose: Any) -> list[int]:
    """Continue a text by up to n tokens, with a model that was trained on blocks without context.

    When a block is full, its second half becomes the beginning of the next.
    """
    import torch

    from seqmodels.search import continue_prefix

    tokens = text
    while (n_left := len(text) + n - len(tokens)) > 0:
        prefix = tokens if len(tokens) < block else tokens[len(tokens) - block // 2 :]
        max_len = len(prefix) + min(block - len(prefix), n_left)
        rows = torch.tensor([prefix], dtype=torch.long)
        (generated,) = continue_prefix(model, rows, max_len, choose)
        tokens = [*tokens, *generated[len(prefix) :]]
        if len(generated) < max_len:
            break
    return tokens[len(text) :]


def export(args: argparse.Namespace) -> None:
    """Write a run as ONNX graphs."""
    onnx = import_beside("lesson.export")
    paths, check = onnx.export(args.run, ensure_out_folder(args.out), args.half)
    print_paths(paths)
    print(
        f"checked with onnxruntime over {check.n_tokens} tokens: logits differ from the model's by "
        f"at most {check.difference:.0e} of the largest, weights of attention by "
        f"{check.attention_difference:.0e}"
    )


def push(args: argparse.Namespace) -> None:
    """Upload a run to the Hub with a card, a figure and, if they can be made, ONNX graphs."""
    from seqmodels.experiments import hub
    from seqmodels.experiments.inference import load
    from seqmodels.report import bucket_plots, card, style

    if str(args.run).startswith("hub:"):
        raise ValueError(f"{args.run} is on the Hub already; name a run on this disk")
    record = load(args.run).record
    path = args.run if args.run.suffix == ".json" else args.run.with_name(f"{args.run.name}.json")
    with style.context():
        figure = bucket_plots.draw_scores([record], record["tests"][0]).figure
        more = {card.FIGURE: style.render(figure, ".png")}
    try:
        contents, _ = import_beside("lesson.export").contents_of(path, is_half=False)
        more |= {f"onnx/{name}": content for name, content in contents.items()}
    except ModuleNotFoundError as error:
        print(f"without ONNX graphs: {error.name} is not installed", file=sys.stderr)
    text = card.format_card(record, args.repository)
    print(hub.push(path, args.repository, text, more, args.private))


# ----------------------------------------------------------------------------- The command line


def port(text: str) -> int:
    """Parse a port; 0 takes any that is free."""
    if (number := non_negative(text)) >= 2**16:
        raise argparse.ArgumentTypeError(f"{text} is not a port; the highest is 65535")
    return number


def folder(text: str) -> Path:
    """Parse the path of a folder that can be read."""
    try:
        os.listdir(text)
    except FileNotFoundError:
        raise argparse.ArgumentTypeError(f"{text} does not exist; name a folder") from None
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be read: {error.strerror}") from None
    return Path(text)


def web_address(text: str) -> str:
    """Parse an address on the web."""
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text} is not an address; it begins with https://")
    return text


def page(text: str) -> Path:
    """Parse the path of a page that can be written."""
    path = Path(text)
    if path.suffix.lower() != ".html" or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: name a FILE.html in a folder that exists")
    return path


def build_parser() -> Parser:
    """Return the command line."""
    p = Parser(prog="seqmodels", description=__doc__)
    p.add_argument("--version", action="store_true", help="print the version and exit")
    p.set_defaults(run_command=None)
    commands = p.add_subparsers(metavar="COMMAND", parser_class=Parser)

    def add(run: Callable[[argparse.Namespace], None], summary: str) -> Callable[..., Any]:
        command = commands.add_parser(run.__name__.replace("_", "-"), help=summary)
        command.set_defaults(run_command=run)
        return command.add_argument

    def add_own(arg: Callable[..., Any]) -> None:
        arg("--model", type=with_reason(register_file), metavar="FILE.py:CLASS",
            help="the class of a run of your own model")  # fmt: skip

    def add_json(arg: Callable[..., Any], summary: str = "print one line of JSON") -> None:
        arg("--json", action="store_true", help=summary)

    add_json(add(models, "list the models: year, paper, file, parameters"))
    arg = add(run, "train and compare the models on a task")
    arg("task", choices=list_tasks(), metavar="TASK", help=f"one of {', '.join(list_tasks())}")
    arg("flags", nargs=argparse.REMAINDER, metavar="…",
        help="flags of the task: seqmodels run TASK --help")  # fmt: skip
    add(doctor, "check the installed versions and the contract of each model")
    arg = add(check, "check what training and search rely on in a model")
    arg("model", metavar="FILE.py:CLASS",
        help="your own model, the name of a model, or the file of an exercise")  # fmt: skip
    arg = add(exercise, "write a chapter without some of its equations")
    arg("chapter", choices=[*PAPERS], metavar="NAME", help=f"one of {', '.join(PAPERS)}")
    arg("--hide", nargs="+", required=True, metavar="TAG",
        help="tags of equations, as at the right margin of the chapter: '(5)'")  # fmt: skip
    arg("--out", type=Path, required=True, metavar="DIR", help="folder for NAME.py")
    arg = add(new_model, "write a copy of a chapter, to be changed")
    arg("file", type=Path, metavar="FILE.py", help="a new file")
    arg("--from", dest="base", choices=[*PAPERS], required=True, metavar="NAME",
        help=f"one of {', '.join(PAPERS)}")  # fmt: skip
    arg = add(plot, "draw figures and tables from records")
    arg("folder", type=folder, metavar="FOLDER", help="folder of records, or of such folders")
    arg = add(status, "show how far the runs of a folder are, on all machines")
    arg("folder", type=folder, metavar="FOLDER", help="folder of a comparison, or of such folders")
    add_json(arg)
    arg = add(report, "write a page that links scores, sentences, attention")
    arg("folders", type=folder, nargs="+", metavar="FOLDER",
        help="folder of records, or of such folders")  # fmt: skip
    arg("--out", type=page, metavar="FILE.html", help="write the page to a file")
    arg("--serve", dest="port", type=port, nargs="?", const=8000, metavar="PORT",
        help="instead, show it at http://127.0.0.1:PORT, and follow runs in training; default: "
        "8000")  # fmt: skip
    add_own(arg)
    arg("--maps", type=non_negative, default=MAPS, metavar="N",
        help=f"examples with attention maps; default: {MAPS}")  # fmt: skip
    arg = add(site, "write the lesson: papers, equations, code, results")
    arg("--out", type=Path, required=True, metavar="DIR", help="folder for the pages")
    arg("--runs", type=folder, default=str(HOME / "results"), metavar="DIR",
        help="folder of records, or of such folders; default: the committed results")  # fmt: skip
    arg("--live", type=folder, metavar="FOLDER",
        help="add a page in which the models of this folder run")  # fmt: skip
    arg("--single-file", action="store_true",
        help="keep the models in that page, which then opens from a disk")  # fmt: skip
    arg("--train", action="store_true", help="add a page that trains two models")
    arg("--url", type=web_address,
        help="where the site will be, for the picture in previews of its links")  # fmt: skip
    arg = add(score, "score translations from elsewhere")
    add_score_arguments(arg)
    add_json(arg, "print the scores as one line of JSON")
    arg = add(translate, "translate lines with a trained run")
    add_own(arg)
    arg("run", type=Path, metavar="RUN",
        help="such as runs/NAME/bahdanau-seed1, or hub:OWNER/NAME")  # fmt: skip
    arg("text", nargs="?", default="-",
        help="its lines are translated one by one; default: -, standard input")  # fmt: skip
    arg("--beam", type=positive, default=1, metavar="K", help="default: 1, greedy")
    arg("--n-best", type=positive, metavar="N",
        help="print the N best hypotheses of each line: number of the line, log-probability "
        "and text, separated by tabs")  # fmt: skip
    arg("--length-penalty", type=float, default=1.0, metavar="A",
        help="the best has the highest log-probability / length^A; default: 1")  # fmt: skip
    arg("--alignment", type=Path, metavar="FILE.svg", help="draw the attention to the source")
    add_json(arg, "print a line of JSON for each translation")
    arg = add(generate, "continue one text with a trained run")
    arg("run", type=Path, metavar="RUN", help="such as runs/NAME/gpt-seed1, or hub:OWNER/NAME")
    arg("text")
    arg("--length", type=positive, default=100, metavar="N", help="tokens; default: 100")
    arg("--temperature", type=float, default=0.8, metavar="X",
        help="0 takes the most likely token; default: 0.8")  # fmt: skip
    arg("--top-k", type=positive, metavar="K", help="sample from the K most likely tokens alone")
    arg("--top-p", type=float, default=1.0, metavar="P",
        help="sample from the fewest tokens whose probabilities reach P; default: 1")  # fmt: skip
    arg("--seed", type=non_negative, default=1, metavar="N", help="default: 1")
    add_own(arg)
    arg = add(export, "write a trained run as ONNX graphs")
    add_own(arg)
    arg("run", type=Path, metavar="RUN", help="such as runs/NAME/bahdanau-seed1")
    arg("--out", type=Path, required=True, metavar="DIR", help="folder for the files")
    arg("--half", action="store_true", help="round the weights to float16")
    arg = add(push, "upload a trained run to the Hugging Face Hub")
    add_own(arg)
    arg("run", type=Path, metavar="RUN", help="such as runs/NAME/bahdanau-seed1")
    arg("repository", metavar="OWNER/NAME", help="made if it does not exist")
    arg("--private", action="store_true", help="make it for yourself alone")
    arg = add(live, "write a page in which trained models run")
    add_own(arg)
    arg("folder", type=folder, metavar="FOLDER", help="folder of runs, with weights")
    arg("--out", type=page, required=True, metavar="FILE.html", help="the page")
    return p


def main() -> None:
    """Run the command line."""
    # Torch's import makes many objects, none of them garbage: half a second of looking for it.
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)
    parser = build_parser()
    args = parser.parse_args()

    def run() -> None:
        if args.version:
            from importlib.metadata import version

            print(f"seqmodels {version('seqmodels')}")
        elif args.run_command:
            args.run_command(args)
        else:
            parser.print_help()

    run_cli("seqmodels", run)


if __name__ == "__main__":
    main()
