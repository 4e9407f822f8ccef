// What reads the launches of the CUDA module, on lines as the shadow runtime writes them.
#include <doctest/doctest.h>

#include <sstream>

#include "tests/cuda/launch_log.h"

using namespace gpuplan;

namespace {

// One segment; the operation has 4,096 bytes at its beginning and 1,024 bytes 8 KiB from there. The device's own page
// is 16 MiB further on.
const std::vector<Extent> segments{{0x7f0000200000, 2 << 20}};
const std::vector<Work> works{{"aten::mul of fc", 0, 1, {{0x7f0000200000, 4096}, {0x7f0000202000, 1024}}}};
constexpr LaunchLimits kLimits{.shared_bytes = 65536, .partial_bytes = 2 << 20};

CheckedLaunches checked(const std::string& line) {
  std::istringstream log(line + "\n");
  return check_launches(log, works, segments, kLimits);
}

void fails(const std::string& line, const std::string& why) {
  const CheckedLaunches c = checked(line);
  REQUIRE_MESSAGE(c.wrong.size() == 1, line);
  CHECK_MESSAGE(c.wrong[0].find(why) != std::string::npos, c.wrong[0]);
}

std::string kernel(const std::string& arguments,
                   const std::string& configuration = "grid 4,1,1 block 256,1,1 shared 0") {
  return "0\trun\tkernel\t" + configuration + " arguments " + arguments;
}
std::string product(const std::string& text) { return "0\trun\tcublasLtMatmul\t" + text; }

}  // namespace

TEST_CASE("launch log: a kernel's pointers lie in its own operands") {
  const CheckedLaunches good = checked(kernel("*00007f0000200000 *00007f00002023ff 00001000"));
  CHECK(good.wrong.empty());
  CHECK(good.kernels == 1);
  CHECK(good.pointers == 2);
  CHECK(checked(kernel("*00007f0001200000")).wrong.empty());  // the device's own page
  fails(kernel("*00007f0000201000"), "memory that is not its own");
  fails(kernel("*00007f0000202400"), "memory that is not its own");  // one byte beyond
  fails(kernel("00007f0000201000"), "memory that is not its own");   // of a segment that is no longer there
  fails(kernel("*00007f0000200000 *00007f0001200000 *00007f0001400000"), "memory that is not its own");
  fails(kernel("?"), "could not read");
}

TEST_CASE("launch log: pointers in a struct count too, halves of words do not") {
  CHECK(checked(kernel("00007f0000202000000000000000000300007f0000200010")).pointers == 2);
  fails(kernel("00007f0000201000000000000000000300007f0000200010"), "memory that is not its own");
  const std::vector<Extent> wide{{0x7f0000000000, std::int64_t{1} << 33}};
  std::istringstream log(kernel("00007f0100000031"
                                "0000000000000001") +
                         "\n");
  CHECK(check_launches(log, works, wide, kLimits).wrong.empty());
}

TEST_CASE("launch log: grids, blocks, shared memory and streams have limits") {
  CHECK(checked(kernel("0001", "grid 2147483647,65535,65535 block 16,1,64 shared 65536")).wrong.empty());
  fails(kernel("0001", "grid 1,65536,1 block 1,1,1 shared 0"), "beyond CUDA's limits");
  fails(kernel("0001", "grid 1,1,1 block 1024,2,1 shared 0"), "beyond CUDA's limits");
  fails(kernel("0001", "grid 1,1,1 block 1,1,65 shared 0"), "beyond CUDA's limits");
  fails(kernel("0001", "grid 0,1,1 block 1,1,1 shared 0"), "beyond CUDA's limits");
  fails(kernel("0001", "grid 1,1,1 block 1,1,1 shared 65537"), "shared memory");
  fails("65\trun\tkernel\tgrid 1,1,1 block 1,1,1 shared 0 arguments 00", "legacy stream");
  fails("0\trun\tcublasSgemm_v2\t", "nothing is known of");
  CHECK(checked("0\trun\tcudnnRNNForward\t").wrong.empty());
  CHECK(checked("0\trun\tcudnnRNNForward\t").undescribed == 1);
  fails("65\trun\tcudnnRNNForward\t", "legacy stream");
}

TEST_CASE("launch log: a product's matrices reach no further than its operands, and fit each other") {
  const std::string a = "a 0x7f0000200000 16x8 512 bytes", c = "c 0x7f0000202000 16x4 256 bytes",
                    d = "d 0x7f0000202000 16x4 256 bytes workspace 0x0 0 bytes";
  const std::string b = "b 0x7f0000200200 8x4 128 bytes";
  const CheckedLaunches good = checked(product(a + ' ' + b + ' ' + c + ' ' + d + " op NN"));
  CHECK(good.wrong.empty());
  CHECK(good.products == 1);
  CHECK(good.pointers == 4);
  CHECK(checked(product(a + " b 0x7f0000200200 4x8 128 bytes " + c + ' ' + d + " op NT")).wrong.empty());
  fails(product(a + ' ' + b + ' ' + c + ' ' + d + " op TN"), "sizes do not fit");
  fails(product(a + ' ' + b + ' ' + c + ' ' + d + " op NN bias 0x7f00002023f8 64 bytes"), "memory that is not its own");
  fails(product("a 0x7f0000200000 16x8 4097 bytes " + b + ' ' + c + ' ' + d + " op NN"), "memory that is not its own");
}

TEST_CASE("launch log: a convolution's operands and workspace, from the first byte to the last") {
  const auto convolution = [](int workspace) {
    return "0\trun\tcudnnConvolutionForward\tx 0x7f0000200000 2048 bytes w 0x7f0000200800 2048 bytes y 0x7f0000202000 "
           "512 "
           "bytes workspace 0x7f0000202200 " +
           std::to_string(workspace) + " bytes";
  };
  const CheckedLaunches good = checked(convolution(512));
  CHECK(good.wrong.empty());
  CHECK(good.convolutions == 1);
  CHECK(checked(convolution(0)).wrong.empty());
  fails(convolution(513), "memory that is not its own");
}

TEST_CASE("launch log: a batch norm's images, channels and workspace, from the first byte to the last") {
  const auto batch_norm = [](const std::string& rest) {
    return "0\trun\tcudnnBatchNormalizationForwardTrainingEx\tx 0x7f0000200000 2048 bytes y 0x7f0000202000 512 bytes "
           "scale 0x7f0000200800 16 bytes bias 0x7f0000200810 16 bytes " +
           rest;
  };
  const CheckedLaunches good = checked(batch_norm("workspace 0x7f0000202200 512 bytes"));
  CHECK(good.wrong.empty());
  CHECK(good.batch_norms == 1);
  CHECK(good.undescribed == 0);
  CHECK(checked(batch_norm("workspace 0x0 0 bytes")).wrong.empty());
  fails(batch_norm("workspace 0x7f0000202200 513 bytes"), "memory that is not its own");
  fails(batch_norm("mean 0x7f00002023f8 16 bytes workspace 0x0 0 bytes"), "memory that is not its own");
}

TEST_CASE("launch log: every launch is of an operation, and every one is there") {
  std::istringstream two(kernel("00") + "\n" + kernel("00") + "\n");
  const CheckedLaunches c = check_launches(two, works, segments, kLimits);
  REQUIRE(c.wrong.size() == 2);
  CHECK(c.wrong[0].find("outside of every operation") != std::string::npos);
  CHECK(c.wrong[1].find("the log has 2 launches, the runtime counted 1") != std::string::npos);
  std::istringstream none("");
  CHECK(check_launches(none, works, segments, kLimits).wrong.size() == 1);
  const std::vector<Work> copied{{"aten::clone of fc", 0, 0, {}}};
  std::istringstream nothing("");
  CHECK(check_launches(nothing, copied, segments, kLimits).without.at("aten::clone") == 1);
}
