"""The book's figures: each function returns one `<figure>` drawn from the labs' own numbers."""
# ruff: noqa: F401

import inspect
import re

from labbook.markdown import pick

from .choice import against_replicas, three_machines
from .collective import collectives, hierarchy, sequence_parallel, ways_to_all_reduce
from .cost import decode_share, dispatch, protocols, regimes, roofline
from .engine import lockstep, messages_of_a_step, process_tree, token_path, tuesday
from .memory import gpu_memory, kv_heads, weights_per_rank
from .overlap import overlap, recorded, steps_compared
from .overview import five_ways
from .pipeline import bubble_curves, decode_loop, schedules, straggler, two_nodes, users_served
from .sharding import column_row, mlp, ring


def draw(call: str) -> str:
    """`ring(4)` or `mlp` -> the figure; BookError when there is none of that name."""
    known = {name: one for name, one in globals().items() if inspect.isfunction(one)}
    pick(known, re.match(r"\w*", call)[0], "figure")
    return eval(call if "(" in call else f"{call}()", known)
