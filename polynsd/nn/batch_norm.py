"""Batch normalisation of states `[N, width]`, for replicas under `torch.vmap`.

    y = w (x − μ) / √(σ² + ε) + b,  μ and σ² over the nodes

PyTorch's own operation moves replicas behind the nodes first, which copies every state there and back.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from polynsd.errors import ShapeError


class BatchNorm(nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d`, with the same parameters, buffers and numbers up to rounding."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    momentum: float

    def forward(self, input: Tensor, is_counted: bool = True) -> Tensor:  # noqa: A002
        """Args:
        input: `[N, width]`.
        is_counted: whether the running statistics take it in.
        """
        x = input.to(self.weight.dtype)  # statistics of half precision would be coarse
        if x.dim() != 2:
            raise ShapeError(
                f"norm='batch' takes one state [N, D, C], or replicas under torch.vmap; got {x.dim() - 2} "
                "leading dimensions. Use norm='layer', or call the layer once per replica."
            )
        if not self.training:
            return self._standardize(x, self.running_mean, self.running_var).to(input.dtype)
        if len(x) < 2:
            raise ShapeError("norm='batch' needs two nodes or more in training; got one. Use norm='layer'.")
        var, mean = torch.var_mean(x, 0, correction=0)
        if is_counted:
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                unbiased = var * (len(x) / (len(x) - 1))
                for running, seen in ((self.running_mean, mean), (self.running_var, unbiased)):
                    running.mul_(1 - self.momentum).add_(self.momentum * seen)
        return self._standardize(x, mean, var).to(input.dtype)

    def _standardize(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return torch.addcmul(self.bias, x - mean, self.weight * torch.rsqrt(var + self.eps))
