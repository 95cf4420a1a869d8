"""Write a model card: what a trained run is, from its record alone."""

from __future__ import annotations

from seqmodels.records.schema import Record
from seqmodels.report import load_records, tables

FIGURE = "scores.png"
"""The figure beside a card."""
TASKS = {"translation": "translation", "next_token": "text-generation"}
"""The Hub's names of tasks."""
END = """\
It was tested on nothing but what the tables say. One seed says how sentences differ, not how \
trainings do.

## Use

```python
import seqmodels

run = seqmodels.load("hub:{repository}")
```
"""
"""The end of a card."""


def format_card(record: Record, repository: str) -> str:
    """Return the card of a run that is shared as OWNER/NAME, in Markdown with metadata."""
    test, info = record.tests[0], load_records.info_of(record)
    head: dict[str, object] = {"library_name": "seqmodels", "tags": ["seqmodels", record.model]}
    if task := TASKS.get(record.task):
        head["pipeline_tag"] = task
    lines = ["---", *(f"{key}: {value}" for key, value in head.items()), "---", ""]
    lines += [f"# {load_records.label_of(record)}, {record.task}", ""]
    if info and info.cite:
        lines += [f"The model of {info.cite} ({info.year}).", ""]
    settings = [["", record.model], *map(list, list_settings(record).items())]
    lines += [tables.format_markdown(settings), ""]
    for each in record.tests:
        title, rows, notes = tables.score_rows([record], each, tables.format_cell)
        columns = [list(column) for column in zip(*rows, strict=True)]  # a row for each bucket
        columns[0][0] = each.axis
        table = tables.format_markdown(columns)
        title = title.removeprefix(f"{each.name}: ")
        lines += [f"## {title}", "", table, "", "; ".join(notes), ""]
    lines += [f"![{test.axis}]({FIGURE})", "", "## Limits", ""]
    if longest := test.max_train_length:
        lines.append(f"Nothing longer than {longest} {test.unit} was seen in training.")
    return "\n".join([*lines, END.format(repository=repository)])


def list_settings(record: Record) -> dict[str, str]:
    """Return what a card says of a run's data, size and training."""
    data, training = record.data, record.train_config
    return {
        "data": f"{data.name}, {data.get('n_train', 0):,} training examples",
        "tokens": str(data.get("tokenizer", "unknown")),
        "parameters": f"{record.n_parameters:,}",
        "budget": f"{training.tokens:,} target tokens, {training['precision']}, "
        f"{training.get('optimizer', 'adamw')}, learning rate {training.lr:g}",
        "seed": str(record.seed),
        "weights, SHA-256": record.weights_sha256 or "not recorded",
    }
