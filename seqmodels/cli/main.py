"""The `seqmodels` command: compare models, draw figures, use a trained run."""

from __future__ import annotations

import gc
from importlib import import_module
from importlib.metadata import version

from seqmodels.utils.terminal import Parser, run_cli

COMMANDS = {
    "run": "run", "plot": "run", "translate": "inference", "generate": "inference",
    "models": "models", "check": "check", "exercise": "check", "site": "pages", "live": "pages",
    "report": "pages", "export": "pages",
}  # fmt: skip
"""Each is a function of this module of the folder: its docstring is the line of help, and
`add_COMMAND` adds its arguments."""


def build_parser() -> Parser:
    """Return the command line."""
    p = Parser(prog="seqmodels", description=__doc__)
    p.add_argument("--version", action="version", version=f"seqmodels {version('seqmodels')}")
    commands = p.add_subparsers(metavar="COMMAND", parser_class=Parser)
    for name, home in COMMANDS.items():
        module = import_module(f"seqmodels.cli.{home}")
        run_command = getattr(module, name)
        command = commands.add_parser(name, help=run_command.__doc__)
        getattr(module, f"add_{name}")(command.add_argument)
        command.set_defaults(run_command=run_command)
    return p


def main() -> None:
    """Run the command line."""
    gc.set_threshold(100_000)  # torch's import makes many objects, none of them garbage
    parser = build_parser()
    args = parser.parse_args()
    if not hasattr(args, "run_command"):
        parser.print_help()
        return
    run_cli("seqmodels", lambda: args.run_command(args))


if __name__ == "__main__":
    main()
