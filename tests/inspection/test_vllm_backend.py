"""vLLM's offline engine, played by a module with the names that vLLM 0.31 has; what is asked of it is what counts here."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import types
from dataclasses import dataclass, field

import pytest
from grpo_rlvr.data import load_rows
from grpo_rlvr.errors import MissingError
from grpo_rlvr.inspection.backends.backend import choose
from grpo_rlvr.inspection.samples import load_samples, peek_header
from grpo_rlvr.inspection.sampling import draw_samples

# Parameters of vllm.LLM and vllm.SamplingParams (0.31.0) that may be asked for; the engine's own options reach LLM as keywords.
LLM_TAKES = {
    "model", "tokenizer", "trust_remote_code", "tensor_parallel_size", "dtype", "revision", "tokenizer_revision", "seed", "gpu_memory_utilization",
    "enforce_eager", "max_model_len", "model_impl",
}  # fmt: skip
SAMPLING_TAKES = {
    "n", "repetition_penalty", "temperature", "top_p", "top_k", "min_p", "seed", "stop", "stop_token_ids", "max_tokens", "structured_outputs",
}  # fmt: skip


@dataclass
class Output:
    token_ids: list[int]
    finish_reason: str


@dataclass
class RequestOutput:
    outputs: list[Output]


class Tokenizer:
    """A token a character."""

    chat_template = "x"

    def __call__(self, text):
        return {"input_ids": [[ord(c) for c in t] for t in text]}

    def apply_chat_template(self, conversation, add_generation_prompt, tokenize, return_dict, **kwargs):
        assert add_generation_prompt and tokenize and return_dict
        return self([f"{kwargs.get('start', '')}{messages[-1]['content']}>" for messages in conversation])

    def batch_decode(self, rows, skip_special_tokens):
        assert skip_special_tokens
        return ["".join(chr(i) for i in row if i > 3) for row in rows]


@dataclass
class Fake:
    llms: list[dict] = field(default_factory=list)
    calls: list[tuple] = field(default_factory=list)
    fails: Exception | None = None


@pytest.fixture
def vllm(monkeypatch) -> Fake:
    fake = Fake()

    class SamplingParams:
        def __init__(self, **kwargs):
            assert set(kwargs) <= SAMPLING_TAKES, set(kwargs) - SAMPLING_TAKES
            self.kwargs = kwargs

    class LLM:
        def __init__(self, **kwargs):
            assert set(kwargs) <= LLM_TAKES, set(kwargs) - LLM_TAKES
            if fake.fails:
                raise fake.fails
            fake.llms.append(kwargs)
            os.write(1, b"an engine's chatter\n")  # as its own processes do

        def generate(self, prompts, sampling_params, *, use_tqdm):
            assert use_tqdm is False and len(prompts) == len(sampling_params)
            fake.calls.append((prompts, [p.kwargs for p in sampling_params]))
            ends = [([*map(ord, f"<answer>{p['seed'] % 90}</answer>"), 2], "stop") if k % 4 else ([65] * 16, "length") for k, p in
                    enumerate(fake.calls[-1][1])]  # fmt: skip
            return [RequestOutput([Output(*end)]) for end in ends]

    module = types.ModuleType("vllm")
    module.__spec__ = importlib.machinery.ModuleSpec("vllm", None)
    module.LLM, module.SamplingParams = LLM, SamplingParams
    params = types.ModuleType("vllm.sampling_params")
    params.StructuredOutputsParams = lambda **kwargs: ("structured", kwargs)
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)
    monkeypatch.setattr("grpo_rlvr.inspection.backends.vllm_engine.load_tokenizer", lambda config: Tokenizer())
    return fake


def draw(config, backend: str | None = "vllm"):
    return draw_samples(config, load_rows(config, "train"), backend=backend, quiet=True)


def test_engine_and_sampling_are_those_of_training(project, vllm, capfd):
    config = project.write(
        grpo=", use_vllm: true, temperature: 0.7, top_k: 20, min_p: 0.1, vllm_tensor_parallel_size: 2, vllm_gpu_memory_utilization: 0.4, "
        "generation_kwargs: {stop: [x], structured_outputs: {regex: a}}"
    )
    samples = draw(config, None)
    assert vllm.llms == [
        {"model": "org/model", "revision": None, "tokenizer_revision": None, "dtype": "auto", "max_model_len": 6 + 16, "tensor_parallel_size": 2,
         "trust_remote_code": False, "seed": 0, "model_impl": "vllm", "gpu_memory_utilization": 0.4}
    ]  # fmt: skip
    ((prompts, sampling),) = vllm.calls
    seeds = [s.pop("seed") for s in sampling]
    assert len(set(seeds)) == 16
    assert sampling == [
        {"n": 1, "repetition_penalty": 1.0, "temperature": 0.7, "top_p": 1.0, "top_k": 20, "min_p": 0.1, "max_tokens": 16, "stop": ["x"],
         "structured_outputs": ("structured", {"regex": "a"})}
    ] * 16  # fmt: skip
    assert prompts[0] == {"prompt_token_ids": [ord(c) for c in samples[0]["prompt"]]}
    assert (samples[0]["finish"], samples[0]["tokens"], samples[0]["completion"]) == ("length", 16, "A" * 16)
    assert samples[1]["finish"] == "stop" and samples[1]["completion"] == f"<answer>{seeds[1] % 90}</answer>" and samples[1]["tokens"] > 17
    assert samples == load_samples(project.inspection)
    assert peek_header(project.inspection)["sampling"]["backend"] == "vllm"
    printed = capfd.readouterr()
    assert printed.out == "" and "an engine's chatter" in printed.err


def test_message_prompts_go_through_the_chat_template(project, vllm):
    (project.folder / "train.jsonl").write_text('{"prompt": [{"role": "user", "content": "1+1=?"}], "answer": "2"}\n')
    config = project.write(grpo=", chat_template_kwargs: {start: a}, vllm_max_model_length: 99")
    sample = draw(config)[1]
    assert "".join(map(chr, vllm.calls[0][0][0]["prompt_token_ids"])) == "a1+1=?>"
    assert [m["role"] for m in sample["completion"]] == ["assistant"] and vllm.llms[0]["max_model_len"] == 99
    assert "gpu_memory_utilization" not in vllm.llms[0]


@pytest.mark.parametrize(
    ("grpo", "dtype"),
    [
        (", use_vllm: true", "auto"), ("", "bfloat16"), (", bf16: true, use_cpu: true", "bfloat16"), (", bf16: false", "float32"),
        (", use_cpu: true", "float32"), (", fp16: true", "float16"),
    ],
)  # fmt: skip
def test_the_engine_computes_in_the_precision_of_training(project, vllm, grpo, dtype):
    draw(project.write(grpo=grpo))
    assert vllm.llms[0]["dtype"] == dtype


def test_vllm_is_the_default_only_where_training_uses_it_and_it_is_there(project, vllm, monkeypatch):
    plain, wanted = project.write(), project.write(grpo=", use_vllm: true")
    assert (choose(plain), choose(wanted)) == ("transformers", "vllm")
    assert choose(project.write(grpo=", use_vllm: true", more=", backend: transformers")) == "transformers"
    monkeypatch.undo()
    if "vllm" not in sys.modules:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        assert choose(wanted) == "transformers"


def test_an_absent_or_failing_vllm_is_said(project, vllm, monkeypatch):
    vllm.fails = ValueError("\nNo available memory for the cache blocks.\nmore")
    with pytest.raises(MissingError, match=r"ValueError: No available memory(.|\n)*gpu_memory_utilization"):
        draw(project.write())
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingError, match=r"vllm.*is not installed(.|\n)*pip install 'vllm>=0.22") as caught:
        draw(project.write())
    assert caught.value.exit_code == 3


def test_an_interrupted_run_goes_on_with_what_is_missing(project, vllm, monkeypatch):
    monkeypatch.setattr("grpo_rlvr.inspection.backends.vllm_engine.VllmBackend.batch_size", 6)
    config = project.write()
    whole = draw(config)
    path = project.inspection / "samples.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:9]))  # the header, a batch of six and two of the next
    vllm.calls.clear()
    assert draw(config) == whole and [len(prompts) for prompts, _ in vllm.calls] == [6, 4]
