"""What vLLM 0.32.0's CPU build lacks to run experts dealt out: two small patches from outside.

Nothing of it is needed on GPUs. tests/test_lab05_live.py runs vLLM without each of them, and fails
when that works: then it goes.
"""

import inspect

import torch
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator
from vllm.model_executor.layers.fused_moe.experts import cpu_moe
from vllm.platforms import current_platform


def only_mine():
    """An id of an expert that another rank holds counts with weight zero.

    `CPUUnquantizedExperts.apply` ignores `expert_map`, and such an id reads past the weights. The
    rule is that of the vocabulary-parallel embedding: what is not mine adds nothing.
    """
    apply = cpu_moe.CPUUnquantizedExperts.apply
    names = list(inspect.signature(apply).parameters)

    def mine_only(*args, **kwargs):
        given = dict(zip(names, args, strict=False)) | kwargs
        if given.get("expert_map") is not None:
            ids, weights = given["topk_ids"], given["topk_weights"]
            local = given["expert_map"][ids.long()]
            given["topk_ids"] = torch.where(local >= 0, local, 0).to(ids.dtype)
            given["topk_weights"] = torch.where(local >= 0, weights, 0.0).to(weights.dtype)
        return apply(**given)

    cpu_moe.CPUUnquantizedExperts.apply = mine_only


def unequal_parts():
    """Collectives for ranks that bring unequally many tokens, which dispatch and combine need.

    `CpuCommunicator` has none: a gather of padded parts, and a sum of which each keeps its part.
    """

    def all_gatherv(self, input_, dim=0, sizes=None):
        if not isinstance(input_, torch.Tensor):
            return [all_gatherv(self, one, dim, sizes) for one in input_]
        sizes = sizes or [len(input_)] * self.world_size
        padded = input_.new_zeros((max(sizes), *input_.shape[1:]))
        padded[: len(input_)] = input_
        parts = [torch.empty_like(padded) for _ in sizes]
        torch.distributed.all_gather(parts, padded, group=self.cpu_group)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    def reduce_scatterv(self, input_, dim=0, sizes=None):
        sizes = sizes or [len(input_) // self.world_size] * self.world_size
        total = input_.clone()
        torch.distributed.all_reduce(total, group=self.cpu_group)
        return total.split(sizes)[self.rank_in_group].contiguous()

    def reduce_scatterv_into_output(self, input_, output, dim=0, sizes=None):
        return output.copy_(reduce_scatterv(self, input_, dim, sizes))

    for made in (all_gatherv, reduce_scatterv, reduce_scatterv_into_output):
        setattr(CpuCommunicator, made.__name__, made)


PATCHES = {patch.__name__: patch for patch in (only_mine, unequal_parts)}


def mend(without=()):
    """Apply the patches where vLLM runs on a CPU; `without` names those to leave out."""
    if current_platform.is_cpu():
        for name, patch in PATCHES.items():
            if name not in without:
                patch()
