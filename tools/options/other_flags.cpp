#include "tools/options/other_flags.h"

#include <algorithm>
#include <string>

namespace gpuplan {
namespace {

constexpr std::string_view kWhole = "--batch counts all samples of a step, over all micro-batches and GPUs";
constexpr std::string_view kAutocast = "fp32 weights under autocast; --precision is for weights stored in that type";
constexpr std::string_view kStored = "for weights stored in that type; --amp is autocast with fp32 weights";
constexpr std::string_view kGenerates = "needs --mode infer and --phase prefill or decode";

constexpr OtherFlag kOtherFlags[] = {
    {"bs bsz batchsize trainbatchsize globalbatchsize perdevicebatchsize perdevicetrainbatchsize", "--batch N", kWhole},
    {"perdeviceevalbatchsize evalbatchsize", "--eval-batch N", "an evaluation between steps of training"},
    {"microbatchsize", "--micro-batches N", "N is the number of micro-batches, not the samples in each"},
    {"accumsteps gradaccum gradaccumsteps gradientaccumulation gradientaccumulationsteps accumulategradbatches",
     "--micro-batches N", kWhole},
    {"seqlen seqlength sequencelength maxseqlen maxseqlength maxlen maxlength maxmodellen modelmaxlength blocksize "
     "cutofflen contextlen contextlength ctx ctxlen ctxsize nctx",
     "--seq N", "N is the sequence length in tokens"},
    {"promptlen inputlen", "--prompt N", kGenerates},
    {"maxtokens maxnewtokens outputlen", "--generate N", kGenerates},
    {"kvcache", "--cache dynamic|static|paged", kGenerates},

    {"bf16", "--amp bf16", kAutocast},
    {"fp16", "--amp fp16", kAutocast},
    {"autocast mixedprecision", "--amp fp16|bf16", kAutocast},
    {"bfloat16 purebf16", "--precision bf16", kStored},
    {"float16 half", "--precision fp16", kStored},
    {"torchdtype", "--precision fp32|fp16|bf16", kStored},
    {"fp32 float32", "--precision fp32", "the default"},
    {"tf32", "--precision tf32", ""},
    {"loadin8bit", "--weights int8", "with --lora, or --mode infer"},
    {"loadin4bit", "--weights nf4", "with --lora, or --mode infer"},
    {"quant quantize quantization", "--weights nf4|fp4|int8", "with --lora, or --mode infer"},
    {"lorar lorarank qlora", "--lora r=16", "with --weights nf4 it is QLoRA"},
    {"loraalpha", "--lora r=16,alpha=32", ""},
    {"loradropout", "--lora r=16,dropout=0.05", ""},
    {"targetmodules loratargetmodules loratarget", "--lora r=16,targets=q_proj+v_proj", ""},

    {"gradckpt gradcheckpointing gradientcheckpoint gradientcheckpointing activationcheckpointing recompute "
     "recomputeactivations",
     "--checkpoint block", ""},
    {"cpuoffload", "--offload optimizer", ""},
    {"optim", "--opt NAME", "gpuplan explain optimizers lists them"},
    {"momentum", "--opt momentum", ""},
    {"nesterov", "--opt nesterov", ""},
    {"amsgrad", "--opt amsgrad", ""},
    {"fused", "--opt-impl fused", ""},
    {"foreach", "--opt-impl foreach", "the default"},
    {"wd", "--weight-decay", ""},
    {"gradclip clipgrad clipnorm maxgradnorm gradientclipval", "--clip-grad-norm", ""},

    {"vram memory gpumemory", "--gpu SIZE", "for example --gpu \"24 GB\""},
    {"gpuname gputype", "--gpu NAME", "gpuplan gpus lists them"},
    {"ngpus numgpus numprocesses nproc nprocpernode worldsize", "--gpus N", ""},
    {"ddp", "--zero ddp", "with --gpus N"},
    {"zerostage", "--zero 1|2|3", "with --gpus N"},
    {"tensorparallelsize tensormodelparallelsize", "--tp N", "with --gpus N"},
    {"pipelineparallelsize pipelinemodelparallelsize", "--pp N", "with --gpus N"},

    {"eval doeval infer inference predict", "--mode infer", ""},
    {"train dotrain training", "--mode train", "the default"},
    {"channelslast", "--layout nhwc", ""},
    {"attn attnimplementation", "--attention KERNEL", ""},
    {"flashattn flashattention useflashattention2", "--attention flash", ""},
    {"json", "--format json", ""},
    {"csv", "--format csv", ""},
    {"outputfile", "--output FILE", ""},
    {"flop flops", "--count-as TOOL", "counts FLOPs as another tool does"},

    {"model modelname modelnameorpath", "", "the model is given without a flag: gpuplan MODEL"},
    {"compile torchcompile", "", "only PyTorch's eager mode is planned, not torch.compile"},
    {"exitzero", "", "it is a flag of gpuplan check"},
    {"noconfig", "", "no configuration file is read"},
    {"lr learningrate lrscheduler lrschedulertype warmup warmupratio warmupsteps beta1 beta2 betas adambeta1 adambeta2 "
     "adamepsilon eps seed epochs numepochs numtrainepochs maxsteps savesteps evalsteps loggingsteps outputdir "
     "reportto workers numworkers dataloadernumworkers",
     "", "it does not affect the memory of a step"},
};

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

}  // namespace

std::span<const OtherFlag> other_flags() { return kOtherFlags; }

const OtherFlag* other_flag(std::string_view written) {
  std::string key;
  for (const char c : written)
    if (c != '-' && c != '_') key += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto* const found =
      std::ranges::find_if(kOtherFlags, [&](const OtherFlag& flag) { return has_word(flag.spellings, key); });
  return key.empty() || found == std::end(kOtherFlags) ? nullptr : found;
}

}  // namespace gpuplan
