"""Peaks of a real training step without a GPU: fake tensors on the CPU, every live storage counted as CUDA's allocator would (512-byte blocks).

Hugging Face's model, PEFT's adapters and TRL's chunked log-probability function run as they are; only their Triton kernels, which allocate
nothing, are replaced by nothing. A 0.5B model takes seconds and no memory. What it cannot see: cuBLAS workspaces, NCCL, vLLM, fragmentation.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from dataclasses import dataclass, field

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.weak import WeakIdKeyDictionary

BLOCK = 512
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}


class Tracker(TorchDispatchMode):
    """Bytes alive now, and the most there were in each named phase."""

    def __init__(self) -> None:
        super().__init__()
        self.live, self.now, self.phase, self.peaks = WeakIdKeyDictionary(), 0, "start", {}

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage in self.live:
            return
        size = -(-int(storage.nbytes()) // BLOCK) * BLOCK
        self.live[storage] = True
        weakref.finalize(storage, self._free, size)
        self.now += size
        self.peaks[self.phase] = max(self.peaks.get(self.phase, 0), self.now)

    def _free(self, size: int) -> None:
        self.now -= size

    def enter(self, phase: str) -> None:
        self.phase = phase
        self.peaks[phase] = max(self.peaks.get(phase, 0), self.now)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_iter(out):
            if isinstance(tensor, torch.Tensor):
                self.add(tensor)
        return out


@dataclass
class Traced:
    """Bytes. `peaks` by phase: old_logps, forward, backward, optimizer; of the steps after the first, when the optimizer's states are there."""

    weights: int
    trained: int
    optimizer: int
    peaks: dict[str, int] = field(default_factory=dict)

    @property
    def train(self) -> int:
        return max(self.peaks["forward"], self.peaks["backward"])


def trace_step(
    config, *, batch: int, prompt: int, completion: int, weights: str = "float32", lora: int | None = None, targets="all-linear",
    checkpointing: bool = True, accumulate: bool = True, head: str = "chunked", mask: bool = True, optimizer: str = "adamw", autocast: bool = True,
    quantize: bool = False, beta: float = 0.0,
) -> Traced:  # fmt: skip
    """One optimizer step of TRL's GRPO loss on a model of the transformers `config`, after a first one that made the optimizer's states.

    Args:
        lora: the rank, None for full tuning.
        head: "chunked" (TRL 1.15 and later), "logits" (full float32 logits, before), "sft" (cross-entropy over all tokens) or "none".
        mask: whether the batch is padded, so that the attention gets a mask.
        quantize: linear weights as packed 4-bit blocks with float32 scales, dequantised one at a time.
        beta: above 0, the reference's log-probabilities too: of a second model, or of the base with its adapters switched off.
    """
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    model = _on_meta(config, DTYPES[weights], lora, targets, quantize)
    _fake_parameters(model, fake)
    reference = None
    if beta and not lora:
        reference = _on_meta(config, DTYPES[weights], None, targets, False).eval().requires_grad_(False)
        _fake_parameters(reference, fake)
    tracker = Tracker()
    with fake, _without_kernels():
        if checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            if lora:
                model.enable_input_require_grads()
        model.train()
        with tracker:
            return _steps(model, reference, tracker, batch, prompt, completion, lora, accumulate, head, mask, optimizer, autocast, beta)


def _on_meta(config, dtype, lora, targets, quantize):
    from transformers import AutoModelForCausalLM

    config.use_cache = False
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=dtype)
        if quantize:
            _quantize(model)
        if lora:
            from peft import LoraConfig, get_peft_model

            names = targets
            if quantize and targets == "all-linear":
                names = sorted({n.split(".")[-1] for n, m in model.named_modules() if isinstance(m, FourBit)})
            setup = LoraConfig(r=lora, lora_alpha=lora, target_modules=names, lora_dropout=0.0, task_type="CAUSAL_LM")
            model = get_peft_model(model, setup, autocast_adapter_dtype=True)
            if quantize:  # TRL casts the adapters of a quantised model to bfloat16
                for p in model.parameters():
                    if p.requires_grad:
                        p.data = p.data.to(torch.bfloat16)
    return model


class FourBit(torch.nn.Linear):
    """A linear layer with the memory of bitsandbytes' NF4: packed weight, float32 scale of each 64, dequantised for each use."""

    def pack(self) -> FourBit:
        shape = self.weight.shape
        self.shape = shape
        self.weight = torch.nn.Parameter(torch.empty(shape.numel() // 2, 1, dtype=torch.uint8, device="meta"), requires_grad=False)
        self.scales = torch.nn.Parameter(torch.empty(shape.numel() // 64, dtype=torch.float32, device="meta"), requires_grad=False)
        return self

    def forward(self, x):
        return _FourBitMatmul.apply(x.to(torch.bfloat16), self.weight, self.shape, self.bias)


class _FourBitMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, packed, shape, bias):
        ctx.save_for_backward(packed)
        ctx.shape = shape
        dense = torch.empty(shape, dtype=x.dtype, device=x.device)
        return torch.nn.functional.linear(x, dense, None if bias is None else bias.to(x.dtype))

    @staticmethod
    def backward(ctx, grad):
        dense = torch.empty(ctx.shape, dtype=grad.dtype, device=grad.device)
        return grad @ dense, None, None, None


def _quantize(model) -> None:
    for module in model.modules():
        for name, child in list(module.named_children()):
            if type(child) is torch.nn.Linear and name != "lm_head":
                child.__class__ = FourBit
                child.pack()


def _fake_parameters(model, fake) -> None:
    made: dict[int, torch.Tensor] = {}
    with fake:
        for module in model.modules():
            for store in (module._parameters, module._buffers):
                for name, old in list(store.items()):
                    if old is None:
                        continue
                    if id(old) not in made:
                        new = torch.empty(old.shape, dtype=old.dtype, device="cpu")
                        made[id(old)] = torch.nn.Parameter(new, requires_grad=old.requires_grad) if store is module._parameters else new
                    store[name] = made[id(old)]
            if isinstance(getattr(module, "original_inv_freq", None), torch.Tensor):
                module.original_inv_freq = module._buffers.get("inv_freq")


def _steps(model, reference, tracker, batch, prompt, completion, lora, accumulate, head, mask, optimizer, autocast, beta) -> Traced:
    for part in [model] if reference is None else [model, reference]:
        for tensor in [*part.parameters(), *part.buffers()]:
            tracker.add(tensor.data)
    trained = [p for p in model.parameters() if p.requires_grad]
    out = Traced(tracker.now, sum(p.numel() for p in trained), 0)
    base = model.get_base_model() if lora else model
    ids = torch.zeros(batch, prompt + completion, dtype=torch.long)
    context = (lambda: torch.autocast("cpu", dtype=torch.bfloat16)) if autocast else contextlib.nullcontext

    def logps(base=base) -> torch.Tensor:
        with context():
            attention = torch.ones(batch, 1, ids.size(1), ids.size(1), dtype=torch.bool) if mask else None
            hidden = getattr(base, base.base_model_prefix)(input_ids=ids, attention_mask=attention, use_cache=False).last_hidden_state
            return HEADS[head](base, hidden, ids, completion)

    def before() -> torch.Tensor | None:
        """Old log-probabilities, and the reference's."""
        tracker.enter("old_logps")
        with torch.no_grad():
            logps()
            if not beta:
                return None
            with model.disable_adapter() if lora else contextlib.nullcontext():
                return logps(reference or base)

    def micro_batch(ref: torch.Tensor | None) -> None:
        tracker.enter("forward")
        lp = logps()
        ratio = torch.exp(lp - lp.detach())
        loss = -torch.min(ratio, ratio.clamp(0.8, 1.2))
        if ref is not None:
            loss = loss + beta * (torch.exp(ref - lp) - (ref - lp) - 1)
        loss = loss.mean()
        tracker.enter("backward")
        loss.backward()

    ref = before()
    for _ in range(2 if accumulate else 1):
        micro_batch(ref)
    states = _states(model, trained, optimizer)
    out.optimizer = sum(s.numel() * s.element_size() for s in states)
    for p in trained:
        p.grad = None
    tracker.peaks.clear()
    ref = before()
    for _ in range(2 if accumulate else 1):
        micro_batch(ref)
    tracker.enter("optimizer")
    out.peaks = dict(tracker.peaks)
    return out


@contextlib.contextmanager
def _without_kernels():
    """TRL's Triton kernels, which fake tensors cannot run, do nothing meanwhile."""
    import trl.kernels.chunked_logprob as kernels

    names = ("_forward_tile", "_backward_tile", "_addmm_fp32")
    kept = {name: getattr(kernels, name) for name in names}
    try:
        for name in names:
            setattr(kernels, name, lambda *args, **kwargs: None)
        yield
    finally:
        for name, kernel in kept.items():
            setattr(kernels, name, kernel)


def _chunked(base, hidden, ids, completion):
    import trl.kernels.chunked_logprob as kernels

    h = hidden[:, :-1][:, -completion:].reshape(-1, hidden.size(-1)).clone()
    target = ids[:, -completion:].reshape(-1)
    lp, *_ = kernels.ChunkedLogProbFunction.apply(h, base.lm_head.weight, base.lm_head.bias, target, 1.0, 32768, None, 1.0, ("log_probs", "entropy"))
    return lp.view(ids.size(0), completion)


def _logits(base, hidden, ids, completion):
    logits = base.lm_head(hidden[:, -(completion + 1) :]).float()[:, :-1]
    logits = logits / 1.0
    chosen = torch.gather(logits, -1, ids[:, -completion:].unsqueeze(-1)).squeeze(-1)
    return chosen - torch.stack([torch.logsumexp(row, dim=-1) for row in logits])


def _sft(base, hidden, ids, completion):
    logits = base.lm_head(hidden).float()
    labels = torch.nn.functional.pad(ids, (0, 1), value=-100)[:, 1:].reshape(-1)
    loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels, ignore_index=-100)
    return loss.expand(1)


HEADS = {"chunked": _chunked, "logits": _logits, "sft": _sft, "none": lambda base, hidden, ids, completion: hidden.float().mean(-1)}


def _states(model, trained, optimizer) -> list[torch.Tensor]:
    embeddings = {id(p) for m in model.modules() if isinstance(m, torch.nn.Embedding) for p in m.parameters()}
    states: list[torch.Tensor] = []
    for p in trained:
        if optimizer == "adamw":
            states += [torch.zeros_like(p), torch.zeros_like(p)]
        elif p.numel() < 4096 or id(p) in embeddings:
            states += [torch.zeros(p.numel()), torch.zeros(p.numel())]
        else:
            states += [torch.zeros(p.numel(), dtype=torch.uint8), torch.zeros(p.numel(), dtype=torch.uint8)]
            states += [torch.zeros(2 * math.ceil(p.numel() / 256))]
    return states
