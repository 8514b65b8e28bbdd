"""Tensor + sequence parallelism in Torch whose communication overlaps its computation.

Read these files, in this order: config, schedule, link, group, parallel_linear, model, train; and
launch, which starts the ranks. Pages of their own: deferred (weight gradients that fill waits),
lost_rank (what a rank says when another is gone), nccl_link and shm_link (other wires).
What checks them: stream_machine (a schedule on a simulated machine), equality, mistakes.
What measures them is in measure/. `config`, `schedule`, `stream_machine` and `launch` import
without torch, so that a laptop that has none can still grade a schedule.
"""
