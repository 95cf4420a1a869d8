"""The English–German grammar, read by hand."""

import hashlib
import random

import pytest

from tasks.synthetic.grammar import draw_corpus, draw_unseen
from tasks.synthetic.pairs import describe_data, grammar_task, n_crossings
from tasks.synthetic.trees import Sentence

READ = {
    "No new expensive picture fell.": "Kein neues teures Bild fiel.",
    "Many old men dance.": "Viele alte Männer tanzen.",
    "All clever mice run.": "Alle klugen Mäuse laufen.",
    "She has fallen today.": "Sie ist heute gefallen.",
    "Jonas, whom they thanked, played.": "Jonas, dem sie dankten, spielte.",
    "Without many teachers, this cow near parks woke up behind him yesterday.":
        "Ohne viele Lehrer wachte diese Kuh bei Parks gestern hinter ihm auf.",
    "All strong queens said that we had wanted to be able to play.":
        "Alle starken Königinnen sagten, dass wir hatten spielen können wollen.",
    "A brother that must have been able to help Max rarely sees horses running.":
        "Ein Bruder, der Max muss haben helfen können, sieht selten Pferde laufen.",
    "His farmer that Maria, who travels now, watches has been allowed to run in clean old gardens.":
        "Sein Bauer, den Maria, die jetzt reist, beobachtet, hat in sauberen alten Gärten laufen "
        "dürfen.",
    "The beautiful woman carries our lamp, which belongs to the young teachers, whom Paul trusts.":
        "Die schöne Frau trägt unsere Lampe, die den jungen Lehrern gehört, denen Paul vertraut.",
    "Many villages pleased the quite hungry doctor, who disappeared behind the gardens, which "
    "disappeared, although Julia had been hungry.":
        "Viele Dörfer gefielen dem ziemlich hungrigen Arzt, der hinter den Gärten verschwand, die "
        "verschwanden, obwohl Julia hungrig gewesen war.",
}  # fmt: skip
LINKED = (
    "A–Ein brother–Bruder that–der must–muss have–haben been–können able–können to–können "
    "help–helfen Max–Max rarely–selten sees–sieht horses–Pferde running–laufen .–.",
    "Without–Ohne many–viele teachers–Lehrer this–diese cow–Kuh near–bei parks–Parks woke–wachte "
    "woke–auf up–wachte up–auf behind–hinter him–ihm yesterday–gestern .–.",
    "Felix–Felix has–muss to–muss travel–reisen and–und he–er must–muss often–oft be–sein "
    "brave–mutig .–.",
)


@pytest.fixture(scope="module")
def pairs() -> list[Sentence]:
    """Draw 4,000 sentences, half of them short, where the same English comes up again."""
    rng = random.Random(5)
    lengths = (4 + int(rng.random() * (2 if i % 2 else 40)) for i in range(4_000))
    return [draw_unseen(rng, n_words, set()).sentence for n_words in lengths]


def test_drawn_sentences_read_by_hand(pairs: list[Sentence]) -> None:
    drawn = {pair.en_text: pair for pair in pairs}
    assert all(drawn[pair.en_text] == pair for pair in pairs)
    assert len(drawn) < len(pairs)
    assert {en: drawn[en].de_text for en in READ} == READ
    links = {" ".join(f"{p.en[i]}–{p.de[j]}" for i, j in p.links) for p in pairs}
    assert links.issuperset(LINKED)
    text = "".join(f"{pair.en_text}\t{pair.de_text}\t{pair.links}\n" for pair in pairs)
    digest = "acc84957f3602e66abaa4ed7710be30ea1d95dc7f0a3c625da79b62d8900653d"
    assert hashlib.sha256(text.encode()).hexdigest() == digest  # of those that were not read


def test_splits_share_no_sentence_and_have_their_lengths() -> None:
    train, valid, test = draw_corpus(0, 1000, 200, max_train=20, max_test=40, per_bucket=30)
    assert len({p.en_text for part in (train, valid, test) for p in part}) == 1320
    share = sum(n for n in (p.n_words for p in train) if n > 12) / sum(p.n_words for p in train)
    assert abs(share - 8 / 17) < 0.04  # as many words of every length
    for last in (10, 20, 30, 40):
        lengths = [pair.n_words for pair in test if last - 9 <= pair.n_words <= last]
        assert (len(lengths), {*lengths}) == (30, {*range(max(4, last - 9), last + 1)})
    small = draw_corpus(0, 10, 200, max_train=20, max_test=40, per_bucket=30)
    assert (small.test, small.valid, small.train) == (test, valid, train[:10])


def test_the_task_on_a_corpus_of_the_grammar() -> None:
    drawn = draw_corpus(2, 30, 5, max_train=12, max_test=20, per_bucket=20)
    task = grammar_task(drawn, 100)
    assert task.tokenizer.decode(task.train[0].src[:-1]) == drawn.train[0].en_text
    assert task.tokenizer.decode(task.train[0].tgt) == drawn.train[0].de_text
    counts = [task.data[f"n_{split}"] for split in ("train", "valid", "test")]
    assert (task.data["source_end"], counts) == ("EOS", [30, 5, 40])
    (test,) = task.tests
    assert test.max_train_length == max(s.n_words for s in drawn.train) < max(test.x)
    example, links = task.alignment_example
    assert (task.tokenizer.tokens(example.src[:-1]), links) in [
        ([*s.en], s.links) for s in drawn.test
    ]
    assert n_crossings([(0, 2), (1, 0), (2, 1)]) == 2
    words = describe_data("x", [[], [], []], task.tokenizer, texts=["a", "b"])
    assert words["sha256"] == hashlib.sha256(b"a\nb\n").hexdigest()
