"""The ordinary vLLM engine with worker processes of its own, probed from outside; see run.py.

    python engine.py job-0.json

For pipeline parallelism, which the external launcher of rank.py does not do, and for whoever wants
`LLM(tensor_parallel_size=2)` as users write it. Writes engine.json beside the job.
"""

import json
import sys
from pathlib import Path

import probe


def start_engine(arguments, extension):
    """LLM(...) whose workers carry the methods of the class named `extension` (module.Class)."""
    from vllm import LLM  # the spawned workers import this module too, and do not need it

    llm = LLM(**arguments, worker_extension_cls=extension)
    if arguments["pipeline_parallel_size"] > 1:
        # The CPU worker skips its warm-up when eager; this makes the buffer that later stages
        # receive into.
        llm.collective_rpc("execute_dummy_batch")
    return llm


def report(job):
    llm = start_engine(job["engine"], "probe.Probe")
    ranks = llm.collective_rpc("probe_report")
    llm.collective_rpc("probe_count")
    prompt, sampling = {"prompt_token_ids": job["prompts"][0]}, probe.greedy(job["num_tokens"])
    tokens = list(llm.generate([prompt], sampling, use_tqdm=False)[0].outputs[0].token_ids)
    for rank, made in zip(ranks, llm.collective_rpc("probe_calls_so_far"), strict=True):
        rank |= {"tokens": tokens, "calls": made}
    cache = llm.llm_engine.vllm_config.cache_config
    return {"ranks": ranks, "tokens_reported": cache.kv_cache_size_tokens}


def main(make_report=report):
    job = Path(sys.argv[1])
    found = make_report(json.loads(job.read_text()))
    job.with_name("engine.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
