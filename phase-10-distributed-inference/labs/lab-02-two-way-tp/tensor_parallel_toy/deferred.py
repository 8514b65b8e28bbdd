"""Weight gradients that backward leaves for later: the advanced page, read it last.

In backward the layer below waits for dx and nobody waits for dw until the optimizer runs. So a
schedule's operations after ["later"] are left here, and the next layer that is about to wait
(["fill"]) does them instead of idling. Autograd knows nothing of that: it wants each gradient when
the layer's backward returns. Hence two calls that torch does not document:

- `torch.autograd.Variable._execution_engine.queue_callback(f)` runs f when the current backward
  ends; torch's own DistributedDataParallel and FSDP finish their gradients that way. Here f does
  what is left and adds every dw to weight.grad.
- `torch._C._current_graph_task_id()` is -1 outside a backward. A forward inside one is an
  activation checkpoint; a forward outside one means that nothing may be left any more, except by a
  backward that raised, whose gradients must not end up in the next one's.

If a torch without these names comes, the first forward or backward ends in an AttributeError that
names the missing one, and tests/test_toy_equality.py fails before that. The way back is short: let
`deliver` call `finish` and return its gradient, as it does for computed weights, and let
`forget_failed_backward` do nothing. Everything stays right; less is hidden.
"""

import torch


class Deferred:
    """What one rank's layers have left for later, and the gradients that it completes."""

    def __init__(self):
        self.unfinished, self.gradients = [], []

    def leave(self, function):
        self.unfinished.append(function)

    @torch.no_grad()  # it writes into results that autograd already knows
    def finish(self):
        """Everything that backward schedules have left for later, the oldest first."""
        while self.unfinished:
            self.unfinished.pop(0)()

    def deliver(self, weight, gradient):
        """Add `gradient`, which `finish` completes, to weight.grad when backward ends.

        Autograd would look at it at once. So hooks on the accumulation do not see it, and
        `torch.autograd.grad` cannot return it. A weight that was computed from others cannot wait:
        its gradient is returned for autograd to carry on.
        """
        if not weight.is_leaf:
            self.finish()
            return gradient
        if weight.requires_grad:
            self.gradients.append((weight, gradient))
        torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        return None

    def forget_failed_backward(self):
        """End a backward that raised: its gradients would end up in the next one's."""
        if torch._C._current_graph_task_id() == -1:  # else a checkpoint recomputes in backward
            try:
                self.finish()  # no buffer may be freed while its message is in flight
            finally:
                self.unfinished.clear()
                self.gradients.clear()

    def _end_backward(self):
        self.finish()
        while self.gradients:
            weight, gradient = self.gradients.pop(0)
            weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)
