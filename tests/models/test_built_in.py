"""The two real models: fetched by name, and they compute what such models compute."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.models import Loaded, load


@pytest.fixture(scope="module")
def minilm() -> Loaded:
    return load("minilm")


@pytest.fixture(scope="module")
def smollm2() -> Loaded:
    return load("smollm2")


def sentence_vectors(loaded: Loaded, texts: list[str]) -> Tensor:
    """The mean of the last hidden states over the real tokens, as MiniLM is meant to be used."""
    inputs = loaded.inputs(texts)
    with torch.no_grad():
        hidden = loaded.model(**inputs).last_hidden_state
    kept = inputs["attention_mask"].unsqueeze(-1)
    return torch.nn.functional.normalize((hidden * kept).sum(1) / kept.sum(1), dim=-1)


def test_minilm_is_a_bert_encoder_that_gives_384_numbers_a_text(minilm: Loaded) -> None:
    assert type(minilm.model).__name__ == "BertModel"
    assert not minilm.decoder
    assert sentence_vectors(minilm, ["I love apple phones", "hm"]).shape == (2, 384)


def test_minilm_finds_the_sentence_that_means_the_same(minilm: Loaded) -> None:
    texts = ["A cat sat on the mat.", "A kitten rests on a rug.", "Shares fell sharply on Monday."]
    likeness = sentence_vectors(minilm, texts) @ sentence_vectors(minilm, texts[:1]).T
    assert likeness[1] > 0.4 > likeness[2]


def test_minilm_cuts_nothing_off_before_its_512_positions(minilm: Loaded) -> None:
    assert minilm.inputs("cat " * 510)["input_ids"].shape == (1, 512)
    with pytest.raises(ValueError, match="at most the 512 tokens that minilm"):
        minilm.inputs("cat " * 511)


def test_minilm_does_not_pad_a_short_text(minilm: Loaded) -> None:
    assert minilm.inputs("cat")["input_ids"].shape == (1, 3)
    spans = [(token.text, token.start, token.end) for token in minilm.tokens("Cats purr")]
    assert spans == [("[CLS]", 0, 0), ("Cats", 0, 4), ("pu", 5, 7), ("rr", 7, 9), ("[SEP]", 9, 9)]


def test_smollm2_is_a_llama_decoder_of_8192_positions(smollm2: Loaded) -> None:
    assert type(smollm2.model).__name__ == "LlamaForCausalLM"
    assert smollm2.decoder
    assert smollm2.inputs(" cat" * 8192)["input_ids"].shape == (1, 8192)
    with pytest.raises(ValueError, match="at most the 8,192 tokens"):
        smollm2.inputs(" cat" * 8193)
    assert all(weight.dtype == torch.float32 for weight in smollm2.model.parameters())


@pytest.mark.parametrize(
    ("text", "next_word"),
    [
        ("The capital of France is", " Paris"),
        ("One, two, three, four,", " five"),
        ("red green blue red green blue red green", " blue"),
    ],
)
def test_smollm2_goes_on_sensibly(smollm2: Loaded, text: str, next_word: str) -> None:
    with torch.no_grad():
        logits = smollm2.model(**smollm2.inputs(text)).logits
    model, tokenizer = smollm2
    assert model is smollm2.model
    assert tokenizer.decode(logits[0, -1].argmax()) == next_word


def test_smollm2_splits_digits_as_it_was_trained_to(smollm2: Loaded) -> None:
    assert [token.text for token in smollm2.tokens("a  712")] == ["a", "  ", "7", "1", "2"]


def test_tokens_that_split_a_character_have_its_span(smollm2: Loaded) -> None:
    tokens = smollm2.tokens("a😀")
    assert len(tokens) > 2
    assert {(token.start, token.end) for token in tokens[1:]} == {(1, 2)}


def test_padding_a_batch_changes_no_real_position(smollm2: Loaded) -> None:
    texts = ["The capital of France is", "One"]
    with torch.no_grad():
        together = smollm2.model(**smollm2.inputs(texts)).logits[1, 0]
        alone = smollm2.model(**smollm2.inputs("One")).logits[0, 0]
    torch.testing.assert_close(together, alone, atol=1e-3, rtol=1e-4)
