"""The grammar's trees: each renders a sentence in both languages and links its words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .lexicon import (
    BE,
    CONJUNCTIONS,
    COORDINATORS,
    DEFINITE,
    DETERMINERS,
    HAVE,
    MODALS,
    NOM,
    OPERATORS,
    PLURAL,
    RELATIVE,
    WANT,
    Adjective,
    Adverb,
    Noun,
    Preposition,
    Pronoun,
    Verb,
    english,
)


@dataclass(eq=False, slots=True)
class Node:
    """What a word shares with its translation: its part of speech, and the node it depends on.

    The head of an article, an adjective or a relative pronoun is its noun; that of a subject is the
    finite verb, that of an object the verb that takes it. `role` is subject, object or empty.
    """

    kind: str
    head: "Node | None" = None
    role: str = ""
    forms: "Forms | None" = None


class Forms(NamedTuple):
    """What the German form of a noun depends on."""

    gender: int
    is_plural: bool
    case: int


Word = tuple[str, Node | None]  # a comma has no node
Words = list[Word]
COMMA: Word = (",", None)


def _link(node: Node, en: str, de: str) -> tuple[Words, Words]:
    """Link every English word to every German word."""
    return [(word, node) for word in en.split()], [(word, node) for word in de.split()]


class NP(NamedTuple):
    """A noun phrase; `degree` grades the first adjective, `other` follows after "and"."""

    head: Noun | Pronoun
    det: str = ""
    adjectives: tuple[Adjective, ...] = ()
    degree: Adverb | None = None
    is_plural: bool = False
    pp: "PP | None" = None
    relative: "Relative | None" = None
    other: "NP | None" = None

    @property
    def is_light(self) -> bool:
        """Whether adverbs follow it: a definite phrase without a clause."""
        is_definite = isinstance(self.head, Pronoun) or self.head.is_name or self.det in DEFINITE
        return is_definite and not self.relative and (not self.other or self.other.is_light)

    def render(
        self, case: int, governor: Node | None = None, role: str = ""
    ) -> tuple[Words, Words, Words]:
        """Return the English, the German, and the German relative clause, which may move away."""
        head = self.head
        if isinstance(head, Pronoun):
            node = Node("pronoun", governor, role)
            en, de = _link(node, head.en[case != NOM], head.de[case])
            return en, de, []
        forms = Forms(head.gender, self.is_plural, case)
        node = Node("name" if head.is_name else "noun", governor, role, forms)
        column = PLURAL if self.is_plural else head.gender
        stem, article_endings, adjective_endings = DETERMINERS[self.det]
        noun = head.en[self.is_plural]
        en, de = [], []
        if self.det:
            follower = (self.degree or self.adjectives[0]).en if self.adjectives else noun
            det = "an" if self.det == "a" and follower[0] in "aeio" else self.det
            en, de = _link(Node("article", node), det, stem + article_endings[case][column])
        degree = self.degree
        for adjective in self.adjectives:
            if degree:
                _extend(en, de, *_link(Node("adverb"), degree.en, degree.de))
                degree = None
            ending = adjective_endings[case][column]
            adjective_node = Node("adjective", node)
            _extend(en, de, *_link(adjective_node, adjective.en, adjective.stem + ending))
        _extend(en, de, *_link(node, noun, head.de[self.is_plural][case]))
        tail: Words = []
        if self.pp:
            pp_en, pp_de, tail = self.pp.render()
            _extend(en, de, pp_en, pp_de)
        if self.relative:
            relative_en, tail = self.relative.render(head, self.is_plural, node)
            en += relative_en
        if self.other:
            _extend(en, de, *_link(Node("conjunction"), "and", "und"))
            other_en, other_de, tail = self.other.render(case, governor, role)
            _extend(en, de, other_en, other_de)
        return en, de, tail


def _extend(en: Words, de: Words, more_en: Words, more_de: Words) -> None:
    """Append to both sides."""
    en += more_en
    de += more_de


class PP(NamedTuple):
    """A prepositional phrase."""

    preposition: Preposition
    np: NP

    def render(self) -> tuple[Words, Words, Words]:
        """Return the English, the German, and the German relative clause, which may move away."""
        en, de = _link(Node("preposition"), self.preposition.en, self.preposition.de)
        np_en, np_de, tail = self.np.render(self.preposition.case)
        return en + np_en, de + np_de, tail


class Sub(NamedTuple):
    """Subordinate clauses that share a conjunction, repeated after "and"."""

    conjunction: str
    clauses: "tuple[Clause, ...]"

    def render(self) -> tuple[Words, Words]:
        """Return both sides; the German between commas, its verbs last."""
        en: Words = []
        de: Words = [COMMA]
        for i, clause in enumerate(self.clauses):
            if i:
                _extend(en, de, *_link(Node("conjunction"), "and", "und"))
            german = CONJUNCTIONS[self.conjunction]
            if self.conjunction == "when" and clause.vp.is_past:
                german = "als"  # once; "wenn" would mean whenever
            _extend(en, de, *_link(Node("conjunction"), self.conjunction, german))
            _extend(en, de, *clause.render(is_final=True))
        de.append(COMMA)
        return en, de


class Relative(NamedTuple):
    """A relative clause: without a subject, or with one object fewer than its verb takes."""

    clause: "Clause"
    is_restrictive: bool = True

    def render(self, head: Noun, is_plural: bool, noun: Node) -> tuple[Words, Words]:
        """Return both sides; the German pronoun gets its gender from the head, its case inside."""
        clause = self.clause
        case = clause.vp.verb.cases[-1] if clause.subject else NOM
        pronoun = "who" if case == NOM else "whom"
        if self.is_restrictive:
            pronoun = "that"
        elif head.kind in "tp":
            pronoun = "which"
        form = RELATIVE[case][PLURAL if is_plural else head.gender]
        en, de = _link(Node("relative pronoun", noun), pronoun, form)
        _extend(en, de, *clause.render(is_final=True, is_plural=is_plural))
        if not self.is_restrictive:
            en = [COMMA, *en, COMMA]
        return en, [COMMA, *de, COMMA]


class VP(NamedTuple):
    """A verb with its operators ("must", "perfect", "able", …, outermost first) and modifiers.

    `doing` is what the object is seen doing; manner and pp then modify it.
    """

    verb: Verb
    objects: tuple[NP, ...] = ()
    operators: tuple[str, ...] = ()
    is_past: bool = False
    doing: Verb | None = None
    adjective: Adjective | None = None
    degree: Adverb | None = None
    frequency: Adverb | None = None
    manner: Adverb | None = None
    pp: PP | None = None
    time: Adverb | None = None
    complement: Sub | None = None

    def render_verbs(self, is_plural: bool) -> tuple[Words, Words, Words, Words]:
        """Return the English verbs, the -ing verb, and the German verbs for V2 and for the end.

        A German cluster grows leftwards: "gesehen haben muss" is must(have(seen)). But when the
        perfect governs a verb with an infinitive of its own, that verb is also an infinitive
        (Ersatzinfinitiv), and the perfect auxiliary moves to the front of the cluster, with
        every verb above it before it: "hat sehen können" and so, for the epistemic "must have
        been able to see", "muss haben sehen können" (Bech's Oberfeld, as in "wird haben sehen
        können"). The other orders, "sehen können haben muss" and "hat sehen können müssen", are
        not what an epistemic "must" means: the first keeps haben behind its substitute infinitive,
        the second is "has had to be able to see".
        """
        en: Words = []
        chain: list[tuple[Verb, Node]] = []
        status = "finite"
        for operator in self.operators:
            key = Node("auxiliary")
            if operator in MODALS:
                words = [operator]
            elif operator in ("able", "allowed"):
                words = [english(BE.en, status, is_plural, self.is_past), operator, "to"]
            else:
                forms = WANT if operator == "want" else HAVE
                words = [english(forms, status, is_plural, self.is_past)]
                if operator != "perfect":
                    words.append("to")
            en += [(word, key) for word in words]
            chain.append((OPERATORS[operator], key))
            status = "participle" if operator == "perfect" else "infinitive"
        key = Node("verb")
        en.append((english(self.verb.en, status, is_plural, self.is_past), key))
        if self.verb.particle:
            en.append((self.verb.particle, key))
        chain.append((self.verb, key))
        doing: Words = []
        if self.doing:
            key = Node("verb")
            doing.append((self.doing.en[4], key))
            chain.append((self.doing, key))
        return en, doing, *self._cluster(chain, is_plural)

    def _cluster(self, chain: list[tuple[Verb, Node]], is_plural: bool) -> tuple[Words, Words]:
        """Inflect and order the German verbs, given outermost first: for V2 and for the end."""
        last = len(chain) - 1
        perfect = self.operators.index("perfect") if "perfect" in self.operators else -2
        has_substitute = perfect >= 0 and perfect + 1 < last
        if perfect >= 0 and chain[perfect + 1][0].is_sein:
            chain[perfect] = (BE, chain[perfect][1])
        (verb, key), *governed = chain
        form = verb.de[1 + is_plural + 2 * self.is_past]
        words: Words = []
        for i, (lower, lower_key) in enumerate(governed):
            is_participle = i == perfect and not has_substitute
            words.append((lower.de[5] if is_participle else lower.prefix + lower.de[0], lower_key))
        split = perfect if has_substitute else 0
        rest = words[:split] + words[split:][::-1]
        final: Word = (verb.prefix + form, key)
        end = [final, *rest] if has_substitute else [*rest, final]
        if verb.prefix:
            rest.append((verb.prefix, key))
        return [(form, key), *rest], end

    def render(self, is_plural: bool) -> tuple[Words, Words, Words, Words, Words]:
        """Return the English, then German: verbs for V2, verbs for the end, middle, right."""
        en, doing, second, end = self.render_verbs(is_plural)
        verb = en[-1][1]
        middle: Words = []
        right: Words = []
        heavy: Words = []
        for np, case in zip(self.objects, self.verb.cases, strict=False):
            np_en, np_de, right = np.render(case, verb, "object")
            en += np_en
            if heavy or not np.is_light:
                heavy += np_de
            else:
                middle += np_de
        en += doing
        time_en: Words = []
        if self.time:
            _extend(time_en, middle, *_link(Node("adverb"), self.time.en, self.time.de))
        if self.frequency:
            first = self.operators[0] if self.operators else ""
            place = 1 if self.verb is BE or first not in ("", "want", "have") else 0
            often_en, often_de = _link(Node("adverb"), self.frequency.en, self.frequency.de)
            en[place:place] = often_en
            middle += often_de
        middle += heavy
        for adverb in (self.manner, self.degree):
            if adverb:
                _extend(en, middle, *_link(Node("adverb"), adverb.en, adverb.de))
        if self.adjective:
            _extend(en, middle, *_link(Node("adjective"), self.adjective.en, self.adjective.de))
        if self.pp:
            pp_en, pp_de, right = self.pp.render()
            _extend(en, middle, pp_en, pp_de)
        en += time_en
        if self.complement:
            _extend(en, right, *self.complement.render())
        return en, second, end, middle, right


class Clause(NamedTuple):
    """A clause; only a main clause can have a fronted phrase, which inverts the German."""

    subject: NP | None
    vp: VP
    front: Adverb | PP | Sub | None = None
    adjuncts: tuple[Sub, ...] = ()

    def render(self, is_final: bool, is_plural: bool = False) -> tuple[Words, Words]:
        """Return both sides, the German with its verbs at the end or the finite one second."""
        en: Words = []
        subject: Words = []
        if self.subject:
            is_plural = self.subject.is_plural or self.subject.other is not None
        vp_en, second, end, middle, right = self.vp.render(is_plural)
        if self.subject:
            en, subject, tail = self.subject.render(NOM, second[0][1], "subject")
            subject = subject + tail
        en = en + vp_en
        for adjunct in self.adjuncts:
            _extend(en, right, *adjunct.render())
        if is_final:
            return en, subject + middle + end + right
        if not self.front:
            return en, subject + second[:1] + middle + second[1:] + right
        if isinstance(self.front, Adverb):
            front_en, front_de = _link(Node("adverb"), self.front.en, self.front.de)
        elif isinstance(self.front, PP):
            front_en, front_de, tail = self.front.render()
            front_en, front_de = [*front_en, COMMA], front_de + tail
        else:
            front_en, front_de = self.front.render()
            front_en, front_de = [*front_en, COMMA], front_de[1:]
        return front_en + en, front_de + second[:1] + subject + middle + second[1:] + right


class Sentence(NamedTuple):
    """Both sides as tokens, and the sorted links (English, German) between them."""

    en: tuple[str, ...]
    de: tuple[str, ...]
    links: tuple[tuple[int, int], ...]

    @property
    def en_text(self) -> str:
        """Return the English as text."""
        return _detokenise(self.en)

    @property
    def de_text(self) -> str:
        """Return the German as text."""
        return _detokenise(self.de)

    @property
    def n_words(self) -> int:
        """Count the English words, not the punctuation."""
        return sum(token not in (",", ".") for token in self.en)


def _detokenise(tokens: Sequence[str]) -> str:
    return " ".join(tokens).replace(" ,", ",").replace(" .", ".")


def _punctuate(words: Words) -> Words:
    """Merge commas, drop them at both ends, and capitalise the first word."""
    merged: Words = []
    for word in words:
        if word is not COMMA or (merged and merged[-1] is not COMMA):
            merged.append(word)
    if merged[-1] is COMMA:
        merged.pop()
    text, key = merged[0]
    merged[0] = (text[0].upper() + text[1:], key)
    return merged


def _places(words: Words) -> dict[Node | None, list[int]]:
    """Return the places of each node's words."""
    places: dict[Node | None, list[int]] = {}
    for j, (_, node) in enumerate(words):
        places.setdefault(node, []).append(j)
    return places


class Tags(NamedTuple):
    """The words of one side: what each is, and on which it depends."""

    kinds: tuple[str, ...]
    """Parts of speech. An article is any determiner: the, a, this, my, every …"""
    roles: tuple[str, ...]
    """subject, object or empty."""
    heads: tuple[int, ...]
    """The place of the first word of what it depends on, or -1; see Node."""


class Parse(NamedTuple):
    """A sentence pair, with the tags of both sides."""

    sentence: Sentence
    en: Tags
    de: Tags
    forms: tuple[Forms | None, ...]
    """Of the English nouns and names; other words have none."""


def _tag(words: Words) -> Tags:
    """Return what the nodes of these words say."""
    places = _places(words)
    nodes = [node or Node("comma") for _, node in words]
    heads = [places[node.head][0] if node.head else -1 for node in nodes]
    return Tags(tuple(n.kind for n in nodes), tuple(n.role for n in nodes), tuple(heads))


def parse(clauses: Sequence[Clause], coordinators: Sequence[str] = ()) -> Parse:
    """Render main clauses, joined by "and" or "but", as a sentence pair with tags.

    Words of the same node are linked.
    """
    en, de = clauses[0].render(is_final=False)
    for coordinator, clause in zip(coordinators, clauses[1:], strict=True):
        _extend(en, de, [COMMA], [COMMA])
        _extend(en, de, *_link(Node("conjunction"), coordinator, COORDINATORS[coordinator]))
        _extend(en, de, *clause.render(is_final=False))
    stop = (".", Node("full stop"))
    en, de = [*_punctuate(en), stop], [*_punctuate(de), stop]
    places = _places(de)
    links = [(i, j) for i, (_, node) in enumerate(en) if node for j in places.get(node, ())]
    en_words, de_words = (tuple(word for word, _ in side) for side in (en, de))
    sentence = Sentence(en_words, de_words, tuple(links))
    forms = tuple(node.forms if node else None for _, node in en)
    return Parse(sentence, _tag(en), _tag(de), forms)
