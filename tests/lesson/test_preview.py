"""The picture for previews of links: its cells and words are those of the opening picture."""

import struct
from pathlib import Path

import numpy as np

from lesson.preview import draw_preview


def test_a_preview_shows_cells_words_and_shares() -> None:
    outputs = ["eins zwei", "drei", "vier fünf"]
    row = {
        "vectors": ["gggggggg", "A/gggggA"], "annotations": ["A" * 8, "/" * 8, "A///////"],
        "best": ["gggggggg", "///////A"], "outputs": outputs,
    }  # fmt: skip
    machines = [
        {"title": f"machine {k}", "marked": {"n_right": right, "n": 8}}
        for k, right in enumerate((2, 8, 5))
    ]
    figure = draw_preview({"rows": [{}, row], "shown": 1, "machines": machines})
    assert [*(figure.get_size_inches() * 100).round()] == [1200, 630]
    one, many, best = (axes.images[0] for axes in figure.axes)
    shown = np.asarray(one.get_array())
    assert shown.shape == (2, 5)
    assert [*shown[0, :2], shown[1, 3], shown[0, 4]] == [-1, 1, -1, 0]
    assert np.asarray(many.get_array())[:, ::5].tolist() == [[-1, 1, -1], [-1, 1, 1]]
    assert np.asarray(best.get_array())[1, 3] == -1
    assert (one.get_extent()[:2], many.get_extent()[:2]) == ([5, 10], [0, 15])
    texts = [text.get_text() for text in figure.texts]
    assert {"machine 0", *outputs, "25 % right", "100 % right", "62 % right"} < {*texts}


def test_the_site_has_a_preview_of_the_size_that_messengers_show(site_folder: Path) -> None:
    header = (site_folder / "preview.png").read_bytes()[:24]
    assert struct.unpack(">II", header[16:24]) == (1200, 630)
