"""The published NSD and PolyNSD from their description alone: dense matrices, loops, nothing of the library.

Stalks have the learned coordinates first and the fixed ones last. Weights are read by their names
in a model's state dict.
"""

import torch
from torch.nn.functional import elu, linear


def householder(parameters, d):
    """H_1 … H_d for the columns of I + strict lower triangle."""
    V, Q = torch.eye(d, dtype=parameters.dtype), torch.eye(d, dtype=parameters.dtype)
    V[tuple(torch.tril_indices(d, d, -1))] = parameters
    for v in V.mT:
        Q = Q @ (torch.eye(d, dtype=Q.dtype) - 2 * torch.outer(v, v) / v.dot(v))
    return Q


def inverse_root(M):
    """M^{−1/2}."""
    values, Q = torch.linalg.eigh(M)
    return Q @ torch.diag(values.rsqrt()) @ Q.mT


class PublishedModel:
    """One of the published models with given weights, without dropout.

    Args: weights: a state dict. maps: diagonal, orthogonal or general. d: learned stalk dimension.
        fixed: signs of the off-diagonal entries of the fixed coordinates: +1 (D + A), −1 (D − A).
        polynomial: PolyNSD, else NSD.
    """

    def __init__(self, weights, maps, d, fixed, polynomial):
        self.weights, self.maps, self.d, self.fixed, self.polynomial = weights, maps, d, fixed, polynomial
        self.D = d + len(fixed)

    def __call__(self, x, pairs):
        """Logits."""
        w = self.weights
        h = elu(linear(x, w["encoder.weight"], w["encoder.bias"]))
        if "second.weight" in w:
            h = linear(h, w["second.weight"], w["second.bias"])
        Z = h.reshape(len(x), self.D, -1)
        num_layers = sum(name.endswith("epsilon") for name in w)
        for index in range(num_layers):
            Z = self.layer(Z, pairs, f"layers.{index}.")
        return linear(Z.flatten(1), w["decoder.weight"], w["decoder.bias"])

    def layer(self, Z, pairs, at):
        """One step, in the order of operations of each family."""
        w, L, X = self.weights, self.laplacian(Z.flatten(1), pairs, at), Z
        if not (self.polynomial and self.maps == "diagonal"):
            X = w[at + "stalk_mixing"] @ X @ w[at + "channel_mixing"].mT
        return (1 + torch.tanh(w[at + "epsilon"])) * Z - elu(self.filtered(L, X, Z, at))

    def filtered(self, L, X, Z, at):
        """L X for NSD, else p(L − I) X + α (Z − L X / 2) with λ_max = 2."""
        LX = (L @ X.flatten(0, 1)).reshape(Z.shape)
        if not self.polynomial:
            return LX
        p = self.polynomial_matrix(L, self.weights[at + "filter.theta"].softmax(0))
        return (p @ X.flatten(0, 1)).reshape(Z.shape) + self.weights[at + "filter.alpha"] * (Z - LX / 2)

    def polynomial_matrix(self, L, theta):
        """Σ θ_k T_k(L − I)."""
        eye = torch.eye(len(L), dtype=L.dtype)
        T = [eye, L - eye]
        while len(T) < len(theta):
            T.append(2 * (L - eye) @ T[-1] - T[-2])
        return sum(weight * matrix for weight, matrix in zip(theta, T, strict=False))

    def restriction(self, x_v, x_u, at):
        """F_{v⊴e} from [x_v ‖ x_u]."""
        pair, reverse = torch.cat([x_v, x_u]), torch.cat([x_u, x_v])
        raw = torch.tanh(self.weights[at + "learner.maps.linear.weight"] @ pair)
        if self.maps == "diagonal":
            return torch.diag(raw)
        if self.maps == "general":
            return raw.reshape(self.d, self.d)
        score = self.weights[at + "learner.weights.linear.weight"][0]
        return torch.sigmoid(score @ pair) * torch.sigmoid(score @ reverse) * householder(raw, self.d)

    def laplacian(self, x, pairs, at):
        """(D + I)^{−1/2} L (D + I)^{−1/2} as one matrix."""
        n, d, D = len(x), self.d, self.D
        L = torch.zeros(n, D, n, D, dtype=x.dtype)
        for u, v in pairs:
            F_u, F_v = self.restriction(x[u], x[v], at), self.restriction(x[v], x[u], at)
            L[u, :d, u, :d] += F_u.mT @ F_u
            L[v, :d, v, :d] += F_v.mT @ F_v
            L[u, :d, v, :d] -= F_u.mT @ F_v
            L[v, :d, u, :d] -= F_v.mT @ F_u
            for i, sign in enumerate(self.fixed, start=d):
                L[u, i, u, i] += 1
                L[v, i, v, i] += 1
                L[u, i, v, i] = L[v, i, u, i] = sign
        S = torch.block_diag(*[inverse_root(L[v, :, v] + torch.eye(D)) for v in range(n)])
        return S @ L.reshape(n * D, n * D) @ S
