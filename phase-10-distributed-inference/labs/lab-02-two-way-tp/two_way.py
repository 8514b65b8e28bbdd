"""Run a tiny Llama in a real vLLM at tensor_parallel_size 1 and 2, and print one page about it.

    python two_way.py [--tp 2] [--kv-heads 4] [--json FILE]

Two CUDA GPUs are used when the vLLM at hand is a CUDA build and sees them; else the CPU build runs
both ranks on this machine. No network, no port, no tokenizer: the model is made on the spot.
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from functools import lru_cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE  # where live_rank.py and live_engine.py stand
SHARED_MEMORY = Path("/dev/shm")
KV_MEMORY_BYTES = 8 * 2**20  # per rank: at tp_size=1 and 2 alike, so that capacity shows the split
PROMPTS = [[5, 17, 99, 300, 42, 7], [11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]]
NUM_TOKENS = 16
MAX_MODEL_LEN = 64


class LiveError(Exception):
    """A live run cannot start or did not finish; str() is one line for whoever started it."""


# --- the model --------------------------------------------------------------------------------


def tiny_llama(**changes):
    """The config.json of a Llama of 4 layers; `changes` replace fields."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 512,
        "hidden_size": 256,
        "intermediate_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 32,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "torch_dtype": "float32",
        "bos_token_id": 1,
        "eos_token_id": 2,
    } | changes


def write_model(folder, config, seed=0):
    """Save seeded random weights as safetensors, with config.json. float32.

    The standard deviation of 0.08 keeps the best token well ahead of the second, so that greedy
    decoding does not hang on the last bit.
    """
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim, vocab = config["head_dim"], config["vocab_size"]
    shapes = {"model.embed_tokens.weight": (vocab, hidden)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes |= {
            at + "self_attn.q_proj.weight": (heads * head_dim, hidden),
            at + "self_attn.k_proj.weight": (kv_heads * head_dim, hidden),
            at + "self_attn.v_proj.weight": (kv_heads * head_dim, hidden),
            at + "self_attn.o_proj.weight": (hidden, heads * head_dim),
            at + "mlp.gate_proj.weight": (ffn, hidden),
            at + "mlp.up_proj.weight": (ffn, hidden),
            at + "mlp.down_proj.weight": (hidden, ffn),
            at + "input_layernorm.weight": (hidden,),
            at + "post_attention_layernorm.weight": (hidden,),
        }
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocab, hidden)

    random = np.random.default_rng(seed)
    header, blobs, end = {"__metadata__": {"format": "pt"}}, [], 0
    for name, shape in shapes.items():
        values = np.ones(shape) if len(shape) == 1 else random.standard_normal(shape) * 0.08
        blobs.append(values.astype("<f4").tobytes())
        begin, end = end, end + len(blobs[-1])
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, end]}
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        file.writelines(blobs)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    return folder


# --- the ranks --------------------------------------------------------------------------------


def find_python():
    """The interpreter that has vLLM: $LAB_VLLM_PYTHON, this one, .venv-vllm; or a LiveError."""
    if chosen := os.environ.get("LAB_VLLM_PYTHON"):
        if not Path(chosen).is_file():
            raise LiveError(f"LAB_VLLM_PYTHON={chosen}: there is no such interpreter")
        return chosen
    if importlib.util.find_spec("vllm"):
        return sys.executable
    for folder in HERE.parents:
        if (python := folder / ".venv-vllm/bin/python").is_file():
            return str(python)
    raise LiveError("no vLLM here; `make vllm` installs its CPU build into .venv-vllm")


def run_ranks(config, tp_size, *, folder, timeout_s=240, hosts=None, on_start=None):
    """Start `tp_size` ranks on the model of `config`, wait, and return their reports by rank.

    folder: empty or new; it receives the model, job.json and each rank's log and report. hosts: for
    each rank, the command that enters its host and the network interface there. on_start, if given,
    is called with the rank processes. LiveError when the split is impossible, or when a rank fails,
    dies or takes longer than `timeout_s`; whatever happens, no rank and no shared memory is left.
    """
    python, folder = find_python(), Path(folder).resolve()
    _write_job(folder, config, tp_size, 1)
    run_id = f"lab02-{uuid.uuid4().hex[:12]}"
    commands, environments = [], []
    for rank in range(tp_size):
        enter, interface, name = [], {}, run_id
        if hosts:  # each host knows the meeting place by a name of its own: no shared memory then
            name = f"{run_id}-host-{rank}"
            (folder / name).symlink_to(folder / run_id)
            enter, interface = hosts[rank][0], {"GLOO_SOCKET_IFNAME": hosts[rank][1]}
        commands.append([*enter, python, str(PROGRAMS / "live_rank.py"), str(folder / "job.json")])
        environments.append(
            _environment(python, folder)
            | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(tp_size)}
            | {"LAB_RENDEZVOUS": str(folder / name)}
            | {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}  # the engine in this process, as its rank
            | interface
        )
    logs = [folder / f"rank-{rank}.log" for rank in range(tp_size)]
    _run(commands, environments, logs, folder, run_id, timeout_s, on_start)
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(tp_size)]


def run_engine(config, tp_size, pp_size=1, *, folder, timeout_s=300):
    """`LLM(tensor_parallel_size, pipeline_parallel_size)` with workers of its own; its report."""
    python, folder = find_python(), Path(folder).resolve()
    _write_job(folder, config, tp_size, pp_size)
    command = [python, str(PROGRAMS / "live_engine.py"), str(folder / "job.json")]
    log = folder / "engine.log"
    try:
        _run([command], [_environment(python, folder)], [log], folder, "lab02-none", timeout_s)
    finally:  # its workers met in a file of this name, and call their shared memory after it
        text = log.read_text(errors="replace") if log.exists() else ""
        for meeting in set(re.findall(r"file://(\S*?vllm_dist_\w+)", text)):
            for leftover in [Path(meeting), *SHARED_MEMORY.glob(Path(meeting).name + "*")]:
                leftover.unlink(missing_ok=True)
    return json.loads((folder / "engine.json").read_text())


def load_lab(which):
    """The lab's `solution` or `starter`, under a name that no other lab's file can take."""
    if which not in ("solution", "starter"):
        raise LiveError(f"LAB_IMPL={which!r}: it is 'solution' (the default) or 'starter'")
    name = f"lab02_{which}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, HERE / f"{which}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _write_job(folder, config, tp_size, pp_size):
    lab = load_lab("solution")
    try:
        lab.check_split(lab.model_shape(config), tp_size)
    except ValueError as error:
        raise LiveError(str(error)) from None
    job = {
        "model": str(write_model(folder / "model", config)),
        "tp_size": tp_size,
        "pp_size": pp_size,
        "dtype": config["torch_dtype"],
        "max_model_len": MAX_MODEL_LEN,
        "kv_memory_bytes": KV_MEMORY_BYTES,
        "prompts": PROMPTS,
        "num_tokens": NUM_TOKENS,
    }
    (folder / "job.json").write_text(json.dumps(job))


def _run(commands, environments, logs, folder, run_id, timeout_s, on_start=None):
    """Run the processes to their end; leave none of them and none of their shared memory."""
    processes = []
    try:
        for command, environment, path in zip(commands, environments, logs, strict=True):
            with path.open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        cwd=folder,
                        env=environment,
                        start_new_session=True,
                    )
                )
        if on_start:
            on_start(processes)
        _wait(processes, logs, timeout_s)
    finally:
        _stop(processes)
        for leftover in SHARED_MEMORY.glob(f"{run_id}*"):
            leftover.unlink(missing_ok=True)


def _environment(python, folder):
    cache = Path(python).absolute().parent.parent / "cache"  # of model classes: saves 6 s a run
    if not os.access(cache.parent, os.W_OK):
        cache = folder / "cache"
    return os.environ | {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # binding wants one NUMA node per rank
        "TORCH_COMPILE_DISABLE": "1",  # or the first step compiles a 5-line function for 15 s
        "OMP_NUM_THREADS": "1",
        "VLLM_CACHE_ROOT": str(cache),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
    }


def _wait(processes, logs, timeout_s):
    deadline = time.monotonic() + timeout_s
    while any(process.poll() is None for process in processes):
        for process, log in zip(processes, logs, strict=True):
            if process.poll():
                raise LiveError(f"{log.stem} {_ended(process)}: {_last_words(log)}")
        if time.monotonic() > deadline:
            pairs = zip(processes, logs, strict=True)
            slow = [log for process, log in pairs if process.poll() is None]
            raise LiveError(
                f"{' and '.join(log.stem for log in slow)} did not finish within {timeout_s} s and "
                f"had to be stopped; the last line of {slow[0].stem}: {_last_words(slow[0])}"
            )
        time.sleep(0.05)
    for process, log in zip(processes, logs, strict=True):
        if process.returncode:
            raise LiveError(f"{log.stem} {_ended(process)}: {_last_words(log)}")


def _ended(process):
    rest = "; everything else was stopped"
    if process.returncode < 0:
        return f"was killed by {signal.Signals(-process.returncode).name}{rest}"
    return f"failed with exit status {process.returncode}{rest}"


def _last_words(log):
    """The error a process ended with, or else its last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return (errors or lines or ["it printed nothing"])[-1][:300]


def _stop(ranks):
    for rank in ranks:
        if rank.poll() is None:
            rank.kill()
        rank.wait()
    patience = time.monotonic() + 2
    for rank in ranks:  # its helpers remove the shared memory they own, then end by themselves
        while _group_alive(rank.pid) and time.monotonic() < patience:
            time.sleep(0.02)
        if _group_alive(rank.pid):
            os.killpg(rank.pid, signal.SIGKILL)


def _group_alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@lru_cache(maxsize=4)
def measure(tp_size, *, kv_heads=4, vocab_size=512, tied=False):
    """The reports of `run_ranks` in a folder of its own, removed afterwards; kept in memory."""
    config = tiny_llama(
        num_key_value_heads=kv_heads, vocab_size=vocab_size, tie_word_embeddings=tied
    )
    folder = tempfile.mkdtemp(prefix="two-way-")
    try:
        reports = run_ranks(config, tp_size, folder=folder)
        logs = [Path(folder, f"rank-{n}.log").read_text(errors="replace") for n in range(tp_size)]
        return {"config": config, "reports": reports, "logs": logs}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- the page ---------------------------------------------------------------------------------


def page(one, two, lab):
    """What tp_size=1 and tp_size=N did to the model, as lines of text; True if all of it agrees.

    one, two: of `measure`. lab: the module with part A (solution.py, or starter.py).
    """
    model = lab.model_shape(two["config"])
    ranks, tp_size = two["reports"], len(two["reports"])
    whole = one["reports"][0]
    checks, lines = [], []

    def check(claim, held):
        checks.append(bool(held))
        lines.append(f"  {'yes' if held else 'NO '}  {claim}")

    first = ranks[0]
    lines.append(
        f"tiny Llama, {model['num_layers']} layers, hidden {model['hidden_size']}, "
        f"{model['num_heads']} heads, {model['num_kv_heads']} KV heads, float32, seed 0"
    )
    versions = first["versions"]
    lines.append(
        f"vLLM {versions['vllm']}, torch {versions['torch']}, {tp_size} ranks on "
        f"{first['platform']} ({first['device']}), {first['backend']}"
    )

    lines += ["", "parameters, layer 0 and the ends        tp_size=1      each rank     treatment"]
    for name, parameter in whole["parameters"].items():
        shapes = [rank["parameters"][name]["shape"] for rank in ranks]
        if ".layers." in name and ".layers.0." not in name:
            continue
        full = str(parameter["shape"])
        how = lab.treatment(parameter["shape"], shapes)
        short = name.removeprefix("model.").removesuffix(".weight")
        lines.append(f"  {short:38}{full:15}{shapes[0]!s:14}{how}")

    lines += ["", "bytes of parameters          live        ledger    residual"]
    for tp, reports in [(1, one["reports"]), (tp_size, ranks)]:
        expected = lab.rank_weights(model, tp)["parameters_bytes"]
        for report in reports:
            live = sum(parameter["bytes"] for parameter in report["parameters"].values())
            residual = live - expected
            checks.append(residual == 0)
            where = f"tp_size={tp} rank {report['rank']}"
            lines.append(f"  {where:20}{live:13,}{expected:14,}{residual:12,}")

    lines += ["", f"KV cache, {KV_MEMORY_BYTES:,} bytes per rank"]
    lines.append("                      KV heads  bytes/token     blocks  x tokens   vLLM reports")
    for tp, report in [(1, whole), *((tp_size, rank) for rank in ranks)]:
        cache = report["kv_cache"]
        per_token = lab.kv_bytes_per_token(model, tp)
        planned = lab.kv_capacity(
            KV_MEMORY_BYTES, per_token, cache["block_size"], MAX_MODEL_LEN, versions["vllm"]
        )
        heads = lab.kv_heads_per_rank(model["num_kv_heads"], tp)
        checks.append(cache["kv_heads"] == heads and cache["blocks"] == planned["blocks"])
        checks.append(cache["tokens_reported"] == planned["tokens"])
        where = f"tp_size={tp} rank {report['rank']}"
        lines.append(
            f"  {where:20}{cache['kv_heads']:8}{per_token:13,}{cache['blocks']:11,}"
            f"{cache['block_size']:10,}{cache['tokens_reported']:8,} tokens"
        )
    lines.append(
        f"  (a request of up to {MAX_MODEL_LEN} tokens takes a whole block; vLLM counts the tokens "
        "of full requests)"
    )

    layers = model["num_layers"]
    lines += ["", "collectives of one engine step, per rank       count      bytes   the bill says"]
    for title, step, tokens in [("prefill", 0, len(PROMPTS[0])), ("decode", 1, 1)]:
        bill = lab.collectives_per_step(model, tp_size, tokens, 1)
        words = {
            "all_reduce": f"2 x {layers} layers + 1 embedding, "
            f"each {tokens} x {model['hidden_size']} x 4",
            "all_gather": f"logits, 1 x {lab.padded_vocab(model['vocab_size'])} x 4",
        }
        for operation, why in words.items():
            counts = set()
            for rank in ranks:
                payloads = [bytes_ for name, bytes_ in rank["steps"][step] if name == operation]
                counts.add((len(payloads), sum(payloads)))
            count, total = counts.pop()
            expected = bill[operation + "s"], bill[operation + "_bytes"]
            checks.append(not counts and (count, total) == expected)
            what = f"{title} of {tokens} token{'s' if tokens > 1 else ''}, {operation}"
            lines.append(f"  {what:42}{count:9}{total:11,}   {why}")

    lines += [""]
    check(
        f"token ids equal, {NUM_TOKENS} greedy tokens, one prompt and two together",
        all(
            rank[key] == whole[key] for rank in ranks for key in ("tokens", "tokens_together")
        ),
    )  # fmt: skip
    check("every byte, block and collective as the ledger has it", all(checks))
    alone, slowest = whole["times"], ranks[0]["times"]
    for rank in ranks[1:]:
        slowest = {key: max(value, rank["times"][key]) for key, value in slowest.items()}
    lines.append("")
    for title, key, scale, unit in [
        ("first token after the start of python", "first_token_s", 1, "s"),
        ("  of it, importing vLLM", "imported_s", 1, "s"),
        ("first token of a request, once warm", "warm_first_token_s", 1000, "ms"),
    ]:
        lines.append(
            f"{title:42}{alone[key] * scale:6.1f} {unit} at tp_size=1"
            f"{slowest[key] * scale:9.1f} {unit} at tp_size={tp_size}"
        )
    return lines, all(checks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tp", type=int, default=2, metavar="N", help="ranks (default 2)")
    parser.add_argument("--kv-heads", type=int, default=4, metavar="N", help="default 4; 1: copied")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was measured")
    options = parser.parse_args()
    began = time.monotonic()
    try:
        lab = load_lab(os.environ.get("LAB_IMPL", "solution"))
        lab.check_split(
            lab.model_shape(tiny_llama(num_key_value_heads=options.kv_heads)), options.tp
        )
        one, two = (measure(tp, kv_heads=options.kv_heads) for tp in (1, options.tp))
        lines, agrees = page(one, two, lab)
    except (LiveError, ValueError, NotImplementedError) as error:
        sys.exit(f"two-way: {error}")
    print("\n".join(lines))
    print(f"whole run {time.monotonic() - began:.1f} s")
    if options.json:
        options.json.write_text(json.dumps({"tp1": one, f"tp{options.tp}": two}, indent=1) + "\n")
    sys.exit(0 if agrees else 1)


if __name__ == "__main__":
    main()
