// Aten: what its words mean, and what is no word. Expected are the amounts as the words say them.
#include <doctest/doctest.h>

#include "estimator/graph/build.h"
#include "tests/support/lower_calls.h"
#include "tests/support/test_spec.h"

namespace gpuplan {
namespace {

Lowered lower_one(const std::string& call, std::int64_t batch, RunConfig run = {}, DType dtype = DType::fp32) {
  run.mode = Mode::infer;
  return lower_calls({call}, {{batch, 8}}, dtype, run, assumed_gpu());
}

std::string error_of(const std::string& arguments, DType dtype = DType::fp32) {
  try {
    lower_one("Aten(cumprod, " + arguments + ")", 4, {}, dtype);
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

// Bytes of the one scratch of a forward at a batch.
std::int64_t scratch_of(const std::string& amount, std::int64_t batch, const RunConfig& run = {},
                        DType dtype = DType::fp32) {
  const Lowered lowered = lower_one("Aten(cumprod, forward=\"y0=float[b,8] " + amount + " -1\")", batch, run, dtype);
  for (const Op& op : lowered.graph.forward_ops)
    if (op.kind == Operator::recorded) {
      const auto& work = std::get<OpaqueKernel>(op.what);
      return work.actions > 1 ? work.program[1] : 0;
    }
  return -1;
}

}  // namespace

TEST_CASE("an amount is a constant and a multiple of the batch, in bytes or in elements") {
  CHECK(scratch_of("+512", 4) == 512);
  CHECK(scratch_of("+96b", 4) == 384);
  CHECK(scratch_of("+b", 4) == 4);
  CHECK(scratch_of("+512+96b", 4) == 896);
  CHECK(scratch_of("+512+96be", 4) == 896 * 4);
  CHECK(scratch_of("+512+96be", 4, {}, DType::bf16) == 896 * 2);
}

TEST_CASE("scratch of some batches is on a line between them, and grows with the batch beyond") {
  const std::string table = "+2:512,16:4096";
  CHECK(scratch_of(table, 1) == 512);
  CHECK(scratch_of(table, 2) == 512);
  CHECK(scratch_of(table, 9) == 2304);
  CHECK(scratch_of(table, 16) == 4096);
  CHECK(scratch_of(table, 32) == 8192);
  // There is none, or there is all of it.
  CHECK(scratch_of("+2:0,16:4096", 3) == 4096);
  CHECK(scratch_of("+2:512,16:0", 15) == 512);
  CHECK(scratch_of("+2:512,16:0", 32) == 0);
}

TEST_CASE("cuDNN's workspace is left out with --scratch no-cudnn") {
  RunConfig run;
  run.scratch = Scratch::no_cudnn;
  CHECK(scratch_of("c+512", 4) == 512);
  CHECK(scratch_of("c+512", 4, run) == 0);
  CHECK(scratch_of("+512", 4, run) == 512);
}

TEST_CASE("outputs have the sizes, types and places that they were recorded with") {
  const Lowered lowered = lower_one("Aten(sort, forward=\"y1=int64[b,8] y0=float[b,2b,3]\")", 4, {}, DType::bf16);
  REQUIRE(lowered.outputs.size() == 2);
  const auto tensor = [&](int i) {
    return lowered.graph.tensors[static_cast<std::size_t>(lowered.outputs[static_cast<std::size_t>(i)])];
  };
  CHECK(tensor(0).shape == Shape{4, 8, 3});
  CHECK(tensor(0).dtype == DType::bf16);
  CHECK(tensor(1).dtype == DType::int64);
}

TEST_CASE("autocast gives the operands the type of the operator's list") {
  RunConfig run;
  run.autocast = DType::bf16;
  const auto type_under = [&](const std::string& list, DType input) {
    const Lowered lowered = lower_one("Aten(f, forward=\"y0=float[b,8]\", autocast=" + list + ")", 4, run, input);
    return lowered.graph.tensors[static_cast<std::size_t>(lowered.outputs.front())].dtype;
  };
  CHECK(type_under("none", DType::fp32) == DType::fp32);
  CHECK(type_under("half", DType::fp32) == DType::bf16);
  CHECK(type_under("fp32", DType::bf16) == DType::fp32);
  CHECK(type_under("first", DType::bf16) == DType::bf16);
}

TEST_CASE("backward has the gradient of each input once, of those that there are") {
  const auto error_in_training = [](const std::string& backward) -> std::string {
    try {
      lower_calls({"Aten(f, forward=\"y0=float[b,8]\", backward=\"" + backward + "\")"}, {{4, 8}}, DType::fp32, {},
                  assumed_gpu());
    } catch (const Error& e) {
      return e.message();
    }
    return "no error";
  };
  CHECK(error_in_training("+8 d0 -1") == "no error");
  CHECK(error_in_training("d0=g0") == "no error");
  CHECK(error_in_training("d0=x0") == "no error");
  for (const char* words :
       {"d1", "d", "d=g0", "d0=g1", "d0=g", "d0 d0", "d0=g0 d0", "y0", "s8", "x0", "d0=x1", "d0=s0", "d0=h0", "d0="})
    CHECK_MESSAGE(error_in_training(words) != "no error", words);
}

TEST_CASE("a gradient that is written over an input or over what the forward saved takes no memory") {
  const auto made = [](const std::string& forward, const std::string& backward) {
    RunConfig run;
    const Lowered lowered = lower_calls({"Aten(own, forward=\"" + forward + "\", backward=\"" + backward + "\")"},
                                        {{4, 8}}, DType::fp32, run, assumed_gpu());
    std::int64_t results = 0;
    for (const Op& op : lowered.graph.backward_ops) results += op.writes.end - op.writes.begin;
    return results;
  };
  CHECK(made("y0=float[b,8] x0", "d0") == 1);
  CHECK(made("y0=float[b,8] x0", "d0=x0") == 0);
  CHECK(made("y0=float[b,8] s32be", "d0=s0") == 0);
}

TEST_CASE("words that are none are errors that say what was expected") {
  CHECK(error_of("forward=\"\"") == "Aten: no output");
  CHECK(error_of("forward=\"y1=float[b]\"") == "Aten: an output is missing");
  CHECK(error_of("forward=\"y0=float[b] y0=float[b]\"") == "Aten: output 0 is there twice");
  for (const char* word : {"y",
                           "y0=[b]",
                           "y0=flot[b]",
                           "y0=float[b",
                           "y=float[b]",
                           "y99=float[b]",
                           "y0=float[b,]x",
                           "z",
                           "+",
                           "+x",
                           "+1+",
                           "+99999999999999999999",
                           "-1",
                           "+8 -0",
                           "+8 -1 -1",
                           "+8 -2",
                           "s",
                           "+2:8,1:9",
                           "+2:8,3",
                           "macs=",
                           "s0",
                           "y1=float[0]",
                           "+1:9223372036854775807",
                           "x1",
                           "y1",
                           "y1=x1"})
    CHECK_MESSAGE(error_of("forward=\"y0=float[b,8] " + std::string(word) + "\"") != "no error", word);
  CHECK(error_of("forward=\"y0=float[b,8] +9223372036854775807b\"").find("does not fit in 64 bits") !=
        std::string::npos);
  CHECK(error_of("forward=\"y0=float[b,8]\", autocast=some") == "Aten: \"some\" is none of autocast's lists");
  CHECK(error_of("forward=\"y0=float[b,8]\"", DType::fp64) ==
        "Aten: cumprod was recorded in fp32 and in half types, not in fp64; gpuplan shadow --learn plans the step of "
        "any script");
  CHECK(error_of("forward=\"y0=float[b,8]\", half_forward=refused", DType::fp16) ==
        "Aten: PyTorch's cumprod does not take fp16");
}

}  // namespace gpuplan
