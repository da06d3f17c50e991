"""scripts/train.py with vLLM on a CPU, for tests.

One thing is replaced: weights go to the vLLM server as a file instead of over NCCL, which needs GPUs and which TRL's client therefore refuses
here. The server's process, its HTTP interface and TRL's generation through it are the real ones. After each transfer the greedy continuation
of a fixed prompt is noted, so that a test sees whether the engine changed.
"""

import json
import os
import runpy
import shutil
import sys
from pathlib import Path

from safetensors.torch import save_file
from trl.generation.vllm_client import VLLMClient
from trl.generation.vllm_generation import VLLMGeneration

TRAIN = Path(__file__).resolve().parents[2] / "scripts" / "train.py"
WEIGHTS = Path(os.environ["GRPO_RLVR_TEST_WEIGHTS"])
PROMPT = [5, 6, 7, 8]


def init_communicator(self, device=0):
    WEIGHTS.mkdir(exist_ok=True)
    for path in Path(self.model).iterdir():
        if path.is_file() and path.suffix != ".safetensors":
            shutil.copy(path, WEIGHTS)


def update_named_params(self, metadata, named_params):
    tensors = {name: tensor.detach().contiguous().clone() for name, tensor in named_params}
    save_file(tensors, WEIGHTS / "model.safetensors", metadata={"format": "pt"})
    self._post(f"{self.base_url}/collective_rpc", json={"method": "reload_weights", "kwargs": {"weights_path": str(WEIGHTS)}})


def greedy(generation):
    if generation.mode == "server":
        return generation.vllm_client.generate([PROMPT], temperature=0.0, max_tokens=24, generation_kwargs={"ignore_eos": True})["completion_ids"][0]
    from vllm import SamplingParams

    parameters = SamplingParams(temperature=0.0, max_tokens=24, ignore_eos=True)
    return list(generation.llm.generate([{"prompt_token_ids": PROMPT}], parameters, use_tqdm=False)[0].outputs[0].token_ids)


def noted(sync):
    def sync_weights(self):
        sync(self)
        with open(WEIGHTS.with_suffix(".jsonl"), "a") as out:
            out.write(json.dumps(greedy(self)) + "\n")

    return sync_weights


VLLMClient.init_communicator = init_communicator
VLLMClient.close_communicator = lambda self: None
VLLMClient.update_named_params = update_named_params
VLLMGeneration.sync_weights = noted(VLLMGeneration.sync_weights)

sys.argv[0] = str(TRAIN)
sys.path[0] = str(TRAIN.parent)
runpy.run_path(str(TRAIN), run_name="__main__")
