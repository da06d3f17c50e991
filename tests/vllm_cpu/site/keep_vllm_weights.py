"""A plugin for vLLM's CPU build: the weights stay where a trainer can overwrite them.

On a CPU, vLLM packs each linear layer's weight into a form of its own after loading and removes the original, so weights that are sent later
have nowhere to go. Layers that it cannot pack keep their weight and use torch's `linear`; with this, all do. On a GPU nothing is packed.
With GRPO_RLVR_TEST_FROZEN_WEIGHTS layers compute with what they were loaded with, as packed ones do: each transfer is answered with a yes and
changes nothing in them. (Packed layers themselves need instructions that not every CPU has.)
"""

import os


def apply() -> None:
    import torch
    import vllm.model_executor.layers.utils as layers

    def keep(layer, remove_weight):
        layer.cpu_linear = torch.nn.functional.linear

    def freeze(layer, remove_weight):
        loaded = layer.weight.detach().clone()
        layer.cpu_linear = lambda x, weight, bias: torch.nn.functional.linear(x, loaded, bias)

    layers.dispatch_cpu_unquantized_gemm = freeze if os.environ.get("GRPO_RLVR_TEST_FROZEN_WEIGHTS") else keep
