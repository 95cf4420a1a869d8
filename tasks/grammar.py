"""Draw English–German sentence pairs of any length from a synchronous grammar of real words.

One tree, two languages: a node renders its English and its German words together and links them, so
the German is a function of the English and every pair carries its gold word alignment. What makes
the pair hard is all there: gender and case, three kinds of adjective endings, agreeing relative
pronouns, verbs at the end of the clause, V2 with inversion, separable verbs, modal clusters.

Rules that make the English unambiguous:
  a relative clause belongs to the noun right before it, and nothing else of its clause follows
  the last noun phrase that carries one; only subjects and prepositional phrases take a
  prepositional phrase of their own; "and" joins main clauses (after a comma), bare noun phrases,
  or clauses that repeat their conjunction.

    from tasks.grammar import corpus
    splits = corpus(seed=0, n_train=100_000, n_valid=1_000)
"""

import random
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Word = tuple[str, object]  # a token and the identity that it shares with its translation
Words = list[Word]
COMMA: Word = (",", None)

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
    """A preposition, the case that it governs and the kinds of nouns that it likes."""

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

NOUN_ROWS = {  # English [plural] = German plural gender; "+" marks a weak noun: den Jungen
    "h": """man men = Mann Männer m, woman women = Frau Frauen f, child children = Kind Kinder n,
        boy = Junge Jungen m+, girl = Mädchen Mädchen n, teacher = Lehrer Lehrer m,
        doctor = Arzt Ärzte m, student = Student Studenten m+, king = König Könige m,
        queen = Königin Königinnen f, neighbour = Nachbar Nachbarn m+, friend = Freund Freunde m,
        brother = Bruder Brüder m, farmer = Bauer Bauern m+""",
    "a": """dog = Hund Hunde m, cat = Katze Katzen f, horse = Pferd Pferde n, bird = Vogel Vögel m,
        mouse mice = Maus Mäuse f, bear = Bär Bären m+, cow = Kuh Kühe f,
        wolf wolves = Wolf Wölfe m, duck = Ente Enten f""",
    "t": """book = Buch Bücher n, letter = Brief Briefe m, lamp = Lampe Lampen f,
        apple = Apfel Äpfel m, key = Schlüssel Schlüssel m, picture = Bild Bilder n,
        flower = Blume Blumen f, car = Auto Autos n, chair = Stuhl Stühle m,
        clock = Uhr Uhren f, knife knives = Messer Messer n""",
    "p": """garden = Garten Gärten m, house = Haus Häuser n, town = Stadt Städte f,
        forest = Wald Wälder m, school = Schule Schulen f, meadow = Wiese Wiesen f,
        village = Dorf Dörfer n, room = Zimmer Zimmer n, river = Fluss Flüsse m,
        park = Park Parks m, church = Kirche Kirchen f""",
}
NAME_ROWS = "Anna f, Clara f, Emma f, Julia f, Maria f, Felix m, Jonas m, Max m, Paul m, Peter m"
ADJECTIVE_ROWS = {  # English = German [stem]; noun phrases take neighbours, so no opposites
    "ha": """young = jung, tired = müde müd, happy = glücklich, hungry = hungrig, sad = traurig,
        clever = klug, friendly = freundlich, lazy = faul, strong = stark, brave = mutig""",
    "hatp": "old = alt, big = groß, beautiful = schön, small = klein",
    "t": "red = rot, heavy = schwer, cheap = billig, black = schwarz",
    "p": "quiet = ruhig",
    "tp": "new = neu, expensive = teuer teur, dark = dunkel dunkl, clean = sauber",
}
VERB_ROWS = {  # English [past participle ing] = German sg past participle; subject object flags
    "intransitive": """run ran run running = laufen läuft lief gelaufen sein; ha - mp
        swim swam swum swimming = schwimmen schwimmt schwamm geschwommen sein; ha - mp
        travel travelled travelled = reisen reist reiste gereist sein; h - mp
        sleep slept slept sleeping = schlafen schläft schlief geschlafen; ha -
        dance danced danced dancing = tanzen tanzt tanzte getanzt; h - m
        sing sang sung singing = singen singt sang gesungen; h - m
        laugh laughed laughed laughing = lachen lacht lachte gelacht; h - m
        work worked worked working = arbeiten arbeitet arbeitete gearbeitet; h - m
        play played played playing = spielen spielt spielte gespielt; ha - m
        wait = warten wartet wartete gewartet; ha -
        arrive = an|kommen kommt kam angekommen sein; ha - s
        wake+up woke woken = auf|wachen wacht wachte aufgewacht sein; ha - m
        fall fell fallen = fallen fällt fiel gefallen sein; hat - s
        disappear = verschwinden verschwindet verschwand verschwunden sein; hatp - s""",
    "accusative": """see saw seen = sehen sieht sah gesehen; ha hatp v
        hear heard heard = hören hört hörte gehört; ha ha v
        find found found = finden findet fand gefunden; ha hatp
        love = lieben liebt liebte geliebt; h hatp s
        watch = beobachten beobachtet beobachtete beobachtet; ha ha
        visit = besuchen besucht besuchte besucht; h hp
        chase = jagen jagt jagte gejagt; ha a mp
        carry = tragen trägt trug getragen; h t mp
        buy bought bought = kaufen kauft kaufte gekauft; h t
        need = brauchen braucht brauchte gebraucht; ha ht s
        look+for = suchen sucht suchte gesucht; ha hatp
        invite = ein|laden lädt lud eingeladen; h h
        call = an|rufen ruft rief angerufen; h h
        know knew known = kennen kennt kannte gekannt; h hap s""",
    "dative": """help = helfen hilft half geholfen; ha ha
        follow = folgen folgt folgte gefolgt sein; ha ha mp
        thank = danken dankt dankte gedankt; h h
        trust = vertrauen vertraut vertraute vertraut; ha ha s
        listen+to = zu|hören hört hörte zugehört; ha ha
        belong+to = gehören gehört gehörte gehört; tp h s
        please = gefallen gefällt gefiel gefallen; tp h s""",
    "both": """give gave given = geben gibt gab gegeben; h t
        show showed shown = zeigen zeigt zeigte gezeigt; h tp
        bring brought brought = bringen bringt brachte gebracht; h t
        send sent sent = schicken schickt schickte geschickt; h t""",
    "clause": """say said said = sagen sagt sagte gesagt; h - sc
        believe = glauben glaubt glaubte geglaubt; h - sc
        hope = hoffen hofft hoffte gehofft; h - sc
        think thought thought = denken denkt dachte gedacht; h - sc""",
}
PREPOSITION_ROWS = {  # English = German case kinds
    "place": """in = in d p, behind = hinter d hap, beside = neben d hap, near = bei d p,
        with = mit d ha, without = ohne a ha""",
    "path": "through = durch a p, around = um a p, over = über a p, from = aus d p",
}
PRONOUNS = (
    Pronoun(("he", "him"), ("er", "ihn", "ihm"), False),
    Pronoun(("she", "her"), ("sie", "sie", "ihr"), False),
    Pronoun(("they", "them"), ("sie", "sie", "ihnen"), True),
    Pronoun(("we", "us"), ("wir", "uns", "uns"), True),
)
ADVERB_ROWS = {
    "frequency": "often = oft, always = immer, rarely = selten",
    "manner": """quickly = schnell, slowly = langsam, quietly = leise, loudly = laut,
        carefully = vorsichtig""",
    "degree": "very = sehr, quite = ziemlich, really = wirklich",
    "time": "yesterday = gestern, today = heute, now = jetzt, tomorrow = morgen",
}
CONJUNCTION_ROWS = """because = weil, although = obwohl, when = wenn, while = während, if = wenn,
    before = bevor, that = dass"""
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
NOUNS = [_noun(en, de, kind) for kind, text in NOUN_ROWS.items() for en, de in _rows(text)]
NAMES = [
    Noun((name, name), ((name,) * 3, (name,) * 3), "mfn".index(gender), "h", True)
    for name, gender in (row.split() for row in NAME_ROWS.split(", "))
]
ADJECTIVES = {
    kind: [
        Adjective(" ".join(en), de[0], de[-1])
        for kinds, text in ADJECTIVE_ROWS.items()
        if kind in kinds
        for en, de in _rows(text)
    ]
    for kind in "hatp"
}
VERBS = [
    _verb(fields, FRAMES.get(frame, ()))
    for frame, text in VERB_ROWS.items()
    for fields in _rows(text, "\n")
]
SEIN = ("sein", "ist", "sind", "war", "waren", "gewesen")
BE = Verb(("be", "is", "was", "been", ""), "", SEIN, "", True, (), "hatp", "", "s")
PREPOSITIONS = {
    role: [Preposition(en[0], de[0], ACC if de[1] == "a" else DAT, de[2]) for en, de in _rows(text)]
    for role, text in PREPOSITION_ROWS.items()
}
ADVERBS = {
    role: [Adverb(en[0], de[0]) for en, de in _rows(text)] for role, text in ADVERB_ROWS.items()
}
FREQUENCY, MANNER, DEGREE = ADVERBS["frequency"], ADVERBS["manner"], ADVERBS["degree"]
TIME = {adverb.en: adverb for adverb in ADVERBS["time"]}
CONJUNCTIONS = {en[0]: de[0] for en, de in _rows(CONJUNCTION_ROWS)}

# ---- Morphology ------------------------------------------------------------------------------

# Rows are nominative, accusative, dative; columns masculine, feminine, neuter, plural.
STRONG = (("er", "e", "es", "e"), ("en", "e", "es", "e"), ("em", "er", "em", "en"))
WEAK = (("e", "e", "e", "en"), ("en", "e", "e", "en"), ("en", "en", "en", "en"))
MIXED = (("er", "e", "es", "en"), ("en", "e", "es", "en"), ("en", "en", "en", "en"))
EIN = (("", "e", "", "e"), ("en", "e", "", "e"), ("em", "er", "em", "en"))
DER = (("der", "die", "das", "die"), ("den", "die", "das", "die"), ("dem", "der", "dem", "den"))
RELATIVE = (*DER[:2], ("dem", "der", "dem", "denen"))
DETERMINERS = {  # English -> German stem, its endings, the endings of adjectives behind it
    "the": ("", DER, WEAK),
    "this": ("dies", STRONG, WEAK),
    "these": ("dies", STRONG, WEAK),
    "every": ("jed", STRONG, WEAK),
    "all": ("all", STRONG, WEAK),
    "a": ("ein", EIN, MIXED),
    "no": ("kein", EIN, MIXED),
    "my": ("mein", EIN, MIXED),
    "his": ("sein", EIN, MIXED),
    "our": ("unser", EIN, MIXED),
    "many": ("viel", STRONG, STRONG),
    "some": ("einig", STRONG, STRONG),
    "": ("", EIN, STRONG),
}
DEFINITE = ("the", "this", "these", "my", "his", "our")


def _auxiliary(forms: str) -> Verb:
    """Make a German verb that only governs other verbs."""
    infinitive, singular, plural, past, participle = forms.split()
    de = (infinitive, singular, plural, past, _plural_past(past), participle)
    return Verb(("",) * 5, "", de, "", False, (), "", "", "")


HABEN = _auxiliary("haben hat haben hatte gehabt")
KOENNEN = _auxiliary("können kann können konnte gekonnt")
MUESSEN = _auxiliary("müssen muss müssen musste gemusst")
DUERFEN = _auxiliary("dürfen darf dürfen durfte gedurft")
WOLLEN = _auxiliary("wollen will wollen wollte gewollt")
WERDEN = _auxiliary("werden wird werden wurde geworden")
SOLLEN = _auxiliary("sollen sollte sollten sollte gesollt")  # "should"
OPERATORS = {  # English -> the German verb; "perfect" chooses haben or sein by the next verb
    "will": WERDEN,
    "must": MUESSEN,
    "should": SOLLEN,
    "can": KOENNEN,
    "perfect": HABEN,
    "able": KOENNEN,
    "allowed": DUERFEN,
    "want": WOLLEN,
    "have": MUESSEN,
}
MODALS = ("will", "must", "should", "can")
HAVE = ("have", "has", "had", "had", "")
WANT = ("want", "wants", "wanted", "wanted", "")


def _english(forms: tuple[str, ...], status: str, is_plural: bool, is_past: bool) -> str:
    """Choose the English form: finite, infinitive or participle."""
    if status != "finite":
        return forms[0] if status == "infinitive" else forms[3]
    if forms[0] == "be":
        return ("were" if is_past else "are") if is_plural else forms[2 if is_past else 1]
    return forms[2] if is_past else forms[0 if is_plural else 1]


# ---- Trees -----------------------------------------------------------------------------------


def _pair(en: str, de: str) -> tuple[Words, Words]:
    """Link every English word to every German one."""
    key = object()
    return [(word, key) for word in en.split()], [(word, key) for word in de.split()]


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
    def agrees_plural(self) -> bool:
        """Whether a verb with this subject is plural."""
        return self.is_plural or self.other is not None

    @property
    def is_light(self) -> bool:
        """Whether adverbs follow it: a definite phrase without a clause."""
        is_definite = isinstance(self.head, Pronoun) or self.head.is_name or self.det in DEFINITE
        return is_definite and not self.relative and (not self.other or self.other.is_light)

    def render(self, case: int) -> tuple[Words, Words, Words]:
        """Return the English, the German, and the German relative clause, which may move away."""
        head = self.head
        if isinstance(head, Pronoun):
            en, de = _pair(head.en[case != NOM], head.de[case])
            return en, de, []
        column = PLURAL if self.is_plural else head.gender
        stem, article_endings, adjective_endings = DETERMINERS[self.det]
        noun = head.en[self.is_plural]
        en, de = [], []
        if self.det:
            follower = (self.degree or self.adjectives[0]).en if self.adjectives else noun
            det = "an" if self.det == "a" and follower[0] in "aeio" else self.det
            en, de = _pair(det, stem + article_endings[case][column])
        degree = self.degree
        for adjective in self.adjectives:
            if degree:
                _extend(en, de, *_pair(degree.en, degree.de))
                degree = None
            ending = adjective_endings[case][column]
            _extend(en, de, *_pair(adjective.en, adjective.stem + ending))
        _extend(en, de, *_pair(noun, head.de[self.is_plural][case]))
        tail: Words = []
        if self.pp:
            pp_en, pp_de, tail = self.pp.render()
            _extend(en, de, pp_en, pp_de)
        if self.relative:
            relative_en, tail = self.relative.render(head, self.is_plural)
            en += relative_en
        if self.other:
            _extend(en, de, *_pair("and", "und"))
            other_en, other_de, tail = self.other.render(case)
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
        en, de = _pair(self.preposition.en, self.preposition.de)
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
                _extend(en, de, *_pair("and", "und"))
            german = CONJUNCTIONS[self.conjunction]
            if self.conjunction == "when" and clause.vp.is_past:
                german = "als"  # once; wenn is whenever
            _extend(en, de, *_pair(self.conjunction, german))
            _extend(en, de, *clause.render(is_final=True))
        de.append(COMMA)
        return en, de


class Relative(NamedTuple):
    """A relative clause: without a subject, or with one object less than its verb wants."""

    clause: "Clause"
    is_restrictive: bool = True

    def render(self, head: Noun, is_plural: bool) -> tuple[Words, Words]:
        """Return both sides; the German pronoun takes its gender here and its case inside."""
        clause = self.clause
        case = clause.vp.verb.cases[-1] if clause.subject else NOM
        pronoun = "who" if case == NOM else "whom"
        if self.is_restrictive:
            pronoun = "that"
        elif head.kind in "tp":
            pronoun = "which"
        en, de = _pair(pronoun, RELATIVE[case][PLURAL if is_plural else head.gender])
        _extend(en, de, *clause.render(is_final=True, is_plural=is_plural))
        if not self.is_restrictive:
            en = [COMMA, *en, COMMA]
        return en, [COMMA, *de, COMMA]


class VP(NamedTuple):
    """A verb with its operators ("must", "perfect", "able", …, outermost first) and company.

    `doing` is what the object is seen doing; manner and pp then belong to it.
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
        """Return English verbs, the -ing verb, German verbs for V2, and those for the end.

        A German cluster grows leftwards: "gesehen haben muss" is must(have(seen)). But when the
        perfect governs a verb with an infinitive of its own, that verb is an infinitive too
        (Ersatzinfinitiv), and the perfect auxiliary moves to the front of the cluster, with
        every verb above it before it: "hat sehen können" and so, for the epistemic "must have
        been able to see", "muss haben sehen können" (Bech's Oberfeld, as in "wird haben sehen
        können"). The other orders, "sehen können haben muss" and "hat sehen können müssen", are
        not what an epistemic "must" says: the first keeps haben behind its substitute infinitive,
        the second is "has had to be able to see".
        """
        en: Words = []
        chain: list[tuple[Verb, object]] = []
        status = "finite"
        for operator in self.operators:
            key = object()
            if operator in MODALS:
                words = [operator]
            elif operator in ("able", "allowed"):
                words = [_english(BE.en, status, is_plural, self.is_past), operator, "to"]
            else:
                forms = WANT if operator == "want" else HAVE
                words = [_english(forms, status, is_plural, self.is_past)]
                if operator != "perfect":
                    words.append("to")
            en += [(word, key) for word in words]
            chain.append((OPERATORS[operator], key))
            status = "participle" if operator == "perfect" else "infinitive"
        key = object()
        en.append((_english(self.verb.en, status, is_plural, self.is_past), key))
        if self.verb.particle:
            en.append((self.verb.particle, key))
        chain.append((self.verb, key))
        doing: Words = []
        if self.doing:
            doing.append((self.doing.en[4], object()))
            chain.append((self.doing, doing[0][1]))
        return en, doing, *self._cluster(chain, is_plural)

    def _cluster(self, chain: list[tuple[Verb, object]], is_plural: bool) -> tuple[Words, Words]:
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
        middle: Words = []
        right: Words = []
        heavy: Words = []
        for np, case in zip(self.objects, self.verb.cases, strict=False):
            np_en, np_de, right = np.render(case)
            en += np_en
            if heavy or not np.is_light:
                heavy += np_de
            else:
                middle += np_de
        en += doing
        time_en, time_de = _pair(self.time.en, self.time.de) if self.time else ([], [])
        middle += time_de
        if self.frequency:
            first = self.operators[0] if self.operators else ""
            place = 1 if self.verb is BE or first not in ("", "want", "have") else 0
            often_en, often_de = _pair(self.frequency.en, self.frequency.de)
            en[place:place] = often_en
            middle += often_de
        middle += heavy
        for adverb in (self.manner, self.degree):
            if adverb:
                _extend(en, middle, *_pair(adverb.en, adverb.de))
        if self.adjective:
            _extend(en, middle, *_pair(self.adjective.en, self.adjective.de))
        if self.pp:
            pp_en, pp_de, right = self.pp.render()
            _extend(en, middle, pp_en, pp_de)
        en += time_en
        if self.complement:
            _extend(en, right, *self.complement.render())
        return en, second, end, middle, right


class Clause(NamedTuple):
    """A clause; only a main clause has something in front, which inverts the German."""

    subject: NP | None
    vp: VP
    front: Adverb | PP | Sub | None = None
    adjuncts: tuple[Sub, ...] = ()

    def render(self, is_final: bool, is_plural: bool = False) -> tuple[Words, Words]:
        """Return both sides, the German with its verbs at the end or the finite one second."""
        en: Words = []
        subject: Words = []
        if self.subject:
            en, subject, tail = self.subject.render(NOM)
            subject = subject + tail
            is_plural = self.subject.agrees_plural
        vp_en, second, end, middle, right = self.vp.render(is_plural)
        en = en + vp_en
        for adjunct in self.adjuncts:
            _extend(en, right, *adjunct.render())
        if is_final:
            return en, subject + middle + end + right
        if not self.front:
            return en, subject + second[:1] + middle + second[1:] + right
        if isinstance(self.front, Adverb):
            front_en, front_de = _pair(self.front.en, self.front.de)
        elif isinstance(self.front, PP):
            front_en, front_de, tail = self.front.render()
            front_en, front_de = [*front_en, COMMA], front_de + tail
        else:
            front_en, front_de = self.front.render()
            front_en, front_de = [*front_en, COMMA], front_de[1:]
        return front_en + en, front_de + second[:1] + subject + middle + second[1:] + right


class Sentence(NamedTuple):
    """Both sides as tokens, and the links (English, German) between them, sorted."""

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
    """Merge commas, drop those at either end, and capitalise the first word."""
    kept: Words = []
    for word in words:
        if word is not COMMA or (kept and kept[-1] is not COMMA):
            kept.append(word)
    if kept[-1] is COMMA:
        kept.pop()
    text, key = kept[0]
    kept[0] = (text[0].upper() + text[1:], key)
    return kept


def render(clauses: Sequence[Clause], coordinators: Sequence[str] = ()) -> Sentence:
    """Turn main clauses, joined by "and" or "but", into a sentence pair."""
    en, de = clauses[0].render(is_final=False)
    for coordinator, clause in zip(coordinators, clauses[1:], strict=True):
        _extend(en, de, [COMMA], [COMMA])
        _extend(en, de, *_pair(coordinator, COORDINATORS[coordinator]))
        _extend(en, de, *clause.render(is_final=False))
    stop = (".", object())
    en, de = [*_punctuate(en), stop], [*_punctuate(de), stop]
    places: dict[object, list[int]] = {}
    for j, (_, key) in enumerate(de):
        if key is not None:
            places.setdefault(key, []).append(j)
    links = [(i, j) for i, (_, key) in enumerate(en) for j in places.get(key, ())]
    return Sentence(tuple(word for word, _ in en), tuple(word for word, _ in de), tuple(links))


# ---- Sampling --------------------------------------------------------------------------------

DETERMINERS_SG = ("the", "the", "the", "the", "a", "a", "this", "my", "his", "our", "every", "no")
DETERMINERS_PL = ("the", "the", "the", "these", "my", "many", "some", "all")
NOUNS_BY = {
    kinds: [noun for noun in NOUNS if noun.kind in kinds]
    for kinds in ("h", "a", "t", "p", "ha", "hp", "ht", "tp", "hap", "htp", "hat", "hatp")
}
COSTS = {"able": 3, "allowed": 3, "want": 2, "have": 2}  # in English words; the others cost one
PLAIN = [(), ("perfect",)]
MODAL = [("will",), ("must",), ("must", "perfect"), ("will", "perfect")]
SEMI = [
    *(("able",), ("allowed",), ("want",), ("have",), ("want", "able"), ("have", "able")),
    *(("perfect", "able"), ("perfect", "have"), ("perfect", "want"), ("perfect", "allowed")),
    ("perfect", "want", "able"),
]
MODAL_SEMI = [
    *(("can",), ("should",), ("will", "able"), ("will", "have"), ("must", "able")),
    *(("should", "able"), ("must", "perfect", "able"), ("will", "perfect", "have")),
]


def _operators(is_past: bool, is_stative: bool) -> list[list[tuple[str, ...]]]:
    """List by cost, up to eight words, the operators that fit."""
    chains = PLAIN if is_past else PLAIN + MODAL
    if not is_stative:
        chains = chains + (SEMI if is_past else SEMI + MODAL_SEMI)
    return [
        [chain for chain in chains if sum(COSTS.get(op, 1) for op in chain) <= most]
        for most in range(9)
    ]


CHAINS = {(p, s): _operators(p, s) for p in (False, True) for s in (False, True)}


def _verbs(kind: str, gap: str) -> list[list[Verb]]:
    """List by words, up to four, the verbs for a subject and, with a gap, for a lost object."""
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
    """Draw trees with exactly so many English words.

    `depth` is how many relative clauses may still be nested inside the clause; `is_edge` says that
    nothing but the end of the sentence or a comma follows, so that clauses may be chained freely.
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
        luck = self.random()
        kind = "h" if luck < 0.6 or size == 1 else "a" if luck < 0.85 or kinds == "ha" else "t"
        kind = "p" if luck > 0.95 and kind == "t" else kind
        return size, kind, self.np(size, kind, depth, is_edge=False, role="subject")

    def vp(self, n: int, kind: str, gap: str, depth: int, is_edge: bool) -> VP:
        """Draw a verb phrase of n words for a kind of subject; gap: the kind of a lost object."""
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
        operators: tuple[str, ...] = ()
        if self.chance(0.5):
            operators = self.pick(CHAINS[is_past, "s" in verb.flags][min(spare, 8)])
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
        if spare >= 2:
            is_long = spare >= PLAIN_MOST and (doing or manner or not (is_edge or depth))
            if not n_objects or is_long or self.chance(0.25):
                size = spare if not n_objects else self.between(2, spare)
                size = max(size, spare - 3 * n_objects)
                role = "path" if "p" in (doing or verb).flags and self.chance(0.7) else "place"
                pp, spare = self.pp(size, depth, is_edge, role), spare - size
        objects = []
        for i in range(n_objects):
            is_last = i == n_objects - 1
            size = 1 + (spare if is_last else self.between(0, min(spare, 3)))
            spare -= size - 1
            kinds = (
                doing.subject if doing else "h" if len(verb.cases) == 2 and i == 0 else verb.object
            )
            role = "object" if is_last and not (pp or manner or doing) else "closed"
            objects.append(self.np(size, kinds, depth, is_edge, role))
        return VP(
            verb,
            tuple(objects),
            operators,
            is_past and not (operators and operators[0] in MODALS),
            doing,
            frequency=frequency,
            manner=manner,
            pp=pp,
            time=time,
        )

    def time(self, is_past: bool, operators: tuple[str, ...]) -> Adverb:
        """Draw an adverb of time that the tense allows."""
        if "perfect" in operators:
            return TIME["today"]
        if operators and operators[0] in MODALS:
            return TIME[self.pick(("today", "tomorrow"))]
        return TIME[self.pick(("today", "yesterday") if is_past else ("today", "now"))]

    def being(self, n: int, kind: str, is_past: bool) -> VP:
        """Draw "is tired", with at most two words more."""
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
        operators: tuple[str, ...] = ()
        if self.chance(0.4):
            operators = self.pick(CHAINS[is_past, True][min(spare, 2)])
        spare -= len(operators)
        frequency = self.pick(FREQUENCY) if spare and self.chance(0.15) else None
        size = n - 1 - len(operators) - (frequency is not None)
        is_past = is_past and not (operators and operators[0] in MODALS)
        complement = self.sub(size, "that")
        return VP(verb, (), operators, is_past, frequency=frequency, complement=complement)

    def sub(self, n: int, conjunction: str = "") -> Sub:
        """Draw one subordinate clause, or two joined by "and", of n ≥ 3 words in all."""
        if n >= 12 and self.chance(0.15):
            size = self.between(3, 7)  # the first is flat, so that the second can join only it
            first = self.clause(size, depth=0, is_edge=False)
            clauses: tuple[Clause, ...] = (first, self.clause(n - size - 3, 2, True))
        else:
            clauses = (self.clause(n - 1, 2, True),)
        is_future = any("will" in clause.vp.operators for clause in clauses)
        return Sub(conjunction or self.pick(ADJUNCTS[: 2 if is_future else None]), clauses)

    def clause(self, n: int, depth: int, is_edge: bool, is_main: bool = False) -> Clause:
        """Draw a clause of n ≥ 2 words; a main one may have something in front."""
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
        """Draw main clauses of n ≥ 4 words in all and what joins them."""
        clauses, coordinators = [], []
        while n > 9 and self.chance(0.35 if n < 20 else 0.6):
            size = self.between(4, min(n - 5, 28))
            clauses.append(self.clause(size, 2, True, is_main=True))
            coordinators.append(self.pick(tuple(COORDINATORS)))
            n -= size + 1
        return [*clauses, self.clause(n, 2, True, is_main=True)], coordinators


def sentence(rng: random.Random, n_words: int) -> Sentence:
    """Draw a sentence pair with exactly `n_words` English words, at least four."""
    if n_words < 4:
        raise ValueError(
            f"n_words is {n_words}, but the shortest sentence has 4; ask for 4 or more"
        )
    return render(*Sampler(rng).sentence(n_words))


# ---- Corpus ----------------------------------------------------------------------------------

LENGTH_EXPONENT = 2  # train and valid: probability of a length ∝ 1 / length ** LENGTH_EXPONENT


class Splits(NamedTuple):
    """The three parts of a corpus; no English sentence occurs twice."""

    train: list[Sentence]
    valid: list[Sentence]
    test: list[Sentence]


def corpus(
    seed: int,
    n_train: int,
    n_valid: int,
    trained_to: int = 40,
    tested_to: int = 80,
    per_bin: int = 100,
) -> Splits:
    """Draw a corpus: test first, so that neither it nor valid depends on the size of train.

    Lengths of train and valid are 4 to `trained_to` English words, drawn by `LENGTH_EXPONENT`.
    Test holds `per_bin` sentences of 4–10, 11–20, … to `tested_to` words, the lengths of a bin
    in turn.
    """
    if trained_to < 4 or tested_to < 10 or tested_to % 10:
        raise ValueError(
            f"trained_to={trained_to}, tested_to={tested_to}: lengths begin at 4 words and test "
            "bins are tens; take trained_to ≥ 4 and tested_to a multiple of 10"
        )
    rng = random.Random(seed)
    seen: set[tuple[str, ...]] = set()

    def draw(n_words: int) -> Sentence:
        """Draw a sentence that is not in the corpus yet."""
        for _ in range(1000):
            pair = sentence(rng, n_words)
            if pair.en not in seen:
                seen.add(pair.en)
                return pair
        raise ValueError(f"no new sentences of {n_words} words are left; ask for a smaller corpus")

    test = []
    for last in range(10, tested_to + 1, 10):
        lengths = range(max(4, last - 9), last + 1)
        test += [draw(lengths[i % len(lengths)]) for i in range(per_bin)]
    lengths = range(4, trained_to + 1)
    ladder = list(accumulate(1 / n**LENGTH_EXPONENT for n in lengths))

    def draw_any() -> Sentence:
        return draw(lengths[bisect(ladder, rng.random() * ladder[-1])])

    valid = [draw_any() for _ in range(n_valid)]
    return Splits([draw_any() for _ in range(n_train)], valid, test)
