"""Generate short English stories that need a detail again after an exact number of words.

A hero hides an object in a place; life goes on; then a sentence needs the name, place or object,
as in "The secret of Nora lay in the" -> "attic". The nearest name, place or object is not the
answer: decoys share the cue's key with the fact but not its verb ("Nora sold a comb in the barn"),
on both sides of it; rivals share its verb but no key ("Tom hid a drum in the mill"), after it. So
the answer is the first thing hidden: finding it takes the verb and a long memory, but not the key.
"""

import random
import re
import tomllib
from bisect import bisect
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

KINDS = ("name", "place", "object")
NEAREST = 8  # words; the shortest distance that is possible for every kind
DECOYED = 16  # words; from this distance on, a decoy always separates the fact from its need
TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
SLOTS = {slot: tuple(words.split()) for slot, words in TEXTS["words"].items()}


class Story(NamedTuple):
    """A story and the position of its needed word."""

    text: str  # ends with the needed word and a full stop
    start: int  # character offset of the needed word
    needed: str
    kind: str  # "name", "place" or "object"
    distance: int  # words from the needed word's introduction to its need

    def cut(self) -> tuple[str, str]:
        """Split before the last sentence, which ends with the needed word."""
        begins = self.text.rfind(". ", 0, self.start) + 2
        return self.text[:begins], self.text[begins : self.start + len(self.needed)]


def _pick(rng: random.Random, items: Sequence[str]) -> str:
    return items[int(rng.random() * len(items))]  # `choice` can change between Python versions


def _split(block: str) -> list[str]:
    return [" ".join(part.split()) for part in block.split(".") if part.strip()]


FACTS, DECOYS, FILLER = (_split(TEXTS[part]) for part in ("facts", "decoys", "filler"))
CUES = {key: _split(text) for key, text in TEXTS["cues"].items()}  # the needed kind, then its key
DECOY_WORDS = {template: len(template.split()) for template in DECOYS}
FILLER_WORDS = {t: len(t.split()) for t in DECOYS + FACTS + FILLER}
SHORTEST = min(FILLER_WORDS.values())


def _fill(rng: random.Random, fixed: Mapping[str, str], taken: Sequence[str], template: str) -> str:
    """Fill a template with the fixed words where given, otherwise with words that are not taken."""

    def choose(slot: re.Match[str]) -> str:
        word = fixed.get(slot[1], "")
        while not word or (slot[1] not in fixed and word in taken):
            word = _pick(rng, SLOTS[slot[1]])
        return word

    text = re.sub(r"{(\w+)}", choose, template)
    return text[0].upper() + text[1:] + "."


def _choose_template(rng: random.Random, lengths: dict[str, int], room: int) -> str:
    """Pick a template that fills the room exactly, or leaves room for another sentence."""
    return _pick(rng, [t for t, n in lengths.items() if room == n or room - n >= SHORTEST])


def _draw(rng: random.Random, distance: int, kind: str, is_asked_twice: bool) -> Story:
    fixed = {k: _pick(rng, SLOTS[k]) for k in KINDS}
    others = [k for k in KINDS if k != kind]
    key, other = others if rng.random() < 0.5 else others[::-1]
    hero, owned = partial(_fill, rng, fixed, ()), tuple(fixed.values())
    decoy, world = (partial(_fill, rng, own, owned) for own in ({key: fixed[key]}, {}))
    before = [decoy(_pick(rng, DECOYS))] if rng.random() < 0.5 else []
    cue = _pick(rng, CUES[f"{kind} {key}"])
    least = min(DECOY_WORDS.values()) if distance >= DECOYED else SHORTEST
    most = distance - 1 - len(cue.split())
    ends = {f: most - len(f.partition(f"{{{kind}}}")[2].strip(",").split()) for f in FACTS}
    fact = _pick(rng, [f for f, room in ends.items() if room == most or room >= least])
    room = ends[fact]
    # The lead leaves no room, or enough for a sentence.
    leads = {lead: room - len(lead.split()) for lead in TEXTS["leads"]}
    lead = _pick(rng, [lead for lead, room in leads.items() if room == 0 or room >= least])
    room = leads[lead]
    after: list[str] = []
    while room:
        if distance >= DECOYED and not after:
            filler, template = decoy, _choose_template(rng, DECOY_WORDS, room)
        elif is_asked_twice and len(after) == 1 and room >= 2 * NEAREST:
            filler, template = hero, f"{_pick(rng, CUES[f'{other} {key}'])} {{{other}}}"
        else:
            filler, template = world, _choose_template(rng, FILLER_WORDS, room)
        i = int(rng.random() * (len(after) + 1))
        if (sentence := filler(template)) not in after[max(i - 1, 0) : i + 1]:
            after.insert(i, sentence)
            room -= len(template.split())
    end = hero(f"{lead} {cue} {{{kind}}}".strip())
    text = " ".join([*before, hero(fact), *after, end])
    return Story(text, len(text) - 1 - len(fixed[kind]), fixed[kind], kind, distance)


def draw_corpus(
    seed: int,
    n_train: int,
    n_valid: int,
    max_train: int = 128,
    max_test: int = 256,
    per_distance: int = 100,
) -> tuple[list[Story], list[Story], list[Story]]:
    """Draw train, valid and test; no story is in two of them.

    The test stories are at the distances 8, 16, 32, ... up to `max_test`. Distances of the others
    are log-uniform over 8 ... `max_train`, and half of those stories with room for it also need
    another word on the way, for a denser training signal. Kinds alternate.
    """
    rng = random.Random(seed)
    seen: set[str] = set()
    # Sums of 1/d, because powers and logarithms differ between machines.
    sums = list(accumulate(1 / d for d in range(NEAREST, max_train + 1)))

    def new(i: int, distance: int, is_asked_twice: bool = False) -> Story:
        while (candidate := _draw(rng, distance, KINDS[i % 3], is_asked_twice)).text in seen:
            pass
        seen.add(candidate.text)
        return candidate

    def mixed(n: int) -> list[Story]:
        draws = (bisect(sums, rng.random() * sums[-1], hi=len(sums) - 1) for _ in range(n))
        return [new(i, NEAREST + d, rng.random() < 0.5) for i, d in enumerate(draws)]

    doublings = [NEAREST << k for k in range((max_test // NEAREST).bit_length())]
    test = [new(i, distance) for distance in doublings for i in range(per_distance)]
    return mixed(n_train), mixed(n_valid), test
