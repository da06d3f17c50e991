"""Sampling with a really tiny random model, through files as `run` does it."""

from __future__ import annotations

import json
import string

import pytest
from grpo_rlvr.config import load_config
from grpo_rlvr.data import load_rows
from grpo_rlvr.errors import UserError
from grpo_rlvr.inspection.run import run_inspection
from grpo_rlvr.inspection.samples import append_samples, load_samples, make_header, sample_ids, samples_path, start_samples
from grpo_rlvr.inspection.sampling import draw_prompts, draw_samples, planned_header

SPECIAL = ["<pad>", "<eos>", "<end>", "<user>", "<assistant>", "<system>"]
TEMPLATE = (
    "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}{{ suffix | default('') }}"
)


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory):
    """A folder with a random Qwen2 of 6,000 parameters over 40 characters; `<end>` ends a turn besides the tokenizer's `<eos>`."""
    torch = pytest.importorskip("torch")
    tokenizers = pytest.importorskip("tokenizers")
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *(string.digits + string.ascii_lowercase[:20] + "+=? ")])}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    backend.add_special_tokens(SPECIAL)
    backend.decoder = tokenizers.decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>", padding_side="right", chat_template=TEMPLATE)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        max_position_embeddings=128, tie_word_embeddings=True, eos_token_id=1, pad_token_id=0, bos_token_id=None,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config)
    # Restrictive settings as checkpoints ship them; training ignores them and so must we.
    model.generation_config.update(eos_token_id=[2], top_k=1, temperature=0.1, do_sample=True)
    folder = tmp_path_factory.mktemp("model") / "tiny"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def load(folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def read_lines(project) -> list[dict]:
    return [json.loads(line) for line in samples_path(project.inspection).read_text().splitlines()]


class Stop(Exception):
    pass


class Counting:
    """The model with its `generate` calls counted, recorded and, if told, ended after some."""

    def __init__(self, model, monkeypatch, allowed: int = 10**6):
        self.calls, inner = [], model.generate

        def generate(**kwargs):
            if len(self.calls) >= allowed:
                raise Stop
            self.calls.append(kwargs)
            return inner(**kwargs)

        monkeypatch.setattr(model, "generate", generate)


@pytest.mark.model
def test_samples_end_to_end_and_are_reused(project, tiny_model, monkeypatch, capsys):
    config = project.write("  - {use: partial_format}\n  - {use: exact}", model=str(tiny_model))
    result = run_inspection(config)
    assert result["samples"] == 16 and result["signal"]["verdict"] == "sft_first" and "sampling: 16 of 16" in capsys.readouterr().err
    header, *rows = read_lines(project)
    assert header["sampling"] == {
        "source": "model", "backend": "transformers", "seed": 0, "prompts": 4, "samples_per_prompt": 4, "dtype": "float32",
        "temperature": 1.0, "top_p": 1.0, "top_k": 0,
        "min_p": None, "repetition_penalty": 1.0, "max_completion_length": 16, "chat_template_kwargs": None, "generation_kwargs": None,
    }  # fmt: skip
    assert sorted({r["prompt_index"] for r in rows}) == sorted(draw_prompts(6, 4, 0)) and all(isinstance(r["completion"], str) for r in rows)
    assert {r["finish"] for r in rows} == {"stop", "length"}  # 16 tokens of which each ends with chance 2/40
    assert all((r["tokens"] == 16) or r["finish"] == "stop" for r in rows)
    assert not any(token in r["completion"] for r in rows for token in SPECIAL)
    # top_k=1 of the checkpoint would make all completions of a prompt equal.
    assert result["signal"]["duplicate_share"] < 0.2

    before = samples_path(project.inspection).read_bytes()
    model, tokenizer = load(tiny_model)
    counting = Counting(model, monkeypatch)
    run_inspection(project.write(model=str(tiny_model)), model=model, tokenizer=tokenizer, quiet=True)
    assert counting.calls == [] and samples_path(project.inspection).read_bytes() == before


@pytest.mark.model
def test_an_interrupted_run_goes_on_and_ends_as_if_it_had_not_been(project, tiny_model, monkeypatch):
    config = project.write(model=str(tiny_model), more=", batch_size: 5")
    rows = load_rows(config, "train")
    model, tokenizer = load(tiny_model)
    whole = draw_samples(config, rows, model=model, tokenizer=tokenizer, quiet=True)
    samples_path(project.inspection).unlink()

    with monkeypatch.context() as patch:
        Counting(model, patch, allowed=2)
        with pytest.raises(Stop):
            draw_samples(config, rows, model=model, tokenizer=tokenizer, quiet=True)
    with pytest.raises(UserError, match="10 of 16 samples are there"):
        load_samples(project.inspection)
    # A kill in the middle of the third batch: two whole lines of it and half a line.
    with open(samples_path(project.inspection), "a") as out:
        for sample in whole[10:12]:
            out.write(json.dumps(sample) + "\n")
        out.write(json.dumps(whole[12])[:40])
    counting = Counting(model, monkeypatch)
    again = draw_samples(config, rows, model=model, tokenizer=tokenizer, quiet=True)
    assert len(counting.calls) == 2 and again == whole == load_samples(project.inspection)
    (torn,) = project.inspection.glob("samples.torn-*.jsonl")
    assert len(torn.read_text().splitlines()) == 3


@pytest.mark.model
@pytest.mark.parametrize(
    "change",
    [{"grpo": ", temperature: 0.5"}, {"grpo": ", min_p: 0.1"}, {"more": ", seed: 1"}, {"grpo": ", generation_kwargs: {top_k: 3}"}],
)
def test_changed_settings_move_the_old_samples_aside(project, tiny_model, change):
    run_inspection(project.write(model=str(tiny_model)), quiet=True)
    old = samples_path(project.inspection).read_bytes()
    run_inspection(project.write(model=str(tiny_model), **change), quiet=True)
    (aside,) = [p for p in project.inspection.glob("samples.*.jsonl") if p.name != "samples.jsonl"]
    assert aside.read_bytes() == old and len(load_samples(project.inspection)) == 16


@pytest.mark.model
def test_the_model_sees_what_training_would_show_it(project, tiny_model, monkeypatch):
    (project.folder / "train.jsonl").write_text('{"prompt": "12+5=?", "answer": "17"}\n{"prompt": "1+1=?", "answer": "2"}\n')
    project.write(
        model=str(tiny_model), grpo=", top_k: 7, temperature: 0.7, chat_template_kwargs: {suffix: a}, generation_kwargs: {renormalize_logits: true}"
    )
    project.config_path.write_text(project.config_path.read_text().replace("data: {", "data: {system_prompt: add, "))
    config = load_config(project.config_path)
    model, tokenizer = load(tiny_model)
    counting = Counting(model, monkeypatch)
    model.train()
    samples = draw_samples(config, load_rows(config, "train"), model=model, tokenizer=tokenizer, quiet=True)
    (call,) = counting.calls
    shown = tokenizer.batch_decode(call["input_ids"])
    assert set(shown) == {"<system>add<user>12+5=?<assistant>a", "<pad><system>add<user>1+1=?<assistant>a"}
    assert call["attention_mask"].sum(1).tolist() == [(row != 0).sum().item() for row in call["input_ids"]]
    settings = call["generation_config"]
    assert (settings.top_k, settings.temperature, settings.top_p, settings.do_sample, settings.max_new_tokens) == (7, 0.7, 1.0, True, 16)
    assert sorted(settings.eos_token_id) == [1, 2] and settings.renormalize_logits is True
    assert all(s["completion"][0]["role"] == "assistant" and len(s["completion"]) == 1 for s in samples)
    assert model.training and tokenizer.padding_side == "right"


@pytest.mark.model
def test_every_batch_draws_anew(project, tiny_model):
    project.data(count=1)
    config = project.write(model=str(tiny_model), more=", batch_size: 2")
    completions = [s["completion"] for s in draw_samples(config, load_rows(config, "train"), quiet=True)]
    assert len(completions) == 4 and completions[:2] != completions[2:]


@pytest.mark.model
def test_the_callers_random_state_is_left_alone(project, tiny_model):
    import torch

    config = project.write(model=str(tiny_model))
    model, tokenizer = load(tiny_model)
    torch.manual_seed(7)
    expected = torch.rand(3).tolist()
    torch.manual_seed(7)
    draw_samples(config, load_rows(config, "train"), model=model, tokenizer=tokenizer, quiet=True)
    assert torch.rand(3).tolist() == expected


@pytest.mark.model
def test_message_prompts_need_a_chat_template(project, tiny_model):
    project.write(model=str(tiny_model))
    (project.folder / "train.jsonl").write_text('{"prompt": [{"role": "user", "content": "1+1=?"}], "answer": "2"}\n')
    model, tokenizer = load(tiny_model)
    tokenizer.chat_template = None
    with pytest.raises(UserError, match="no chat template"):
        run_inspection(project.write(model=str(tiny_model)), model=model, tokenizer=tokenizer, quiet=True)


@pytest.mark.model
def test_a_folder_that_cannot_be_loaded_is_a_mistake(project):
    (project.folder / "broken").mkdir()
    (project.folder / "broken" / "config.json").write_text("{}")
    with pytest.raises(UserError, match="cannot be loaded"):
        run_inspection(project.write(model="./broken"), quiet=True)


def test_prompts_are_drawn_without_replacement_by_seed():
    drawn = draw_prompts(100, 32, 0)
    assert len(set(drawn)) == 32 and drawn == draw_prompts(100, 32, 0) != draw_prompts(100, 32, 1)
    assert sorted(draw_prompts(5, 32, 0)) == [0, 1, 2, 3, 4]


def test_the_plan_follows_what_decides_the_samples_and_nothing_else(project):
    config = project.write()
    rows = load_rows(config, "train")
    plan = planned_header(config, rows)
    assert planned_header(project.write("  - {use: math}", grpo=", learning_rate: 1.0e-5"), rows) == plan
    assert planned_header(project.write(more=", batch_size: 2"), rows) == plan
    assert planned_header(project.write(model="org/other"), rows) != plan
    assert planned_header(project.write(grpo=", top_p: 0.9"), rows) != plan
    drawn = draw_prompts(6, 4, 0)[0]
    changed = [{**row, "prompt": "other"} if i == drawn else row for i, row in enumerate(rows)]
    assert planned_header(config, changed) != plan


def test_a_wholly_torn_header_is_set_aside(tmp_path):
    header = make_header({"source": "x"}, {}, 1)
    samples_path(tmp_path).write_text('{"schema": "grpo')
    assert start_samples(tmp_path, header) == [] and len(list(tmp_path.glob("samples.*.jsonl"))) == 1
    (sample_id,) = sample_ids([("p", "c")])
    sample = {"sample_id": sample_id, "prompt_index": 0, "prompt": "p", "completion": "c", "columns": {}, "finish": "stop", "tokens": None}
    append_samples(tmp_path, [sample])
    assert load_samples(tmp_path) == [sample]


def test_ids_depend_on_prompt_and_completion():
    a, b, c, d = sample_ids([("p", "c"), ("p", "d"), ("q", "c"), ("p", "c")])
    assert len({a, b, c}) == 3 and d == a + "-1"


@pytest.mark.model
@pytest.mark.filterwarnings("default")
def test_draws_what_trl_itself_would_draw(project, tiny_model, tmp_path):
    """The same prompts, settings and random state through TRL's trainer give the same completions."""
    pytest.importorskip("trl")
    import torch
    from datasets import Dataset
    from grpo_rlvr.inspection.backends.backend import Batch
    from grpo_rlvr.inspection.backends.local import TransformersBackend
    from grpo_rlvr.inspection.jsonl import sha256
    from trl import GRPOConfig, GRPOTrainer

    settings = {
        "temperature": 0.8,
        "top_k": 20,
        "min_p": 0.01,
        "repetition_penalty": 1.1,
        "max_completion_length": 16,
        "chat_template_kwargs": {"suffix": "a"},
    }
    config = project.write(
        model=str(tiny_model), grpo="".join(f", {k}: {json.dumps(v)}" for k, v in settings.items() if k != "max_completion_length")
    )
    assert {k: config.sampling[k] for k in settings} == settings
    model, tokenizer = load(tiny_model)
    prompts = [[{"role": "user", "content": text}] for text in ("12+5=?", "12+5=?", "1+1=?", "1+1=?")]
    with TransformersBackend(config, model, tokenizer) as sampler:
        ours = sampler.draw_batch(Batch(0, prompts, "seed"))
    arguments = GRPOConfig(
        output_dir=str(tmp_path / "out"), use_cpu=True, bf16=False, report_to="none", per_device_train_batch_size=4, num_generations=4, **settings,
    )  # fmt: skip
    data = Dataset.from_list([{"prompt": prompts[0]}])
    trainer = GRPOTrainer(
        model=model, args=arguments, train_dataset=data, processing_class=tokenizer, reward_funcs=lambda completions, **k: [0.0] * len(completions)
    )
    model.eval()
    prompt_ids, _, _ = trainer._tokenize_prompts(prompts)
    torch.manual_seed(int(sha256("seed")[:15], 16))
    rows, _ = trainer._generate_single_turn(prompt_ids, None, {}, 4)
    theirs = [[{"role": "assistant", "content": text}] for text in tokenizer.batch_decode(rows, skip_special_tokens=True)]
    assert [drawn.completion for drawn in ours] == theirs
    assert [drawn.tokens for drawn in ours] == [len(row) for row in rows]
    assert len({completion[0]["content"] for completion in theirs}) > 1


def test_a_header_without_samples_is_simply_replaced(tmp_path):
    start_samples(tmp_path, make_header({"source": "x"}, {}, 1))
    start_samples(tmp_path, make_header({"source": "y"}, {}, 1))
    assert [p.name for p in tmp_path.iterdir()] == ["samples.jsonl"] and '"source": "y"' in samples_path(tmp_path).read_text()


# ---- are the weights trained at all?
def taught(model, token: int):
    """The same model, sure of one token whatever it is asked."""
    import torch

    with torch.no_grad():
        model.model.norm.weight.zero_()
        model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.lm_head.weight))
        model.lm_head.bias = torch.nn.Parameter(20.0 * torch.nn.functional.one_hot(torch.tensor(token), model.config.vocab_size).float())
    return model


@pytest.mark.model
def test_random_weights_are_named_before_sft_and_the_number_is_kept(project, tiny_model, monkeypatch, capsys):
    model, tokenizer = load(tiny_model)
    config, passes, forward = project.write(model=str(tiny_model)), [], model.forward

    def counting(*args, **kwargs):
        passes.append(kwargs["input_ids"].shape)
        return forward(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(model, "generate", lambda **kwargs: (_ for _ in ()).throw(Stop))
        patch.setattr(model, "forward", counting)
        with pytest.raises(Stop):
            run_inspection(config, model=model, tokenizer=tokenizer, quiet=True)
    assert [n for n, _ in passes] == [1] * 4  # the four prompts once each, before any sampling
    result = run_inspection(config)
    signal = result["signal"]
    first = signal["first_token"]
    # By hand: the mean entropy behind the four prompts, padded to none.
    torch = pytest.importorskip("torch")
    prompts = [row["prompt"] for row in load_rows(config, "train")]
    drawn = [prompts[i] for i in draw_prompts(6, 4, 0)]
    with torch.no_grad():
        spread = [torch.softmax(model.eval()(**tokenizer(p, return_tensors="pt", return_token_type_ids=False)).logits[0, -1], -1) for p in drawn]
    assert first["entropy"] == pytest.approx(sum(float(-(p * p.log()).sum()) for p in spread) / 4, rel=1e-4)
    assert first["uniform"] == pytest.approx(3.689, abs=1e-3) and first["prompts"] == 4  # ln 40
    assert signal["notes"][0].startswith("these weights look untrained (random)") and "of ln(V) = 3.69 nats" in signal["notes"][0]
    assert result["next"].startswith("make sure that model.name_or_path is the right folder") and "supervised fine-tuning first" in result["next"]
    assert "note: these weights look untrained" in capsys.readouterr().err
    assert json.loads((project.inspection / "signal.json").read_text())["first_token"] == first
    # A mended reward is scored anew without the model; what was measured stays.
    again = run_inspection(project.write("  - {use: partial_format}\n  - {use: exact}", model=str(tiny_model)), quiet=True)
    assert again["signal"]["first_token"] == first and "untrained" in again["signal"]["notes"][0]


@pytest.mark.model
def test_what_was_measured_outlives_a_run_that_is_killed_while_it_scores(project, tiny_model, monkeypatch):
    config = project.write(model=str(tiny_model))
    with monkeypatch.context() as patch:
        patch.setattr("grpo_rlvr.inspection.run.score_samples", lambda *args: (_ for _ in ()).throw(Stop))
        with pytest.raises(Stop):
            run_inspection(config, quiet=True)
    assert len(load_samples(project.inspection)) == 16 and not (project.inspection / "signal.json").exists()
    signal = run_inspection(config, quiet=True)["signal"]
    assert signal["first_token"]["prompts"] == 4 and "untrained" in signal["notes"][0]
    # Damaged, or of another model: nothing is known, and nothing fails.
    for text in ("{", "[]", '{"first_token": 1}', '{"entropy": "x", "model": 3}'):
        (project.inspection / "signal.json").unlink()
        (project.inspection / "first_token.json").write_text(text)
        assert run_inspection(config, quiet=True)["signal"]["first_token"] is None


@pytest.mark.model
@pytest.mark.parametrize("drawn_only", [False, True])
def test_weights_that_are_no_numbers_are_an_error_of_the_model(project, tiny_model, monkeypatch, drawn_only):
    torch = pytest.importorskip("torch")
    model, tokenizer = load(tiny_model)
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    if drawn_only:  # only some prompts may lead there
        monkeypatch.setattr("grpo_rlvr.inspection.backends.local.measure_first_token", lambda *args: None)
    with pytest.raises(UserError, match=r"model.name_or_path.*no finite probabilities") as caught:
        run_inspection(project.write(model=str(tiny_model)), model=model, tokenizer=tokenizer, quiet=True)
    assert caught.value.kind == "model" and "NaN" in str(caught.value)


@pytest.mark.model
def test_a_folder_without_tokenizer_files_is_an_error_of_the_model(project, tiny_model):
    folder = project.folder / "bare"
    folder.mkdir()
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        (folder / name).write_bytes((tiny_model / name).read_bytes())
    with pytest.raises(UserError, match=r"model.name_or_path.*no token.*10\+5|model.name_or_path.*no token") as caught:
        run_inspection(project.write(model="./bare"), quiet=True)
    assert caught.value.kind == "model" and "tokenizer" in caught.value.problems[0].fix


@pytest.mark.model
def test_weights_that_are_sure_of_something_are_not_called_untrained(project, tiny_model):
    model, tokenizer = load(tiny_model)
    result = run_inspection(project.write(model=str(tiny_model)), model=taught(model, 9), tokenizer=tokenizer, quiet=True)
    assert result["signal"]["first_token"]["entropy"] < 0.01
    assert not any("untrained" in note for note in result["signal"]["notes"]) and result["next"].startswith("supervised")


def test_nothing_is_known_of_weights_that_were_not_here(project):
    assert run_inspection(project.write(), completions=project.record(), quiet=True)["signal"]["first_token"] is None
