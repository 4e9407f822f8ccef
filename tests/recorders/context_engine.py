"""Context parallelism of torch.distributed.tensor for several_gpus.py, as transformers' Trainer and Accelerate call it.

Ranks that are neighbours have the same samples and a part of their tokens each. A batch is cut in place when a step begins: tokens, labels,
shifted labels and positions (Trainer._prepare_context_parallel_inputs); of it a loader has made a new one, so that nothing is restored.
What is cut reads as zeros here, and positions decide whether transformers makes a mask: they are said to be the rank's.
"""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel


def positions_of(rank, ranks, tokens):
    """_HeadTailLoadBalancer's: chunk `rank` from the front and one from the back, where there are as many."""
    if tokens % (2 * ranks):
        return torch.arange(tokens).chunk(ranks)[rank]
    chunks = torch.arange(tokens).chunk(2 * ranks)
    return torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])


def answer_with_positions(rank, ranks, tokens):
    """find_packed_sequence_indices asks a tensor on the GPU whether nothing is packed: it is told what is so."""
    from transformers import masking_utils
    look, ask = masking_utils.find_packed_sequence_indices, torch.Tensor.__bool__
    steps = positions_of(rank, ranks, tokens).diff()
    count_up = bool((steps == 1).all())

    def find_packed_sequence_indices(position_ids):
        torch.Tensor.__bool__ = lambda tensor: (ask(tensor), count_up)[1]
        found = look(position_ids)
        torch.Tensor.__bool__ = ask
        return found

    masking_utils.find_packed_sequence_indices = find_packed_sequence_indices


class Context:
    def __init__(self, ranks, tensor, samples=None):
        self.samples = samples  # of a step of a pipeline
        sizes = (dist.get_world_size() // ranks // tensor, ranks, tensor)
        self.mesh = init_device_mesh("cuda", sizes, mesh_dim_names=("dp", "cp", "tp"))["cp"]
        self.tokens = None

    def batch(self, tokens, labels=None):
        """A new one of each step; of an inference tokens and positions alone."""
        if self.tokens is None:
            answer_with_positions(self.mesh.get_local_rank(), self.mesh.size(), tokens.shape[1])
        self.tokens = tokens.shape[1]
        batch = {"input_ids": tokens.clone()}
        if labels is not None:
            batch["labels"] = labels.clone()
            shifted = nn.functional.pad(batch["labels"], (0, 1), value=-100)
            batch["shift_labels"] = shifted[:, 1:].contiguous()
        batch["position_ids"] = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape[0], -1)
        return batch

    def of_stage(self, batch, first, last):
        """What a stage of a pipeline is given anew in each step: tokens, shifted labels, and positions of all samples."""
        samples = self.samples
        if self.tokens is None:
            self.tokens = 1024
            answer_with_positions(self.mesh.get_local_rank(), self.mesh.size(), self.tokens)
        tokens = (batch[0].clone(),) if first else ()
        labels = nn.functional.pad(batch[-1], (0, 1), value=-100)[:, 1:].contiguous() if last else None
        return tokens, labels, {"position_ids": torch.arange(self.tokens, device="cuda").expand(samples, -1)}

    def cut_stage(self, tokens, labels, positions):
        of_labels = {} if labels is None else {"labels": labels}
        return self.cut(dict(enumerate(tokens)) | of_labels | positions)

    def cut(self, batch):
        buffers = list(batch.values())
        return context_parallel(self.mesh, buffers=buffers, buffer_seq_dims=[1] * len(buffers), no_restore_buffers=set(buffers))
