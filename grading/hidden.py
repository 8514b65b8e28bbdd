"""Hidden numbers: what a submission cannot know in advance, derived from the course's secret.

A check draws its inputs, from numpy's generators or from random.Random, and its own oracle judges.
With the secret in the seeds it draws others, of the same shapes. Few checks draw nothing.
"""

import hashlib
import random

import numpy as np

# Whose inputs the secret does not change, with the reason: {lab: {check: why}}.
SAME_FOR_ALL: dict[str, dict[str, str]] = {
    "lab-02": {
        "test_treatment__and_bytes_of_a_live_engine": "an engine's own figures",
        "test_collectives_per_step__of_a_live_engine": "an engine's own figures",
        "test_gemm_reduce_scatter_schedule__and_all_gather_run_on_gloo": "three real processes run "
        "what two other checks judge for drawn numbers of ranks",
    },
    "lab-03": {
        "test_link_bytes_per_s__one_direction": "facts about four links",
        "test_calibrate__predicts_what_was_not_measured": "published measurements, which lie "
        "beside the starter",
    },
}


class Numbers:
    """Mixes a secret into the seeds of every generator that is made while it is set."""

    def __init__(self):
        self.secret = None
        original = np.random.default_rng

        def default_rng(seed=None):
            made = isinstance(seed, (np.random.Generator, np.random.BitGenerator))
            return original(seed if made else self.mixed(seed))

        class Random(random.Random):
            def __new__(cls, seed=None):
                return super().__new__(cls)

            def __init__(this, seed=None):
                super().__init__(self.mixed(seed))

        np.random.default_rng, random.Random = default_rng, Random

    def mixed(self, seed):
        if self.secret is None:
            return seed
        digest = hashlib.sha256(self.secret + repr(seed).encode()).digest()
        return int.from_bytes(digest, "little")
