"""Boxes as data: lab 03's hardware.json, a file of one's own; what is uncertain is an interval.

An interval is [best, typical, worst]. `Box.at(mood)` fixes all of them: mood 0 is the best of every
constant, 0.5 the typical, 1 the worst. A calibrating measurement moves the mood.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from planner import labs, overrides

MIB = 2**20
BEST, TYPICAL, WORST = 0.0, 0.5, 1.0


@cache
def _shipped():
    return overrides.read_json(labs.folder("lab-03") / "hardware.json")


# What no vendor prints. [best, typical, worst].
CONSTANTS = {
    # of the printed bandwidth that a step reaches, of the printed FLOP/s that GEMMs reach, of an
    # NVLink's bus bandwidth that an all-gather and a reduce-scatter reach
    **{n: _shipped()["reached"][n] for n in ("memory_share", "flops_share", "gather_share")},
    "overlap_lost": [0.15, 0.5, 1.0],  # of the lower roof that does not hide behind the higher one
    "attention_share": [0.60, 0.40, 0.20],  # the same for attention over a prompt
    "expert_skew": [0.75, 0.85, 1.0],  # tokens ** skew of them choose their experts independently
    "hop_us": [10, 25, 60],  # an activation handed from stage to stage, launch to arrival
    "lockstep": [0.0, 0.03, 0.08],  # kernels lose with each halving of their width, and ranks wait
    "uneven": [0.0, 0.1, 0.25],  # stages wait for the largest microbatch of a round
    "runtime_gb": [0.4, 0.7, 1.2],  # what libraries take after vLLM's first look, per GPU
    "graphs_gb": [0.2, 0.5, 2.0],  # captured CUDA graphs
    "peers_gb": [0.15, 0.3, 1.0],  # NCCL's and the custom all-reduce's buffers, with tp or pp
    "activations": [0.7, 1.0, 2.5],  # times the arithmetic of planner/memory.py
}
# What an engine adds to its kernels. layer_us, experts_us: gaps and small kernels of a layer and of
# its experts' routing; launch_us: the host needs that long to launch a layer without CUDA graphs,
# while the GPU works; step_us, sequence_us: scheduling and sampling, per step and per sequence.
# reserved_output: the part of an answer's cache that is kept free from the start. of_free: its
# utilization is a part of what weights and the rest leave (TensorRT-LLM), not of all memory (vLLM).
_VLLM = {
    "layer_us": [15, 40, 90],
    "experts_us": [10, 30, 90],
    "launch_us": 0,
    "step_us": [400, 1200, 4000],
    "sequence_us": [2, 8, 25],
    "reserved_output": 0.5,
    "of_free": False,
}
ENGINES = {
    "vllm": _VLLM,
    "vllm-0.5": _VLLM | {"step_us": [2800, 5500, 10000], "sequence_us": [55, 110, 200]},
    "vllm-eager": _VLLM | {"launch_us": [100, 200, 350]},
    "sglang": _VLLM,
    # TensorRT plans one buffer that tensors share; its runtime captures no graphs unless asked to,
    # which the PyTorch back end of TensorRT-LLM 1.x does by default
    # (NVIDIA/TensorRT-LLM docs/source/reference/memory.md, useful-runtime-flags.md)
    "trtllm": _VLLM
    | {"activations": [0.4, 0.6, 1.2], "graphs_gb": [0.02, 0.1, 0.5]}
    | {"reserved_output": 1.0, "of_free": True},
}


@dataclass(frozen=True)
class Box:
    """Nodes of equal GPUs, with everything the arithmetic needs; SI units."""

    gpu: str
    reported_bytes: int
    memory_bytes_per_s: float
    flops_per_s: dict  # compute bits -> dense FLOP/s; without an entry the GPU computes in 16 bits
    link: dict
    network: dict
    gpus_per_node: int
    nodes: int = 1
    engine: str = "vllm"
    price_per_gpu_hour: float | None = None
    notes: tuple = ()
    constants: dict = field(default_factory=dict)
    scale: float = 1.0  # what a calibrating row left unexplained

    def at(self, mood):
        """The same box with every interval fixed to one number."""
        return Fixed(self, mood)

    def flops(self, bits):
        """Dense FLOP/s for a computation of `bits`, or of the next wider that the GPU has."""
        return next(
            self.flops_per_s[b] for b in (bits, 8, 16) if b >= bits and b in self.flops_per_s
        )


class Fixed:
    """A box at one mood: plain numbers, and what a message costs."""

    def __init__(self, box, mood):
        self.box, self.mood = box, mood
        self.all_reduce_s = cache(self._all_reduce_s)  # stages and layers ask the same again

    def __getitem__(self, name):
        return between(self.box.constants[name], self.mood)

    @cached_property
    def memory_bytes_per_s(self):
        return self["memory_share"] * self.box.memory_bytes_per_s / self.box.scale

    def flops_per_s(self, bits):
        return self["flops_share"] * self.box.flops(bits) / self.box.scale

    def attention_flops_per_s(self):
        return self["attention_share"] * self.box.flops(16) / self.box.scale

    def _all_reduce_s(self, ranks, payload_bytes):
        """The fastest all-reduce over ranks that fill nodes in order; 0.0 for one rank."""
        if ranks == 1:
            return 0.0
        if ranks > self.box.gpus_per_node or not self.box.link["kernel_us"]:
            return self.ring_s(ranks, payload_bytes) * self.box.scale
        kernel = between(self.box.link["kernel_us"], self.mood) * 1e-6
        line = self.line(self.box.link, ranks)
        fastest = labs.bill().fastest_all_reduce(ranks, payload_bytes, kernel, *line)
        return fastest[1] * self.box.scale

    def ring_s(self, ranks, payload_bytes, share=1.0):
        """`share` is the part of the bus bandwidth inside a node that the ring reaches."""
        c, a, busbw = self.line(self.box.link, min(ranks, self.box.gpus_per_node))
        bill, inside = labs.bill(), (c, a, share * busbw)
        if ranks <= self.box.gpus_per_node:
            return bill.ring_all_reduce_s(ranks, payload_bytes, *inside)
        nodes = ranks // self.box.gpus_per_node
        _, network_a, network = self.line(self.box.network, 2)
        if self.box.gpus_per_node == 1:
            return bill.ring_all_reduce_s(nodes, payload_bytes, *self.line(self.box.network, 2))
        shape = (nodes, self.box.gpus_per_node, payload_bytes)
        return bill.hierarchical_all_reduce_s(*shape, *inside, network_a, network)

    def gather_scatter_s(self, ranks, payload_bytes):
        """An all-gather and a reduce-scatter of payload_bytes: an all-reduce's ring in two calls.

        NCCL's alone: vLLM's own kernels make all-reduces. Over NVLink 3 to 5, where those run, the
        bus bandwidth is a long all-reduce's, to which a switch may add: the two reach a share of
        it. PCIe keeps its own, and a network is taken as PCIe.
        """
        if ranks == 1:
            return 0.0
        link = self.box.link if self.box.gpus_per_node > 1 else self.box.network
        launch = self.line(link, 2)[0]
        share = self["gather_share"] if self.box.link["kernel_us"] else 1.0
        return (self.ring_s(ranks, payload_bytes, share) + launch) * self.box.scale

    def all_to_all_s(self, ranks, payload_bytes):
        """Experts' tokens to all ranks; to those of other nodes over the network."""
        inside = self.box.gpus_per_node
        link = self.box.link if ranks <= inside else self.box.network
        line = self.line(link, min(ranks, 8))
        if ranks > inside:  # DeepEP's copies for this node go by NVLink, beside the others
            payload_bytes *= (ranks - inside) / (ranks - 1)
        return labs.bill().all_to_all_s(ranks, payload_bytes, *line) * self.box.scale

    def hop_s(self, payload_bytes, across_nodes):
        """One activation to the next stage."""
        link = self.box.network if across_nodes else self.box.link
        _, a_s, busbw = self.line(link, 2)
        return (self["hop_us"] * 1e-6 + a_s + payload_bytes / busbw) * self.box.scale

    def line(self, link, ranks):
        """(c, a, bus bandwidth) of a link for so many ranks: lab 03's line, in SI units."""
        now = between(link, self.mood)
        measured = {int(p): speed * 1e9 for p, speed in now["busbw_gb_per_s"].items()}
        return now["c_us"] * 1e-6, now["a_us"] * 1e-6, labs.bill().busbw_at(ranks, measured)


def between(interval, mood):
    """[best, typical, worst] at a mood; straight lines in the logarithm, on beyond both ends.

    Of an object, each interval in it; what is no interval stays.
    """
    if isinstance(interval, dict):
        return {name: between(value, mood) for name, value in interval.items()}
    if not isinstance(interval, list):
        return interval
    if mood in (0.0, 0.5, 1.0):
        return interval[int(2 * mood)]
    if interval[0] == 0:  # no logarithm: straight lines
        best, typical, worst = interval
        return max(
            0.0, typical + (2 * mood - 1) * ((typical - best) if mood < 0.5 else (worst - typical))
        )
    best, typical, worst = map(math.log, interval)
    half = (typical - best) if mood < 0.5 else (worst - typical)
    return math.exp(typical + (2 * mood - 1) * half)


def known_gpus():
    """name or alias -> the row of hardware.json."""
    rows = _shipped()["gpus"].items()
    return {name: row | {"name": key} for key, row in rows for name in [key, *row["aliases"]]}


def known_links():
    return _shipped()["links"]


def box(gpu, nodes=1, gpus_per_node=None, link=None, network="400 GbE", engine="vllm", mine=None):
    """The Box of a GPU's name, with a user's own file over it. ValueError: what is not known."""
    mine = mine or {}
    overrides.check("the box file", mine, may=overrides.BOX)
    rows, links = known_gpus(), known_links() | mine.get("links", {})
    gpu, engine = mine.get("gpu", gpu), mine.get("engine", engine)
    if not gpu:
        raise ValueError("name the GPU: --gpu NAME, or `gpu` in a file of yours (--box)")
    if isinstance(gpu, dict):
        row, gpu = gpu, gpu.get("name", "own GPU")
        overrides.check("the box file's gpu", row, overrides.GPU, overrides.GPU_MAY)
    elif (row := rows.get(gpu.lower().replace(" ", "-").replace("_", "-"))) is None:
        names = ", ".join(dict.fromkeys(r["name"] for r in rows.values()))
        raise ValueError(f"GPU {gpu!r} is none of {names}; describe it in a file of yours (--box)")
    if engine not in ENGINES:
        raise ValueError(f"engine {engine!r} is none of {', '.join(ENGINES)}")
    constants = mine.get("constants", {})
    known = CONSTANTS | ENGINES[engine]
    overrides.check_constants("the box file's constants", constants, known)
    chosen = {"link": mine.get("link") or link or row["link"]}
    chosen["network"] = mine.get("network") or network
    for role, name in chosen.items():
        if not isinstance(name, dict) and name not in links:
            raise ValueError(f"{role} {name!r} is none of {', '.join(links)}")
        found = name if isinstance(name, dict) else links[name]
        overrides.check(role, found, overrides.LINK, overrides.LINK_MAY)
        chosen[role] = {name: found.get(name) for name in ("kernel_us", *overrides.LINK)}
    return Box(
        gpu=row.get("name", gpu),
        reported_bytes=int(row["reported_mib"] * MIB),
        memory_bytes_per_s=row["memory_gb_per_s"] * 1e9,
        flops_per_s={int(bits): tera * 1e12 for bits, tera in row["dense_tflops"].items()},
        gpus_per_node=gpus_per_node or mine.get("gpus_per_node") or row.get("gpus_per_node", 8),
        nodes=nodes,
        engine=engine,
        price_per_gpu_hour=mine.get("price_per_gpu_hour"),
        constants=CONSTANTS | _on_host(ENGINES[engine], row) | constants,
        notes=tuple(row.get("notes", ())),
        **chosen,
    )


def _on_host(engine, row):
    """An engine's constants, its host time on the CPU that a GPU is sold with.

    `host` of hardware.json: how much longer that CPU takes than an H100's. 1.8 for the time of the
    A100: one engine under one load made 3,400 tokens/s on an H100, 1,518 on an A100 (Llama-3.1-8B
    FP8, LambdaLabsML/vllm-benchmark benchmark_v0.md), most of which is the host's time.
    """
    slower, host = row.get("host", 1.0), ("step_us", "sequence_us", "launch_us")
    scaled = {name: [value * slower for value in engine[name]] for name in host if engine[name]}
    return engine | scaled


def measured_link(path):
    """A link from what `make measure-comm` wrote: its fits by ranks; c and a of the fewest."""
    found = overrides.read_json(path)
    fits = found.get("fit") if isinstance(found, dict) else None
    where = f"{path}, from `make measure-comm`,"
    if not isinstance(fits, dict) or not fits or not all(map(str.isdecimal, fits)):
        raise ValueError(f"{where} must have a fit for each number of ranks")
    for fit in fits.values():
        overrides.check(where, fit, overrides.MEASURED)
    least = fits[min(fits, key=int)]
    tiny = 1e-9  # a fit may find no launch time at all
    return {
        "kernel_us": None,
        "c_us": max(least["c_s"], tiny) * 1e6,
        "a_us": max(least["a_s"], tiny) * 1e6,
        "busbw_gb_per_s": {p: fit["busbw_bytes_per_s"] / 1e9 for p, fit in fits.items()},
    }


ORDINARY = 0.3  # moods beside the typical one in which ordinary boxes lie: planner/held_out.py


def calibrated(box, predict, measured):
    """The box, moved just so far that predict(box) meets a measured time inside its interval.

    One row of a box whose mood is ordinary says little about the next row, and moved the shipped
    rows' predictions away from what was measured. So a row moves all constants together, uncertain
    ones most and printed ones not at all, by what it lies beyond the ordinary. Where even the
    utmost mood does not reach, a scale takes the rest. Returns a Box with intervals of +-ORDINARY.
    """
    low, high = -0.5, 1.5
    for _ in range(14):
        mood = (low + high) / 2
        low, high = (mood, high) if predict(fixed_at(box, mood)) < measured else (low, mood)
    mood = (low + high) / 2
    beyond = math.copysign(max(0.0, abs(mood - TYPICAL) - ORDINARY), mood - TYPICAL)
    found = fixed_at(box, TYPICAL + beyond)
    if abs(mood - TYPICAL) < 0.999:
        return found
    return replace(found, scale=box.scale * measured / predict(fixed_at(box, mood)))


def fixed_at(box, mood, width=2 * ORDINARY):
    """A box whose typical mood is `mood`; best and worst stand `width` of the old interval away."""

    def narrow(value):
        if isinstance(value, dict):
            return {name: narrow(inner) for name, inner in value.items()}
        if not isinstance(value, list):
            return value
        return [between(value, mood + step) for step in (-width / 2, 0.0, width / 2)]

    uncertain = ("constants", "link", "network")
    return replace(box, **{name: narrow(getattr(box, name)) for name in uncertain})
