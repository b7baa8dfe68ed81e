"""Why a token comes next: shares that add up to its logit, and what ablating heads has shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.asked_models import TEXT, loaded_of, own, small
from helpers.model_folders import save, save_bert, save_masked, small_llama
from torch import Tensor
from transformers import LlamaForCausalLM, LlamaForSequenceClassification, MarianMTModel

import regard
from regard.ask import Ablated, Why
from regard.models import Loaded, load
from regard.nn import Learned, NotesNorm, PostNorm, Rotary, Sinusoidal
from regard.view.why import verdict_of

FAMILIES = [
    *("llama", "qwen3", "gpt2", "gpt-neox", "gpt-neox, one after the other", "phi"),
    *("cohere", "granite", "gemma 2", "olmo 2", "opt"),
]
OWN: list[dict[str, Any]] = [
    {},
    {"norm": "rms", "kv_heads": 1, "activation": "swiglu", "position": Rotary()},
    {"position": Learned(length=13), "embedding_scale": True, "head_bias": True},
    {"position": Sinusoidal(), "embedding_norm": True, "tied": False},
    {"final_norm": False, "bias": False, "value_width": 2},
    {"causal": False},
]


def logits_of(loaded: Loaded) -> Tensor:
    """The logits (N, vocabulary) of the model itself, in float64."""
    with torch.no_grad():
        found = loaded.model(**loaded.inputs(TEXT))
    return (found if isinstance(found, Tensor) else found.logits)[0].double()


def total(why: Why) -> float:
    return sum(part.share for part in why.parts)


# ── shares add up ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("changes", OWN)
def test_shares_add_up_to_the_logit_in_float64(changes: dict[str, Any]) -> None:
    loaded = own(**changes)
    run, logits = loaded.see(TEXT), logits_of(loaded)
    for position, token, against in ((4, 3, None), (0, 10, None), (-2, 5, 7)):
        why = run.why(position, token, against, ablate=0)
        expected = float(logits[position, token])
        if against is not None:
            expected -= float(logits[position, against])
        assert why.total == pytest.approx(expected, rel=1e-12)
        assert total(why) == pytest.approx(expected, rel=1e-9)
        assert [len(why.heads), len(why.heads[0]), len(why.feed_forward)] == [2, 3, 2]
        assert why.token.probability == pytest.approx(float(logits[position].softmax(0)[token]))


@pytest.mark.parametrize("name", FAMILIES)
def test_shares_add_up_in_every_family_that_is_a_sum(name: str) -> None:
    loaded = loaded_of(small(name))
    run, logits = loaded.see(TEXT), logits_of(loaded)
    for position in (4, 1):
        token, against = logits[position].topk(11).indices[[0, 10]].tolist()
        for other in (None, against):
            why = run.why(position, token, other, ablate=0)
            expected = logits[position, [token] if other is None else [token, other]]
            if why.softcap is not None:
                assert why.softcap == 5.0
                expected = (expected / 5.0).atanh() * 5.0  # what is explained is before the cap
            expected = float(expected[0] - (0.0 if other is None else expected[1]))
            assert why.total == pytest.approx(expected, rel=1e-4 if why.softcap else 1e-6)
            assert total(why) == pytest.approx(why.total, rel=1e-5)
    assert not any(each._forward_hooks for each in loaded.model.modules())


def test_a_model_of_transformers_in_float64_has_norms_in_float32() -> None:
    why = loaded_of(small("llama").double()).see(TEXT).why(-1, 3, 5, ablate=0)
    assert total(why) == pytest.approx(why.total, rel=1e-5)


def test_a_share_is_what_the_logit_loses_with_all_that_follows_held() -> None:
    """Each share against a derivative: d logit / d scale of the part, the last norm held."""
    loaded = own(norm="rms")
    run = loaded.see(TEXT)
    why = run.why(4, 3, ablate=0)
    inner: Any = loaded.model
    model = inner.model
    kept: dict[str, Tensor] = {}

    def keep(name: str, what: Any) -> Any:
        return what.register_forward_hook(
            lambda _, x, y: kept.update({name: y, f"in {name}": x[0]})
        )

    layers = model.decoder.layers
    with (
        torch.no_grad(),
        keep("o", layers[1].attention.w_o),
        keep("f", layers[0].feed_forward),
        keep("norm", model.decoder.norm),
        keep("0", layers[0]),
    ):
        model(loaded.inputs(TEXT)["input_ids"])
    x = kept["in norm"][0, 4]
    norm, w_o = model.decoder.norm, layers[1].attention.w_o
    held = x.square().mean().add(norm.eps).rsqrt() * norm.weight.detach()
    u = model.head.weight[3].detach() * held
    heads = kept["in o"][0, 4].view(3, 4)
    for head in range(3):
        weight = w_o.weight[:, head * 4 : head * 4 + 4].detach()
        assert why.heads[1][head] == pytest.approx(float(u @ weight @ heads[head]), rel=1e-9)
    assert why.feed_forward[0] == pytest.approx(float(u @ kept["f"][0, 4]), rel=1e-9)
    assert why.embeddings["embedding"] == pytest.approx(float(u @ kept["in 0"][0, 4]), rel=1e-9)
    bias = float(u @ w_o.bias.detach())
    assert why.biases["attention 1"] == pytest.approx(bias, rel=1e-9)


def test_embeddings_of_tokens_and_positions_are_told_apart() -> None:
    for loaded in (loaded_of(small("gpt2")), own(position=Learned(length=13))):
        assert set(loaded.see(TEXT).why(2, 3, ablate=0).embeddings) == {"tokens", "positions"}
    gpt = small("gpt2")
    body: Any = gpt
    with torch.no_grad():
        body.transformer.wpe.weight.zero_()
    assert loaded_of(gpt).see(TEXT).why(2, 3, ablate=0).embeddings["positions"] == 0.0


def test_parts_that_do_not_add_up_are_refused() -> None:
    loaded = loaded_of(small("llama"))
    run = loaded.see(TEXT)
    model: Any = loaded.model
    last = model.model.layers[-1]
    with (
        last.register_forward_hook(lambda _, __, y: y * 1.001),
        pytest.raises(ArithmeticError, match=r"layers\.2 gives something else than what came in"),
    ):
        run.why(-1, 3)
    with (
        model.lm_head.register_forward_hook(lambda _, __, y: y.tanh()),
        pytest.raises(ArithmeticError, match="must add up to the logit"),
    ):
        run.why(-1, 3)
    with (
        model.model.norm.register_forward_hook(lambda _, __, y: y.abs()),
        pytest.raises(ArithmeticError, match="last norm is of no known kind"),
    ):
        run.why(-1, 3)


# ── and are put to the test ───────────────────────────────────────────────────────────────────


def test_what_is_lost_is_what_a_pass_without_the_head_lacks() -> None:
    loaded = own(layers=3)
    run, logits = loaded.see(TEXT), logits_of(loaded)
    why = run.why(3, 5, 7, ablate=4)
    shares = {(part.layer, part.head): part.share for part in why.parts if part.kind == "head"}
    assert [(each.layer, each.head) for each in why.ablated] == list(shares)[:4]
    for each in why.ablated:
        with torch.no_grad(), regard.watch(loaded.model, ablate={each.layer: [each.head]}):
            without: Tensor = loaded.model(**loaded.inputs(TEXT))[0, 3]
        lost = float(logits[3, 5] - logits[3, 7] - without[5] + without[7])
        assert each.lost == pytest.approx(lost, rel=1e-9, abs=1e-12)
        assert each.share == shares[each.layer, each.head]


def test_a_head_of_the_last_layer_without_a_norm_loses_its_share() -> None:
    """Nothing follows it, so nothing can make up for it."""
    run = own(layers=1, final_norm=False).see(TEXT)
    why = run.why(-1, 5, 7, ablate=3)
    for each in why.ablated:
        # The feed-forward layer behind it answers; without that the loss is the share.
        assert abs(each.lost) > 0
    silent = own(layers=1, final_norm=False)
    inner: Any = silent.model
    with torch.no_grad():
        inner.model.decoder.layers[0].feed_forward.w_out.weight.zero_()
    for each in silent.see(TEXT).why(-1, 5, 7, ablate=3).ablated:
        assert each.lost == pytest.approx(each.share, rel=1e-9)
        assert each.verdict == "holds"


def test_a_run_without_a_head_is_explained_without_it() -> None:
    loaded = own()
    why = loaded.see(TEXT, ablate={0: [1]}).why(-1, 5, ablate=6)
    assert why.heads[0][1] == 0.0
    assert len(why.ablated) == 5  # all but the one that is ablated already
    assert total(why) == pytest.approx(why.total, rel=1e-9)


def test_a_verdict_says_where_the_two_disagree() -> None:
    pairs = [(1.0, 0.8), (1.0, 0.1), (-1.0, -2.0), (1.0, -0.5), (0.01, 0.0), (-1.0, 0.0)]
    kinds = ["holds", "less", "more", "opposite", "holds", "less"]
    rows = [Ablated(3, n, share, lost) for n, (share, lost) in enumerate(pairs)]
    assert [each.verdict for each in rows] == kinds
    run = own().see(TEXT)
    why = run.why(-1, 5, ablate=0)

    def said(*some: int) -> str:
        from dataclasses import replace

        return verdict_of(replace(why, ablated=tuple(rows[n] for n in some)))

    assert said(0, 4) == "Each loses about its share: for these heads the shares are the cause."
    assert said(0, 1, 5, 2, 3) == (
        "For 1 of 5 heads the loss is about the share. Without 3.1 and 3.5 less is lost: later "
        "parts make up for them (self-repair). Without 3.2 more is lost: later parts build on what "
        "they give. Without 3.3 the change is the opposite of the share. There the share alone "
        "does not tell the cause."
    )


# ── what is refused, before the model runs ────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((5, "love"), "position must be from -5 to 4; got 5. There are 5 tokens."),
        ((0, "love apple"), "token must be one token of small; got 'love apple', which is 2: "),
        ((0, "pear"), r"token must be one token of small; got 'pear', which is 1: '\[UNK\]'"),
        ((0, ""), "token must be one token of small; got '', which is 0: none"),
        ((0, 11), "token must be from 0 to 10; got 11"),
        ((0, 1.5), "token must be a whole number; got 1.5"),
        ((0, "love", "love"), "against must be another token than token; got 'love' for both"),
        ((0, "love", "i i"), "against must be one token of small; got 'i i', which is 2: 'i', 'i'"),
    ],
)
def test_what_is_asked_must_be_a_place_and_a_token(given: Any, said: str) -> None:
    run = own().see(TEXT)
    assert run.again is not None
    run.again.args[0].model.forward = None
    with pytest.raises(ValueError, match=rf"^why\(\): {said}"):
        run.why(*given)


def test_models_that_are_no_sum_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_bert(tmp_path / "vectors")
    save_masked(tmp_path / "masked")
    classes = LlamaForSequenceClassification(small_llama(num_labels=3, pad_token_id=0))
    refused = {
        "BertModel, which gives vectors": load(tmp_path / "vectors"),
        "LlamaForSequenceClassification, which gives vectors": loaded_of(classes),
        r"BertForMaskedLM, whose head \(cls": load(tmp_path / "masked"),
        "OpenAIGPTLMHeadModel, which has no norm after": loaded_of(small("gpt")),
        "OPTForCausalLM, which has no norm after": loaded_of(small("opt, post-norm")),
        r"LanguageModel, whose blocks renormalise the residual stream \(PostNorm\)": own(
            residual=PostNorm()
        ),
        r"LanguageModel, whose blocks renormalise the residual stream \(NotesNorm\)": own(
            residual=NotesNorm()
        ),
    }
    for said, loaded in refused.items():
        run = loaded.see(TEXT)
        with monkeypatch.context() as patch:
            patch.setattr(type(loaded.model), "forward", None)
            with pytest.raises(ValueError, match=rf"^why\(\): .*; got {said}"):
                run.why(0, 3)


def test_a_model_that_writes_another_text_is_refused(tmp_path: Path) -> None:
    from helpers.hugging_face_models import made, marian

    save(made(MarianMTModel(marian(vocab_size=11, max_position_embeddings=13))), tmp_path)
    loaded = load(tmp_path)
    run = loaded.see(TEXT)
    for ask in (run.why, run.lens):
        given = (0, 3) if ask == run.why else ()
        with pytest.raises(ValueError, match="MarianMTModel, which reads one text and writes"):
            ask(*given)


def test_a_run_from_a_disk_needs_its_model(tmp_path: Path) -> None:
    torch.manual_seed(3)
    save(LlamaForCausalLM(small_llama(initializer_range=0.4)), tmp_path / "model")
    loaded = load(tmp_path / "model")
    run = loaded.see(TEXT)
    run.save(tmp_path / "run")
    again = regard.load(tmp_path / "run")
    with pytest.raises(ValueError, match=r"run\.why\(…, model=regard\.models\.load"):
        again.why(-1, "love")
    found, expected = again.why(-1, "love", model=loaded), run.why(-1, "love")
    assert found.info() == expected.info()


def test_a_layer_that_was_not_seen_is_missed() -> None:
    run = own().see(TEXT, layers=0)
    with pytest.raises(ValueError, match="must have seen attention in every block; got 1 of 2"):
        run.why(-1, 3)
