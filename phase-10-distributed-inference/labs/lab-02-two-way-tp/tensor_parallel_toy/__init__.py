"""Tensor + sequence parallelism in Torch whose communication overlaps its computation.

Reading order: config, schedule, stream_machine, link, parallel_linear, model, train, profile.
`schedule` and `stream_machine` need the standard library only; nothing here imports torch before
it is used, so that a laptop without torch can still grade a schedule.
"""
