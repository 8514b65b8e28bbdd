"""One training step, the same for every mode: mean loss over all tokens, whole gradients."""

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def make_batch(config, device="cpu"):
    """tokens and labels [s, b]: sequences that count upwards in steps of 1 to 3, easy to learn."""
    generator = torch.Generator().manual_seed(config.seed + 1)
    start = torch.randint(config.vocab_size, (config.batch_size,), generator=generator)
    step = torch.randint(1, 4, (config.batch_size,), generator=generator)
    position = torch.arange(config.seq_len + 1)[:, None]
    full = ((start + step * position) % config.vocab_size).to(device)
    return full[:-1].clone(), full[1:].clone()


def local_positions(full, tp):
    """This rank's s/p positions of [s, ...]."""
    return full if tp is None else full.chunk(tp.size)[tp.rank].clone()


def loss_sum(model, tokens, labels, tp):
    """Our share of the mean over ALL s*b tokens: with the mean over our own s/p, every gradient
    would come out p times too large (and Adam would hide it)."""
    logits = model(local_positions(tokens, tp))
    mine = local_positions(labels, tp)
    nll = logits.logsumexp(-1) - logits.gather(-1, mine[..., None]).squeeze(-1)
    return nll.sum() / labels.numel()


def reduce_replicated(model, tp):
    """Sum the gradients of replicated parameters in one all-reduce: each rank saw s/p positions."""
    if tp is None:
        return
    gradients = [parameter.grad for parameter in model.replicated()]
    bucket = parameters_to_vector(gradients)
    dist.all_reduce(bucket, group=tp.group)
    vector_to_parameters(bucket, gradients)


def gradient_norm(parameters, replicated, tp):
    """Norm over the whole model: sharded squares are summed over ranks, replicated ones are not."""
    replicated = {id(parameter) for parameter in replicated}
    squares = torch.zeros(2, dtype=torch.float64, device=parameters[0].device)
    for parameter in parameters:
        gradient = parameter.grad
        local = gradient.to_local() if hasattr(gradient, "to_local") else gradient
        norm = torch.linalg.vector_norm(local)
        squares[int(id(parameter) in replicated)] += norm.double() ** 2
    if tp is not None:
        dist.all_reduce(squares[:1], group=tp.group)
    return squares.sum().sqrt()


def train_step(model, optimizer, tokens, labels, tp, settle=None):
    """(loss, gradient norm) of one step; the norm is taken before the gradients are cleared.

    settle(model): completes gradients, if some are pending, and says what else is replicated.
    """
    optimizer.zero_grad()
    loss = loss_sum(model, tokens, labels, tp)
    loss.backward()
    whole = settle(model) if settle else []
    reduce_replicated(model, tp)
    norm = gradient_norm(list(model.parameters()), [*model.replicated(), *whole], tp)
    optimizer.step()
    total = loss.detach().double()
    if tp is not None:
        dist.all_reduce(total, group=tp.group)
    return total, norm
