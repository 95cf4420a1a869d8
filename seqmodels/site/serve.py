"""Serve the report of folders in which models are being trained, drawn again as training goes on.

The server listens on 127.0.0.1 alone, and refuses requests that name another host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

from seqmodels.site import report

HOST = "127.0.0.1"


def state_of(folders: Sequence[Path]) -> str:
    """Return a checksum of the names, sizes and times of the files in the folders."""
    seen = []
    for folder in folders:
        for path in sorted(folder.glob("*")):
            if path.suffix in (".json", ".jsonl", ".safetensors"):
                try:
                    kept = path.stat()
                except FileNotFoundError:  # a checkpoint that has just been replaced
                    continue
                seen.append((str(path), kept.st_size, kept.st_mtime_ns))
    return hashlib.sha256(repr(seen).encode()).hexdigest()


class Server(ThreadingHTTPServer):
    """Keeps the page until a file changes."""

    daemon_threads = True

    def __init__(self, folders: Sequence[Path], n_maps: int, port: int):
        super().__init__((HOST, port), Handler)
        self.folders, self.n_maps = folders, n_maps
        self.lock, self.state, self.page = Lock(), "", ""

    def drawn(self) -> str:
        """Return the page, drawn anew if a file has changed."""
        with self.lock:
            if (state := state_of(self.folders)) != self.state:
                self.page = report.page(self.folders, self.n_maps, state)
                self.state = state
            return self.page


class Handler(BaseHTTPRequestHandler):
    """Answers with the page, or with the state of the folders, which the page asks for."""

    server: Server

    def do_GET(self) -> None:
        """Answer a request; one that names another host comes from a page elsewhere."""
        port = self.server.server_address[1]
        if self.headers["Host"] not in (f"{HOST}:{port}", f"localhost:{port}"):
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path == "/":
            try:
                self.answer("text/html", self.server.drawn())
            except ValueError as error:  # such as a record that another program has written
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=str(error))
        elif self.path == "/state":
            self.answer("text/plain", state_of(self.server.folders))
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def answer(self, kind: str, text: str) -> None:
        """Send a text."""
        content = text.encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print no line per request."""


def serve(folders: Sequence[Path], n_maps: int, port: int) -> None:
    """Serve the report until Ctrl-C; port 0 takes any that is free.

    Raises ValueError if the port is taken, or a folder is given twice.
    """
    report.check_folders(folders)
    try:
        server = Server(folders, n_maps, port)
    except OSError as error:
        raise ValueError(f"port {port} cannot be opened: {error.strerror}; name another") from error
    with server:
        print(
            f"http://{HOST}:{server.server_address[1]} shows the report; Ctrl-C ends it", flush=True
        )
        server.serve_forever()
