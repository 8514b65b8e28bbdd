"""What a live vLLM tells about itself, through public hooks only (imported by rank.py, engine.py).

Importing this module in a worker registers a loader ("noting") that writes down every parameter.
`Probe` becomes a base class of the worker (worker_extension_cls="probe.Probe").
"""

import dataclasses

from vllm import SamplingParams
from vllm.distributed import parallel_state
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader

COUNTED = ("all_reduce", "all_gather", "reduce_scatter", "gather")
UNEQUAL = ("all_gatherv", "reduce_scatterv")  # of dispatch and combine
HANDED_ON = ("isend_tensor_dict", "irecv_tensor_dict", "send_tensor_dict", "recv_tensor_dict")
STORED = {}  # parameter name -> facts, noted while the weights are still where the loader put them


@register_model_loader("noting")
class NotingLoader(DefaultModelLoader):
    """The default loader; notes every parameter before the CPU build packs it for oneDNN.

    Packing empties the parameter, so that its shape can no longer be read afterwards.
    """

    def __init__(self, load_config):
        # A copy: on CUDA vLLM asks the configuration for a loader a second time.
        super().__init__(dataclasses.replace(load_config, load_format="auto"))

    def load_weights(self, model, model_config):
        super().load_weights(model, model_config)
        note(model)


def greedy(num_tokens):
    """What a request asks for in every run of the course: so many tokens, as numbers."""
    return SamplingParams(temperature=0, max_tokens=num_tokens, ignore_eos=True, detokenize=False)


def note(model):
    """Write down every parameter of `model`, a tied one once."""
    owners = dict(model.named_modules())
    seen = set()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.data_ptr() in seen:
            continue
        seen.add(parameter.data_ptr())
        STORED[name] = {
            "shape": list(parameter.shape),
            "dtype": str(parameter.dtype).removeprefix("torch."),
            "bytes": parameter.nbytes,
            "class": type(owners[name.rpartition(".")[0]]).__name__,
        }


def count_collectives(calls, ids=None):
    """Append [operation, payload bytes] to `calls` for each collective of this worker.

    Those of the tensor-parallel group, what data-parallel ranks exchange for their experts, and
    what pipeline stages hand on (bytes not counted: None). ids: receives, for each dispatch, the
    experts that this rank's own tokens chose, [tokens, top_k].
    """
    group = parallel_state.get_tp_group()

    def wrap(owner, operation, payload_of):
        original = getattr(owner, operation)

        def counted(*args, **kwargs):
            calls.append([operation, payload_of(*args)])
            return original(*args, **kwargs)

        setattr(owner, operation, counted)

    # A group of one rank sends nothing, yet a stage without shared memory (AVX2) calls its
    # all_gather.
    for operation in COUNTED if group.world_size > 1 else ():
        times = group.world_size if operation == "all_gather" else 1  # nccl-tests: gathered result
        wrap(group, operation, lambda x, *_, times=times: x.nbytes * times)
    data = parallel_state.get_dp_group()
    for operation in UNEQUAL if data.world_size > 1 else ():
        count_unequal(data, operation, calls, ids)
    pipeline = parallel_state.get_pp_group()
    for operation in HANDED_ON:
        if pipeline.world_size > 1 and hasattr(pipeline, operation):
            wrap(pipeline, operation, lambda *_: None)


def count_unequal(group, operation, calls, ids):
    """The same for ranks that bring unequally many rows: one call for each tensor.

    Bytes of the gathered whole; of a reduce-scatter what a rank brings, which is as large.
    """
    original = getattr(group, operation)

    def counted(given, dim=0, sizes=None):
        rows = sum(sizes) if sizes else None
        for tensor in given if isinstance(given, list) else [given]:
            whole = rows or len(tensor) * group.world_size
            row_bytes = tensor.nbytes // max(1, len(tensor))
            calls.append([operation, whole * row_bytes])
            if ids is not None and not tensor.is_floating_point():
                ids.append(tensor.tolist())
        return original(given, dim, sizes)

    setattr(group, operation, counted)


def buffers(model):
    """The rope tables, each once: layers share one."""
    found = {}
    for name, buffer in model.named_buffers():
        found.setdefault(buffer.data_ptr(), (name.rpartition(".")[2], buffer))
    return [
        {"name": name, "shape": list(buffer.shape), "bytes": buffer.nbytes}
        for name, buffer in found.values()
        if buffer.numel()
    ]


def kv_cache(runner):
    config = runner.kv_cache_config
    specs = [group.kv_cache_spec for group in config.kv_cache_groups]
    return {
        "blocks": config.num_blocks,
        "block_size": specs[0].block_size,
        "kv_heads": specs[0].num_kv_heads,
        "layers": sum(len(group.layer_names) for group in config.kv_cache_groups),
        "page_bytes_per_layer": specs[0].page_size_bytes,
    }


def experts_here(model):
    """{sparse layer: the numbers of the experts of which this rank holds weights}."""
    found = {}
    for name, module in model.named_modules():
        if hasattr(module, "expert_map_manager") and hasattr(module, "w13_weight"):
            places = module.expert_map
            if places is None:  # not dealt out: a slice of every one
                places = range(module.local_num_experts)
            found[name] = [expert for expert, place in enumerate(places) if place >= 0]
    return found


def held(rank, runner):
    """What one rank stores."""
    if not STORED:  # vLLM's dummy loader made the weights
        note(runner.get_model())
    return {
        "rank": rank,
        "parameters": STORED,
        "buffers": buffers(runner.get_model()),
        "kv_cache": kv_cache(runner),
    }


class Probe:
    """Methods that `LLM.collective_rpc("name")` calls on every worker."""

    def probe_report(self):
        return held(self.rank, self.model_runner)

    def probe_count(self):
        self.probe_calls = []
        count_collectives(self.probe_calls)

    def probe_calls_so_far(self):
        calls, self.probe_calls[:] = list(self.probe_calls), []
        return calls
