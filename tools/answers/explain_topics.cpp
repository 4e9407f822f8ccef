#include "tools/answers/explain_topics.h"

namespace gpuplan {

namespace {

constexpr ExplainTopic kTopics[] = {
    {"allocator", "allocated, reserved, and why they differ",
     R"(allocated and reserved

  PyTorch asks CUDA for segments and cuts them into blocks (c10/cuda/CUDACachingAllocator.cpp):
    every request is rounded up to 512 B;
    requests up to 1 MiB come from segments of 2 MiB, larger ones below 10 MiB from segments of 20 MiB,
    the rest from a segment of their own, rounded up to 2 MiB;
    the smallest free block that is large enough is taken, and split when enough is left over.
  allocated is what blocks in use charge, reserved is all segments. Freed blocks stay reserved, so reserved
  settles after two or three steps and is what nvidia-smi shows, together with the CUDA context.
  --alloc-conf takes what PYTORCH_ALLOC_CONF takes; --allocator exact has no rounding and no cache.
)"},
    {"categories", "the rows of the breakdown",
     R"(what is alive at the peak

  parameters            weights and biases
  buffers               running statistics and other state without a gradient
  gradients             of parameters; gone at the start of the next step, zero_grad(set_to_none=True)
  optimizer             state that the optimizer keeps: nothing for plain SGD, two tensors a parameter for Adam
  inputs                the batch and its targets
  activations           results of the forward that autograd saved or a Python frame still names
  activation gradients  gradients on their way back
  scratch               workspaces of cuDNN and cuBLAS, buffers of reductions, temporaries of kernels
)"},
    {"confidence", "exact, modelled, assumed",
     R"(how sure a figure is

  exact     follows from PyTorch's rules, and tests compare it with PyTorch byte for byte
  modelled  computed by a model with a stated error, such as cuDNN's choice of workspaces
  assumed   taken on trust, such as the size of a CUDA context that was not measured
  All three hold under what the plan takes on trust: the headline has what decides most (the GPU; tokens packed or not,
  a batch with padding or without, --set packed=0|1 and padded=0|1), JSON lists everything under "assumptions".
)"},
    {"fits", "what fits, what only runs, and batches that fit again",
     R"(what fits

  A step fits a GPU that has as much memory as it needs: what PyTorch's allocator reserves, its cache included, and the
  CUDA context. plan, fit, sweep, layers, check and replay mean the same by it.
  A step that needs a little more may run all the same: PyTorch's allocator gives its cache back to the device and asks
  again. It does not fit, and the exit code is 1, since giving the cache back waits for the GPU and takes time that is
  not modelled, and since the step fails as soon as anything else takes memory, an evaluation for one. plan says that
  it runs, and how often the cache is given back in three steps.
  A larger batch may fit where a smaller one does not: cuDNN chooses another workspace, and the allocator fills gaps.
  The largest batch of fit is the one before the first that does not fit. Of the next 128 batches (16 where several GPUs
  share a step) it names the largest that fits again.
)"},
    {"at-most", "the upper bound of a plan, and what it adds",
     R"(at most

  The estimate is what PyTorch takes by its rules. The bound is what it cannot exceed, given what is not known: the
  estimate and one term for each unknown. With nothing unknown it is the estimate. JSON has it as at_most, with the
  source of each term.
    cudnn_workspaces  convolutions whose workspace was not recorded: another size, a batch between two powers of two, a
                      GPU that stands for a recorded one. The largest of them takes the largest share of its input,
                      output and filter that recordings of its kind, size and GPU have, in segments of its own;
                      between two recorded batches what the forms of both come to; on another GPU the most of H200,
                      A100, RTX 4090 and T4
    cudnn_attempts    of any convolution that cuDNN runs: PyTorch tries its configurations until one runs, and a block may
                      lie elsewhere after one that did not: 1 MiB allocated, a segment of 2 MiB
    slow_convolutions bf16 before Ampere, which PyTorch convolves without cuDNN: columns of one sample twice, copies of the
                      operands and gradients, and cuBLAS's workspace, of the largest such convolution
    tables            Buffer() entries of a spec, planned as made with the model: a model may make them in its first
                      forward, in segments of their own
    context           the CUDA context and libraries, unless --runtime or the GPU's file has them: 943 MiB, all of
                      PyTorch's modules loaded, the highest published reading since 2.0
    nccl              of several GPUs, NCCL's buffers: 2 GiB a communicator, the highest reading
    padding           a spec with the variable padded, unless --set padded=0|1 says which: the plan of the other case,
                      if it is larger. It is planned for that, which takes as long as the plan itself
  Not in it: what other processes hold, torch.backends.cudnn.benchmark=True, and what a script allocates beside the step.
)"},
    {"flops", "what is counted, and how other tools count",
     R"(FLOPs

  1 MAC = 2 FLOP. Convolutions, linear layers and attention products count; bias, norms, activations and pooling
  are a bucket of their own (elementwise_flops). The backward is counted per operation: the weights' gradient
  and the input's, which the first layer does not need.
  --count-as prints what another tool prints for one sample in eval mode:
    fvcore     MAC + 2 batch norm + 5 layer norm + adaptive pooling's input
    ptflops    MAC of modules with biases + norms + ReLU, ReLU6, GELU + pooling; no attention
    thop       MAC of modules + 4 norms + average pooling; no attention
    torchinfo  parameters times positions; no attention
    deepspeed  2 MAC + bias + norms + activations + pooling
    torch      2 MAC (torch.utils.flop_counter)
)"},
    {"precision", "types, autocast, and what a GPU makes of them",
     R"(precision

  --precision fp32|fp64|fp16|bf16   the whole model and its floating-point inputs
  --precision tf32                  fp32 whose matrix products compute in TF32; no byte changes
  --amp fp16|bf16                   torch.autocast: the model stays in fp32, products and convolutions run in the half
                                    type, layer norm, softmax and losses in fp32. A weight's cast is kept until the
                                    forward ends and saved for backward. fp16 comes with GradScaler
  --master fp32                     half-precision weights, of which the optimizer keeps and steps fp32 copies
  --weights int8|int4|fp8           an inference whose weights are stored so
  bf16 and tf32 need compute capability 8.0 (A100), fp8 needs 8.9 (RTX 4090, L4, H100). Where a type is emulated the plan
  comes with a warning, which --strict turns into exit 1; where PyTorch refuses it, into an error.
)"},
    {"saving", "checkpointing, micro-batches, offloading, and what they cost",
     R"(to take less memory

  --micro-batches N           the batch in N parts whose gradients add up; activations are those of one part
  --checkpoint block          each block of a repeat keeps only what it was given and runs again in backward
                              (torch.utils.checkpoint, use_reentrant=False); every=N: each Nth; GLOB: those whose path
                              matches, as in "transformer.h.*"; none: none, also where the model says checkpoint: true
                              (or checkpoint: reentrant, use_reentrant=True, which only a model can say).
                              What runs again is a row of its own, and recompute_flops in JSON
  --optimizer-in-backward     each parameter is stepped, and its gradient freed, as soon as that is there
  --offload optimizer|saved   optimizer state and step, or the tensors saved for backward, on the host; the bytes that
                              cross the link are a row
  --layout nhwc               model and images .to(memory_format=torch.channels_last), with the copies it causes
  --attention NAME            flash, efficient, cudnn or math instead of PyTorch's choice; eager: the model's own code,
                              which keeps the scores
)"},
    {"generation", "prefill, decode, and the cache of keys and values",
     R"(generating text (--mode infer, a model with a variable seq)

  --phase prefill --prompt N                the pass over the prompt, which fills the cache
  --phase decode --prompt N --generate M    the pass of one token a sample at the last of M tokens, the longest context
  --cache dynamic                           keys and values grow by concatenation: old and new are alive at once
  --cache static                            allocated for prompt + generate tokens beforehand
  --cache paged                             in blocks of 16 tokens, as vLLM keeps them
)"},
    {"time", "how long a step takes, and what it waits for",
     R"(time

  The host calls one operation after another, and the GPU runs their kernels in that order: each when it was launched
  and the one before is done.
    compute  matrix products and convolutions take the tile, and the split of the contracted dimension, that is done
             first; the multiprocessors compute one block each at a time, so a last wave that fills few of them costs as
             much as a full one. Tensor cores where the GPU has them for the type; convolutions in fp32 use TF32.
             On tensor cores a convolution of images in NCHW converts them to channels last and back (--layout nhwc
             does not), and a product whose factors' rows are no multiples of 16 bytes (8 numbers of a half type, 4 of
             fp32) waits for its loads
    memory   every tensor that an operation reads or writes, once, at 75 % of the memory's peak
    launch   where kernels are shorter than the host's calls, the GPU waits for the host
  copy is the batch's way to the GPU: --host-copy pinned (pin_memory=True and non_blocking=True), pageable
  (tensor.to("cuda")), overlapped (while the step before runs), none.
  communication, of one GPU of --gpus N, is what it sends and nothing hides: DDP's buckets go while backward runs, the
  last one after it; FSDP2 gathers ahead and reduces behind, but for the root; what the optimizer sends is waited for.
  Copies of gradients and parameters into the collectives' buffers and back are in it.
  layers --time tries what would make the step faster: precision, layout, sizes, the batch, each planned and timed as
  changed. layers --roofline has each layer beside what its FLOP a byte allow.
  MFU is the model's FLOPs a second, without what is computed again, over the peak of the type that most of them have.
  gpuplan calibrate measures a GPU; a plan for its file takes those measurements first.
)"},
    {"loop", "when the output and the loss are let go",
     R"(the training loop

  plain      for x, y in data: out = model(x); loss = criterion(out, y); loss.backward(); optimizer.step()
             out and loss live until they are bound again, so the last output is alive in the next forward
  function   the step is a function: its names go when it returns
  loss_only  loss = criterion(model(x), y): the output goes once the loss is computed
  In --mode infer the output is gone before the next forward unless --loop plain is given.
)"},
    {"files", "what is read and written, and how",
     R"(files

  Where a file is read, a pipe may stand: gpuplan plan <(python3 tools/python/gpuplan ...), and - for standard input.
  A pipe is read once. One that sends nothing for 10 minutes is given up: exit code 4.
  What -o and the like write is written beside its place, synced and renamed: a full disk, ulimit -f or a signal
  leaves the old file. Pipes and devices are written through, and so are /dev/stdout, /dev/fd/N and the targets of
  symbolic links. A file that cannot be renamed, as a container's mount of one file, is written in place.
  A model, a budget, a trace or a script is not replaced: exit code 2, unless --force is given. import and init
  also keep a file that has been edited.
)"},
};

}  // namespace

std::span<const ExplainTopic> explain_topics() { return kTopics; }

}  // namespace gpuplan
