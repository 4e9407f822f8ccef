#include "tests/cuda/module_bench.h"

#include <cstdio>

#include "tests/support/operator_arguments.h"

namespace gpuplan::module_test {
namespace {

struct Counts {
  int runs = 0, failures = 0;
};
Counts& counts() {
  static Counts all;
  return all;
}

}  // namespace

void ran() { ++counts().runs; }
void failed(const std::string& what) {
  std::printf("FAIL %s\n", what.c_str());
  ++counts().failures;
}
int failures() { return counts().failures; }
int runs() { return counts().runs; }

void run(Device& device, const Case& c) {
  Kernel k;
  k.op = operator_named(c.name);
  const std::vector<AttributeValue> attributes = by_name(k.op, c.numbers, c.reads.size());
  k.layer = "layer";
  k.what = &c.what;
  k.reads = c.reads;
  k.extra = c.extra;
  k.writes = c.writes;
  k.attributes = attributes;
  k.scratch = c.scratch;
  k.seed = 7;
  ran();
  try {
    const std::string why = device.refusal(k);
    if (!why.empty()) throw Error("refused: " + why);
    device.run(k);
    device.synchronize();
  } catch (const Error& e) {
    failed(c.name + ": " + e.message());
  }
}

}  // namespace gpuplan::module_test
