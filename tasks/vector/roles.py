"""Read content words and semantic roles: from the grammar's trees, and from German text.

A role is (noun, "subject" or "object", verb), each word by its English base form. The roles of a
tree are exact. A German text is read with the lexicon and the grammar's word order: commas
separate clauses, and a noun phrase has the cases that its determiner and its noun allow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import NamedTuple

from ..synthetic.lexicon import (
    ACC,
    BE,
    CONJUNCTIONS,
    COORDINATORS,
    DAT,
    DEGREE,
    DETERMINERS,
    NAMES,
    NOM,
    NOUNS,
    OPERATORS,
    PLURAL,
    PREPOSITIONS,
    PRONOUNS,
    RELATIVE,
    SEIN,
    VERBS,
    Noun,
)
from ..synthetic.trees import COMMA, NP, PP, Clause, Sub
from ..synthetic.words import ADJECTIVE_OF, NOUN_OF, VERB_OF

Role = tuple[str, str, str]
"""A noun, what it is, and of which verb."""
SUBJECT, OBJECT = "subject", "object"

# --------------------------------------------------------------------------------------- Trees


class TreeReader:
    """Collects the content words of a sentence, in English order, and their roles."""

    def __init__(self, clauses: Iterable[Clause]):
        self.words: list[str] = []
        self.roles: list[tuple[int, str, int]] = []
        """Indices of noun and verb among the words."""
        self.read_clauses(clauses)

    def read_clauses(self, clauses: Iterable[Clause]) -> None:
        """Read clauses, none of which lacks a phrase."""
        for clause in clauses:
            self.read_clause(clause)

    def add(self, word: str) -> int:
        """Add a word; return its index."""
        self.words.append(word)
        return len(self.words) - 1

    def read_phrase(self, phrase: NP) -> list[int]:
        """Read a noun phrase; return its nouns, without those of its own phrases and clauses."""
        for adjective in phrase.adjectives:
            self.add(adjective.en)
        nouns = [self.add(phrase.head.en[0])] if isinstance(phrase.head, Noun) else []
        if phrase.pp:
            self.read_phrase(phrase.pp.np)
        if phrase.relative:
            self.read_clause(phrase.relative.clause, nouns)
        return nouns + (self.read_phrase(phrase.other) if phrase.other else [])

    def read_clause(self, clause: Clause, antecedent: Sequence[int] = ()) -> None:
        """Read a clause; a relative one lacks what its antecedent is in it."""
        if isinstance(clause.front, Sub):
            self.read_clauses(clause.front.clauses)
        elif isinstance(clause.front, PP):
            self.read_phrase(clause.front.np)
        subjects = self.read_phrase(clause.subject) if clause.subject else antecedent
        vp = clause.vp
        verb = None if vp.verb is BE else self.add(vp.verb.en[0])
        objects = [noun for phrase in vp.objects for noun in self.read_phrase(phrase)]
        objects += antecedent if clause.subject else []
        if verb is not None:
            self.roles += [(noun, SUBJECT, verb) for noun in subjects]
            self.roles += [(noun, OBJECT, verb) for noun in objects]
        if vp.doing:
            self.add(vp.doing.en[0])
        if vp.adjective:
            self.add(vp.adjective.en)
        if vp.pp:
            self.read_phrase(vp.pp.np)
        for sub in (vp.complement, *clause.adjuncts):
            if sub:
                self.read_clauses(sub.clauses)

    def roles_within(self, n: int) -> set[Role]:
        """Return the roles among the first n content words."""
        words = self.words
        return {(words[i], role, words[j]) for i, role, j in self.roles if max(i, j) < n}


def clause_ends(clauses: Iterable[Clause]) -> list[int]:
    """Return after how many English words a main clause, or one that only adds to it, ends.

    The words up to there are a sentence.
    """
    ends: list[int] = []

    def walk(clause: Clause, start: int) -> int:
        en, _ = clause._replace(adjuncts=()).render(is_final=False)
        ends.append(start + sum(word is not COMMA for word in en))
        for sub in clause.adjuncts:
            start = ends[-1]
            for i, each in enumerate(sub.clauses):  # because …, and because …
                start = walk(each, start + 1 + bool(i))
        return ends[-1]

    start = 0
    for clause in clauses:
        start = walk(clause, start) + 1  # and the word that joins the next
    return ends


# -------------------------------------------------------------------------------------- German

OPENERS = {*CONJUNCTIONS.values(), "als"}
PRONOUN_CASES = {
    form: {case for p in PRONOUNS for case in range(3) if p.de[case] == form}
    for pronoun in PRONOUNS
    for form in pronoun.de
}
GOVERNORS = {p.de for pool in PREPOSITIONS.values() for p in pool}
RELATIVE_FORMS = {form for row in RELATIVE for form in row}
GRADES = {adverb.de for adverb in DEGREE}
VERBAL = {
    *chain(*(verb.de for verb in OPERATORS.values())),
    *SEIN[1:],  # but not the infinitive, which is also a determiner
    *VERB_OF,
}
"""Tokens with which a clause whose verbs come last can end."""
PERCEPTION = {verb.en[0] for verb in VERBS if "v" in verb.flags}
Feature = tuple[int, int]
"""A case, and a column of endings: the gender, or plural."""


def list_phrases() -> dict[tuple[str, str], set[Feature]]:
    """Return what each determiner and noun allow together; no determiner is the empty one."""
    phrases: dict[tuple[str, str], set[Feature]] = defaultdict(set)
    for noun in (*NOUNS, *NAMES):
        for is_plural, forms in enumerate(noun.de):
            column = PLURAL if is_plural else noun.gender
            for case, form in enumerate(forms):
                if noun.is_name or is_plural:
                    phrases["", form].add((case, column))
                for stem, endings, _ in () if noun.is_name else DETERMINERS.values():
                    phrases[stem + endings[case][column], form].add((case, column))
    return dict(phrases)


PHRASES = list_phrases()
DETERMINER_FORMS = {determiner for determiner, _ in PHRASES}


class Argument(NamedTuple):
    """A noun phrase that no preposition governs: its nouns, its cases, and its columns."""

    nouns: set[str]
    cases: set[int]
    columns: set[int]


@dataclass
class GermanClause:
    """The words of a clause, without those of the clauses inside it."""

    is_verb_last: bool = False
    pronoun: str = ""
    """The relative pronoun."""
    antecedent: Argument | None = None
    tokens: list[str] = field(default_factory=list)

    @property
    def verbs(self) -> set[str]:
        """Return the verbs; of "saw … run", what is seen is not an object of the second."""
        forms = [VERB_OF[token] for token in self.tokens if token in VERB_OF]
        seen = [words for words in forms if words & PERCEPTION]
        return set().union(*(seen if len(forms) > 1 and seen else forms))


def find_arguments(tokens: Iterable[str]) -> Iterator[tuple[Argument, bool]]:
    """Yield the noun phrases, and whether a preposition governs each; "and" joins two."""
    determiner, is_governed, is_joined = "", False, False
    last: Argument | None = None
    for token in tokens:
        low = token.lower()
        if low in GOVERNORS:
            is_governed, determiner = True, ""
        elif low == "und":
            is_joined, determiner = True, ""
        elif token in NOUN_OF or low in PRONOUN_CASES:
            allowed = PHRASES.get((determiner, token)) or PHRASES.get(("", token), set())
            cases = {case for case, _ in allowed} or PRONOUN_CASES.get(low, {NOM, ACC, DAT})
            now = Argument(NOUN_OF.get(token, set()), cases, {column for _, column in allowed})
            if is_joined and last:
                last.nouns.update(now.nouns)
            else:
                last = Argument({*now.nouns}, now.cases, now.columns)
                yield last, is_governed
            determiner, is_governed, is_joined = "", False, False
        elif low in DETERMINER_FORMS:
            determiner = low


def is_noun_phrase(tokens: Sequence[str]) -> bool:
    """Return whether a determiner and what follows it can be a noun phrase."""
    determiner, *rest = tokens
    for token in rest:
        if token in NOUN_OF:
            return (determiner.lower(), token) in PHRASES
        if token not in GRADES and token not in ADJECTIVE_OF:
            return False
    return False


def split_clauses(tokens: Sequence[str]) -> list[GermanClause]:
    """Return the clauses of a German text."""
    ended: list[GermanClause] = []
    opened: list[GermanClause] = []
    last_noun: Argument | None = None
    segments: list[list[str]] = [[]]
    for token, following in pairwise([*tokens, ""]):
        is_joint = token in COORDINATORS.values() and following in OPENERS
        if token in (",", ".") or (is_joint and segments[-1]):
            segments.append([])
        else:
            segments[-1].append(token)
            if is_joint:  # … , und weil …
                segments.append([])
    for segment in filter(None, segments):
        first = segment[0].lower()
        if first in OPENERS:
            opened.append(GermanClause(is_verb_last=True))
        elif first in COORDINATORS.values():
            ended, opened = ended + opened, [GermanClause()]
        elif first in RELATIVE_FORMS and opened and not is_noun_phrase(segment):
            opened.append(GermanClause(True, first, last_noun))
            segment = segment[1:]
        else:
            while opened and opened[-1].is_verb_last and VERBAL & {*opened[-1].tokens}:
                ended.append(opened.pop())
            opened = opened or [GermanClause()]
        opened[-1].tokens += segment
        for argument, _ in find_arguments(segment):
            last_noun = argument if argument.nouns else last_noun
    return ended + opened


def german_roles(tokens: Sequence[str]) -> set[Role]:
    """Return the roles that a German text can be read to have: of two readings, those of both."""
    roles: set[Role] = set()
    for clause in split_clauses(tokens):
        arguments = [a for a, is_governed in find_arguments(clause.tokens) if not is_governed]
        for subject, objects in readings(clause, arguments):
            for verb in clause.verbs:
                roles |= {(noun, SUBJECT, verb) for noun in subject.nouns}
                roles |= {(noun, OBJECT, verb) for each in objects for noun in each.nouns}
    return roles


def readings(
    clause: GermanClause, arguments: list[Argument]
) -> Iterator[tuple[Argument, list[Argument]]]:
    """Yield the subject and the objects of a clause in each of its readings."""
    pronoun: list[Argument] = []
    if clause.antecedent:
        columns = clause.antecedent.columns
        forms = [
            (case, column)
            for case, row in enumerate(RELATIVE)
            for column, form in enumerate(row)
            if form == clause.pronoun
        ]
        cases = {c for c, column in forms if column in columns} or {c for c, _ in forms}
        pronoun = [Argument(clause.antecedent.nouns, cases, columns)]
        if NOM in cases:
            yield pronoun[0], arguments
        if cases == {NOM}:
            return
    subject = next((a for a in arguments if NOM in a.cases), None)
    if subject:
        yield subject, [a for a in arguments if a is not subject] + pronoun
