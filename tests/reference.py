"""Federated and split training as plain loops, written from the paper's notes alone, to check the library against.

Nothing here is fast, and nothing is shared with the library: a model is a dictionary of tensors per client, a step is
one call of `torch.autograd.grad`, and what the notes decide is a small function that names the decision's number. The
library gives only what is the input of the arithmetic: which batches, visits and cuts a seed draws.
"""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from smofi.data import batch_order
from smofi.seeds import generator

Tensors = dict[str, Tensor]
Scope = Literal["model", "part"]
Loss = Callable[[Tensor, Tensor], Tensor]
Data = Sequence[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Optimizer:
    """What `torch.optim` calls SGD, Adam and AdamW, with a learning-rate factor per round."""

    kind: Literal["sgd", "adam", "adamw"]
    lr: float
    momentum: float = 0.0
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    lr_decay: float = 1.0


@dataclass(frozen=True)
class Method:
    """All methods as one list of switches; with none of them on it is FedAvg."""

    prox: float = 0.0  # FedProx's mu
    nar: bool = False  # FedNAR, with its decay, bound and scope
    nar_decay: float | None = None
    nar_norm: float = 10.0
    nar_scope: Scope = "model"
    clip_norm: float | None = None
    clip_scope: Scope = "model"
    alpha: float | None = None  # SMoFi's staleness exponent: momentum is fused when given
    carry: bool = False  # FedNAG
    outer: Literal["average", "momentum", "slowmo"] = "average"
    outer_momentum: float = 0.0
    outer_lr: float = 1.0
    server: Literal["surrogates", "visits by step", "visits by client", "merged"] = "surrogates"
    share: Literal["step", "epoch"] | None = None  # how often within a round SFLV1 averages the surrogates
    steps: int | None = None  # the same number of steps on every client
    slowest: bool = False  # MergeSFL: the slowest client's batch is B, not the fastest's


@dataclass
class Replica:
    """A model, or a part of one, and its optimizer: dictionaries by parameter (or statistic) name."""

    weights: Tensors
    statistics: Tensors
    first: Tensors  # SGD's momentum, or Adam's first moment
    second: Tensors  # Adam's second moment
    updates: dict[str, float]  # how often a parameter was updated since its optimizer was reset

    def take(self, other: Replica, names: Collection[str]) -> None:
        """Continue the weights, statistics and optimizer of these names from another replica's."""
        for mine, theirs in zip(self.dictionaries(), other.dictionaries(), strict=True):
            mine.update({name: value for name, value in theirs.items() if name in names})
        for name in self.statistics.keys() & names:  # the only tensors that change in place
            self.statistics[name] = self.statistics[name].clone()

    def reset_optimizer(self, names: Collection[str]) -> None:
        for name in self.weights.keys() & names:
            self.first[name] = torch.zeros_like(self.weights[name])
            self.second[name] = torch.zeros_like(self.weights[name])
            self.updates[name] = 0.0

    def dictionaries(self) -> list[dict[str, Any]]:
        return [self.weights, self.statistics, self.first, self.second, self.updates]


@dataclass
class Client:
    """A client in a round: its own replica of the whole model, its batches, and the names on its two sides."""

    replica: Replica
    size: int
    batch_size: int
    steps: int
    batches: Iterator[tuple[Tensor, Tensor]]
    server_blocks: range
    server_names: set[str]
    client_names: set[str]


@dataclass
class Result:
    """The global model after the last round, and what each round did."""

    weights: Tensors
    statistics: Tensors
    steps: list[list[int]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # the mean over the round's batches


@dataclass
class Round:
    """What the steps of one round need to know, and the losses they leave."""

    blocks: list[tuple[str, nn.Module]]
    method: Method
    optimizer: Optimizer
    loss: Loss
    number: int  # from 0
    seed: int
    epochs: int
    start: Tensors  # the global weights the round started from
    losses: list[float] = field(default_factory=list)

    @property
    def eta(self) -> float:
        """Decision 9: the learning rate decays per round."""
        return self.optimizer.lr * self.optimizer.lr_decay**self.number


def train(
    model: nn.Sequential,
    data: Data,
    method: Method,
    optimizer: Optimizer,
    *,
    selected: Sequence[Sequence[int]],
    cut: Any,
    local_epochs: int,
    batch_size: int,
    seed: int,
    speeds: Sequence[float] | None = None,
    loss: Loss = nn.functional.cross_entropy,
) -> Result:
    """Train one round for each entry of `selected`: the ids, ascending, of the clients that the round drew."""
    if method.carry and optimizer.kind == "sgd":
        optimizer = replace(optimizer, nesterov=True)
    blocks = list(copy.deepcopy(model).train().named_children())
    world = Replica(
        {name: value.detach().clone() for name, value in model.named_parameters()},
        {name: value.clone() for name, value in model.named_buffers() if value.is_floating_point()},
        *({}, {}, {}),
    )
    world.reset_optimizer(world.weights)
    outer_buffer = {name: torch.zeros_like(value) for name, value in world.weights.items()}
    result = Result(world.weights, world.statistics)

    for number, ids in enumerate(selected):
        now = Round(blocks, method, optimizer, loss, number, seed, local_epochs, dict(world.weights))
        cuts = {j: cut_of(j, cut, number, seed) for j in ids}
        batch_sizes = (
            merged_batch_sizes(ids, data, batch_size, speeds, method.slowest) if method.server == "merged" else None
        )
        clients = [enter(now, world, data[j], j, cuts[j], batch_sizes[j] if batch_sizes else batch_size) for j in ids]
        if method.server == "surrogates":
            run_surrogates(now, clients)
        elif method.server == "merged":
            run_merged(now, clients, world)
        else:
            run_visits(now, clients, world)

        shares = aggregation_weights(method, clients)
        replicas = [client.replica for client in clients]
        average = {name: weighted(shares, [r.weights[name] for r in replicas]) for name in world.weights}
        update_globally(world.weights, average, outer_buffer, method, now.eta)
        for name in world.statistics:  # decision 5: averaged like the weights, without any momentum
            world.statistics[name] = weighted(shares, [r.statistics[name] for r in replicas])
        if method.carry:  # decision 14: FedNAG's next round starts from the averaged momentum
            for name in world.weights:
                world.first[name] = weighted(shares, [r.first[name] for r in replicas])
                world.second[name] = weighted(shares, [r.second[name] for r in replicas])
                world.updates[name] = sum(p * r.updates[name] for p, r in zip(shares, replicas, strict=True))
        result.steps.append([client.steps for client in clients])
        result.losses.append(sum(now.losses) / len(now.losses))
    return result


# The beginning and the end of a round


def cut_of(client: int, cut: Any, number: int, seed: int) -> int | tuple[int, int]:
    """Decision 19: one cut for all, one drawn each round from an inclusive range, or each client's own."""
    if isinstance(cut, str):
        low, high = (int(end) for end in cut.split("-"))
        return int(generator(seed, "cut", number).integers(low, high + 1))
    return cut[client] if isinstance(cut, list) else cut


def server_blocks_of(cut: int | tuple[int, int], blocks: int) -> range:
    """The server's blocks: the input block and L core blocks are below them and, in the U shape, H blocks above."""
    below, above = (cut, 0) if isinstance(cut, int) else cut
    return range(below + 1, blocks - above)


def merged_batch_sizes(
    ids: Sequence[int], data: Data, batch_size: int, speeds: Sequence[float] | None, slowest: bool
) -> dict[int, int]:
    """Decision 18: B_i = clamp(round(B * s_i / s_max), 1, |D_i|), or s_min for s_max, over the round's clients."""
    speed = {j: 1.0 if speeds is None else float(speeds[j]) for j in ids}
    unit = sorted(speed.values())[0 if slowest else -1]
    return {j: min(max(round(batch_size * speed[j] / unit), 1), len(data[j][0])) for j in ids}


def enter(
    now: Round,
    world: Replica,
    samples: tuple[Tensor, Tensor],
    client_id: int,
    cut: int | tuple[int, int],
    batch_size: int,
) -> Client:
    """A client at the start of its round. Decision 4: its momentum is the world's, which is zero but for FedNAG."""
    x, y = samples
    steps = now.method.steps if now.method.steps is not None else now.epochs * (len(x) // batch_size)
    order = batch_order(len(x), batch_size, steps, seed=now.seed, round=now.number, client=client_id)
    replica = Replica({}, {}, {}, {}, {})
    names = set(world.weights) | set(world.statistics)
    replica.take(world, names)
    server_blocks = server_blocks_of(cut, len(now.blocks))
    server_names = {name for name in names if block_of(name, now.blocks) in server_blocks}
    return Client(
        replica=replica,
        size=len(x),
        batch_size=batch_size,
        steps=steps,
        batches=iter([(x[torch.as_tensor(rows)], y[torch.as_tensor(rows)]) for rows in order]),
        server_blocks=server_blocks,
        server_names=server_names,
        client_names=names - server_names,
    )


def block_of(name: str, blocks: list[tuple[str, nn.Module]]) -> int:
    return [block for block, _ in blocks].index(name.split(".")[0])


def aggregation_weights(method: Method, clients: list[Client]) -> list[float]:
    """Decision 3: p_j is the client's part of the round's samples; decision 18: MergeSFL weighs by batch size."""
    sizes = [client.batch_size if method.server == "merged" else client.size for client in clients]
    return [size / sum(sizes) for size in sizes]


def weighted(shares: Sequence[float], values: Sequence[Tensor]) -> Tensor:
    total = torch.zeros_like(values[0])
    for share, value in zip(shares, values, strict=True):
        total = total + share * value
    return total


def update_globally(weights: Tensors, average: Tensors, buffer: Tensors, method: Method, eta: float) -> None:
    """Decisions 8, 12 and 13: plain averaging, momentum on the round's change (FedAvgM, SMoFi), or SlowMo."""
    for name, old in list(weights.items()):
        change = old - average[name]
        if method.outer == "average":
            weights[name] = average[name]
        elif method.outer == "momentum":
            buffer[name] = method.outer_momentum * buffer[name] + change
            weights[name] = old - buffer[name]
        elif method.outer == "slowmo":
            buffer[name] = method.outer_momentum * buffer[name] + change / eta
            weights[name] = old - method.outer_lr * eta * buffer[name]


# One step


def forward(
    blocks: list[tuple[str, nn.Module]], which: range, weights: Tensors, statistics: Tensors, x: Tensor
) -> Tensor:
    """Run some blocks in training mode; BatchNorm writes its running statistics into `statistics`."""
    part = nn.Sequential(OrderedDict(blocks[which.start : which.stop]))
    values = {name: v for name, v in {**weights, **statistics}.items() if block_of(name, blocks) in which}
    return functional_call(part, values, (x,))


def leaves_of(weights: Tensors, names: Collection[str]) -> Tensors:
    return {name: weights[name].detach().clone().requires_grad_() for name in weights if name in names}


def train_one_batch(now: Round, client: Client) -> None:
    """One client's gradient through the whole model, on the client and on its server side, and its update."""
    x, y = next(client.batches)
    replica = client.replica
    leaves = leaves_of(replica.weights, replica.weights)
    loss = now.loss(forward(now.blocks, range(len(now.blocks)), leaves, replica.statistics, x), y)
    gradient = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
    now.losses.append(loss.item())
    sides = [client.client_names, client.server_names]
    update_locally(now, replica, shape_gradient(now, gradient, replica.weights, sides))


def shape_gradient(now: Round, gradient: Tensors, weights: Tensors, sides: list[set[str]]) -> Tensors:
    """Decision 6: FedProx, then FedNAR or weight decay, then clipping."""
    method, optimizer = now.method, now.optimizer
    g = {name: value + method.prox * (weights[name] - now.start[name]) for name, value in gradient.items()}
    if method.nar:  # decision 11
        decay = optimizer.weight_decay if method.nar_decay is None else method.nar_decay
        g = {name: value + decay * weights[name] for name, value in g.items()}
        g = bound_norm(g, method.nar_norm, sides if method.nar_scope == "part" else [set(g)])
    elif optimizer.kind != "adamw":
        g = {name: value + optimizer.weight_decay * weights[name] for name, value in g.items()}
    if method.clip_norm is not None:
        g = bound_norm(g, method.clip_norm, sides if method.clip_scope == "part" else [set(g)])
    return g


def bound_norm(gradient: Tensors, bound: float, groups: list[set[str]]) -> Tensors:
    """g *= min(1, bound / |g|), for each group of names alone."""
    bounded = {}
    for group in groups:
        members = {name: value for name, value in gradient.items() if name in group}
        norm = math.sqrt(sum(value.square().sum().item() for value in members.values()))
        scale = min(1.0, bound / norm) if norm > 0 else 1.0
        bounded.update({name: scale * value for name, value in members.items()})
    return {name: bounded[name] for name in gradient}


def update_locally(now: Round, replica: Replica, gradient: Tensors) -> None:
    """One step of torch.optim's SGD, Adam or AdamW on the names that have a gradient."""
    optimizer, eta = now.optimizer, now.eta
    for name, g in gradient.items():
        replica.updates[name] += 1
        w = replica.weights[name]
        if optimizer.kind == "sgd":
            m = optimizer.momentum * replica.first[name] + g
            replica.first[name] = m
            replica.weights[name] = w - eta * (g + optimizer.momentum * m if optimizer.nesterov else m)
        else:
            if optimizer.kind == "adamw" and not now.method.nar:  # FedNAR replaces AdamW's decay too
                w = w - eta * optimizer.weight_decay * w
            (b1, b2), t = optimizer.betas, replica.updates[name]
            m = b1 * replica.first[name] + (1 - b1) * g
            v = b2 * replica.second[name] + (1 - b2) * g * g
            replica.first[name], replica.second[name] = m, v
            replica.weights[name] = w - eta * (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + optimizer.eps)


# A server model for every client: FedAvg, SMoFi, SFLV1


def run_surrogates(now: Round, clients: list[Client]) -> None:
    """Every client trains its own replica; after a step SMoFi fuses momentum, after a step or epoch SFLV1 averages."""
    ages = [0] * len(clients)
    last_moments: list[list[Tensors]] = [[] for _ in clients]
    for active, epoch_ends in schedule(now, clients):
        for j, client in enumerate(clients):
            if j in active:
                train_one_batch(now, client)
                ages[j], last_moments[j] = 0, [dict(client.replica.first), dict(client.replica.second)]
            else:
                ages[j] += 1
        if now.method.alpha is not None:
            fuse(clients, ages, last_moments, now.method.alpha)
        if now.method.share == "step":
            share(clients, active)
        elif now.method.share == "epoch" and epoch_ends:
            share(clients, range(len(clients)))


def schedule(now: Round, clients: list[Client]) -> Iterator[tuple[list[int], bool]]:
    """The clients active at each step, and whether all have finished an epoch. Decision 16: SFLV1(epoch) waits."""
    epochs = now.epochs if now.method.share == "epoch" else 1
    steps = [client.steps // epochs for client in clients]
    for _ in range(epochs):
        for tau in range(max(steps)):
            yield [j for j in range(len(clients)) if tau < steps[j]], tau == max(steps) - 1


def fuse(clients: list[Client], ages: list[int], last_moments: list[list[Tensors]], alpha: float) -> None:
    """SMoFi: m̄ = Σ_j (age_j + 1)^alpha * m_j / |J|, on each name among the clients whose server side holds it.

    Decisions 1, 7 and 19. A finished client's replica takes m̄ as well: it never steps again, and its last moments
    stay as it left them.
    """
    for name in clients[0].replica.weights:
        holders = [j for j, client in enumerate(clients) if name in client.server_names]
        weights = [(ages[j] + 1) ** alpha / len(holders) for j in holders]
        for moment in range(2 if holders else 0):
            fused = weighted(weights, [last_moments[j][moment][name] for j in holders])
            for j in holders:
                replica = clients[j].replica
                (replica.first, replica.second)[moment][name] = fused


def share(clients: list[Client], givers: Collection[int]) -> None:
    """SFLV1: every surrogate continues from the average over the givers, its optimizer reset. Decisions 5 and 16."""
    for name in [*clients[0].replica.weights, *clients[0].replica.statistics]:
        holders = [j for j, client in enumerate(clients) if name in client.server_names]
        holding_givers = [j for j in holders if j in givers]
        if not holding_givers:
            continue
        samples = sum(clients[j].size for j in holding_givers)
        shares = [clients[j].size / samples for j in holding_givers]
        kind = "weights" if name in clients[0].replica.weights else "statistics"
        average = weighted(shares, [getattr(clients[j].replica, kind)[name] for j in holding_givers])
        for j in holders:
            getattr(clients[j].replica, kind)[name] = average.clone()
            clients[j].replica.reset_optimizer([name])


# One server model for all clients: SFLV2, MergeSFL


def run_visits(now: Round, clients: list[Client], world: Replica) -> None:
    """SFLV2: the one server model, its statistics and its optimizer, goes from client to client. Decision 17."""
    server_names = clients[0].server_names
    server = Replica({}, {}, {}, {}, {})
    server.take(world, server_names)
    for j in visits(now, clients):
        clients[j].replica.take(server, server_names)
        train_one_batch(now, clients[j])
        server.take(clients[j].replica, server_names)
    for client in clients:
        client.replica.take(server, server_names)


def visits(now: Round, clients: list[Client]) -> Iterator[int]:
    """The client at each update of the server model."""
    if now.method.server == "visits by client":
        for j in generator(now.seed, "visits", now.number, 0).permutation(list(range(len(clients)))):
            yield from [int(j)] * clients[j].steps
    else:
        for tau, (active, _) in enumerate(schedule(now, clients)):
            yield from (int(j) for j in generator(now.seed, "visits", now.number, tau).permutation(active))


def run_merged(now: Round, clients: list[Client], world: Replica) -> None:
    """MergeSFL: one server model takes one step on all active clients' activations at once. Decision 18."""
    server_names = clients[0].server_names
    server = Replica({}, {}, {}, {}, {})
    server.take(world, server_names)
    for active, _ in schedule(now, clients):
        train_merged_batch(now, [clients[j] for j in active], server)
    for client in clients:
        client.replica.take(server, server_names)


def train_merged_batch(now: Round, active: list[Client], server: Replica) -> None:
    """The merged loss, a mean over all samples, is Σ (B_i/ΣB) * (client i's mean): so it also reads in the U shape."""
    middle = active[0].server_blocks
    below, above = range(middle.start), range(middle.stop, len(now.blocks))
    batches = [next(client.batches) for client in active]
    sizes = [client.batch_size for client in active]
    server_leaves = leaves_of(server.weights, server.weights)
    client_leaves = [leaves_of(client.replica.weights, client.client_names) for client in active]

    activations = [
        forward(now.blocks, below, leaves, client.replica.statistics, x)
        for client, leaves, (x, _) in zip(active, client_leaves, batches, strict=True)
    ]
    slices = forward(now.blocks, middle, server_leaves, server.statistics, torch.cat(activations)).split(sizes)
    loss = torch.zeros((), dtype=slices[0].dtype)
    for client, leaves, piece, (_, y) in zip(active, client_leaves, slices, batches, strict=True):
        output = forward(now.blocks, above, leaves, client.replica.statistics, piece)
        loss = loss + client.batch_size / sum(sizes) * now.loss(output, y)
    now.losses.append(loss.item())

    groups = [server_leaves, *client_leaves]
    flat = iter(torch.autograd.grad(loss, [leaf for leaves in groups for leaf in leaves.values()]))
    gradients = [{name: next(flat) for name in leaves} for leaves in groups]
    server_gradient = shape_gradient(now, gradients[0], server.weights, [set(server_leaves)])
    for client, gradient in zip(active, gradients[1:], strict=True):
        own = {name: value * (sum(sizes) / client.batch_size) for name, value in gradient.items()}
        own = shape_gradient(now, own, client.replica.weights, [client.client_names])
        update_locally(now, client.replica, own)
    update_locally(now, server, server_gradient)


# Small problems to train on


class Weight(nn.Module):
    """Multiplies by one number, which begins at 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


def perceptron() -> nn.Sequential:
    """Four blocks without statistics, 129 parameters: the cut L is 0, 1 or 2."""
    torch.manual_seed(1)
    hidden = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(2)]
    return nn.Sequential(nn.Sequential(nn.Linear(3, 6), nn.Tanh()), *hidden, nn.Linear(6, 3)).double()


def convnet() -> nn.Sequential:
    """Five blocks with BatchNorm in all but the last, 468 parameters: the cut L is 0, 1, 2 or 3."""
    torch.manual_seed(2)

    def block(inputs: int, outputs: int) -> nn.Sequential:
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())

    output = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    return nn.Sequential(block(1, 3), block(3, 4), block(4, 4), block(4, 4), output).double()


def federation(
    shape: Sequence[int], sizes: Sequence[int] = (5, 9, 3, 17, 13, 8), seed: int = 3
) -> list[tuple[Tensor, Tensor]]:
    """Clients of different sizes, each with its own mix of three classes and its own offset: nothing is IID."""
    draw = torch.Generator().manual_seed(seed)
    clients = []
    for size in sizes:
        mix = torch.rand(3, generator=draw) + 0.05
        y = torch.multinomial(mix, size, replacement=True, generator=draw)
        offset = 0.5 * torch.randn(tuple(shape), generator=draw, dtype=torch.float64)
        x = torch.randn((size, *shape), generator=draw, dtype=torch.float64)
        clients.append((x + offset + 0.5 * y.view(-1, *[1] * len(shape)), y))
    return clients
