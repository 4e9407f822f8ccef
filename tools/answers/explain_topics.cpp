#include "tools/answers/explain_topics.h"

namespace gpuplan {

namespace {

constexpr ExplainTopic kTopics[] = {
    {"allocator", "allocated and reserved memory, and why they differ",
     R"(allocated and reserved

  PyTorch gets segments from CUDA and cuts them into blocks (c10/cuda/CUDACachingAllocator.cpp):
    every request is rounded up to a multiple of 512 B;
    requests up to 1 MiB come from segments of 2 MiB, larger ones below 10 MiB from segments of 20 MiB,
    and all others from a segment of their own, rounded up to a multiple of 2 MiB;
    the smallest free block that is large enough is used, and split if enough is left over.
  allocated is the size of all blocks in use, reserved the size of all segments. Freed blocks stay reserved, so
  reserved stops growing after two or three steps; with the CUDA context it is what nvidia-smi shows.
  --alloc-conf takes what PYTORCH_ALLOC_CONF takes; --allocator exact neither rounds nor caches.
)"},
    {"categories", "the rows of the breakdown",
     R"(what is alive at the peak

  parameters            weights and biases
  buffers               running statistics and other state without a gradient
  gradients             gradients of parameters, freed by zero_grad(set_to_none=True) when the next step begins
  optimizer state       nothing for plain SGD, two tensors per parameter for Adam
  inputs                the batch and its targets
  activations           results of the forward that autograd saved or that a Python variable still refers to
  activation gradients  gradients of activations, during backward
  scratch               cuDNN and cuBLAS workspaces, reduction buffers and other temporaries of kernels
  KV cache              keys and values of earlier tokens, in generation
)"},
    {"confidence", "exact, modelled, assumed: how certain a figure is",
     R"(confidence

  exact     follows from PyTorch's rules; tests compare it with PyTorch byte for byte
  modelled  computed by a model with a stated error, such as cuDNN's choice of workspaces
  assumed   not checked, such as the size of a CUDA context that was not measured
  All three hold under the plan's assumptions. The headline has those that matter most: the GPU, tokens packed or not
  (--set packed=0|1), a batch with padding or without (--set padded=0|1). JSON lists all of them under "assumptions".
)"},
    {"fits", "when a step fits, when it only runs, and larger batches that fit again",
     R"(when a step fits

  A step fits a GPU that has as much memory as the step needs: what PyTorch's allocator reserves, including its cache,
  and the CUDA context. All commands use this definition.
  A step that needs slightly more may still run: PyTorch's allocator releases its cache to the device and retries.
  It does not fit, and the exit code is 1, because releasing the cache waits for the GPU, which takes time that is not
  modelled, and because the step fails as soon as anything else, such as an evaluation, takes memory. plan says that
  the step runs, and how many retries it takes in three steps.
  A larger batch may fit where a smaller one does not: cuDNN chooses another workspace, and the allocator fills gaps.
  The largest batch that fit reports is the last before the first one that does not fit. Of the next 128 batches (16
  where several GPUs share a step) fit also reports the largest that fits again.
)"},
    {"at-most", "the upper bound of a plan, and its terms",
     R"(at most

  At most is an upper bound: the estimate plus one term for each thing that is not known. If nothing is unknown, it is
  the estimate. JSON has it as at_most, with the source of each term.
    cudnn_workspaces  convolutions whose workspace was not recorded: another size, a batch between two powers of two, or
                      another GPU. The largest of them gets, in segments of its own, the largest share of its input,
                      output and filter bytes that a recording of its kind, size and GPU has; between two recorded
                      batches, the larger of what both would need; on a GPU without recordings, the largest of what
                      H200, A100, RTX 4090 and T4 would need
    cudnn_attempts    PyTorch tries cuDNN configurations until one runs. A failed attempt may move a later block, which
                      adds up to 1 MiB allocated and a segment of 2 MiB
    slow_convolutions bf16 before Ampere, which PyTorch convolves without cuDNN: two im2col buffers of one sample,
                      copies of operands and gradients, and cuBLAS's workspace, for the largest such convolution
    tables            Buffer() entries of a spec are planned as created with the model; the model may create them in its
                      first forward instead, in segments of their own
    context           the CUDA context and libraries, unless --runtime or the GPU's file gives their size: 943 MiB, the
                      highest published reading since PyTorch 2.0, with all modules loaded
    nccl              NCCL's buffers, with several GPUs: 2 GiB per communicator, the highest reading
    padding           a spec with the variable padded, unless --set padded=0|1 is given: the difference to the other
                      case, if that needs more. Both are planned, which doubles the time of a plan
  Not included: memory of other processes, torch.backends.cudnn.benchmark=True, and what a script allocates outside the
  step.
)"},
    {"flops", "what is counted, and how other tools count",
     R"(FLOPs

  1 MAC = 2 FLOP. Convolutions, linear layers and the matrix products of attention count; bias, norms, activations and
  pooling are counted separately (elementwise_flops). Backward is counted per operation: the gradient of the weights,
  and the gradient of the input, which the first layer does not need.
  --count-as prints what another tool prints for one sample in eval mode:
    fvcore     MAC + 2 batch norm + 5 layer norm + adaptive pooling's input
    ptflops    MAC of modules with biases + norms + ReLU, ReLU6, GELU + pooling; no attention
    thop       MAC of modules + 4 norms + average pooling; no attention
    torchinfo  parameters times positions; no attention
    deepspeed  2 MAC + bias + norms + activations + pooling
    torch      2 MAC (torch.utils.flop_counter)
)"},
    {"precision", "types, autocast, and what GPUs support",
     R"(precision

  --precision fp32|fp64|fp16|bf16   the whole model and its floating-point inputs
  --precision tf32                  fp32 with matrix products in TF32; takes as much memory as fp32
  --amp fp16|bf16                   torch.autocast: the weights stay in fp32; matrix products and convolutions run in
                                    the half type; layer norm, softmax and losses in fp32. The cast of a weight is
                                    cached until the forward ends, and saved for backward. fp16 adds a GradScaler
  --master fp32                     half-precision weights, of which the optimizer keeps and updates fp32 copies
  --weights nf4|fp4|int8            bitsandbytes' forms of the weights, with --lora or --mode infer (gpuplan explain
                                    lora); int4 and fp8 are sizes, for inference
  bf16 and tf32 need compute capability 8.0 (A100), fp8 needs 8.9 (RTX 4090, L4, H100). Where PyTorch emulates a type,
  the plan prints a warning (with --strict the exit code is 1); where PyTorch refuses it, the plan is an error.
)"},
    {"lora", "adapters beside frozen weights, and weights of 4 or 8 bits (QLoRA)",
     R"(fine-tuning with adapters

  --lora r=16,alpha=32,dropout=0.05,targets=q_proj+v_proj
      peft's LoraConfig: all weights are frozen, and each target gets two matrices of rank r, in fp32, which are trained.
      A target is the end of a module's path, or a pattern of it (* within a name, ** across names); all-linear, the
      default, is every Linear and Conv1D but the model's head. rslora=true changes no byte, dora=true is DoRA.
      save=lm_head+embed_tokens is modules_to_save: copies of these are trained beside the frozen ones. In a model file
      lora: says the same, except for dora and save
  --weights nf4|nf4:double|fp4|fp4:double|int8
      bitsandbytes' Linear4bit and Linear8bitLt in place of all linear layers but the head: the packed weights, their
      scales (double: in 8 bits themselves), and the copy that a product makes of a weight where it does not read it as
      it is packed. It computes in the type of --amp, or of --precision. With --precision fp32 the rest of the model is
      loaded in bf16 and cast to fp32, as from_pretrained() and prepare_model_for_kbit_training() do; with --precision
      bf16 it stays as it was loaded
  --checkpoint block | block,reentrant
      use_reentrant=False or True, which prepare_model_for_kbit_training() has where nothing is said. What the embedding
      of tokens returns gets a gradient, as enable_input_require_grads() has it. int8 keeps its inputs as attributes of
      its nodes, which checkpoints with use_reentrant=False do not free
  --opt adamw8bit|paged_adamw8bit|paged_adamw32bit|lion8bit|...
      bitsandbytes' optimizers, by its names or transformers': states of 8 bits have a scale every 256 of them, and are
      fp32 for parameters below 4,096 elements. Paged states of 100,000 elements and more are managed memory, which is
      not PyTorch's; "at most" counts it
)"},
    {"optimizers", "what --opt takes, and optimizers of other packages",
     R"(optimizers (--opt)

  torch.optim    sgd, momentum, sgd_momentum, nesterov, adam, adamw, amsgrad, rmsprop, adagrad, adadelta, nadam, radam,
                 adamax; --opt-impl foreach, for-loop or fused
  bitsandbytes   adam8bit, adam32bit, adamw8bit, adamw32bit, lion8bit, lion, ademamix8bit, ademamix, sgd8bit, sgd32bit,
                 rmsprop8bit, rmsprop32bit, adagrad8bit, adagrad32bit, lamb, lars; paged_adam8bit, paged_adam32bit,
                 paged_adamw8bit, paged_adamw32bit, paged_lion8bit, paged_lion, paged_ademamix8bit, paged_ademamix
  recorded       adafactor, adopt, asgd, came, muon, prodigy, rprop, schedulefree_adamw, schedulefree_radam,
                 schedulefree_sgd, soap, torchao_adamw4bit, torchao_adamw8bit, torchao_adamwfp8, transformers_adafactor
                 (which is the Trainer's optim="adafactor"; adafactor is torch.optim's)

  Those that are recorded, and any other, have no rules here: PyTorch takes steps of them on a simulated GPU, of
  parameters like the model's. Python, which GPUPLAN_PYTHON names, needs PyTorch's build for CUDA and the optimizer's
  package; what was recorded is kept, and the next plan needs neither.
    torch.optim.AdamW(capturable=True)   a class of a package, with its arguments
    optim.py:make(rank=64)               a function of a file, called with the list of (name, parameter) that is trained
                                         and with the arguments; returns an optimizer or a list of them, as GaLore and
                                         APOLLO need, whose groups have a rank
    muon:matrices,adamw:rest             several: "matrices" are parameters of two dimensions, "rest" is what the others
                                         leave, and anything else is patterns of names, as in *q_proj*+*v_proj*
)"},
    {"saving", "checkpointing, micro-batches, offloading, and what they cost",
     R"(saving memory

  --micro-batches N           splits the batch into N parts and accumulates their gradients; only one part's activations
                              are alive at a time
  --checkpoint block          activation checkpointing (torch.utils.checkpoint, use_reentrant=False): each block of a
                              repeat, and each that is written as layers.0, layers.1, ..., keeps only its inputs and
                              runs again in backward. every=N: every Nth block; GLOB: blocks whose path matches, such as
                              "transformer.h.*"; none: no block, even where the model
                              has checkpoint: true (or checkpoint: reentrant, which is use_reentrant=True);
                              block,reentrant: use_reentrant=True. op: by operator, as torchtitan does it: the results
                              of scaled dot product attention and of every other matrix product without bias are kept.
                              The recomputed FLOPs are a row of their own, and recompute_flops in JSON
  --optimizer-in-backward     steps each parameter, and frees its gradient, as soon as the gradient is ready
  --offload optimizer|saved   keeps the optimizer's state and step, or the tensors saved for backward, on the host; a
                              row has the bytes that are transferred
  --layout nhwc               model and images .to(memory_format=torch.channels_last), with the copies that this causes
  --attention NAME            flash, efficient, cudnn or math instead of PyTorch's choice; eager: the model's own code,
                              which keeps the attention scores
)"},
    {"generation", "prefill, decode, and the KV cache",
     R"(generating text (--mode infer, a model with a variable seq)

  --phase prefill --prompt N                the pass over the prompt, which fills the KV cache
  --phase decode --prompt N --generate M    the pass that generates the last of M tokens, with the longest context
  --cache dynamic                           the KV cache grows by concatenation: old and new tensors are alive at once
  --cache static                            the KV cache is allocated in advance, for prompt + generate tokens
  --cache paged                             the KV cache consists of blocks of 16 tokens, as in vLLM
)"},
    {"time", "how long a step takes, and what it waits for",
     R"(time

  A step takes as long as the GPU needs to run its kernels one after another. Each kernel starts when the host has
  launched it and the previous one has finished; it is bound by one of:
    compute  matrix products and convolutions, timed by tile and wave quantization: the fastest tile and split of the
             contracted dimension is used, and a last wave that fills few multiprocessors takes as long as a full one.
             Tensor cores are used where the GPU has them for the type; fp32 convolutions use TF32. On tensor cores, a
             convolution of NCHW images converts them to channels-last and back (--layout nhwc avoids it), and a matrix
             product whose operands have rows that are not multiples of 16 bytes (8 half-precision numbers, 4 fp32
             numbers) is slowed down by its loads
    memory   every tensor that an operation reads or writes counts once, at 75 % of the peak memory bandwidth
    launch   kernels that are shorter than the host's calls: the GPU waits for the host
  copy is the transfer of the batch to the GPU: --host-copy pinned (pin_memory=True and non_blocking=True), pageable
  (tensor.to("cuda")), overlapped (during the previous step), none.
  communication is exposed communication with --gpus N: DDP's buckets overlap with backward, except for the last; FSDP2
  prefetches parameters and reduces gradients during backward, except for the root; what the optimizer sends is fully
  exposed. Copies of gradients and parameters to and from communication buffers are included.
  layers --time tries changes that may make the step faster (precision, layout, sizes, the batch), and plans and times
  each one. layers --roofline compares each layer with the rate that its arithmetic intensity allows.
  MFU is the model's FLOPs per second, without recomputation, divided by the peak of the type that most FLOPs use.
  gpuplan calibrate measures a GPU; a plan with the file that it writes uses these measurements.
)"},
    {"loop", "how the training loop is written, and when it frees output and loss",
     R"(the training loop

  plain      for x, y in data: out = model(x); loss = criterion(out, y); loss.backward(); optimizer.step()
             out and loss live until they are assigned again, so the old output is still alive in the next forward
  function   the step is a function: its local variables are freed when it returns
  loss_only  loss = criterion(model(x), y): the output is freed once the loss is computed
  --zero-grad backward  optimizer.zero_grad() stands between the forward and backward, as in PyTorch's ImageNet example
             and torchvision's training scripts: the last step's gradients are alive in the forward
  With --mode infer the output is freed before the next forward, unless --loop plain is given.

  --like plans the loop of a library. Each of these copies every batch to the GPU, labels included, while the last one
  is still there.
  trainer     transformers' Trainer: loss_only, fused AdamW and gradient clipping unless flags say otherwise; outputs
              are converted to fp32 under --amp; two groups of parameters; --opt adamw8bit keeps fp32 states of embeddings
  accelerate  a loop of your own with accelerator.prepare() and accelerator.backward(loss): plain, with the output
              converted to fp32 under --amp, so that logits are held in fp32; one micro-batch is on the GPU at a time
  lightning   Lightning's: gradients of the last step are alive in the forward, and autocast keeps no copies of weights
  trl-sft     trl's SFTTrainer, and trl-dpo its DPOTrainer: the trainer that is installed takes three steps on a
              simulated GPU, of a config.json's model; what no flag says is as trl has it. Of plan, sweep and check
  torchtune   its recipe for one GPU, run in the same way, of its own llama, qwen2 or mistral with these sizes
  These three, trainer and pytorch take settings: 'trl-sft(activation_offloading=True)', of the library's configuration;
  'pytorch(float8="rowwise", transformer_engine="DelayedScaling", cut_cross_entropy=True, save_on_cpu=True, compile=True,
  activation_memory_budget=0.5)' are what people put into a loop of their own. --mode infer --like 'infer(merge=True)'
  merges adapters first.

  --seq-lengths FILE, or lognormal:mean=600,max=4096[,sigma=0.8][,min=1][,seed=0], plans every step of a loop whose
  batches are padded to their longest sample: the longest sets the peak, and their order how much the allocator keeps.

  --eval-batch N plans three steps of training, an evaluation of --eval-batches batches and two more steps. --eval-logits
  keeps the logits of all its batches on the GPU: in one tensor, made anew with each batch, as Trainer does it for
  compute_metrics, or in a list; --eval-accumulation-steps N moves them to the host after N batches.
)"},
    {"files", "what is read and written, and how",
     R"(files

  Wherever a file is read, a pipe works, too: gpuplan plan <(python3 tools/python/gpuplan ...); - is standard input.
  A pipe can be read only once. If nothing arrives for 10 minutes, gpuplan gives up with exit code 4.
  -o replaces a file atomically: it writes a temporary file next to it, syncs and renames it, so that a full disk,
  ulimit -f or a signal leaves the old file intact. Pipes and devices, /dev/stdout and /dev/fd/N are written directly.
  Of a symbolic link the target is replaced. A file that cannot be renamed, such as a single-file mount in a container,
  is overwritten in place.
  -o FILE.json, .csv, .md and .txt are reports, for scripts and pages. FILE.html, of plan, snapshot, fit, sweep, diff,
  check, shadow, replay and validate, is a page: memory over the events, what is alive at each, the allocator's segments,
  drawings, and each list of the JSON as a table. FILE.svg is a drawing: of sweep, and of layers --roofline. Of plan,
  snapshot and learned traces there are also
    memviz:FILE, FILE.pickle     a memory snapshot as PyTorch writes it, for pytorch.org/memory_viz
    trace:FILE                   for ui.perfetto.dev and chrome://tracing, with modelled times where a GPU is named
    FILE.speedscope.json, FILE.folded    bytes at the peak by stack, for speedscope.app and flamegraph.pl
  The word before the colon works with every name: html:page. --format writes one of them to standard output.
  -o never replaces a model, a budget, a trace or a script (exit code 2) unless --force is given. import and init do
  not replace a file that has been edited, either.
)"},
};

}  // namespace

std::span<const ExplainTopic> explain_topics() { return kTopics; }

}  // namespace gpuplan
