"""The console command: what each subcommand prints, and what it imports."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest
from conftest import RESULTS, ROOT, Call, check_one_line, copy_records, needs_tasks
from toys import options, toy

import seqmodels
from seqmodels import search
from seqmodels.cli import main
from seqmodels.cli.arguments import warn_unknown
from seqmodels.data import tokenizers
from seqmodels.evaluation import evaluate
from seqmodels.experiments import launch
from seqmodels.interface import EOS, UNK
from seqmodels.models import PAPERS, list_models, paper_of
from seqmodels.report import alignment, style

SENTENCE = "the cat needed the dog ."


def test_models_are_listed(call: Call) -> None:
    code, out, err = call(main, "models")
    assert (code, err) == (0, "")
    for line, (name, paper) in zip(out.splitlines()[1:-2], PAPERS.items(), strict=True):
        row = " ".join(line.split())
        assert row.startswith(f"{name} {paper.year} {paper.label} {paper.cite} ")
        assert row.endswith(str(ROOT / "seqmodels" / "models" / f"{name}.py"))
    assert " 124,439,808 " in out  # GPT-2 small, as published
    variants = [line.split() for line in call(main, "models", "--all")[1].splitlines()]
    expected = [(name, paper_of(name).variant_of) for name in list_models()[len(PAPERS) :]]
    assert [(row[0], row[2]) for row in variants[-len(expected) :]] == expected
    assert call(main, "--version")[:2] == (0, f"seqmodels {seqmodels.__version__}\n")
    assert call(main)[1].startswith("usage: seqmodels [-h]")


@pytest.mark.usefixtures("few_draws")
def test_plot_needs_records_and_sums_alone(trained: Path, call: Call, tmp_path: Path) -> None:
    # tables.md is headed by the folder's name
    folder = copy_records(trained, tmp_path / trained.name, ".sums.json.gz")
    code, out, err = call(main, "plot", folder)
    assert (code, err) == (0, "")
    files = {Path(line).name: Path(line) for line in out.splitlines()}
    names = {"score-length.svg", "curves.svg", "alignment.svg", "tables.md"}
    assert names <= files.keys()
    for name in names:
        assert files[name].read_bytes() == (trained / name).read_bytes()
    notes = b"\r\nHere attention wins: na\xefve, but true.\r\n"
    files["tables.md"].write_bytes(files["tables.md"].read_bytes() + notes)
    assert call(main, "plot", folder)[0] == 0
    assert files["tables.md"].read_bytes() == (trained / "tables.md").read_bytes() + notes
    for name in ("tables.md", "curves.svg"):
        own = files[name].read_bytes().replace(b"seqmodels plot", b"").replace(b"seqmodels<", b"<")
        files[name].write_bytes(own)
        check_one_line(call(main, "plot", folder), f"{name} was not written by seqmodels")
        assert files[name].read_bytes() == own
        shutil.copy(trained / name, folder)


@pytest.mark.parametrize("name", ["bahdanau", "gpt"])
def test_an_alignment_shows_the_source_with_its_eos(
    name: str, trained: Path, call: Call, tmp_path: Path, monkeypatch: Any
) -> None:
    tokenizer, path = tokenizers.load(trained / "vocabulary.json"), tmp_path / "alignment.svg"
    draw = Mock(side_effect=alignment.draw_alignment)
    monkeypatch.setattr(alignment, "draw_alignment", draw)
    target = tokenizer.encode("die Katze sieht")
    monkeypatch.setattr(evaluate, "greedy", lambda *_: [target])
    given = main, "translate", trained / f"{name}-seed1.json", SENTENCE, "--alignment"
    assert call(*given, path) == (0, tokenizer.decode(target) + "\n", "")
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    look, panel = draw.call_args.args[0]
    assert look == style.line_style_of(name)
    assert panel.src == [*tokenizer.tokens(tokenizer.encode(SENTENCE)), "<eos>"]
    assert panel.tgt == tokenizer.tokens(target)
    assert len(panel.alpha) == 3
    check_one_line(call(*given, tmp_path / "alignment.doc"), "alignment.doc")
    monkeypatch.setattr(evaluate, "beam", lambda *_, **how: [target[: int(how["length_penalty"])]])
    said = call(*given, path, "--beam", 2, "--length-penalty", 2)[1]
    assert said == tokenizer.decode(target[:2]) + "\n"
    assert draw.call_args.args[0][1].tgt == panel.tgt[:2]


def test_an_alignment_that_cannot_be_drawn_is_refused(
    trained: Path, call: Call, tmp_path: Path, monkeypatch: Any
) -> None:
    path = tmp_path / "alignment.svg"
    for name, text, generated, fault in (
        ("lstm_seq2seq", SENTENCE, [5], "one vector"),
        ("bahdanau", SENTENCE, [], "0 tokens"),
        ("bahdanau", " ".join([SENTENCE] * 60), [5], "100 tokens at most"),
    ):
        monkeypatch.setattr(evaluate, "greedy", Mock(return_value=[generated]))
        given = trained / f"{name}-seed1", text, "--alignment", path
        check_one_line(call(main, "translate", *given), fault)
        assert not path.exists()


def test_each_line_of_a_pipe_is_answered_as_it_comes() -> None:
    command = [sys.executable, "-m", "seqmodels.cli.main", "translate", "bahdanau"]
    pipe, run = subprocess.PIPE, seqmodels.load("bahdanau")
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        timer = Timer(120, process.kill)
        timer.start()
        for text in ("The cat sleeps.", "The dogs sleep."):
            print(text, file=process.stdin, flush=True)
            assert process.stdout.readline() == run.translate(text) + "\n"
        timer.cancel()


@pytest.mark.parametrize("name", ["gpt", "lstm_seq2seq"])
def test_a_model_without_context_continues_in_blocks(
    name: str, language_model: Path, call: Call, monkeypatch: Any
) -> None:
    sample = Mock(side_effect=search.generate)
    monkeypatch.setattr(search, "generate", sample)
    tokenizer = tokenizers.load(language_model / "vocabulary.json")
    given = main, "generate", language_model / f"{name}-seed1"
    assert call(*given, "so")[1] == seqmodels.load(given[2]).generate("so") + "\n"
    for text in ("so he said", "so he said 5 and went\n" * 9, ""):
        sample.reset_mock()
        tokens = tokenizer.encode(text)
        code, out, err = call(*given, text, "--length", 20)
        assert (code, err) == (0, "")
        assert out.startswith(text)
        assert len(out) > len(text) + 1
        calls = [(c.args[5][0].tolist(), c.args[3]) for c in sample.call_args_list]
        assert calls[0][0] == (tokens if len(tokens) < 12 else tokens[-6:])
        assert all(len(prefix) == 6 for prefix, _ in calls[1:])
        assert sum(n - len(prefix) for prefix, n in calls) == 20
        assert max(n for _, n in calls) <= 12


# ------------------------------------------------------------------------------ Runs by their names
LIVE = RESULTS / "translation-live"


@pytest.mark.parametrize("command", ["plot", "report --out a.html", "live --out a.html"])
def test_a_folder_that_is_a_run_is_named(command: str, call: Call, trained: Path) -> None:
    name, *flags = command.split()
    for run, home in (("gpt", LIVE), (trained / "gpt-seed1", trained)):
        check_one_line(call(main, name, run, *flags), f"such as {home}, which has the run {run}")


LIGHT = {
    "seqmodels.cli.main translate --help": 0, "seqmodels.cli.main translte": 2,
    "seqmodels.cli.main run copy --help": 0, "seqmodels.cli.main run memory --siz smoke": 2,
    "seqmodels.cli.main check bahdanua": 2, "tasks.next_token --data shakspeare": 2,
    "tasks --sedes 1": 2, "tasks.translation --source de": 2,
}  # fmt: skip
"""Commands that import no large library, and their exit codes."""
ONE_SENTENCE = "seqmodels.cli.main translate results/translation-live/bahdanau-seed1 cat"
SLOW = {"torch", "matplotlib", "datasets", "sacrebleu"}
SLOW_AFTER_TORCH = {"matplotlib", "datasets", "sacrebleu", "scipy", "sympy", "torch._dynamo"}
PROGRAM = """
import json, runpy, sys
seen, commands = [], sys.argv[1:]
for command in commands:
    module, *sys.argv[1:] = command.split()
    try:
        code = runpy.run_module(module, run_name="__main__", alter_sys=True) and 0
    except SystemExit as stopped:
        code = stopped.code or 0
    seen.append([code, [*sys.modules]])
print("\\n" + json.dumps(seen))
"""


@needs_tasks
@pytest.mark.parametrize(
    ("commands", "slow"), [(LIGHT, SLOW), ({ONE_SENTENCE: 0}, SLOW_AFTER_TORCH)]
)
def test_help_typos_and_one_sentence_import_little(
    commands: dict[str, int], slow: set[str]
) -> None:
    program = [sys.executable, "-c", PROGRAM, *commands]
    process = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    seen = json.loads(process.stdout.splitlines()[-1])
    for (command, expected), (code, modules) in zip(commands.items(), seen, strict=True):
        assert (code, slow & {*modules}) == (expected, set()), command


def test_an_interrupted_comparison_says_how_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(launch, "prepare_folder", interrupted)
    for is_fresh in (False, True):
        with pytest.raises(KeyboardInterrupt) as advised:
            launch.compare(toy(), options(tmp_path, fresh=is_fresh))
        assert ("without --fresh" in advised.value.__notes__[0]) == is_fresh


def test_unknown_words_are_counted_among_the_words(call: Call, capsys: Any) -> None:
    warn_unknown([[5, UNK, EOS], [], [UNK, 7]])
    assert capsys.readouterr().err.startswith("2 of 4 words are unknown")
    for text, fault in (("the cat qqq dog", "1 of 4 words "), ("the cat", "")):
        code, said, err = call(main, "generate", "gpt", text, "--length", 1)
        assert (code, said[:7], err[: len(fault)]) == (0, "the cat", fault)
