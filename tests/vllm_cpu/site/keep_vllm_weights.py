"""A plugin for vLLM's CPU build: the weights stay where a trainer can overwrite them.

On a CPU, vLLM packs each linear layer's weight into a form of its own after loading and removes the original, so weights that are sent later
have nowhere to go. Layers that it cannot pack keep their weight and use torch's `linear`; with this, all do. On a GPU nothing is packed.
"""

import os


def apply() -> None:
    if os.environ.get("GRPO_RLVR_TEST_PACKED_WEIGHTS"):  # as vLLM's CPU build has it: later weights change nothing
        return
    import torch
    import vllm.model_executor.layers.utils as layers

    def keep(layer, remove_weight):
        layer.cpu_linear = torch.nn.functional.linear

    layers.dispatch_cpu_unquantized_gemm = keep
