"""Bundle the web worker of the live page with onnxruntime-web.

npm fetches onnxruntime-web and esbuild once into the cache, with the versions and checksums of
package-lock.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

from seqmodels.data.corpora import cache_dir

TEMPLATES = Path(__file__).parent / "templates"
PACKAGE_FILES = ("package.json", "package-lock.json")
BUNDLE = [
    "--bundle", "--minify", "--format=iife", "--target=es2022", "--log-level=error",
    "--charset=utf8", "--legal-comments=none", "--define:import.meta.url=''",
]  # fmt: skip


def build_runtime() -> tuple[str, bytes, dict[str, str]]:
    """Return a script for a Worker, its WebAssembly, and the versions of the packages in them.

    Raises ValueError if they have to be fetched and cannot.
    """
    declared = {name: (TEMPLATES / name).read_bytes() for name in PACKAGE_FILES}
    checksum = hashlib.sha256(b"".join(declared.values())).hexdigest()[:16]
    folder = cache_dir() / f"web-{checksum}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            fetch_packages(declared, folder)
    modules = folder / "node_modules"
    command = [str(modules / ".bin" / "esbuild"), str(TEMPLATES / "worker.js"), *BUNDLE]
    script = run_program(command, {"NODE_PATH": str(modules)}, "the worker cannot be built")
    wasm = modules / "onnxruntime-web" / "dist" / "ort-wasm-simd-threaded.wasm"
    return script, wasm.read_bytes(), json.loads(declared["package.json"])["dependencies"]


def fetch_packages(declared: Mapping[str, bytes], folder: Path) -> None:
    """Fetch the declared packages into a folder."""
    npm = shutil.which("npm") or "npm"
    failure = "npm, which comes with Node.js (https://nodejs.org), cannot fetch onnxruntime-web"
    print("fetching onnxruntime-web with npm, once")
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        part = Path(scratch) / "web"
        part.mkdir()
        for name, content in declared.items():
            (part / name).write_bytes(content)
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        run_program([npm, "ci", *quiet, "--prefix", str(part)], {}, failure)
        part.rename(folder)


def run_program(command: list[str], env: dict[str, str], failure: str) -> str:
    """Run a program and return its output; raise ValueError with its first error line."""
    try:
        process = subprocess.run(
            command, env=os.environ | env, capture_output=True, encoding="utf-8", check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        message = getattr(error, "stderr", None) or str(error)
        raise ValueError(f"{failure}: {message.strip().splitlines()[0]}") from None
    return process.stdout
