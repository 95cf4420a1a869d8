"""The program that runs the models in the page: onnxruntime-web, and our worker around it.

npm fetches it once, in the versions and with the checksums of package-lock.json, into the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from seqmodels.data.presets import cache_dir, ensure_dir
from seqmodels.utils.terminal import print_line

HERE = Path(__file__).parent / "templates"
DECLARED = ("package.json", "package-lock.json")
BUNDLE = [
    "--bundle", "--minify", "--format=iife", "--target=es2022", "--log-level=error",
    "--charset=utf8", "--legal-comments=none", "--define:import.meta.url=''",
]  # fmt: skip


class Runtime(NamedTuple):
    """What a page needs to run models."""

    worker: str
    """A script for a Worker."""
    wasm: bytes
    versions: dict[str, str]
    """Version of each fetched package, by name."""


def runtime() -> Runtime:
    """Return the worker's script with onnxruntime-web in it.

    Raises ValueError if it has to be fetched and cannot.
    """
    modules = packages() / "node_modules"
    command = [str(modules / ".bin" / "esbuild"), str(HERE / "worker.js"), *BUNDLE]
    script = run(command, {"NODE_PATH": str(modules)}, "the worker cannot be built")
    wasm = modules / "onnxruntime-web" / "dist" / "ort-wasm-simd-threaded.wasm"
    declared = json.loads((HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    return Runtime(script, wasm.read_bytes(), declared)


def packages() -> Path:
    """Return the folder with the packages; fetch them if they are not there yet."""
    content = b"".join((HERE / name).read_bytes() for name in DECLARED)
    folder = cache_dir() / f"web-{hashlib.sha256(content).hexdigest()[:16]}"
    with FileLock(f"{ensure_dir(folder.parent) / folder.name}.lock"):
        if folder.exists():
            return folder
        if (npm := shutil.which("npm")) is None:
            raise ValueError(
                "the live page needs npm, which comes with Node.js (https://nodejs.org), to fetch "
                "onnxruntime-web once"
            )
        print_line("fetching onnxruntime-web with npm, once")
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            part = Path(scratch) / "web"
            part.mkdir()
            for name in DECLARED:
                shutil.copy(HERE / name, part)
            quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            run([npm, "ci", *quiet, "--prefix", str(part)], {}, "npm cannot fetch onnxruntime-web")
            part.rename(folder)
    return folder


def run(command: list[str], env: dict[str, str], failure: str) -> str:
    """Run a program and return what it printed; raise ValueError with its complaint."""
    try:
        done = subprocess.run(
            command, env=os.environ | env, capture_output=True, encoding="utf-8", check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise ValueError(f"{failure}: {said.strip().splitlines()[0]}") from None
    return done.stdout
