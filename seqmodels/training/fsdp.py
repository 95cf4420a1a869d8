"""Train a model that does not fit into one process: torch's FSDP2, behind the trainer.

Every process keeps a piece of each weight, cut along its first axis, and of its gradient and
AdamW's moments. The weights of a block are gathered while it computes, and dropped again.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from seqmodels.interface import BOS, EOS, PAD, Batch, SequenceModel
from seqmodels.training.config import TrainConfig
from seqmodels.training.trainer import Piece, Trainer, count_targets, is_out_of_memory, take_rows
from seqmodels.utils.terminal import Stopped, signals_handled_by
from seqmodels.utils.world import LOST, ProcessLostError, world


def shard(model: SequenceModel) -> None:
    """Leave a process only its pieces of a model's weights; gradients are summed, not averaged."""
    warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)  # nothing is in place
    device = next(model.parameters()).device
    mesh = init_device_mesh(device.type, (world().size,))
    for module in [*units(model), model]:
        fully_shard(module, mesh=mesh)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo has no other reduction


def units(model: SequenceModel) -> list[nn.Module]:
    """Return the modules whose weights are gathered by themselves, inner ones first.

    These are the blocks of a stack, unless they are called anew for each token. A part of a block
    that the model calls while the block itself is not at work is a unit of its own, such as the
    products that make the source's keys and values in a decoder. One pass over a tiny batch shows
    which these are. All else is gathered with the model.
    """
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    blocks = [block for stack in stacks for block in stack]
    n_calls, alone = Counter[nn.Module](), dict[nn.Module, list[nn.Module]]()
    with ExitStack() as hooks:
        for block in blocks:
            alone[block] = []
            for handle in watch(block, n_calls, alone[block]):
                hooks.callback(handle.remove)
        call_once(model)
    parts: list[nn.Module] = []
    whole: list[nn.Module] = []
    for block, found in alone.items():
        if all(n_calls[module] == 1 for module in (block, *found)):
            parts, whole = parts + found, [*whole, block]
    return parts + whole[::-1]


def watch(block: nn.Module, n_calls: Counter[nn.Module], alone: list[nn.Module]) -> Iterator[Any]:
    """Count the calls of a block, and of its parts with weights that are called without it."""
    at_work: list[bool] = []

    def enter(*_: Any) -> None:
        n_calls[block] += 1
        at_work.append(True)

    def enter_part(part: nn.Module, _: Any) -> None:
        if not at_work:
            n_calls[part] += 1
            if part not in alone:
                alone.append(part)

    yield block.register_forward_pre_hook(enter)
    yield block.register_forward_hook(lambda *_: at_work.clear())
    for part in block.modules():
        if part is not block and any(True for _ in part.parameters(recurse=False)):
            yield part.register_forward_pre_hook(enter_part)


@torch.no_grad()
def call_once(model: SequenceModel) -> None:
    """Pass two tokens through a model; no random number is drawn."""
    was_training = model.training
    device = next(model.parameters()).device
    src, tgt_in = (torch.tensor([[first, EOS]], device=device) for first in (EOS, BOS))
    model.eval()(src, src != PAD, tgt_in)
    model.train(was_training)


class ShardedTrainer(Trainer):
    """A model in training whose weights are shared out.

    Every forward and backward pass is a message to all processes, so all must make equally many.
    """

    saves_alone = False

    def __init__(self, model: SequenceModel, cfg: TrainConfig):
        shard(model)
        super().__init__(model, cfg)

    def pieces(self, batch: Batch) -> list[Piece]:
        """Return a piece for each of this process's shards; without targets, one that counts zero.

        A batch without any target has no pieces.
        """
        shards = self.cfg.shards
        if not (n_all := count_targets(batch)):
            return []
        found = []
        scored = int((batch.tgt_out != PAD).any(1).nonzero()[0])
        for i in world().mine(range(shards)):
            share = take_rows(batch, i, shards)
            n = count_targets(share)
            share = share if n else take_rows(batch, scored, len(batch.src))
            found.append(Piece(i, self.placed(share), n / n_all))
        return found

    def backward(self, batch: Batch) -> Float[Tensor, ""]:
        """Compute the gradient of the mean loss; return the loss, or NaN without targets.

        Raises ProcessLostError if memory runs out or another process has ended.
        """
        self.optimizer.zero_grad()
        loss = self.no_loss(batch)
        with failures_explained():
            for part in self.parts(batch):
                loss += self.backward_part(*part)
        world().add_up(loss)
        return loss

    def clip(self) -> Tensor:
        """Clip the gradient of the whole model; return its norm before that."""
        gradients = [local(p.grad) for p in self.model.parameters() if p.grad is not None]
        square = torch.nn.utils.get_total_norm(gradients).square()
        world().add_up(square)
        norm = square.sqrt()
        factor = (self.cfg.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor)
        return norm

    @contextmanager
    def stops_agreed(self) -> Iterator[Callable[[bool], bool]]:
        """Hold signals back, and yield what all processes must call after each step.

        It takes whether a checkpoint is due, and returns what the first process says. If any has
        heard a signal, it raises Stopped in all: none can stop, or write a checkpoint, alone.
        """
        heard: list[int] = []

        def agree(is_due: bool) -> bool:
            number, due = world().highest(max(heard, default=0), is_due and world().is_first)
            if number:
                heard.clear()
                raise Stopped(int(number))
            return bool(due)

        with signals_handled_by(lambda number, _: heard.append(number)):
            yield agree
        if heard:  # in the last step
            raise Stopped(heard[0])

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Take over pieces of whole weights."""
        for key, tensor in self.model.state_dict().items():
            whole = weights[key].to(tensor.device)
            if isinstance(tensor, DTensor):
                whole = distribute_tensor(whole, tensor.device_mesh, tensor.placements)
            tensor.copy_(whole)

    def whole(self) -> SequenceModel:
        """Return the model with all of its weights, in every process."""
        with torch.device("meta"):
            model = type(self.model)(self.model.config)  # FSDP's subclass builds the original
        with failures_explained():
            weights = {key: full(tensor) for key, tensor in self.model.state_dict().items()}
        model.load_state_dict(weights, assign=True)
        return model


def local(tensor: Tensor) -> Tensor:
    """Return this process's piece."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def full(tensor: Tensor) -> Tensor:
    """Return the whole of which each process has a piece."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.clone()


@contextmanager
def failures_explained() -> Iterator[None]:
    """Raise ProcessLostError, which ends this process, where memory or another process is lost."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise ProcessLostError(
                "out of memory, and with --fsdp a batch cannot be halved, because the other "
                "processes are in the middle of it; give a larger multiple of the processes to "
                "--shards, choose smaller sizes, or start more processes"
            ) from error
        if isinstance(error, dist.DistError) or "gloo" in str(error):
            raise ProcessLostError(LOST) from error
        raise
