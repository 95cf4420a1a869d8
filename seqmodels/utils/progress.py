"""Progress: one line of the terminal for each run that is in work. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tqdm import tqdm

from seqmodels.utils.terminal import wrap

FORMAT = "{desc} {percentage:3.0f}% |{bar:10}| {remaining} left{postfix}"
LINE = 0
"""The line of this process's bars: each process of a pool has one of its own."""


class ProgressBar:
    """The line of a run: its phase, how far that is, the time left in it, and a note.

    Without a title, or without a terminal, nothing is drawn; messages are printed in any case.
    """

    def __init__(self, title: str = ""):
        self.title, self.phase, self.detail = title, "", ""
        """`detail` is the note of updates without one, such as the name of a test set."""
        self.bar = tqdm(
            desc=title, bar_format=FORMAT, position=LINE, leave=False, dynamic_ncols=True,
            miniters=1, disable=None if title else True,
        )  # fmt: skip

    def update(self, phase: str, done: int, total: int, note: str = "") -> None:
        """Draw how far the run is in a phase, at intervals."""
        if self.bar.disable:
            return
        if phase != self.phase:
            self.phase = phase
            self.bar.reset(total)
            self.bar.n = self.bar.last_print_n = done  # a resumed run does not begin at zero
            self.bar.set_description_str(f"{self.title}: {phase}", refresh=False)
        self.bar.set_postfix_str(note or self.detail, refresh=False)
        self.bar.update(done - self.bar.n)

    def track(self, phase: str, batches: Sequence[list[int]]) -> Iterator[list[int]]:
        """Yield the batches, and draw how many of their examples are done."""
        done, total = 0, sum(map(len, batches))
        for batch in batches:
            self.update(phase, done, total)
            yield batch
            done += len(batch)

    def log(self, text: str) -> None:
        """Print a message of the run above its line."""
        tqdm.write(wrap(f"{self.title}: {text}" if self.title else text))

    def close(self) -> None:
        """Clear the line."""
        self.bar.close()


SILENT = ProgressBar()
"""A bar that is not drawn."""
