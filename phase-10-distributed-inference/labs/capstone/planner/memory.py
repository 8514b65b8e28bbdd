"""What one GPU of a plan holds: weights by lab 02's ledger, cache, and everything else by name."""

import math
from dataclasses import dataclass
from functools import cache
from operator import itemgetter

from planner import labs

GB = 1e9
GATHERED, DEEPEP = "allgather_reducescatter", "deepep_low_latency"  # --all2all-backend


@dataclass(frozen=True)
class Plan:
    """replicas engines, each of tp_size x pp_size GPUs; or engines with their experts dealt out.

    ep_size above 1: each of a stage's ep_size GPUs holds its share of the experts whole. Attention
    is cut tp_size ways, and copied (data parallel) where there are more GPUs than that: each copy
    then serves requests of its own, and `back_end` carries their tokens to the experts. dcp_size
    above 1: so many ranks, which would hold copies of the same KV heads, share a sequence's tokens.
    """

    replicas: int = 1
    tp_size: int = 1
    pp_size: int = 1
    ep_size: int = 1
    dcp_size: int = 1
    back_end: str = GATHERED

    @property
    def copies(self):
        return max(1, self.ep_size // self.tp_size)

    @property
    def gpus_per_replica(self):
        return self.tp_size * self.pp_size * self.copies

    @property
    def num_gpus(self):
        return self.replicas * self.gpus_per_replica

    @property
    def name(self):
        attention = [f"TP{self.tp_size}"] if self.copies == 1 else []
        parts = [" ".join(attention + [f"EP{self.ep_size}"] * (self.ep_size > 1))]
        parts[0] += f" DCP{self.dcp_size}" if self.dcp_size > 1 else ""
        parts[0] += " DeepEP" if self.copies > 1 and self.back_end == DEEPEP else ""
        parts += [f"PP{self.pp_size}"] if self.pp_size > 1 else []
        return (f"{self.replicas} x " if self.replicas > 1 else "") + " x ".join(parts)


@dataclass(eq=False)
class Rank:
    """One rank of a stage: bytes it holds, and what a token costs it. Equal stages share one."""

    layers: range = range(0)
    always_bytes: float = 0.0  # read in every step
    experts_bytes: float = 0.0
    table_bytes: float = 0.0  # an embedding of which a step reads a few rows
    macs: float = 0.0  # multiply-accumulates per token
    attention_width: float = 0.0  # heads x head_dim x layers: prefill's quadratic part
    charged_bytes: float = 0.0  # what torch's allocator takes for all of it

    @property
    def held_bytes(self):
        return self.always_bytes + self.experts_bytes + self.table_bytes


def different_ranks(model, plan):
    """One Rank for all pipeline stages that are equal."""
    return list(dict.fromkeys(ranks(model, plan)))


def ranks(model, plan):
    """One Rank per pipeline stage. ValueError where the learner's rank_shape refuses the split."""
    return _cut(model, Plan(1, plan.tp_size, plan.pp_size, plan.ep_size))


@cache
def _cut(model, plan):
    counts = labs.ledger().stage_layers(model.num_layers, plan.pp_size)
    cut = {id(layer): layer for layer in model.layers}  # equal layers are one list
    cut = {key: _sizes(model, layer, plan) for key, layer in cut.items()}
    made, stages, first, last = {}, [], 0, plan.pp_size - 1
    for stage, count in enumerate(counts):
        rank = Rank(layers=range(first, first + count))
        first += count
        here = {"first": stage == 0, "last": stage == last, "both": stage in (0, last)}
        kind = (*here.values(), *(id(model.layers[number]) for number in rank.layers))
        stages.append(made.setdefault(kind, rank))
        if stages[-1] is not rank:
            continue
        for number in rank.layers:
            _add(rank, cut[id(model.layers[number])])
            if model.attention[number] != "state":
                rank.attention_width += _attention_width(model) / plan.tp_size
        outside = [entry for entry in model.outside if here[entry["where"]]]
        _add(rank, _sizes(model, outside, plan, last=stage == last))
    return stages


def _attention_width(model):
    if model.latent:  # queries and keys are wider than values: the mean of both products
        c = model.config
        key = c["qk_nope_head_dim"] + c["qk_rope_head_dim"]
        return model.num_heads * (key + c["v_head_dim"]) / 2
    return model.num_heads * model.head_dim


def _sizes(model, entries, plan, last=True):
    """[(kind, bytes, multiply-accumulates per token, bytes charged)] of one rank's part."""
    heads = {name: getattr(model, name) for name in ("num_heads", "num_kv_heads", "head_dim")}
    sizes = []
    for entry in entries:
        name = entry["name"]
        expert = ".experts." in name
        dealt = plan.ep_size if expert else 1
        shape = labs.ledger().rank_shape(entry, heads, plan.tp_size if dealt == 1 else 1)
        elements = math.prod(shape) / dealt
        size = elements * model.quantisation.bytes_of(entry, model.dtype_bytes)
        macs = elements if len(shape) > 1 and "_bias" not in name else 0
        if expert:
            # every copy brings tokens of its own, and each GPU meets those of all
            macs *= model.top_k / model.num_experts * plan.copies
        table = "embed_tokens" in name and not (model.tied and last)
        kind = "experts_bytes" if expert else "table_bytes" if table else "always_bytes"
        charged = labs.ledger().allocated_bytes(int(size))
        sizes.append((kind, size, 0 if table else macs, charged))
    return sizes


def _add(rank, sizes):
    for kind, size, macs, charged in sizes:
        setattr(rank, kind, getattr(rank, kind) + size)
        rank.macs += macs
        rank.charged_bytes += charged


def other_bytes(model, plan, fixed, batched_tokens, sequences):
    """Everything that is neither weights nor cache, by name. Bytes on one GPU.

    Activations: the widest moment of a layer (its input, residual and output, and the MLP's gate,
    up and product, or their copies for top_k experts), and the logits with their float32 copy.
    """
    h, tp = model.hidden_size, plan.tp_size
    dense = 3 * (model.config.get("intermediate_size") or 0) / tp
    wide = dense if not all(model.experts_in) else 0
    if model.num_experts:
        wide = max(wide, model.top_k * (3 * model.expert_ffn / tp + h))
    attention = (model.num_heads * model.head_dim * 2) / tp
    tokens = batched_tokens * (3 * h + max(wide, attention)) * 2
    logits = sequences * model.vocab_size * (2 + 4 + 4)
    eager = fixed.box.engine == "vllm-eager"
    return {
        "activations": fixed["activations"] * (tokens + logits),
        "CUDA graphs": 0.0 if eager else fixed["graphs_gb"] * GB,
        "libraries": fixed["runtime_gb"] * GB,
        "NCCL buffers": fixed["peers_gb"] * GB * (plan.gpus_per_replica > 1),
    }


def verdicts(model, plan, fixed, load):
    """The capstone's memory_verdicts of the stage with the least room, with what it was given."""
    other = other_bytes(model, plan, fixed, load.batched_tokens, load.max_seqs)
    stages, longest = [], load.max_model_len or model.max_positions
    for rank in different_ranks(model, plan):
        weights = weights_bytes(model, plan, rank)
        layers = model.kv_layers(rank.layers, load.kv_bytes, load.batched_tokens)
        utilization = load.utilization
        if fixed["of_free"]:
            rest = (weights + sum(other.values())) / fixed.box.reported_bytes
            utilization = min(1.0, rest + utilization * max(0.0, 1 - rest))
        found = labs.capstone().memory_verdicts(
            fixed.box.reported_bytes,
            utilization,
            weights,
            sum(other.values()),
            layers,
            plan.tp_size,
            _of_a_rank(load.prompt + load.output, plan),
            _of_a_rank(longest, plan),
        )
        if plan.dcp_size > 1:
            together = found["longest_context"] * plan.dcp_size
            found["longest_context"] = min(together, longest)
        given = {"weights_bytes": weights, "other": other, "layers": layers, "rank": rank}
        stages.append(found | given)
    return min(stages, key=itemgetter("longest_context", "kv_bytes"))


def weights_bytes(model, plan, rank):
    """A rank's weights as torch charges them; scaled to the safetensors where a folder has them."""
    held = rank.charged_bytes
    if model.exact_bytes:
        counted = sum(r.held_bytes for r in ranks(model, Plan()))
        held *= model.exact_bytes / counted
    return held


def sequence_bytes(found, plan, tokens):
    """The cache that one rank holds of a sequence of so many tokens."""
    tokens = _of_a_rank(tokens, plan)
    return labs.capstone().sequence_kv_bytes(found["layers"], tokens, plan.tp_size)


def _of_a_rank(tokens, plan):
    """The tokens of a sequence that one rank caches: every dcp_size-th."""
    return tokens if plan.dcp_size == 1 else math.ceil(tokens / plan.dcp_size)
