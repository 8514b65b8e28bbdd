"""Tensor + sequence parallelism in Torch whose communication overlaps its computation.

Read these files, in this order: plain_linear (all of tensor parallelism), model, train; then, for
the overlap, schedule, link, group, parallel_linear; and launch, which starts the ranks. Pages of
their own: deferred (weight gradients that fill waits), lost_rank (what a rank says when another is
gone), nccl_link and simulated_link (other wires). What checks them: stream_machine (a schedule on a
simulated machine), equality, mistakes, replay. What measures them: bench, with dtensor (the peer),
memory and figures. `config`, `schedule`, `stream_machine` and `launch` import without torch, so
that a laptop that has none can still grade a schedule.
"""
