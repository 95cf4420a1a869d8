"""Look inside trained models: heads, words and scores.

Question
    Which head of attention lets an article find its noun, and what becomes of the translation
    without it? What is near the vector of a word, what can be read from it layer by layer, and
    which sublayer can be left out? What does a decoder know is still to come? And in what sense is
    attention a kernel smoother?

    python -m tasks.inside                                 the six models that are shipped
    python -m tasks.inside runs/translation/gpt-seed2      runs of your own on the grammar

    Nothing is trained. 5 minutes on two cores. README.md has the findings.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqmodels.models import PAPERS
from seqmodels.utils import files
from seqmodels.utils.imports import SHIPPED
from seqmodels.utils.terminal import Parser, run_cli

if TYPE_CHECKING:
    from seqmodels.inference import TrainedModel
    from seqmodels.records.schema import Record

PARSER = Parser(
    prog="python -m tasks.inside",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
)
TRAINED = [name for name in PAPERS if (SHIPPED / f"{name}-seed1.json").exists()]
"""The models of which a run is shipped."""
PARSER.add_argument("runs", nargs="*", default=TRAINED, metavar="RUN",
                    help="runs on the built-in grammar, such as runs/NAME/gpt-seed1 or the name of "
                    f"a shipped one (default: {', '.join(TRAINED)})")  # fmt: skip
PARSER.add_argument("--out", type=Path, default=Path("runs/inside"), metavar="DIR",
                    help="folder for records and figures (default: runs/inside)")  # fmt: skip
OTHERS = "transformer_recurrent", "transformer_no_feed_forward"
"""Variants without the parts of their model."""


def measure_run(name: str, run: TrainedModel) -> Record:
    """Return a run's record with all that is measured inside it.

    Raises ValueError for a run that does not read the grammar word by word.
    """
    import torch

    from seqmodels.models import build

    from . import heads, parts, reader, smoothing, words

    if run.record and run.record.base.startswith(OTHERS):
        raise ValueError(f"{name}: {run.record.base} has other parts than those that are measured")
    sample = reader.draw_sample(reader.N_SENTENCES, run.tokenizer)
    for parse, example in zip(sample.parses, sample.examples, strict=True):
        if run.record is None or run.tokenizer.tokens(example.src)[:-1] != [*parse.sentence.en]:
            raise ValueError(
                f"{name} does not read the built-in grammar word by word; give a run of "
                "tasks.translation"
            )
    assert run.record
    sizes: dict[str, Any] = dict(run.record.settings)
    torch.manual_seed(run.record.seed)
    untrained = build(run.record.base, **sizes).eval()
    own = reader.Reader(run.model, untrained, sample)
    analyses = {
        name: [
            {key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()}
            for row in measure(own)
        ]
        for module in (heads, parts, words, smoothing)
        for name, measure in module.MEASURES.items()
    }
    return run.record.model_copy(update={"task": "inside", "analyses": analyses})


def measure_all(names: Sequence[str], out: Path) -> None:
    """Measure runs, write their records, then draw the folder."""
    from seqmodels.inference import find_record, load
    from seqmodels.records.io import format_record
    from seqmodels.report import figures
    from seqmodels.report.load import load_folder

    paths = {name: out / find_record(name).name for name in names}
    if len({*paths.values()}) < len(paths):
        raise ValueError(f"two of {', '.join(names)} have the same name; measure them one by one")
    files.claim_folder(out, "comparison")
    for name, path in paths.items():
        record = measure_run(name, load(name))
        files.write(path, format_record(record))
        print(f"{name}: measured in {path}")
    drawn = figures.plot_folder(folder := load_folder(out), figures.find_significance(folder))
    print("\n".join(map(str, drawn)))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the runs that are named."""
    args = PARSER.parse_args(argv)
    run_cli("inside", lambda: measure_all(args.runs, args.out))


if __name__ == "__main__":
    main()
