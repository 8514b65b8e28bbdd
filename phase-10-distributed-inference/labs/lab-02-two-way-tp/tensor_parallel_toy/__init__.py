"""Tensor + sequence parallelism in Torch whose communication overlaps its computation.

Reading order: config, schedule, stream_machine, link, parallel_linear, model, train. Then what
measures and checks them: equality, mistakes; plan, profile_run, trace; dtensor is the peer.
`config`, `schedule`, `stream_machine` and `initialize` import without torch, so that a laptop that
has none can still grade a schedule.
"""
