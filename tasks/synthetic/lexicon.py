"""The grammar's words, English and German, with their forms."""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

# ---- Lexicon ---------------------------------------------------------------------------------


class Noun(NamedTuple):
    """A noun or a name; `de[is_plural][case]`; kind: h human, a animal, t thing, p place."""

    en: tuple[str, str]
    de: tuple[tuple[str, str, str], tuple[str, str, str]]
    gender: int
    kind: str
    is_name: bool = False


class Pronoun(NamedTuple):
    """A personal pronoun: English subject and object form, German by case."""

    en: tuple[str, str]
    de: tuple[str, str, str]
    is_plural: bool


class Adjective(NamedTuple):
    """An English adjective, its German form without ending, and the stem that endings follow."""

    en: str
    de: str
    stem: str


class Adverb(NamedTuple):
    """A word that never changes, in both languages."""

    en: str
    de: str


class Preposition(NamedTuple):
    """A preposition, the case that it governs and the kinds of nouns that it takes."""

    en: str
    de: str
    case: int
    kinds: str


class Verb(NamedTuple):
    """A verb: English base, -s, past, participle, -ing; German forms; frame and selection.

    `cases` are those of the objects; flags: m takes manner, p a path, s no wish or ability,
    v perceives (sees somebody run), c takes a that-clause.
    """

    en: tuple[str, str, str, str, str]
    particle: str
    de: tuple[str, str, str, str, str, str]  # infinitive, sg, pl, past sg, past pl, participle
    prefix: str
    is_sein: bool
    cases: tuple[int, ...]
    subject: str
    object: str
    flags: str


NOM, ACC, DAT = range(3)
PLURAL = 3  # the column of the plural beside the genders 0 m, 1 f, 2 n

ROWS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))

PRONOUNS = (
    Pronoun(("he", "him"), ("er", "ihn", "ihm"), False),
    Pronoun(("she", "her"), ("sie", "sie", "ihr"), False),
    Pronoun(("they", "them"), ("sie", "sie", "ihnen"), True),
    Pronoun(("we", "us"), ("wir", "uns", "uns"), True),
)
COORDINATORS = {"and": "und", "but": "aber"}


def _rows(text: str, separator: str = ",") -> list[list[list[str]]]:
    """Split rows into their fields and fields into their words."""
    return [
        [side.split() for side in row.replace(";", "=").split("=")] for row in text.split(separator)
    ]


def _inflect(word: str, ending: str) -> str:
    """Add -s or -ed to an English word by the rules of spelling."""
    if ending == "s":
        if word[-1] == "y" and word[-2] not in "aeou":
            return word[:-1] + "ies"
        return word + ("es" if word.endswith(("ch", "sh", "s", "x")) else "s")
    if ending == "ed" and word[-1] == "y" and word[-2] not in "aeou":
        return word[:-1] + "ied"
    return word.removesuffix("e") + ending


def _noun(en: list[str], de: list[str], kind: str) -> Noun:
    """Decline a noun: weak masculines take -n or -en, the dative plural -n."""
    singular, plural, gender = de
    weak = plural if gender.endswith("+") else singular
    dative = plural if plural[-1] in "ns" else plural + "n"
    return Noun(
        en=(en[0], en[1] if len(en) > 1 else _inflect(en[0], "s")),
        de=((singular, weak, weak), (plural, plural, dative)),
        gender="mfn".index(gender[0]),
        kind=kind,
    )


def _verb(fields: list[list[str]], cases: tuple[int, ...]) -> Verb:
    """Conjugate a verb from its principal parts."""
    (stem, *en), (infinitive, singular, past, participle, *sein), rest = fields
    base, _, particle = stem.partition("+")
    prefix, _, infinitive = infinitive.rpartition("|")
    regular = _inflect(base, "ed")
    past_en, participle_en = en[:2] if en else (regular, regular)
    return Verb(
        en=(base, _inflect(base, "s"), past_en, participle_en, en[2] if len(en) > 2 else ""),
        particle=particle,
        de=(infinitive, singular, infinitive, past, _plural_past(past), participle),
        prefix=prefix,
        is_sein=bool(sein),
        cases=cases,
        subject=rest[0],
        object=rest[1],
        flags="".join(rest[2:]),
    )


def _plural_past(past: str) -> str:
    """Add -n or -en to a past tense."""
    return past + ("n" if past.endswith("e") else "en")


FRAMES = {"accusative": (ACC,), "dative": (DAT,), "both": (DAT, ACC)}
NOUNS = [_noun(en, de, kind) for kind, text in ROWS["nouns"].items() for en, de in _rows(text)]
NAMES = [
    Noun((name, name), ((name,) * 3, (name,) * 3), "mfn".index(gender), "h", True)
    for name, gender in (row.split() for row in ROWS["names"].split(", "))
]
ADJECTIVES = {
    kind: [
        Adjective(" ".join(en), de[0], de[-1])
        for kinds, text in ROWS["adjectives"].items()
        if kind in kinds
        for en, de in _rows(text)
    ]
    for kind in "hatp"
}
VERBS = [
    _verb(fields, FRAMES.get(frame, ()))
    for frame, text in ROWS["verbs"].items()
    for fields in _rows(text, "\n")
]
SEIN = ("sein", "ist", "sind", "war", "waren", "gewesen")
BE = Verb(("be", "is", "was", "been", ""), "", SEIN, "", True, (), "hatp", "", "s")
PREPOSITIONS = {
    role: [Preposition(en[0], de[0], ACC if de[1] == "a" else DAT, de[2]) for en, de in _rows(text)]
    for role, text in ROWS["prepositions"].items()
}
ADVERBS = {
    role: [Adverb(en[0], de[0]) for en, de in _rows(text)] for role, text in ROWS["adverbs"].items()
}
FREQUENCY, MANNER, DEGREE = ADVERBS["frequency"], ADVERBS["manner"], ADVERBS["degree"]
TIME = {adverb.en: adverb for adverb in ADVERBS["time"]}
CONJUNCTIONS = {en[0]: de[0] for en, de in _rows(ROWS["conjunctions"])}

# ---- Morphology ------------------------------------------------------------------------------

ENDINGS = {  # rows are nominative, accusative, dative; columns masculine, feminine, neuter, plural
    name: tuple(tuple(end.strip("-") for end in row.split()) for row in text.split(","))
    for name, text in ROWS["endings"].items()
}
STRONG, WEAK, MIXED, DER = (ENDINGS[name] for name in ("strong", "weak", "mixed", "der"))
RELATIVE = (*DER[:2], ("dem", "der", "dem", "denen"))
DETERMINERS = {  # English -> German stem, its endings, the endings of adjectives behind it
    en: (stem.strip("-"), ENDINGS[own], ENDINGS[behind])
    for en, (stem, own, behind) in ((en, row.split()) for en, row in ROWS["determiners"].items())
}
DEFINITE = ("the", "this", "these", "my", "his", "our")


def _auxiliary(forms: str) -> Verb:
    """Make a German verb that only governs other verbs."""
    infinitive, singular, plural, past, participle = forms.split()
    de = (infinitive, singular, plural, past, _plural_past(past), participle)
    return Verb(("",) * 5, "", de, "", False, (), "", "", "")


OPERATORS = {en: _auxiliary(forms) for en, forms in ROWS["operators"].items()}
"""The German verb of each; "perfect" chooses haben or sein by the next verb."""
MODALS = ("will", "must", "should", "can")
HAVE = ("have", "has", "had", "had", "")
WANT = ("want", "wants", "wanted", "wanted", "")


def english(forms: tuple[str, ...], status: str, is_plural: bool, is_past: bool) -> str:
    """Choose the English form: finite, infinitive or participle."""
    if status != "finite":
        return forms[0] if status == "infinitive" else forms[3]
    if forms[0] == "be":
        return ("were" if is_past else "are") if is_plural else forms[2 if is_past else 1]
    return forms[2] if is_past else forms[0 if is_plural else 1]
