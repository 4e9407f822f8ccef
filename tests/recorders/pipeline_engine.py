"""A stage of torch.distributed.pipelining for several_gpus.py, of the models of transformers.

A rank has the embedding (the first), some of the blocks, the norm and the head (the last); blocks are shared as evenly as they
can be, the first stages have one more. Words of a kind: gpipe, 1f1b, interleaved1f1b, loopedbfs, interleavedzerobubble, zbvzerobubble and dualpipev with stagesN (so many stages a rank), accN (so many
micro-batches), drop
(step(return_outputs=False)), static (shapes are given, so that nothing is run to infer them), bf16, block, op, shardsN (FSDP2 over the N ranks of a
stage, as torchtitan has it with pipelines: not resharded after the forward, but with reshard; hsdp2: two replicas of them), with a policy as in
pp+bf16+fp32_shards8, cpN (the tokens of a sample are
shared over N of the ranks of a stage, as torchtitan has it: context_parallel() is around the step, and each stage is given positions), tpN (layers are shared over N ranks as transformers does it; sequence: as parallelize_module does it, and loss: with its loss).
Hidden states of a sequence are DTensors between stages, which send what is local of them, and are told the placements.

One imagined rank has no neighbours: what they would say about the shapes of what they send is filled in here, in a tensor of the
size that they would have sent.
"""
import contextlib
import copy
import gc
import itertools
import pickle
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleDualPipeV, ScheduleInterleavedZeroBubble, \
    ScheduleLoopedBFS, ScheduleZBVZeroBubble
from torch.distributed.pipelining import _utils as shapes
from torch.distributed.pipelining.schedules import PipelineScheduleMulti
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import loss_parallel

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved1f1b": ScheduleInterleaved1F1B, "loopedbfs": ScheduleLoopedBFS,
             "interleavedzerobubble": ScheduleInterleavedZeroBubble, "zbvzerobubble": ScheduleZBVZeroBubble, "dualpipev": ScheduleDualPipeV}


def blocks_of(stage, stages, blocks):
    even, more = divmod(blocks, stages)
    begin = stage * even + min(stage, more)
    return begin, begin + even + (stage < more)


class Stage(nn.Module):
    def __init__(self, model, stage, stages):
        super().__init__()
        begin, end = blocks_of(stage, stages, len(model.model.layers))
        self.first, self.last = stage == 0, stage + 1 == stages
        self.model, self.head = model.model, model.lm_head if self.last else None
        self.model.layers = nn.ModuleList(list(self.model.layers)[begin:end])
        if not self.first:
            self.model.embed_tokens = None
        if not self.last:
            self.model.norm = nn.Identity()

    def forward(self, given, **positions):
        hidden = self.model(**{"input_ids" if self.first else "inputs_embeds": given}, **positions, use_cache=False).last_hidden_state
        return self.head(hidden) if self.last else hidden


def said_of(shape, dtype, mesh, requires_grad):
    """Of a tensor; with a mesh, of a DTensor whose tokens lie along it."""
    strides = lambda sizes: torch.empty(sizes, device="meta").stride()
    if mesh is None:
        return shapes._TensorMeta(shape=torch.Size(shape), stride=strides(shape), dtype=dtype, requires_grad=requires_grad)
    part = (shape[0], shape[1] // mesh.size(), shape[2])
    return shapes._DTensorMeta(shape=torch.Size(part), stride=strides(part), dtype=dtype, requires_grad=requires_grad, global_shape=torch.Size(shape),
                               global_stride=strides(shape), placements=(Shard(1),), mesh_dim_names=mesh.mesh_dim_names, mesh_layout=mesh._layout)


def answer_for_neighbours(hidden, dtype, forwards, mesh):
    """What recv_object_list is told where another rank would have sent it: of the hidden states of so many stages first."""
    answers = [shapes._StageForwardMeta(forward_metas=(said_of(hidden, dtype, mesh, True),))] * forwards
    backward = shapes._StageBackwardMeta(backward_metas=(said_of(hidden, dtype, mesh, False),))

    def received(objects, src=None, group=None, device=None, group_src=None, use_batch=False):
        says = answers.pop(0) if answers else backward
        size = len(pickle.dumps(says))
        sizes = torch.empty(len(objects), dtype=torch.long, device=device)
        there = torch.empty(size, dtype=torch.uint8, device=device)
        for tensor in (sizes, there):
            if use_batch:
                for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, tensor, src, group)]):
                    work.wait()
        there[:size].cpu()
        objects[0] = says

    return received


class Engine:
    def __init__(self, model, kind, size, in_parallel, in_sequence, by_operator):
        shards, tensor, each = kind.number("shards"), kind.number("tp"), kind.number("stages")
        replicas = kind.number("hsdp")
        sizes = (dist.get_world_size() // shards // tensor, replicas, shards // replicas, tensor)
        mesh = init_device_mesh("cuda", sizes, mesh_dim_names=("pp", "replicate", "shard", "tp"))
        ranks = mesh["pp"].size()
        stages = ranks * each
        place = mesh["pp"].get_local_rank()
        numbers = (place, stages - 1 - place) if {"zbvzerobubble", "dualpipev"} & set(kind.names) else range(place, stages, ranks)
        self.first, self.last = 0 in numbers, stages - 1 in numbers
        config, loss = model.config, model.loss_function
        copies = [model, *(copy.deepcopy(model) for _ in numbers[1:])]
        for part in copies:
            if "tp" in kind:
                in_sequence(part, mesh["tp"], kind) if "sequence" in kind else in_parallel(part, mesh["tp"])
            if "op" in kind:
                by_operator(part, list(part.model.layers))
            if "block" in kind:
                part.gradient_checkpointing_enable()
            if "cp" in kind:
                from accelerate.big_modeling import _attach_context_parallel_hooks
                _attach_context_parallel_hooks(part)
        self.modules = [Stage(part, stage, stages) for part, stage in zip(copies, numbers)]
        for module in self.modules:
            if "shards" in kind:
                more = {"mesh": mesh["replicate", "shard"] if replicas > 1 else mesh["shard"], "mp_policy": MixedPrecisionPolicy(*kind.policy), "reshard_after_forward": "reshard" in kind}
                for block in module.model.layers:
                    fully_shard(block, **more)
                fully_shard(module, **(more | {"reshard_after_forward": None if "reshard" in kind else False}))
            module.to_empty(device="cuda")
        micro_batches = kind.number("acc")
        hidden = (size, 1024 // kind.number("cp"), config.hidden_size)
        tokens = torch.empty(hidden[:2], dtype=torch.int64, device="meta")
        states = torch.empty(hidden, device="meta", requires_grad=True)
        logits = torch.empty((*hidden[:2], config.vocab_size), device="meta", requires_grad=True)

        def stage_of(module, number):
            more = {"input_args": tokens if module.first else states, "output_args": logits if module.last else states}
            return PipelineStage(module, number, stages, torch.device("cuda"), group=mesh["pp"].get_group(), **(more if "static" in kind else {}),
                                 get_mesh=lambda names, layout: mesh["tp"])

        self.stages = [stage_of(module, number) for module, number in zip(self.modules, numbers)]
        chosen = SCHEDULES[next(name for name in kind.names if name in SCHEDULES)]
        several = issubclass(chosen, PipelineScheduleMulti)
        self.schedule = chosen(self.stages if several else self.stages[0], micro_batches,
                               loss_fn=lambda logits, labels: loss(logits, labels, vocab_size=config.vocab_size, **({"shift_labels": labels} if "cp" in kind else {})))
        self.returns = "drop" not in kind
        self.around = loss_parallel if "loss" in kind else contextlib.nullcontext
        initialize = "_initialize_stages" if several else "_initialize_stage"
        infer = getattr(self.schedule, initialize)

        def infer_and_collect(*arguments, **more):
            """A cycle holds a tensor of the inference until Python looks for cycles, sometime in the forward after it."""
            infer(*arguments, **more)
            gc.collect()

        setattr(self.schedule, initialize, infer_and_collect)
        asks = sum(stage > 0 and stage - 1 not in numbers for stage in numbers)
        along = mesh["tp"] if "sequence" in kind else None
        received = answer_for_neighbours(hidden, (kind.policy or [None])[0] or torch.get_default_dtype(), asks, along)
        distributed_c10d.recv_object_list = dist.recv_object_list = received

    def parameters(self):
        return itertools.chain(*(module.parameters() for module in self.modules))

    def run(self, batch, meter, context=None):
        """One step's micro-batches. "forward" ends when the first gradient is asked for."""
        begun = []

        def begins_backward(function):
            def first(*arguments, **more):
                if not begun:
                    meter("forward")
                begun.append(function)
                return function(*arguments, **more)

            return first

        for stage in self.stages:
            stage.get_bwd_recv_ops, stage.backward_one_chunk = begins_backward(stage.get_bwd_recv_ops), begins_backward(stage.backward_one_chunk)
        if context is None:
            inputs, labels, positions = batch[:1] if self.first else (), batch[-1] if self.last else None, {}
        else:
            inputs, labels, positions = context.of_stage(batch, self.first, self.last)
        losses = []
        with self.around(), context.cut_stage(inputs, labels, positions) if context else contextlib.nullcontext():
            if self.last:
                self.schedule.step(*inputs, target=labels, losses=losses, return_outputs=self.returns, **positions)
            else:
                self.schedule.step(*inputs, return_outputs=self.returns, **positions)
        del inputs, labels, positions
        for stage in self.stages:
            del stage.get_bwd_recv_ops, stage.backward_one_chunk
        time.sleep(0.1)  # the thread that ran the last autograd.grad() may hold its results a little longer than who asked for them
        meter("backward")
