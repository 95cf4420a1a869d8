"""Generate short English stories that need a detail again after an exact number of words.

A hero hides an object in a place; life goes on; then a sentence needs the name, place or object,
as in "The secret of Nora lay in the" -> "attic". The nearest name, place or object is not the
answer: decoys share the cue's key with the fact but not its verb ("Nora sold a comb in the barn"),
on both sides of it; rivals share its verb but no key ("Tom hid a drum in the mill"), after it. So
the answer is the first thing hidden: finding it takes the verb and a long memory, but not the key.
"""

import random
from bisect import bisect
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

KINDS = ("name", "place", "object")
NEAREST = 8  # words; the shortest distance that is possible for every kind
DECOYED = 16  # words; from this distance on, a decoy always separates the fact from its need
WORDS = {
    "name": """Nora Tom Clara Felix Martha Hugo Ruth Simon Greta Paul Lucy Victor Edith Jonas Rosa
        Daniel Helen Oscar Maud Peter Sylvia Walter Judith Leo Agnes Bruno Vera Martin Ida Frank""",
    "place": """attic barn cellar chapel pantry stable tower library mill shed cottage bakery forge
        workshop greenhouse orchard nursery laundry parlour dairy cabin boathouse schoolroom
        windmill vineyard lighthouse castle ballroom museum kennel bathroom courtyard""",
    "object": """whistle comb drum lamp mirror locket compass ribbon thimble bell flute chain medal
        vase button ladle map purse ring teapot kite doll marble brooch key clock spoon violin""",
    "adj": "silver small wooden broken tiny round heavy blue plain fine little green golden rusty",
    "did": "sold bought drew cleaned polished painted borrowed wrapped carried praised washed",
    "neighbour": "baker tailor postman widow doctor sailor cobbler teacher shepherd gardener",
    "animal": "dog cat goose pony hen goat fox rabbit sparrow donkey hedgehog crow lamb squirrel",
    "food": "bread soup cheese porridge cake stew honey fish butter pie plums rice toast jam nuts",
    "weather": "cold warm wet windy grey bright foggy stormy mild frosty rainy clear dry snowy",
    "time": "morning evening afternoon night",
}
SLOTS = {slot: tuple(words.split()) for slot, words in WORDS.items()}
FACTS = """{name} hid a {adj} {object} in the {place}. {name} kept a {adj} {object} in the {place}.
in the {place}, {name} hid a {adj} {object}. the {place} was where {name} kept a {adj} {object}.
in the {place}, a {adj} {object} was hidden by {name}.
a {adj} {object} was kept in the {place} by {name}."""
CUES = {  # (needed, key): the words before the needed one, fewer than NEAREST
    ("name", "object"): "the hidden {object} still belonged to. the one who kept the {object} was.",
    ("name", "place"): "the secret in the {place} belonged to. the {place} kept a secret for.",
    ("place", "object"): "the hidden {object} lay in the. the {object} was still kept in the.",
    ("place", "name"): "{name} kept something hidden in the. the secret of {name} lay in the.",
    ("object", "name"): "{name} went back for the hidden. {name} thought of the hidden.",
    ("object", "place"): "the {place} was still hiding the. the secret in the {place} was the.",
}
LEADS = ("", "later,", "that evening,", "the next morning,", "when the rain stopped,")
DECOYS = """in the {place}, {name} and the {neighbour} {did} a {object}.
{name} {did} a {object} in the {place}. {name} {did} a {adj} {object} in the {place}.
in the {place}, {name} {did} a {adj} {object}. one {time}, {name} {did} a {object} in the {place}.
one {weather} {time}, {name} {did} a {adj} {object} in the {place}.
in the {place}, {name} {did} a {adj} {object} for the old {neighbour}.
the {neighbour} said that {name} once {did} a {adj} {object} in the {place}.
everyone remembered that one {weather} {time} {name} {did} a {adj} {object} in the {place}."""
FILLER = """children ran after a {animal} and laughed. a {object} was cheaper than new boots.
{name} was fond of {food}. the {animal} slept. nobody said much. the road was muddy.
{name} slept until noon. the {neighbour} waved twice. the {weather} {time} passed slowly.
people talked about the {place}. the {neighbour} bought a {object}. leaves blew along the street.
the {neighbour} came by with {food}. a {animal} rested beside the stove. {name} lit the fire again.
{name} swept the {place} before breakfast. the clouds drifted over the hills. it grew dark early.
someone had lost a {adj} {object}. {name} met the {neighbour} on the bridge and talked for hours.
the {neighbour} told {name} a long joke. the path to the {place} was steep. supper was late again.
the {neighbour} and {name} went for a walk. the {animal} sat on the wall and waited. the wind rose.
{name} shared the last of the {food} with the {animal}. the {place} smelled of {food} and paint.
the {neighbour} asked {name} for some more {food}. on the table lay a {adj} {object} and gloves.
a lost {animal} came to the {place} and would not go home. the {animal} stole some {food}.
the {neighbour} cooked a pot of {food} and sent some over to {name}. rain tapped the windows.
it was such a {weather} {time} that {name} stayed in bed and ate {food}. {name} only laughed."""


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


class Splits(NamedTuple):
    """Three lists of stories; no story is in two of them."""

    train: list[Story]
    valid: list[Story]
    test: list[Story]


def _pick(rng: random.Random, items: Sequence[str]) -> str:
    return items[int(rng.random() * len(items))]  # `choice` can change between Python versions


@cache
def _split(block: str) -> list[str]:
    return [" ".join(part.split()) for part in block.split(".") if part.strip()]


DECOY_WORDS = {template: len(template.split()) for template in _split(DECOYS)}
FILLER_WORDS = {t: len(t.split()) for t in _split(DECOYS + FACTS + FILLER)}
SHORTEST = min(FILLER_WORDS.values())


class _TemplateFiller:
    """Fill templates with the fixed words where given, otherwise with words that are not taken."""

    def __init__(self, rng: random.Random, fixed: Mapping[str, str], taken: Sequence[str]) -> None:
        self.rng, self.fixed, self.taken = rng, fixed, taken

    def __getitem__(self, slot: str) -> str:
        word = self.fixed.get(slot, "")
        while not word or (slot not in self.fixed and word in self.taken):
            word = _pick(self.rng, SLOTS[slot])
        return word

    def fill(self, template: str) -> str:
        text = template.format_map(self)
        return text[0].upper() + text[1:] + "."


def _choose_template(rng: random.Random, lengths: dict[str, int], room: int) -> str:
    """Pick a template that fills the room exactly, or leaves room for another sentence."""
    return _pick(rng, [t for t, n in lengths.items() if room == n or room - n >= SHORTEST])


def _draw(rng: random.Random, distance: int, kind: str, is_asked_twice: bool) -> Story:
    fixed = {k: _pick(rng, SLOTS[k]) for k in KINDS}
    others = [k for k in KINDS if k != kind]
    key, other = others if rng.random() < 0.5 else others[::-1]
    hero, owned = _TemplateFiller(rng, fixed, ()), tuple(fixed.values())
    decoy, world = _TemplateFiller(rng, {key: fixed[key]}, owned), _TemplateFiller(rng, {}, owned)
    before = [decoy.fill(_pick(rng, _split(DECOYS)))] if rng.random() < 0.5 else []
    cue = _pick(rng, _split(CUES[kind, key]))
    least = min(DECOY_WORDS.values()) if distance >= DECOYED else SHORTEST
    most = distance - 1 - len(cue.split())
    ends = {f: most - len(f.partition(f"{{{kind}}}")[2].strip(",").split()) for f in _split(FACTS)}
    fact = _pick(rng, [f for f, room in ends.items() if room == most or room >= least])
    room = ends[fact]
    # The lead leaves no room, or enough for a sentence.
    leads = {lead: room - len(lead.split()) for lead in LEADS}
    lead = _pick(rng, [lead for lead, room in leads.items() if room == 0 or room >= least])
    room = leads[lead]
    after: list[str] = []
    while room:
        if distance >= DECOYED and not after:
            filler, template = decoy, _choose_template(rng, DECOY_WORDS, room)
        elif is_asked_twice and len(after) == 1 and room >= 2 * NEAREST:
            filler, template = hero, f"{_pick(rng, _split(CUES[other, key]))} {{{other}}}"
        else:
            filler, template = world, _choose_template(rng, FILLER_WORDS, room)
        i = int(rng.random() * (len(after) + 1))
        if (sentence := filler.fill(template)) not in after[max(i - 1, 0) : i + 1]:
            after.insert(i, sentence)
            room -= len(template.split())
    end = hero.fill(f"{lead} {cue} {{{kind}}}".strip())
    text = " ".join([*before, hero.fill(fact), *after, end])
    return Story(text, len(text) - 1 - len(fixed[kind]), fixed[kind], kind, distance)


def draw_corpus(
    seed: int,
    n_train: int,
    n_valid: int,
    max_train: int = 128,
    max_test: int = 256,
    per_distance: int = 100,
) -> Splits:
    """Draw three splits; the test stories are at the distances 8, 16, 32, ... up to `max_test`.

    Distances of the others are log-uniform over 8 ... `max_train`, and half of those stories with
    room for it also need another word on the way, for a denser training signal. Kinds alternate.
    """
    if (least := min(max_train, max_test)) < NEAREST:
        raise ValueError(f"the longest distance is {least} words; give at least {NEAREST}")
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
    return Splits(mixed(n_train), mixed(n_valid), test)
