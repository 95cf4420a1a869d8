"""Runs on the Hub: pushed to a stand-in and fetched from it, and strangers' repositories."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock, create_autospec

import huggingface_hub
import pytest
import tokenizers
import torch
from conftest import Call, check_one_line, needs_lesson
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.hf_api import RepoSibling
from transformers import GPT2Config, GPT2LMHeadModel

import seqmodels
from seqmodels.cli import main
from seqmodels.experiments import hub

SHA = "5ca1ab1e" * 5


Serve = Callable[..., dict[str, bytes]]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Serve:
    """Return a function that has the Hub hold these files."""
    held = dict[str, bytes]()
    api = create_autospec(HfApi, instance=True)  # it refuses arguments that the library lacks

    def model_info(*_: object, **__: object) -> Mock:
        return Mock(siblings=[RepoSibling(name) for name in held], sha=SHA)

    def commit(_: str, added: Sequence[CommitOperationAdd], **__: object) -> Mock:
        held.update({each.path_in_repo: each.path_or_fileobj for each in added})
        return Mock(oid=SHA)

    def download(_: str, file: str, revision: str) -> str:
        assert revision == SHA
        (path := tmp_path / "fetched" / file).parent.mkdir(exist_ok=True)
        path.write_bytes(held[file])
        return str(path)

    api.model_info.side_effect, api.create_commit.side_effect = model_info, commit
    monkeypatch.setattr(hub, "HfApi", lambda: api)
    download = create_autospec(hub.hf_hub_download, side_effect=download)
    monkeypatch.setattr(hub, "hf_hub_download", download)

    def hold(contents: dict[str, bytes]) -> dict[str, bytes]:
        held.update(contents)
        return held

    return hold


def files_of(run: Path) -> dict[str, bytes]:
    paths = [run.with_name(f"{run.name}{kind}") for kind in (".json", ".safetensors")]
    return {path.name: path.read_bytes() for path in (*paths, run.with_name("tokenizer.json"))}


@needs_lesson
def test_pushed_and_fetched(trained: Path, serve: Serve, call: Call, monkeypatch: Any) -> None:
    run = trained / "lstm_seq2seq-seed1"
    monkeypatch.setitem(sys.modules, "lesson.export", None)
    code, out, err = call(main, "push", run, "me/run")
    assert (code, out) == (0, f"hub:me/run@{SHA}\n"), err
    held = serve({})
    assert {name: held[name] for name in files_of(run)} == files_of(run)
    card, record = held["README.md"].decode(), json.loads(held[f"{run.name}.json"])
    bleu = record["tests"][0]["overall"]["bleu"]
    assert f"| all | {bleu['value']:.1f} [" in " ".join(card.split())
    assert f"{record['n_parameters']:,}" in card
    assert 'load("hub:me/run")' in card
    assert held["scores.png"].startswith(b"\x89PNG")
    here, there = (seqmodels.load(r).model.state_dict() for r in (run, f"hub:me/run@{SHA}"))
    assert all(torch.equal(here[name], there[name]) for name in here)
    text = "The cat sleeps."
    assert call(main, "translate", "hub:me/run", text)[:2] == call(main, "translate", run, text)[:2]


NAME = "lstm_seq2seq-seed1"
STRANGE: dict[str, tuple[Callable[[dict[str, bytes]], object], str]] = {
    "nothing": (lambda f: f.clear(), "has 0 records"),
    "two runs": (lambda f: f.update({"gpt-seed1.json": b"{}"}), "has 2 records"),
    "pickle": (lambda f: f.update({"model.bin": f.pop(f"{NAME}.safetensors")}), "lacks"),
    "no tokenizer": (lambda f: f.pop("tokenizer.json"), "lacks tokenizer.json"),
    "a path": (lambda f: f.update({f"../../{NAME}.json": f.pop(f"{NAME}.json")}), "0 records"),
    "a folder": (lambda f: f.update({f"x/{NAME}.json": f.pop(f"{NAME}.json")}), "0 records"),
    "other weights": (lambda f: flip(f, f"{NAME}.safetensors"), "SHA-256"),
}  # fmt: skip
"""Changes of the files that are listed, and of one that is read: others are those of any run."""


def flip(found: dict[str, bytes], name: str) -> None:
    found[name] = found[name][:-1] + bytes([found[name][-1] ^ 1])


@pytest.mark.parametrize("name", STRANGE)
def test_a_strangers_repository(name: str, trained: Path, serve: Serve, call: Call) -> None:
    change, reason = STRANGE[name]
    contents = files_of(trained / NAME)
    change(contents)
    serve(contents)
    check_one_line(call(main, "translate", "hub:me/run", "The cat sleeps."), reason)


def test_no_hub(trained: Path, call: Call, monkeypatch: Any) -> None:
    nowhere = HfApi(endpoint="http://127.0.0.1:9", token="hf_x")
    monkeypatch.setattr(hub, "HfApi", lambda: nowhere)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    for address in ("hub:me/run", "hub:me/run@v2", "hub:", "hub:a/b/c"):
        check_one_line(call(main, "translate", address, "x"), address)
    check_one_line(call(main, "push", "hub:me/run", "me/run"), "already")
    with pytest.raises(ValueError, match=r"^me/run cannot be written: "):
        hub.push(trained / f"{NAME}.json", "me/run", "", {})


def write_gpt2(folder: Path, width: int, n_heads: int) -> Any:
    """Write a random GPT-2 of one block with a tokenizer of bytes; return the library's model."""
    words = tokenizers.Tokenizer(tokenizers.models.BPE())
    words.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = tokenizers.decoders.ByteLevel()
    words.train_from_iterator(["a cat"], tokenizers.trainers.BpeTrainer(
        show_progress=False, initial_alphabet=words.pre_tokenizer.alphabet()
    ))  # fmt: skip
    words.add_special_tokens(["<|endoftext|>"])
    words.save(str(folder / "tokenizer.json"))
    cfg = GPT2Config(
        vocab_size=words.get_vocab_size(), n_positions=48, n_embd=width, n_layer=1, n_head=n_heads,
        initializer_range=0.3,
    )  # fmt: skip
    model = GPT2LMHeadModel(cfg).eval()
    model.save_pretrained(folder)
    return model


SLOW = [
    pytest.param(*size, marks=pytest.mark.slow) for size in ((1024, 16), (1280, 20), (1600, 25))
]


@pytest.mark.parametrize(("width", "n_heads"), [(768, 12), *SLOW])
def test_gpt2s_weights_are_ours(width: int, n_heads: int, tmp_path: Path, call: Call) -> None:
    """Keeps out another order of q, k and v, a matrix that is not turned, ids that are shifted."""
    theirs = write_gpt2(tmp_path, width, n_heads)
    run = seqmodels.load(tmp_path)
    ids = torch.tensor([run.encode("a cat sat on")])
    run.model.double()  # float32 is rounded in other orders, by more on some processors
    theirs.double()
    with torch.no_grad():
        found = run.model(ids[:, :3], ids[:, :3] > 0, ids[:, 3:])
        expected = theirs(ids - 4).logits[:, 3:]
        n = expected.shape[2]
        torch.testing.assert_close(found[..., 4 : 4 + n], expected, rtol=1e-5, atol=1e-4)
        begun = run.model(torch.tensor([[1]]), torch.tensor([[True]]), ids[:, :1])  # after BOS
        expected = theirs(torch.tensor([[n - 1, ids[0, 0] - 4]])).logits[:, 1:]
        torch.testing.assert_close(begun[..., 4 : 4 + n], expected, rtol=1e-5, atol=1e-4)
        text = theirs.float().generate(
            ids - 4, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=9,
            pad_token_id=0, eos_token_id=n - 1,
        )  # fmt: skip
    code, out, _ = call(
        main, "generate", tmp_path, "a cat sat on", "--temperature", 0, "--length", 9
    )
    assert (code, out) == (
        0,
        run.tokenizer.decode((text[0] + 4).tolist()).removesuffix("<|endoftext|>") + "\n",
    )


def test_a_strangers_gpt2(tmp_path: Path, serve: Serve, call: Call) -> None:
    write_gpt2(tmp_path, 32, 2)
    names = "config.json", "model.safetensors", "tokenizer.json"
    contents = {name: (tmp_path / name).read_bytes() for name in names}
    config = json.loads(contents["config.json"])
    serve(contents)
    assert call(main, "generate", "hub:me/run", "a", "--length", 3)[0] == 0
    for name, value in (
        ("activation_function", "relu"), ("n_layer", 2), ("n_embd", "8"), ("vocab_size", 9),
        ("n_positions", 2**40), ("model_type", "llama"),
    ):  # fmt: skip
        (tmp_path / "config.json").write_text(json.dumps(config | {name: value}))
        check_one_line(call(main, "generate", tmp_path, "a"), str(tmp_path))
