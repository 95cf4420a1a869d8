"""Plant known bugs in a copy of the clone, one at a time, and check that the tests catch them.

    pip install -e '.[mutants]'
    python -m tools.mutants                 replay all mutants; continue after an interruption
    python -m tools.mutants --alive         only those that survived the last replay
    python -m tools.mutants --only trainer  only those with this text in file, function or bug

`mutants.toml` was written by hand, without looking at the tests; `drawn.toml` by `draw.py`. A
mutant is a text in a function and its replacement, so that it survives a move. It is an error if
the text does not occur exactly once in the function.

Each mutant runs the fast tests that cover its statement, the likeliest first, and is killed by the
first one that fails or hangs; coverage is measured once per test file. All tests are imported once,
and each mutant gets a fork in which its function's code is replaced, two at a time. A test that
fails there kills the mutant if it also fails alone, and passes without the bug. Code that only runs
on import is mutated in a copy that is imported anew.
"""

from __future__ import annotations

import argparse
import ast
import gc
import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
LISTS = ("mutants.toml", "drawn.toml")
CODE = ("seqmodels", "tasks")
MAX_ALIVE = 0.05
"""Largest share of the mutants that may survive."""
N_AT_ONCE = 2
PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
BROKEN = 99
"""Exit code of a test run that failed internally."""
QUIET = ["-n", "0", "-s", "--tb=short", "-p", "no:cacheprovider"]
QUIET += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # about what is imported already
PATIENCE_S = 30.0
"""Seconds beyond ten times its usual duration after which a test counts as hanging."""
LIBRARIES = (
    "beartype", "hypothesis", "jaxtyping", "matplotlib.figure", "matplotlib.style", "numpy",
    "pydantic", "sacrebleu", "safetensors.torch", "tiktoken", "tokenizers", "torch", "tqdm",
    "transformers.models.gpt2.modeling_gpt2",
)  # fmt: skip


# ---------------------------------------------------------------------------------- A mutant


class Mutant(NamedTuple):
    """A known bug."""

    file: str
    function: str
    """Qualified name of the function, class or assignment that contains the text."""
    old: str
    new: str
    bug: str
    """Description of what goes wrong."""
    origin: str = "hand"
    equivalent: str = ""
    """Why no test can distinguish it from the original, if so."""

    @property
    def key(self) -> str:
        """Return its key in the results of replays."""
        return digest(self[:4])

    def where(self, source: str) -> int:
        """Return the offset of the old text in the source; raises ValueError."""
        start, end = span(source, self.function)
        if (n := source.count(self.old, start, end)) != 1:
            raise ValueError(f"{self.old!r} occurs {n} times")
        return source.index(self.old, start, end)

    def applied(self, source: str) -> str:
        """Return the source with the bug; raises ValueError if it does not apply."""
        start, end = span(source, self.function)
        at = self.where(source)
        after = at + len(self.old)
        part = source[start:at] + self.new + source[after:end]
        try:
            ast.parse(f"if True:\n{part}" if part[0].isspace() else part)
        except SyntaxError as fault:
            raise ValueError(f"{self.new!r} is not valid Python: {fault}") from fault
        return source[:start] + part + source[end:]


def digest(value: Any) -> str:
    """Return a short checksum of a JSON value."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def read(folder: Path = Path(__file__).parent) -> list[Mutant]:
    """Return all mutants."""
    found = []
    for name in LISTS:
        with suppress(FileNotFoundError):
            listed = tomllib.loads((folder / name).read_text(encoding="utf-8"))
            found += [Mutant(**fields) for fields in listed["mutant"]]
    return found


def faults(mutants: Iterable[Mutant], root: Path = ROOT) -> list[str]:
    """Return a line for each mutant that does not apply or is listed twice."""
    found, seen = [], set()
    for mutant in mutants:
        try:
            if mutant.key in seen:
                raise ValueError("listed twice")
            seen.add(mutant.key)
            mutant.applied((root / mutant.file).read_text(encoding="utf-8"))
        except (ValueError, OSError) as fault:
            found.append(f"{mutant.file}, {mutant.function} ({mutant.bug}): {fault}")
    return found


def named(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Yield a module's functions, classes and assignments with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name, node
            yield from named(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((prefix + t.id, node) for t in targets if isinstance(t, ast.Name))


def span(source: str, name: str) -> tuple[int, int]:
    """Return the start, including decorators, and the end of a function; raises ValueError."""
    places = spans(source).get(name, [])
    if len(places) != 1:
        raise ValueError(f"{name} occurs {len(places)} times")
    return places[0]


@cache
def spans(source: str) -> dict[str, list[tuple[int, int]]]:
    """Return the start and the end of each named part of a module."""
    ends = [0, *accumulate(len(line) + 1 for line in source.split("\n"))]
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, node in named(ast.parse(source)):
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        found[name].append((ends[first - 1], ends[node.end_lineno or first]))
    return found


def lines_of(source: str, mutant: Mutant) -> set[int]:
    """Return the lines of the statements that the mutant changes, if they are in a function.

    A compound statement's header counts as itself; a function's header (defaults and decorators,
    which run on import) counts as its whole body.
    """
    at = mutant.where(source)
    first = source.count("\n", 0, at + len(mutant.old) - len(mutant.old.lstrip())) + 1
    last = source.count("\n", 0, at + len(mutant.old)) + 1
    lines: set[int] = set()
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            begins = min([function.lineno, *(d.lineno for d in function.decorator_list)])
            body = range(function.body[0].lineno, (function.end_lineno or 0) + 1)
            if begins <= first < body.start:
                lines |= set(body)
            elif first in body:
                lines |= set(body) & statements(function, first, last)
    return lines


def outermost(source: str, mutant: Mutant) -> str:
    """Return the outermost function whose body contains the old text, or ""."""
    at = mutant.where(source)
    first = source.count("\n", 0, at + len(mutant.old) - len(mutant.old.lstrip())) + 1
    for name, node in named(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            body = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
            if first in body:
                return name
    return ""


def statements(function: ast.FunctionDef, first: int, last: int) -> set[int]:
    """Return the lines of the function's statements that overlap the lines first … last."""
    lines: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef):
            body = getattr(node, "body", None)
            end = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            if node.lineno <= last and first <= end:
                lines |= set(range(node.lineno, end + 1))
    return lines


# ---------------------------------------------------------------------------- A run of the tests


class Watch:
    """A pytest plugin that runs only chosen tests, in order; a file names the current one."""

    def __init__(self, at: Path, tree: Path, chosen: Sequence[str] | None = None):
        self.at, self.tree, self.chosen = at, tree, chosen

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Select and order the tests."""
        if self.chosen is not None:
            place = {nodeid: i for i, nodeid in enumerate(self.chosen)}
            known = [item for item in items if item.nodeid in place]
            items[:] = sorted(known, key=lambda item: place[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write down which test runs."""
        self.at.write_text(nodeid, encoding="utf-8")


class Measure(Watch):
    """Record the lines that each test and each shared fixture covers."""

    def __init__(self, at: Path, tree: Path, out: Path, own: str):
        from coverage import Coverage  # only needed here, not by `read` and `faults`

        super().__init__(at, tree)
        self.out, self.own, self.now = out, own, [""]
        self.tests: dict[str, dict[str, Any]] = {}
        sources = [str(tree / name) for name in CODE]
        self.cov = Coverage(str(at.with_name("coverage")), source=sources, config_file=False)
        self.cov.erase()
        self.cov.start()

    def context(self, name: str) -> Iterator[Any]:
        """Record coverage under a name."""
        self.now.append(name)
        self.cov.switch_context(name)
        try:
            return (yield)
        finally:
            self.now.pop()
            self.cov.switch_context(self.now[-1])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Record a test under its own name."""
        definitions = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009
        shared = [shared_name(d) for ds in definitions for d in ds if d.scope != "function"]
        self.tests[item.nodeid] = {"seconds": 0.0, "passed": True, "shared": shared}
        return (yield from self.context(item.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        """Record a shared fixture under its name: the first test that requests it creates it."""
        if fixturedef.scope == "function":
            return (yield)
        return (yield from self.context(shared_name(fixturedef)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test's duration and whether it passed."""
        test = self.tests[report.nodeid]
        test["seconds"] += report.duration
        test["passed"] &= report.outcome == "passed"

    def pytest_sessionfinish(self) -> None:
        """Write the measurements."""
        self.cov.stop()
        data = self.cov.get_data()
        lines: dict[str, dict[str, list[int]]] = {}
        for path in data.measured_files():
            file = str(Path(path).relative_to(self.tree))
            contexts: dict[str, list[int]] = defaultdict(list)
            for line, names in data.contexts_by_lineno(path).items():
                for name in filter(None, names):  # code that ran on import has no name
                    contexts[name].append(line)
            if contexts:
                lines[file] = contexts
        sums = {file: sha256(self.tree / file) for file in lines}
        found = {"own": self.own, "sources": sums, "tests": self.tests, "lines": lines}
        self.out.write_text(json.dumps(found))


def shared_name(definition: Any) -> str:
    """Return the name of a shared fixture."""
    return f"fixture {definition.baseid}::{definition.argname}"


class Slot:
    """A slot in which jobs run one after the other."""

    def __init__(self, folder: Path):
        self.folder, self.tree, self.temp = folder, folder / "tree", folder / "temp"
        self.at, self.log = folder / "at", folder / "log"
        self.pid, self.since, self.code = 0, 0.0, 0
        self.seconds: Mapping[str, float] = {}
        folder.mkdir()

    def start(self, job: Job) -> None:
        """Run the job in a fork."""
        self.job, self.since = job, time.monotonic()
        shutil.rmtree(self.temp, ignore_errors=True)
        self.temp.mkdir()
        self.at.write_text("")
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            self.run()

    def run(self) -> None:
        """Run the job in this process, then exit."""
        code = BROKEN
        try:
            os.setpgid(0, 0)
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream, number in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
                os.dup2(stream, number)
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(self.temp)
            code = self.job.work(self)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def has_ended(self) -> bool:
        """Return whether the job is done; kill it if a test hangs."""
        done, status = os.waitpid(self.pid, os.WNOHANG)
        running = self.at.read_text("utf-8")
        patience = PATIENCE_S + 10 * self.job.seconds.get(running, 30.0)
        if not done and time.time() - self.at.stat().st_mtime < patience:
            return False
        with suppress(ProcessLookupError):  # including processes that the tests started
            os.killpg(self.pid, signal.SIGKILL)
        if not done:
            _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        return True


class Job(NamedTuple):
    """Tests to run."""

    mutant: Mutant | None
    what: str
    work: Callable[[Slot], int]
    """Called in a fork; returns the exit code."""
    seconds: Mapping[str, float] = {}
    """Usual duration of each test."""


def run_cold(
    slot: Slot,
    base: Path,
    mutant: Mutant | None,
    args: Sequence[str],
    watch: Callable[[Path, Path], Watch],
) -> int:
    """Import everything from a copy of the tree with the bug, and run the tests there."""
    shutil.rmtree(slot.tree, ignore_errors=True)
    shutil.copytree(base, slot.tree)
    if mutant:
        path = slot.tree / mutant.file
        path.write_text(mutant.applied(path.read_text("utf-8")), "utf-8")
    os.chdir(slot.tree)
    os.environ["PYTHONPATH"] = sys.path[0] = str(slot.tree)
    sys.dont_write_bytecode = True
    return int(pytest.main([*QUIET, *args], [watch(slot.at, slot.tree)]))


class Warm:
    """A pytest plugin that collects all tests, then replays mutants in forks."""

    def __init__(self, base: Path, replay: Callable[[Warm], None]):
        self.base, self.replay = base, replay
        self.functions: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
        self.sound: set[str] = set()
        """Tests that have passed here without a bug."""
        self.broken: set[str] = set()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Replay instead of running the tests."""
        self.session = session
        self.items = {item.nodeid: item for item in session.items}
        for found in gc.get_objects():
            if type(found) is FunctionType:  # isinstance is fooled by proxies
                code = found.__code__
                self.functions[code.co_filename, code.co_qualname].append(found)
        self.replay(self)
        return True

    def run(self, slot: Slot, mutant: Mutant, tests: Sequence[str]) -> int:
        """Run the tests against a mutant.

        A test kills the mutant if it fails alone with the bug and passes alone without it.
        """
        tests = [test for test in tests if test in self.items and test not in self.broken]
        while (code := self.forked(slot, mutant, tests)) not in PASSED:
            by = slot.at.read_text("utf-8")
            if self.forked(slot, mutant, [by]) not in PASSED:
                if by in self.sound or self.forked(slot, None, [by]) in PASSED:
                    break
                with open(slot.folder / "broken", "a", encoding="utf-8") as file:
                    file.write(f"{by}\n")
            tests = tests[tests.index(by) + 1 :]
        return code

    def heard(self, slot: Slot) -> None:
        """Keep what a run has shown about the tests."""
        with suppress(FileNotFoundError):
            self.broken |= {*(slot.folder / "broken").read_text("utf-8").splitlines()}
        if slot.code not in PASSED:
            self.sound.add(slot.at.read_text("utf-8"))

    def forked(self, slot: Slot, mutant: Mutant | None, tests: Sequence[str]) -> int:
        """Swap the function's code in a fork, and run the tests there up to the first failure."""
        if pid := os.fork():
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        code = BROKEN
        try:
            if mutant:
                self.swap(mutant)
            code = self.passed(slot, [self.items[test] for test in tests])
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def passed(self, slot: Slot, items: Sequence[pytest.Item]) -> int:
        """Run tests up to the first failure."""
        for item, after in zip(items, [*items[1:], None], strict=True):
            slot.at.write_text(item.nodeid, encoding="utf-8")
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self.session.testsfailed:
                reporter: Any = item.config.pluginmanager.get_plugin("terminalreporter")
                for report in (*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())):
                    print(report.longreprtext)
                return int(pytest.ExitCode.TESTS_FAILED)
        return int(pytest.ExitCode.OK)

    def swap(self, mutant: Mutant) -> None:
        """Replace the function's code with the mutant's, also where decorators hold it."""
        path = self.base / mutant.file
        source = path.read_text("utf-8")
        name = outermost(source, mutant)
        codes = [compile(mutant.applied(source), str(path), "exec", dont_inherit=True)]
        for code in codes:
            codes += [const for const in code.co_consts if isinstance(const, CodeType)]
        for function in self.functions[str(path), name]:
            (new,) = (
                code
                for code in codes
                if code.co_qualname == name
                and abs(code.co_firstlineno - function.__code__.co_firstlineno) < 2
            )
            function.__code__ = new
        if not self.functions[str(path), name]:
            raise LookupError(f"{mutant.file} has no {name} that is imported")


def run_all(jobs: Iterable[Job], done: Callable[[Job, Slot], None]) -> None:
    """Run the jobs, a few at a time."""
    waiting = iter(jobs)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        free = [Slot(Path(scratch) / str(i)) for i in range(N_AT_ONCE)]
        busy: list[Slot] = []
        try:
            while True:
                while free and (job := next(waiting, None)):
                    busy.append(free.pop())
                    busy[-1].start(job)
                if not busy:
                    return
                time.sleep(0.05)
                for slot in [slot for slot in busy if slot.has_ended()]:
                    busy.remove(slot)
                    free.append(slot)
                    done(slot.job, slot)
        finally:
            for slot in busy:
                with suppress(ProcessLookupError):
                    os.killpg(slot.pid, signal.SIGKILL)


# --------------------------------------------------------------------------------- Coverage


class Cover(NamedTuple):
    """What the fast tests cover."""

    tests: dict[str, dict[str, Any]]
    """Passing test -> its seconds and its number of lines."""
    lines: dict[str, dict[int, set[str]]]
    """File -> line -> tests."""
    states: dict[str, str]
    """Test file -> checksum of it and of all code that its tests cover."""


def sha256(path: Path) -> str:
    """Return a file's checksum."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def own_state(base: Path, name: str) -> str:
    """Return a checksum of a test file, those it imports from, and what all of them share."""
    files = {path for path in base.glob("tests/*.py") if not path.name.startswith("test_")}
    files |= {path for path in base.glob("tools/**/*.py") if path != base / "tools" / "mutants.py"}
    waiting = [base / name]
    while waiting:
        files.add(path := waiting.pop())
        found = re.findall(r"^from (test_\w+) import", path.read_text("utf-8"), re.MULTILINE)
        waiting += [new for new in (path.with_name(f"{stem}.py") for stem in found)
                    if new not in files]  # fmt: skip
    return digest([[path.name, sha256(path)] for path in sorted(files)])


def state(base: Path, name: str, path: Path) -> str | None:
    """Return the state of a measured test file; None if it must be measured again."""
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    now = {file: sha256(base / file) for file in found["sources"] if (base / file).exists()}
    is_same = found["own"] == own_state(base, name) and now == found["sources"]
    return digest([found["own"], found["sources"]]) if is_same else None


def measure(base: Path, out: Path) -> Cover:
    """Return what the tests cover; only test files whose coverage may have changed are run."""
    folder, jobs = out / "cover", []
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(str(path.relative_to(base)) for path in base.glob("tests/**/test_*.py"))
    paths = {name: folder / f"{Path(name).stem}.json" for name in names}
    for name, path in paths.items():
        if state(base, name, path) is None:
            path.unlink(missing_ok=True)
            plugin = partial(Measure, out=path, own=own_state(base, name))
            work = partial(run_cold, base=base, mutant=None, args=[name], watch=plugin)
            jobs.append(Job(None, name, work))

    def done(job: Job, slot: Slot) -> None:
        took = f"{time.monotonic() - slot.since:.0f} s"
        print(f"covered {job.what} in {took}, exit code {slot.code}", flush=True)
        if slot.code not in PASSED:
            print(slot.log.read_text("utf-8", "replace")[-2000:])

    sizes = {name: (base / name).stat().st_size for name in names}
    run_all(sorted(jobs, key=lambda job: -sizes[job.what]), done)
    cover = Cover({}, defaultdict(lambda: defaultdict(set)), {})
    for name, path in paths.items():
        if (now := state(base, name, path)) is not None:
            cover.states[name] = now
            add(cover, path)
    return cover


def add(cover: Cover, path: Path) -> None:
    """Add the coverage of one test file."""
    found = json.loads(path.read_text())
    tests = {name: test for name, test in found["tests"].items() if test["passed"]}
    users = defaultdict(set)
    for name, test in tests.items():
        cover.tests[name] = {"seconds": test["seconds"], "n_lines": 0}
        for context in (name, *test["shared"]):
            users[context].add(name)
    for file, contexts in found["lines"].items():
        for context, lines in contexts.items():
            for line in lines:
                cover.lines[file][line] |= users[context]
    for lines in cover.lines.values():
        for names in lines.values():
            for name in names & tests.keys():
                cover.tests[name]["n_lines"] += 1


def covering(mutant: Mutant, cover: Cover, base: Path) -> list[str]:
    """Return the tests that cover a mutant, those first that are likely to kill it soonest.

    A value assigned on import counts as covered wherever its name occurs.
    """
    source = (base / mutant.file).read_text("utf-8")
    found: set[str] = set()
    for line in lines_of(source, mutant):
        found |= cover.lines[mutant.file][line]
    if not found:
        name = re.compile(rf"\b{mutant.function.rpartition('.')[2]}\b")
        for file, lines in cover.lines.items():
            text = (base / file).read_text("utf-8")
            for line in mentions(text, name):
                found |= lines[line]
    return in_order(found, cover)


def mentions(source: str, name: re.Pattern[str]) -> set[int]:
    """Return the lines with a name, and the bodies of functions with it in their signature."""
    found = {i for i, line in enumerate(source.split("\n"), start=1) if name.search(line)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            body = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
            if found & set(range(node.lineno, body.start)):
                found |= set(body)
    return found


def in_order(tests: Iterable[str], cover: Cover) -> list[str]:
    """Return tests by classes of duration, then file by file, the most specific first."""
    classes: dict[str, tuple[int, str]] = {}
    fewest: dict[tuple[int, str], int] = {}
    for test in tests:
        seconds, n_lines = cover.tests[test]["seconds"], cover.tests[test]["n_lines"]
        of = sum(seconds > limit for limit in (0.3, 1.5, 6.0)), test.partition("::")[0]
        classes[test], fewest[of] = of, min(n_lines, fewest.get(of, n_lines))
    return sorted(
        classes, key=lambda t: (classes[t][0], fewest[classes[t]], classes[t],
                                cover.tests[t]["n_lines"], t),
    )  # fmt: skip


# ----------------------------------------------------------------------------------- Replay


class Verdict(NamedTuple):
    """The outcome of a mutant."""

    key: str
    tree: str
    """Checksum of the tests that the verdict rests on, and of the code that they cover."""
    verdict: str
    """killed, alive, or uncovered."""
    by: str
    """The test that failed; "on import" if none had started."""
    seconds: float
    n_tests: int
    mutant: dict[str, str]


def replay(mutants: Sequence[Mutant], base: Path, out: Path) -> dict[str, Verdict]:
    """Run the tests against each mutant without a valid verdict; return all verdicts.

    A verdict is valid as long as the killing test (for a survivor, every test that ran) and the
    code that it covers are unchanged.
    """
    cover, path = measure(base, out), out / "verdicts.jsonl"
    old = earlier(path)
    met = {mutant.key: covering(mutant, cover, base) for mutant in mutants}

    def tree_of(mutant: Mutant, by: str) -> str:
        tests = [by] if by in met[mutant.key] else sorted(met[mutant.key])
        states = {cover.states[test.partition("::")[0]] for test in tests}
        return digest([sha256(base / mutant.file), sorted(states), tests])

    known: dict[str, Verdict] = {}
    by_key = {mutant.key: mutant for mutant in mutants}
    for verdict in old:
        if mutant := by_key.get(verdict.key):
            known.pop(verdict.key, None)
            if verdict.tree == tree_of(mutant, verdict.by):
                known[verdict.key] = verdict
    todo = [m for m in mutants if m.key not in known]
    seconds = {name: test["seconds"] for name, test in cover.tests.items()}

    def jobs(warm: Warm | None) -> Iterator[Job]:
        for mutant in todo:
            source = (base / mutant.file).read_text("utf-8")
            if bool(outermost(source, mutant)) != bool(warm):
                continue
            kills: Counter[str] = (
                Counter()
            )  # tests that killed this one before, then its neighbours
            for verdict in (*old, *known.values()):
                same = [verdict.mutant[key] == getattr(mutant, key) for key in ("file", "function")]
                kills[verdict.by] += all(same) + 1_000 * (verdict.key == mutant.key)
            tests = sorted(met[mutant.key], key=lambda test: -kills[test])
            if not tests:
                note(mutant, "uncovered", "", 0.0)
            elif warm:
                yield Job(mutant, "", partial(warm.run, mutant=mutant, tests=tests), seconds)
            else:
                args = ["-x", *dict.fromkeys(test.partition("::")[0] for test in tests)]
                watch = partial(Watch, chosen=tests)
                work = partial(run_cold, base=base, mutant=mutant, args=args, watch=watch)
                yield Job(mutant, "", work, seconds)

    def note(mutant: Mutant, verdict: str, by: str, took: float) -> None:
        fields = {key: value for key, value in mutant._asdict().items() if value}
        n_tests, tree = len(met[mutant.key]), tree_of(mutant, by)
        known[mutant.key] = found = Verdict(
            mutant.key, tree, verdict, by, round(took, 1), n_tests, fields
        )
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(found._asdict(), ensure_ascii=False) + "\n")
        n = sum(m.key in known for m in mutants)
        line = f"[{n}/{len(mutants)}] {verdict}, {took:.0f} s: {mutant.file}, {mutant.function}: "
        print(f"{line}{mutant.bug}" + (f" ({by})" if by else ""), flush=True)

    def done(job: Job, slot: Slot) -> None:
        assert job.mutant
        if slot.code in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR, BROKEN):
            raise RuntimeError(slot.log.read_text("utf-8", "replace")[-2000:])
        lives = slot.code in PASSED
        by = "" if lives else slot.at.read_text("utf-8") or "on import"
        note(job.mutant, "alive" if lives else "killed", by, time.monotonic() - slot.since)

    run_all(jobs(None), done)
    if len(known) < len(mutants):
        os.chdir(base)
        os.environ["PYTHONPATH"] = sys.path[0] = str(base)

        def go(warm: Warm) -> None:
            run_all(jobs(warm), lambda job, slot: (warm.heard(slot), done(job, slot)))  # type: ignore
            print("\n".join(["", *(f"fails even without a bug: {test}" for test in warm.broken)]))

        warm = Warm(base, go)
        pytest.main([*QUIET, "tests"], [warm])
    return known


def earlier(path: Path) -> list[Verdict]:
    """Return the verdicts of earlier replays, oldest first."""
    if not path.exists():
        return []
    return [Verdict(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def table(mutants: Sequence[Mutant], verdicts: Mapping[str, Verdict]) -> str:
    """Return a row per module: how many mutants were killed, survived or are equivalent."""
    heads = ("module", "mutants", "killed", "equivalent", "alive", "killed of real")
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant in mutants:
        kind = "equivalent" if mutant.equivalent else verdicts[mutant.key].verdict
        for name in (mutant.file, "all"):
            rows[name].update([kind if kind != "uncovered" else "alive", "mutants"])
    cells: list[tuple[str, ...]] = [heads]
    for name, n in sorted(rows.items(), key=lambda row: (row[0] == "all", row[0])):
        real = n["mutants"] - n["equivalent"]
        counts = (str(n[key]) for key in heads[1:5])
        cells.append((name, *counts, f"{n['killed'] / real:.1%}" if real else "–"))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, tuple("-" * width for width in widths))
    lines = (" | ".join(map(str.ljust, row, widths)) for row in cells)
    return "\n".join(f"| {line} |" for line in lines)


def copy(root: Path, base: Path) -> None:
    """Copy the files of a clone that git tracks or does not ignore."""
    listed = ["git", "-C", str(root), "ls-files", "-coz", "--exclude-standard"]
    for name in subprocess.run(listed, capture_output=True, check=True).stdout.decode().split("\0"):
        if name and (root / name).is_file():
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, base / name)


def main(argv: Sequence[str] | None = None) -> int:
    """Replay the mutants; return 1 if too many survive, 2 if one does not apply."""
    p = argparse.ArgumentParser("python -m tools.mutants", description=__doc__, allow_abbrev=False,
                                formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    p.add_argument("--only", metavar="TEXT", default="")
    p.add_argument("--alive", action="store_true")
    p.add_argument("--out", type=Path, default=ROOT / "runs" / "mutants", metavar="DIR")
    args = p.parse_args(argv)
    mutants = read()
    if wrong := faults(mutants):
        print("\n".join([*wrong, f"{len(wrong)} mutants do not apply"]), file=sys.stderr)
        return 2
    last = {verdict.key: verdict.verdict for verdict in earlier(args.out / "verdicts.jsonl")}
    mutants = [m for m in mutants if args.only in f"{m.file} {m.function} {m.bug} {m.origin}"]
    if args.alive:
        mutants = [m for m in mutants if last.get(m.key) in ("alive", "uncovered")]
    os.environ["HF_HUB_OFFLINE"] = (
        "1"  # the tests' setting, which comes too late once libraries are imported
    )
    for library in LIBRARIES:
        importlib.import_module(library)
    with tempfile.TemporaryDirectory(prefix="mutants-base-") as scratch:
        copy(ROOT, Path(scratch))
        real = [m for m in mutants if not m.equivalent]
        verdicts = replay(real, Path(scratch), args.out)
    print(table(mutants, verdicts))
    alive = [m for m in real if verdicts[m.key].verdict != "killed"]
    print(f"\n{len(alive)} of {len(real)} survive")
    print("\n".join(f"{m.file}, {m.function}: {m.bug}" for m in alive))
    return int(len(alive) > MAX_ALIVE * len(real))


if __name__ == "__main__":
    sys.exit(main())
