"""Draw English–German sentence pairs of any length from a synchronous grammar of real words.

One tree, two languages: a node renders its English and its German words together and links them, so
the German is a function of the English and every pair has a gold word alignment. It has what makes
the pair hard: gender and case, three kinds of adjective endings, agreeing relative pronouns, verbs
at the end of the clause, V2 with inversion, separable verbs, modal clusters.

Rules that make the English unambiguous:
  a relative clause belongs to the noun right before it, and nothing else of its clause follows
  the last noun phrase that carries one; only subjects and prepositional phrases take a
  prepositional phrase of their own; "and" joins main clauses (after a comma), bare noun phrases,
  or clauses that repeat their conjunction.

    from .grammar import draw_corpus
    splits = draw_corpus(seed=0, n_train=100_000, n_valid=1_000)
"""

import random
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

from .lexicon import (
    ADJECTIVES,
    BE,
    CONJUNCTIONS,
    COORDINATORS,
    DEGREE,
    FREQUENCY,
    MANNER,
    MODALS,
    NAMES,
    NOUNS,
    PREPOSITIONS,
    PRONOUNS,
    ROWS,
    TIME,
    VERBS,
    Adverb,
    Noun,
    Verb,
)
from .trees import NP, PP, VP, Clause, Parse, Relative, Sentence, Sub, parse

T = TypeVar("T")


# ---- Sampling --------------------------------------------------------------------------------

DETERMINERS_SG = ("the", "the", "the", "the", "a", "a", "this", "my", "his", "our", "every", "no")
DETERMINERS_PL = ("the", "the", "the", "these", "my", "many", "some", "all")
NOUNS_BY = {
    kinds: [noun for noun in NOUNS if noun.kind in kinds]
    for kinds in ("h", "a", "t", "p", "ha", "hp", "ht", "tp", "hap", "htp", "hat", "hatp")
}
COSTS = {"able": 3, "allowed": 3, "want": 2, "have": 2}  # in English words; others cost one
PLAIN, MODAL, SEMI, MODAL_SEMI = (
    [tuple(chain.split()) for chain in text.split(",")] for text in ROWS["chains"].values()
)


def _operators(is_past: bool, is_stative: bool) -> list[list[tuple[str, ...]]]:
    """List the operators that fit, by their cost of up to eight words."""
    chains = PLAIN if is_past else PLAIN + MODAL
    if not is_stative:
        chains = chains + (SEMI if is_past else SEMI + MODAL_SEMI)
    return [
        [chain for chain in chains if sum(COSTS.get(op, 1) for op in chain) <= most]
        for most in range(9)
    ]


CHAINS = {(p, s): _operators(p, s) for p in (False, True) for s in (False, True)}


def _verbs(kind: str, gap: str) -> list[list[Verb]]:
    """List the verbs for a subject and, with a gap, a missing object, by up to four words."""
    verbs = [
        verb
        for verb in VERBS
        if kind in verb.subject and "c" not in verb.flags and (not gap or gap in verb.object)
    ]
    sizes = [1 + bool(verb.particle) + len(verb.cases) - bool(gap) for verb in verbs]
    return [
        [verb for verb, size in zip(verbs, sizes, strict=True) if size <= most] for most in range(5)
    ]


VERBS_FOR = {(kind, gap): _verbs(kind, gap) for kind in "hatp" for gap in ("", *"hatp")}
SAYING = [verb for verb in VERBS if "c" in verb.flags]
ADJUNCTS = [conjunction for conjunction in CONJUNCTIONS if conjunction != "that"]
DOING = {gap: [v for v in VERBS if v.en[4] and gap in v.subject] for gap in ("", "h", "a")}
PLAIN_MOST = 5  # the words of the longest noun phrase without a phrase or clause of its own


class Sampler:
    """Draw trees with an exact number of English words.

    `depth` is how many relative clauses can still be nested inside the clause; `is_edge` says that
    only a comma or the end of the sentence follows, so that clauses can be chained freely.
    """

    def __init__(self, rng: random.Random) -> None:
        self.random = rng.random
        self.is_past = self.random() < 0.5

    def pick(self, items: Sequence[T]) -> T:
        """Draw one item."""
        return items[int(self.random() * len(items))]

    def between(self, low: int, high: int) -> int:
        """Draw an integer from low to high, both included."""
        return low + int(self.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """Draw a yes or no."""
        return self.random() < probability

    def plain(self, n: int, kinds: str, is_subject: bool = False, is_joined: bool = False) -> NP:
        """Draw a noun phrase of one to five words without a phrase or clause of its own."""
        if n == 1 and "h" in kinds and (is_subject or self.chance(0.7)):
            if is_joined or self.chance(0.6):
                return NP(self.pick(NAMES))
            pronoun = self.pick(PRONOUNS if is_subject else PRONOUNS[:3])
            return NP(pronoun, is_plural=pronoun.is_plural)
        head = self.pick(NOUNS_BY[kinds])
        if n == 1:
            return NP(head, is_plural=True)
        is_bare = not is_subject and n < PLAIN_MOST and self.chance(0.15)
        is_plural = is_bare or self.chance(0.25)
        n -= 1 if is_bare else 2
        degree = self.pick(DEGREE) if n == 3 or (n == 2 and self.chance(0.5)) else None
        pool = ADJECTIVES[head.kind]
        start = self.between(0, len(pool) - 1)
        adjectives = tuple(pool[(start + i) % len(pool)] for i in range(n - (degree is not None)))
        if is_bare:
            return NP(head, "", adjectives, degree, True)
        if is_plural:
            return NP(head, self.pick(DETERMINERS_PL), adjectives, degree, True)
        most = 12 if is_subject and not is_joined else 10 if is_joined else 11
        return NP(head, DETERMINERS_SG[self.between(0, most - 1)], adjectives, degree)

    def np(self, n: int, kinds: str, depth: int, is_edge: bool, role: str = "object") -> NP:
        """Draw a noun phrase of n words for a role: subject, object, pp, or closed.

        A closed one takes neither clause nor phrase, hence at most eleven words.
        """
        is_subject = role == "subject"
        takes_clause = role != "closed" and (is_edge or depth > 0) and n >= 4
        takes_pp = role in ("subject", "pp") and n >= 4
        least = 1 if kinds == "h" else 2
        is_joined = role != "pp" and 2 * least < n <= 2 * PLAIN_MOST + 1
        if n <= PLAIN_MOST and not (takes_clause and self.chance(0.4)):
            if not (is_joined and self.chance(0.15)):
                return self.plain(n, kinds, is_subject)
            takes_clause = takes_pp = False
        if is_joined and (not (takes_clause or takes_pp) or (n < 8 and self.chance(0.15))):
            first = self.between(max(least, n - 1 - PLAIN_MOST), min(PLAIN_MOST, n - 1 - least))
            one = self.plain(first, kinds, is_subject, is_joined=True)
            two = self.plain(n - 1 - first, kinds, is_subject, is_joined=True)
            return one._replace(other=two)
        if takes_clause and not (takes_pp and self.chance(0.25)):
            size = self.between(least, min(4, n - 2))
            noun = self.plain(size, kinds, is_subject=True, is_joined=True)
            return noun._replace(relative=self.relative(n - size, noun, depth, is_edge))
        size = self.between(2, min(4, n - 2))
        noun = self.plain(size, kinds, is_subject)
        return noun._replace(pp=self.pp(n - size, depth, is_edge, "place"))

    def pp(self, n: int, depth: int, is_edge: bool, role: str) -> PP:
        """Draw a prepositional phrase of n ≥ 2 words."""
        preposition = self.pick(PREPOSITIONS[role])
        return PP(preposition, self.np(n - 1, preposition.kinds, depth, is_edge, "pp"))

    def relative(self, n: int, head: NP, depth: int, is_edge: bool) -> Relative:
        """Draw a relative clause of n ≥ 2 words."""
        assert isinstance(head.head, Noun)
        kind = head.head.kind
        depth -= not is_edge
        is_restrictive = not head.head.is_name and (
            head.det in ("every", "all") or self.chance(0.5)
        )
        n -= 1
        adjuncts: tuple[Sub, ...] = ()
        if is_edge and n >= 10 and self.chance(0.4):
            size = self.between(4, n - 4)
            adjuncts, n = (self.sub(size),), n - size
        if n < 2 or self.chance(0.6 if kind in "ha" else 0.3):
            clause = Clause(None, self.vp(n, kind, "", depth, is_edge), None, adjuncts)
            return Relative(clause, is_restrictive)
        size, subject_kind, subject = self.subject(n, depth, "ha")
        vp = self.vp(n - size, subject_kind, kind, depth, is_edge)
        return Relative(Clause(subject, vp, None, adjuncts), is_restrictive)

    def subject(self, n: int, depth: int, kinds: str) -> tuple[int, str, NP]:
        """Draw a subject for a clause of n ≥ 2 words: its size, its kind and itself."""
        size = self.between(1, min(4, n - 1))
        if n >= 8 and self.chance(0.3):
            size = self.between(4, min(14, n - 2))
        kind = self.subject_kind(size, kinds)
        return size, kind, self.np(size, kind, depth, is_edge=False, role="subject")

    def subject_kind(self, size: int, kinds: str) -> str:
        """Draw the kind of a subject: human, animal, thing or place."""
        luck = self.random()
        kind = "h" if luck < 0.6 or size == 1 else "a" if luck < 0.85 or kinds == "ha" else "t"
        return "p" if luck > 0.95 and kind == "t" else kind

    def vp(self, n: int, kind: str, gap: str, depth: int, is_edge: bool) -> VP:
        """Draw a verb phrase of n words for a kind of subject; gap: a missing object's kind."""
        is_past = self.is_past if self.chance(0.95) else not self.is_past
        if kind == "h" and not gap and n >= 6 and is_edge and self.chance(0.2 if n < 14 else 0.5):
            return self.saying(n, is_past)
        if not gap and n <= 4 and n >= 2 and self.chance(0.2):
            return self.being(n, kind, is_past)
        verb = self.pick(VERBS_FOR[kind, gap][min(n, 4)])
        n_objects = len(verb.cases) - bool(gap)
        spare = n - 1 - bool(verb.particle) - n_objects
        doing = None
        if "v" in verb.flags and gap not in ("t", "p") and spare and self.chance(0.5):
            doing = self.pick(DOING[gap])
            spare -= 1
        chains = CHAINS[is_past, "s" in verb.flags][min(spare, 8)]
        operators = self.pick(chains) if self.chance(0.5) else ()
        spare -= sum(COSTS.get(op, 1) for op in operators)
        frequency = manner = time = pp = None
        if spare and self.chance(0.15):
            frequency, spare = self.pick(FREQUENCY), spare - 1
        if spare and "m" in (doing or verb).flags and self.chance(0.3):
            manner, spare = self.pick(MANNER), spare - 1
        may_time = spare != 2 if not n_objects else spare > 0 and "perfect" not in operators
        if (spare == 1 and not n_objects) or (
            may_time and not frequency and 0 < spare <= PLAIN_MOST and self.chance(0.15)
        ):
            time, spare = self.time(is_past, operators), spare - 1
        is_edge, depth = (False, 0) if time else (is_edge, depth)
        is_long = spare >= PLAIN_MOST and (doing or manner or not (is_edge or depth))
        if spare >= 2 and (not n_objects or is_long or self.chance(0.25)):
            size = max(self.between(2, spare), spare - 3 * n_objects) if n_objects else spare
            role = "path" if "p" in (doing or verb).flags and self.chance(0.7) else "place"
            pp, spare = self.pp(size, depth, is_edge, role), spare - size
        kinds = [doing.subject if doing else verb.object] * n_objects
        if len(verb.cases) == 2 and not doing:
            kinds[0] = "h"
        last = "closed" if pp or manner or doing else "object"
        objects = self.objects(spare, kinds, last, depth, is_edge)
        is_past = is_past and not (operators and operators[0] in MODALS)
        return VP(verb, objects, operators, is_past, doing, None, None, frequency, manner, pp, time)

    def objects(
        self, spare: int, kinds: Sequence[str], last: str, depth: int, is_edge: bool
    ) -> tuple[NP, ...]:
        """Draw an object of each kind, with `spare` words in addition to one word each."""
        phrases = []
        for i, kind in enumerate(kinds):
            is_last = i == len(kinds) - 1
            size = 1 + (spare if is_last else self.between(0, min(spare, 3)))
            spare -= size - 1
            phrases.append(self.np(size, kind, depth, is_edge, last if is_last else "closed"))
        return tuple(phrases)

    def time(self, is_past: bool, operators: tuple[str, ...]) -> Adverb:
        """Draw an adverb of time that the tense allows."""
        if "perfect" in operators:
            return TIME["today"]
        if operators and operators[0] in MODALS:
            return TIME[self.pick(("today", "tomorrow"))]
        return TIME[self.pick(("today", "yesterday") if is_past else ("today", "now"))]

    def being(self, n: int, kind: str, is_past: bool) -> VP:
        """Draw a phrase such as "is tired", with at most two more words."""
        operators = self.pick(CHAINS[is_past, True][n - 2]) if self.chance(0.4) else ()
        spare = n - 2 - len(operators)
        degree = self.pick(DEGREE) if spare == 2 or (spare and self.chance(0.6)) else None
        frequency = self.pick(FREQUENCY) if spare - (degree is not None) else None
        is_past = is_past and not (operators and operators[0] in MODALS)
        adjective = self.pick(ADJECTIVES[kind])
        return VP(BE, (), operators, is_past, None, adjective, degree, frequency)

    def saying(self, n: int, is_past: bool) -> VP:
        """Draw a verb phrase of n ≥ 6 words that ends with a that-clause."""
        verb, spare = self.pick(SAYING), n - 5
        operators = self.pick(CHAINS[is_past, True][min(spare, 2)]) if self.chance(0.4) else ()
        spare -= len(operators)
        frequency = self.pick(FREQUENCY) if spare and self.chance(0.15) else None
        size = n - 1 - len(operators) - (frequency is not None)
        is_past = is_past and not (operators and operators[0] in MODALS)
        complement = self.sub(size, "that")
        return VP(verb, (), operators, is_past, frequency=frequency, complement=complement)

    def sub(self, n: int, conjunction: str = "") -> Sub:
        """Draw one subordinate clause, or two joined by "and", of n ≥ 3 words in total."""
        if n >= 12 and self.chance(0.15):
            size = self.between(3, 7)  # the first is flat, so that the second can join only it
            first = self.clause(size, depth=0, is_edge=False)
            clauses: tuple[Clause, ...] = (first, self.clause(n - size - 3, 2, True))
        else:
            clauses = (self.clause(n - 1, 2, True),)
        is_future = any("will" in clause.vp.operators for clause in clauses)
        return Sub(conjunction or self.pick(ADJUNCTS[: 2 if is_future else None]), clauses)

    def clause(self, n: int, depth: int, is_edge: bool, is_main: bool = False) -> Clause:
        """Draw a clause of n ≥ 2 words; a main clause can have a fronted phrase."""
        adjuncts: tuple[Sub, ...] = ()
        front: Adverb | PP | Sub | None = None
        if is_edge and n >= 8 and self.chance(0.3 if n < 16 else 0.6):
            if is_main and self.chance(0.5):
                size = self.between(3, min(n - 4, 16))
                front = self.sub(size)
            else:
                size = self.between(4, n - 4)
                adjuncts = (self.sub(size),)
            n -= size
        if is_main and not front and n >= 6 and self.chance(0.12):
            size = self.between(3, 4)
            front = self.pp(size, 0, False, "place")
            n -= size
        size, kind, subject = self.subject(n, depth, "hatp")
        vp = self.vp(n - size, kind, "", depth, is_edge)
        if is_main and not front and vp.time and self.chance(0.5):
            front, vp = vp.time, vp._replace(time=None)
        return Clause(subject, vp, front, adjuncts)

    def sentence(self, n: int) -> tuple[list[Clause], list[str]]:
        """Draw main clauses of n ≥ 4 words in total, and their coordinators."""
        clauses, coordinators = [], []
        while n > 9 and self.chance(0.35 if n < 20 else 0.6):
            size = self.between(4, min(n - 5, 28))
            clauses.append(self.clause(size, 2, True, is_main=True))
            coordinators.append(self.pick(tuple(COORDINATORS)))
            n -= size + 1
        return [*clauses, self.clause(n, 2, True, is_main=True)], coordinators


# ---- Corpus ----------------------------------------------------------------------------------


class Splits(NamedTuple):
    """The three parts of a corpus; no English sentence occurs twice."""

    train: list[Sentence]
    valid: list[Sentence]
    test: list[Sentence]


def draw_corpus(
    seed: int,
    n_train: int,
    n_valid: int,
    max_train: int = 40,
    max_test: int = 80,
    per_bucket: int = 100,
) -> Splits:
    """Draw a corpus: test first, so that neither it nor valid depends on the train size.

    Lengths in train and valid are 4 to `max_train` English words, each with a
    probability in proportion to 1 / length: every length has about as many words in all.
    Test holds `per_bucket` sentences of 4–10, 11–20, … up to `max_test` words, cycling through the
    lengths of a bucket.
    """
    rng = random.Random(seed)
    seen: set[tuple[str, ...]] = set()
    test = []
    for last in range(10, max_test + 1, 10):
        lengths = range(max(4, last - 9), last + 1)
        each = (lengths[i % len(lengths)] for i in range(per_bucket))
        test += [draw_unseen(rng, n_words, seen).sentence for n_words in each]
    lengths = range(4, max_train + 1)
    ladder = list(accumulate(1 / n for n in lengths))

    def draw() -> Sentence:
        n_words = lengths[bisect(ladder, rng.random() * ladder[-1])]
        return draw_unseen(rng, n_words, seen).sentence

    valid = [draw() for _ in range(n_valid)]
    return Splits([draw() for _ in range(n_train)], valid, test)


def draw_unseen(rng: random.Random, n_words: int, seen: set[tuple[str, ...]]) -> Parse:
    """Draw a sentence that has not been seen, with the tags of its words; add it to those seen."""
    for _ in range(1000):
        drawn = parse(*Sampler(rng).sentence(n_words))
        if drawn.sentence.en not in seen:
            seen.add(drawn.sentence.en)
            return drawn
    raise ValueError(f"no new sentences of {n_words} words are left; draw a smaller corpus")
