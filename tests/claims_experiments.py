"""What the papers' own experiments show: findings for test_claims.py."""

from __future__ import annotations

from typing import Any

from claims import about, records

HEADS = "heads-laptop"


def heads(analysis: str, **named: Any) -> list[dict[str, Any]]:
    """Return the rows of an analysis of heads with these values."""
    (record,) = records(HEADS, "transformer")
    rows = record["analyses"][analysis]
    return [row for row in rows if all(row.get(key) == named[key] for key in named)]


@about(HEADS)
def heads_align() -> str:
    """Say how well the heads over the source align words, and in which row."""
    written = {
        row["head"]: row["aer_written"] for row in heads("heads", attention="source", layer=2)
    }
    read = [row["aer_read"] for row in heads("heads", attention="source")]
    alone = [error for head, error in written.items() if head]
    assert written[0] < min(alone)
    return (
        f"In the last layer, the mean of the heads aligns words with an error rate of "
        f"{written[0]:.1f} %, each head alone with {min(alone):.1f} to {max(alone):.1f} %, where "
        f"a word is written; where it is read, the error rate is at least {min(read):.0f} %."
    )


@about(HEADS)
def heads_removed() -> str:
    """Say what the model loses without one head, and without all that attend to the source."""
    (whole,) = (row["nats"] for row in heads("ablation", removed=0))
    one = [row["nats"] - whole for row in heads("ablation", removed=1)]
    source = [row["nats"] - whole for row in heads("ablation", removed=4, attention="source")]
    assert len(one) == 24
    return (
        f"Without one head the loss grows by {min(one):.3f} to {max(one):.3f} nats per token, "
        f"without all attention of a layer to the source by {min(source):.1f} to "
        f"{max(source):.1f}."
    )


@about(HEADS)
def few_heads_can_go() -> str:
    """Say how many heads can go for a small loss: a negative result."""
    steps = sorted(heads("pruning"), key=lambda row: row["removed"])
    free = max(row["removed"] for row in steps if row["nats"] <= steps[0]["nats"] + 0.05)
    assert free < 6
    return (
        f"Hardly any head is dispensable: the cheapest first, {free} of the 24 can go for 0.05 "
        "nats."
    )


@about(HEADS)
def where_parameters_are() -> str:
    """Say which share of the parameters is where."""
    n = {row["part"]: row["n"] for row in heads("parameters")}
    share = {part: 100 * n[part] / sum(n.values()) for part in n}
    return (
        f"Attention holds {share['attention']:.0f} % of the parameters, the feed-forward networks "
        f"{share['feed-forward']:.0f} %."
    )
