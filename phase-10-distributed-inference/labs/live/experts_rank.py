"""One rank of a live run with experts, as rank.py: what it stored, and what each step exchanged.

The job names `requests`, for each data-parallel rank those that it serves: [prompt, num_tokens];
and `on_cpu`, engine options for the CPU build only.
"""

import cpu_experts
import probe
import rank
from vllm import ModelRegistry
from vllm.model_executor.models.deepseek_v2 import DeepseekV2ForCausalLM
from vllm.model_executor.models.mixtral import MixtralForCausalLM
from vllm.platforms import current_platform

for model in (DeepseekV2ForCausalLM, MixtralForCausalLM):
    ModelRegistry.register_model(model.__name__, model)


def report(job):
    """Start the engine of `job`, serve this rank's requests, and tell all about it."""
    cpu_experts.mend(job.get("without", ()))
    options = job["engine"] | (job["on_cpu"] if current_platform.is_cpu() else {})
    engine, calls, ids, dummies = rank.start_engine(options), [], [], []
    probe.count_collectives(calls, ids)
    core, dummy_step = engine.engine_core, engine.engine_core.execute_dummy_batch
    core.execute_dummy_batch = lambda: (dummies.append(len(calls)), dummy_step())
    requests = job["requests"][engine.vllm_config.parallel_config.data_parallel_rank]
    tokens, steps, _ = rank.run_steps(engine, requests, calls)
    return rank.held(engine) | {
        "experts": probe.experts_here(rank.runner(engine).get_model()),
        "tokens": tokens,
        "steps": steps,
        "dummy_steps": len(dummies),
        "ids": ids,
    }


def main():
    rank.main(report)


if __name__ == "__main__":
    main()
