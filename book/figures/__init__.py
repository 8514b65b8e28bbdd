"""The book's figures: each function returns one `<figure>` drawn from the labs' own numbers."""
# ruff: noqa: F401

import inspect
import re
from html import escape

from labbook.markdown import pick

from . import tables, times
from .choice import against_replicas
from .collective import collectives, hierarchy, sequence_parallel, ways_to_all_reduce
from .cost import dispatch, roofline, second_box, two_launches
from .engine import annotated_log, lockstep, messages_of_a_step, process_tree, token_path, tuesday
from .experts import caches, joined, moe_steps, reach, skew, three_layers
from .hangs import drift
from .memory import gpu_memory, kv_heads, weights_per_rank
from .overlap import overlap, prefill_halves, recorded
from .overview import five_ways
from .pipeline import bubble_curves, decode_loop, schedules, straggler, two_nodes
from .pools import two_pools
from .sharding import column_row, mlp, ring
from .times import where_the_time_goes


def draw(call: str) -> str:
    """`ring(4)` or `mlp` -> the figure; BookError when there is none of that name.

    `straggler | lab-04`: with a switch below it that draws it by the reader's own functions.
    """
    call, _, lab = call.partition(" | ")
    known = {name: one for name, one in globals().items() if inspect.isfunction(one)}
    found = pick(known, re.match(r"\w*", call)[0], "figure")
    call = call if "(" in call else f"{call}()"
    drawn = eval(call, known)
    if not lab:
        return drawn
    figure = escape(f"{found.__module__.partition('.')[2]}.{call}", quote=True)
    return f'{drawn}<lab-redraw lab="{lab}" figure="{figure}"></lab-redraw>'
