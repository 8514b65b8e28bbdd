"""Other planners on the same facts: who is right, who refuses, who guesses.

Each is the published rule of a tool, reduced to what it answers with, and cites it. One was run
beside its rule: llm-analysis, from its source, for four plans; weights agree within 0.01 %, the
cache exactly, a decode step within 5%. The others are read, not run.
"""

from dataclasses import dataclass

from planner import facts, memory
from planner.memory import Plan

GIB = 2**30
GOOD = 1.25  # a time counts as right within this factor


class Refuses(Exception):
    """The tool says that it cannot answer, or has no words for the question; str() is why."""


def _weights(model, plan=None):
    """Bytes of the whole model, or of the fullest GPU of a plan, as this planner counts them."""
    return max(rank.held_bytes for rank in memory.ranks(model, plan or Plan()))


def _bits(model):
    return 8 * (model.quantisation.element_bytes or model.dtype_bytes)


# --- the rules: fits(model, plan, box, tokens, utilization), or step_s(model, plan, box, load) ----


def vram_calculator(model, plan, box, tokens, utilization):
    """1.2 times the weights over all GPUs; the context does not enter.

    Source: huggingface.co/docs/accelerate/usage_guides/model_size_estimator ("add up to an
    additional 20%"), calculatorlib.com/gpu-vram-llm-model-size-calculator, vllm-project/recipes.
    """
    return 1.2 * _weights(model) <= box.reported_bytes * plan.num_gpus


def gpu_poor(model, plan, box, tokens, utilization):
    """Every model a Llama without grouped heads, its cache twice that of one; 650 MiB besides.

    Source: RahulSChand/gpu_poor src/App.js, computeModelSize, getAllComputedData.
    """
    if _bits(model) < 16:
        raise Refuses("no quantised weights with vLLM")
    h, layers = model.hidden_size, model.num_layers
    ffn = model.config.get("intermediate_size") or 4 * h
    elements = 2 * model.vocab_size * h + layers * (4 * h * h + 3 * h * ffn)
    cache = 8 * tokens * h * layers
    activations = 10 * tokens * h + 2 * tokens**2 * model.num_heads
    needed = 2 * elements + cache + activations + 650 * 2**20
    return needed <= box.reported_bytes * plan.num_gpus


def kaito(model, plan, box, tokens, utilization):
    """2.3 GiB and 5 % of the weights on every GPU, weights grown by 2 %, the cache cut evenly.

    Source: kaito-project/kaito pkg/workspace/estimator/budget.go, nodesestimator/estimator.go.
    """
    layers = model.kv_layers(range(model.num_layers), 2)
    cache = facts.labs.capstone().sequence_kv_bytes(layers, tokens, 1) / plan.num_gpus
    room = (utilization * box.reported_bytes - 2.3 * GIB - cache) / 1.05
    return 1.02 * _weights(model) <= room * plan.num_gpus


# Of llm_analysis/gpu_configs: memory in GiB, link in GB/s. Without an entry it refuses.
LLM_ANALYSIS_GPUS = {"h100": (80, 450), "a100": (80, 300), "a10g": (24, 32), "v100": (32, 150)}


def _llm_analysis(model, plan, box):
    """(bytes of weights on a GPU, GiB of a GPU, link in bytes/s)."""
    if box.gpu not in LLM_ANALYSIS_GPUS:
        raise Refuses("a GPU that is not on its list")
    if model.latent:
        raise Refuses("no words for a latent cache")
    gib, link = LLM_ANALYSIS_GPUS[box.gpu]
    h, tp = model.hidden_size, plan.tp_size
    heads = max(model.num_kv_heads / tp, 1) * tp
    experts = max(1, model.num_experts)
    ffn = model.expert_ffn or model.config["intermediate_size"]
    layer = 2 * h * h + 2 * h * h * heads / model.num_heads + 3 * h * ffn * experts + 2 * h
    layer += h * experts * (experts > 1)
    return (model.num_layers * layer * _bits(model) / 8 + 2 * model.vocab_size * h) / tp, gib, link


def _llm_analysis_cache(model, plan, tokens):
    head_dim, heads = model.hidden_size / model.num_heads, max(model.num_kv_heads / plan.tp_size, 1)
    return 2 * tokens * head_dim * heads * 2 * model.num_layers


def llm_analysis_fits(model, plan, box, tokens, utilization):
    """All of the memory on the label; weights, cache and the widest activation are all there is.

    Source: cli99/llm-analysis@d841e40 llm_analysis/analysis.py, LLMAnalysis.inference.
    """
    weights, gib, _ = _llm_analysis(model, plan, box)
    left = gib * GIB - weights
    logits = tokens * model.vocab_size * 2 / plan.tp_size
    return left > max(logits, _llm_analysis_cache(model, plan, tokens))


def llm_analysis_step(model, plan, box, load):
    """Reading weights of all experts, 8 us or more per all-reduce, the cache read and written.

    Source: as above; get_latency_fwd, get_latency_fwd_per_tp_comm.
    """
    weights, _, link = _llm_analysis(model, plan, box)
    tp, payload = plan.tp_size, 2 * load.concurrency * model.hidden_size
    ring = 2 * payload * (tp - 1) / tp / (link * 1e9)
    messages = 2 * model.num_layers * max(ring, 8e-6) if tp > 1 else 0.0
    flops = 2 * sum(rank.macs for rank in memory.ranks(model, plan)) * load.concurrency
    arithmetic = flops / box.flops(16 if _bits(model) > 8 else 8)
    tokens = load.concurrency * (load.prompt + load.output)
    cache = 2 * _llm_analysis_cache(model, plan, tokens)
    return (
        max(weights / box.memory_bytes_per_s, arithmetic)
        + messages
        + cache / box.memory_bytes_per_s
    )


AIC_GPUS = {"a100", "h100", "h200", "b200", "b300", "gb200", "l40s", "l4", "rtx-pro-6000"}
# Elements per token and width of attention, by family and tp.
AIC_ACTIVATIONS = {"LLAMA": {1: 11, 2: 6.5, 4: 5, 8: 5}, "MOE": {1: 22, 2: 13, 4: 10, 8: 10}}
AIC_FAMILIES = {
    "LlamaForCausalLM": "LLAMA",
    "Qwen2ForCausalLM": "LLAMA",
    "Qwen3ForCausalLM": "LLAMA",
}
AIC_FAMILIES |= dict.fromkeys(["MixtralForCausalLM", "Qwen3MoeForCausalLM"], "MOE")
AIC_FAMILIES |= dict.fromkeys(["MiniMaxM2ForCausalLM", "DeepseekV3ForCausalLM"], "MOE")


def aiconfigurator(model, plan, box, tokens, utilization):
    """3.5 GiB, NCCL's buffers, activations by a table; for other families 80 % of what is left.

    Source: ai-dynamo/aiconfigurator@095f58a aic-core/.../sdk/memory.py, sdk/backends/
    base_backend.py `_get_memory_usage`, trtllm_backend.py, systems/*.yaml. Its times are
    interpolated in measured tables, which no short rule can stand for.
    """
    if box.gpu not in AIC_GPUS:
        raise Refuses("no tables of this GPU")
    if model.quantisation.compute_bits == 8 and 8 not in box.flops_per_s:
        raise Refuses("no FP8 on this GPU")
    if model.num_heads % plan.tp_size:
        return False
    layers = model.kv_layers(range(model.num_layers), 2)
    cache = facts.labs.capstone().sequence_kv_bytes(layers, tokens, plan.tp_size)
    weights, family = _weights(model, plan), AIC_FAMILIES.get(model.architecture)
    if family is None:
        return cache <= 0.8 * (box.reported_bytes - weights)
    per_token = 2 * model.num_heads * model.head_dim * AIC_ACTIVATIONS[family][plan.tp_size]
    nccl = {1: 0, 2: 342, 4: 392, 8: 392}[plan.tp_size] * 2**20
    other = 8192 * per_token + nccl + 3.5 * GIB
    return cache <= 0.98 * utilization * box.reported_bytes - weights - other


@dataclass(frozen=True)
class Planner:
    name: str
    fits: object
    context: bool = False  # whether the rule asks for the context at all
    step_s: object = None


PLANNERS = [
    Planner("1.2 x weights", vram_calculator),
    Planner("gpu_poor", gpu_poor, True),
    Planner("KAITO", kaito, True),
    Planner("llm-analysis", llm_analysis_fits, True, llm_analysis_step),
    Planner("AIConfigurator", aiconfigurator, True),
]


def asked(planner, fact):
    """A planner's answer to a fact's question, in the fact's unit. Refuses: it has none."""
    model, plan, box, load = fact.asked

    def fits(tokens):
        return planner.fits(model, plan, box, tokens, load.utilization)

    if fact.what == "fits":
        return float(fits(2048))
    if fact.what == "longest context":
        if not planner.context:
            raise Refuses("the context is not asked")
        return facts.longest(model, fits)
    if planner.step_s is None:
        raise Refuses("no times")
    return planner.step_s(model, plan, box, load)


# --- the table ------------------------------------------------------------------------------------

KINDS = ("fits", "longest context", "TPOT")


def compare(judged):
    """(answers, counts) of all planners on those judged facts that every planner can be asked.

    answers: {fact's id: {planner: a number, or why it refuses}}, "here" is this one;
    counts: {planner: {kind: [right, wrong, refused]}}.
    """
    answers, counts = {}, {}
    for fact in judged:
        if fact.left_out or fact.what not in KINDS:
            continue
        row = {"here": fact.predicted}
        for planner in PLANNERS:
            try:
                row[planner.name] = asked(planner, fact)
            except Refuses as why:
                row[planner.name] = str(why)
        answers[fact.row["id"]] = row
        for name, answer in row.items():
            found = counts.setdefault(name, {kind: [0, 0, 0] for kind in KINDS})[fact.what]
            found[verdict(fact, answer)] += 1
    return answers, counts


RIGHT, WRONG, REFUSED = range(3)


def verdict(fact, answer):
    if isinstance(answer, str):
        return REFUSED
    if fact.what == "TPOT":
        return RIGHT if 1 / GOOD <= answer / fact.measured <= GOOD else WRONG
    return RIGHT if answer == fact.measured else WRONG


def lines(judged):
    answers, counts = compare(judged)
    yield "right / wrong / refused     " + "".join(f"{kind:>18}" for kind in KINDS)
    for name, found in counts.items():
        cells = (" / ".join(map(str, found[kind])) for kind in KINDS)
        yield f"  {name:26}" + "".join(f"{cell:>18}" for cell in cells)
    yield ""
    yield "where somebody is wrong"
    by_id = {fact.row["id"]: fact for fact in judged}
    for row_id, row in answers.items():
        fact = by_id[row_id]
        if not any(verdict(fact, answer) == WRONG for answer in row.values()):
            continue
        words = ", ".join(f"{name} {_shown(fact, answer)}" for name, answer in row.items())
        model, plan, box, _ = fact.asked
        yield f"  {row_id} {model.name} on {plan.name} of {box.gpu}, {fact.what}:"
        yield f"    measured {_shown(fact, fact.measured)}; {words}"


def _shown(fact, answer):
    if isinstance(answer, str):
        return "refuses"
    if fact.what == "fits":
        return "yes" if answer else "no"
    if fact.what == "longest context":
        return f"{answer:.0f} Ki" if answer else "none"
    return f"{answer * 1e3:.1f} ms"
