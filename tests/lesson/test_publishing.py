"""The workflow that publishes the lesson: its commands, and the folder below a path of a server."""

import html
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin
from urllib.request import urlopen

import pytest
from browser import Tab
from conftest import RESULTS

from seqmodels.cli import site

ROOT = RESULTS.parent
WORKFLOWS = ROOT / ".github" / "workflows"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and prints nothing."""

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def address(site_folder: Path) -> Iterator[str]:
    """Serve the site below a path, as GitHub Pages does; return its address."""
    handler = partial(Quiet, directory=site_folder.parent)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/{site_folder.name}/"
        server.shutdown()


def commands(workflow: str) -> list[str]:
    """Return what a workflow runs."""
    text = (WORKFLOWS / workflow).read_text(encoding="utf-8")
    return re.findall(r"^ *- run: (.*)$", text, re.M)


def test_the_workflow_builds_the_folder_that_it_publishes(tmp_path: Path) -> None:
    text = (WORKFLOWS / "pages.yml").read_text(encoding="utf-8")
    (build,) = (shlex.split(line) for line in commands("pages.yml") if " site " in line)
    (published,) = re.findall(r"upload-pages-artifact@v\d+\n *with: \{path: (.*)\}", text)
    parser = site.argparse.ArgumentParser()
    site.add_arguments(parser.add_argument)
    url = "https://example.org/lesson"
    given = parser.parse_args([arg.replace("$URL", url) for arg in build[2:]])
    assert (build[:2], str(given.out), given.url) == (["seqmodels", "site"], published, url)
    assert (given.train, given.single_file) == (True, False)
    assert [*given.live.glob("*.safetensors")]
    (copy,) = (line for line in commands("pages.yml") if "jupytext" in line)
    sources = sorted((ROOT / "notebooks").glob("*.py"))
    if shutil.which("jupytext"):
        (tmp_path / published).mkdir()
        shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
        subprocess.run(copy, shell=True, check=True, cwd=tmp_path, capture_output=True)
        made = sorted(path.stem for path in (tmp_path / published).rglob("*.ipynb"))
        assert made == [path.stem for path in sources] != []


def test_every_link_answers_below_a_path(address: str, site_folder: Path) -> None:
    pages = [path.name for path in site_folder.glob("*.html")]
    links = {address}
    for name in pages:
        text = (site_folder / name).read_text(encoding="utf-8")
        for link in re.findall(r'<[^>]+ (?:href|src)="([^"]*)"', text):
            if not re.match("(?:data|https|http):", link):
                links.add(urldefrag(urljoin(address + name, html.unescape(link)))[0])
    assert len(links) >= len(pages)
    for link in links:
        assert link.startswith(address), link
        with urlopen(link) as answer:
            assert answer.status == 200, link


def test_pages_request_nothing_elsewhere(chromium: Any, address: str, site_folder: Path) -> None:
    tab = Tab(chromium, site_folder / "index.html")
    tab.requests.clear()
    for path in site_folder.glob("*.html"):
        tab.page.goto(address + path.name)
    tab.page.goto(address)
    assert tab.page.locator("h1").is_visible()
    assert not [url for url in tab.requests if not url.startswith((address, "blob:", "data:"))]
    assert tab.messages == []
    tab.context.close()


def test_badges_open_what_they_say() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for label, image, target in re.findall(r"^\[!\[(.*?)\]\((.*?)\)\]\((.*?)\)$", text, re.M):
        if match := re.fullmatch(r"\.\./\.\./actions/workflows/(.*\.yml)", target):
            assert (WORKFLOWS / match[1]).exists()
            assert image == f"{target}/badge.svg"
        else:
            assert (ROOT / target).is_file(), label
        if target == "LICENSE":
            assert label.split()[0] in (ROOT / target).read_text(encoding="utf-8").splitlines()[0]
        if version := re.search(r"Python ([\d.]+) or newer", label):
            assert f'requires-python = ">={version[1]}"' in project
