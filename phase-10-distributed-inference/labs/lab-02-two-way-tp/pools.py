"""Prefill in one vLLM, decode in another, and print one page about what crosses between them.

    python pools.py [--prompt 512] [--json FILE]
    python pools.py --recorded           the page of a recorded run; nothing is started

Three engines of the same tiny Llama: one serves the request alone; one prefills it and hands the
cache on as files; one finds the files and goes on from them. The bytes that cross are predicted
with your kv_bytes_per_token and counted. No network, no port, no tokenizer.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from live import run
from live.model import tiny_llama, write_model
from live.yours import ended, said

from labkit.loading import answered_by, load_chosen, run_program

HERE = Path(__file__).resolve().parent
ROLES = {"alone": "one engine", "prefill": "first pool", "decode": "second pool"}
NUM_TOKENS, MAX_MODEL_LEN = 12, 2048


def measure(num_prompt, folder):
    """{role: report} of the three engines, and "files": what crossed. The logs are in `folder`."""
    config, folder = tiny_llama(max_position_embeddings=MAX_MODEL_LEN), Path(folder)
    model, cache = write_model(folder / "model", config), folder / "cache"
    prompt = [5 + (7 * place + place * place // 11) % 500 for place in range(num_prompt)]
    connector = {
        "kv_connector": "ExampleConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"shared_storage_path": str(cache)},
    }
    jobs = []
    for role in ROLES:
        engine = run.engine_arguments(
            model,
            config,
            1,
            max_model_len=MAX_MODEL_LEN,
            max_num_batched_tokens=MAX_MODEL_LEN,
            kv_cache_memory_bytes=32 * 2**20,
            **({"kv_transfer_config": connector} if role != "alone" else {}),
        )
        asked = {"prompt": prompt, "num_tokens": 1 if role == "prefill" else NUM_TOKENS}
        jobs.append({"engine": engine, "role": role, "sent": str(folder / "sent")} | asked)
    reports = run.run_jobs(jobs, folder=folder, program=run.ROOM / "pools_rank.py")
    found = {role: ranks[0] for role, ranks in zip(ROLES, reports, strict=True)}
    files = [tensor_in(path) for path in sorted(cache.rglob("*.safetensors"))]
    return found | {"model_config": config, "num_prompt": num_prompt, "files": files}


def recorded():
    """A run that record.py kept, in the shape of `measure`."""
    return json.loads((HERE / "captures" / "pools" / "report.json").read_text(encoding="utf-8"))


def log_of_the_second(folder):
    return Path(folder, f"rank-{list(ROLES).index('decode')}.log").read_text(errors="replace")


def tensor_in(path):
    """{"shape", "dtype", "bytes"} of the one tensor of a safetensors file, from its header."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    (tensor,) = [entry for name, entry in header.items() if name != "__metadata__"]
    first, last = tensor["data_offsets"]
    return {"shape": tensor["shape"], "dtype": tensor["dtype"], "bytes": last - first}


def page(measured, log, lab):
    """(lines of text, whether all agrees): the request in one engine and in two.

    log: of the second engine.
    """
    model = lab.model_shape(measured["model_config"])
    alone, prefill, decode = (measured[role] for role in ROLES)
    block = decode["kv_cache"]["block_size"]
    crossed = (measured["num_prompt"] - 1) // block * block  # whole blocks, one token left at least
    predicted = crossed * lab.kv_bytes_per_token(model, 1)
    counted = sum(file["bytes"] for file in measured["files"])
    same = decode["tokens"] == alone["tokens"] and prefill["tokens"] == alone["tokens"][:1]
    versions = alone["versions"]
    lines = [
        f"tiny Llama, {model['num_layers']} layers, {model['num_kv_heads']} KV heads, float32; "
        f"a prompt of {measured['num_prompt']:,} tokens, {NUM_TOKENS} to answer",
        f"vLLM {versions['vllm']}, torch {versions['torch']} on {alone['platform']}; the cache "
        "crosses as files (ExampleConnector)",
        "",
        f"{'':30}{'prompt computed':>16}{'from the other':>16}{'answers':>10}",
    ]
    for role, name in ROLES.items():
        cached = measured[role]["cached_tokens"]
        computed = measured["num_prompt"] - cached
        lines.append(f"  {name:28}{computed:16,}{cached:16,}{len(measured[role]['tokens']):10,}")
    given = set(lab.read_startup_log(log)["kv_tokens_injected"])
    told, agrees = given == {crossed} == {decode["cached_tokens"]}, counted == predicted
    halves = crossed * lab.kv_bytes_per_token(model, 2)
    what = f"{len(measured['files'])} layers, {crossed:,} tokens"
    lines += [
        "",
        f"{'bytes of cache that crossed':30}{'counted':>16}{'yours':>16}{'residual':>10}",
        f"  {what:28}{counted:16,}{predicted:16,}{counted - predicted:10,}",
        f"  {'a first pool of TP=2':28}{'':16}{halves:16,}  from each of its ranks, by arithmetic",
        "",
        f"{said(same)}  token ids equal: {NUM_TOKENS} in one engine, 1 + {NUM_TOKENS - 1} in two",
        f"{said(agrees)}  as many bytes as kv_bytes_per_token says"
        + ("" if agrees else f": yours {predicted:,}, live {counted:,}"),
        f"{said(told)}  the second engine's log says that it was given {crossed:,} tokens",
    ]
    return lines, same and agrees and told


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prompt", type=int, default=512, metavar="N", help="tokens (512)")
    parser.add_argument("--recorded", action="store_true", help="show a recorded run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was measured")
    options = parser.parse_args(arguments)
    if not 130 <= options.prompt <= MAX_MODEL_LEN - NUM_TOKENS:
        parser.error(
            f"--prompt {options.prompt}: from 130, more than one block of the cache, "
            f"to {MAX_MODEL_LEN - NUM_TOKENS}"
        )
    began, lab = time.monotonic(), load_chosen(HERE)
    print(answered_by(HERE), flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="pools-") as made:
            folder = HERE / "captures" / "pools" if options.recorded else made
            measured = recorded() if options.recorded else measure(options.prompt, folder)
            lines, agrees = page(measured, log_of_the_second(folder), lab)
    except run.LiveError as error:
        sys.exit(f"pools: {error}")
    print("\n".join(lines))
    return ended(options, began, measured, agrees)


if __name__ == "__main__":
    run_program(main)
