"""What a step of the 8B model reads, meets and gathers."""

import re

import figures
from labbook.amounts import KIB, human_bytes
from labbook.labs import fact, model, quotations, solution

lab02 = solution("lab-02")

reading = sum(
    figures.engine.read_us()[n] for n in ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
)
meeting = 2 * fact("cus0231")

small_kib, large_kib = human_bytes(256 * KIB), human_bytes(512 * KIB)
takes = [
    [f"below {small_kib}", "FlashInfer", "vLLM's own kernel, one-shot"],
    [
        f"from there to {large_kib}",
        "FlashInfer",
        "[symmetric memory](glossary.md#symmetric-memory): the switch adds",
    ],
    ["above", "symmetric memory", "the same"],
    ["what none of them accepts", "NCCL", "NCCL"],
]

shape = model("llama-3.1-8b")
step = lab02.collectives_per_step(shape, 2, 1, 1, element_bytes=2)
scores, added = step["all_gather_bytes"], step["all_reduce_bytes"]
launch_s, hop_s, busbw = figures.cost.middle("NVLink 4")
equal = (launch_s + hop_s) * busbw / (scores / 2)  # requests whose bytes take as long

order = (
    "FLASHINFER_PCIE_IPC FLASHINFER NCCL_SYMM_MEM QUICK_REDUCE AITER_CUSTOM CUSTOM SYMM_MEM PYNCCL"
)
in_this_order = re.findall(r'"(\w+)"', quotations()["quotes"]["dispatch"]["text"]) == order.split()

# What the page says, held.
a_prompt_makes_as_many = (
    lab02.collectives_per_step(model("llama-3.1-8b"), 2, 1000, 1)["all_reduces"]
    == lab02.collectives_per_step(model("llama-3.1-8b"), 2, 1, 1)["all_reduces"]
    == 65
)
meetings_are_short = 0.05 < meeting / reading < 0.2
heads_are_copied = lab02.kv_heads_per_rank(8, 16) == lab02.kv_heads_per_rank(8, 8) == 1
scores_are_half = 0.4 < scores / added < 0.6
