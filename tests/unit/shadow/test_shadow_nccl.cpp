// NCCL under the shadow runtime: what its collectives do with small messages, between threads that stand for ranks and
// with imagined ranks, and host arithmetic against values computed by hand.
#include <doctest/doctest.h>

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "validate/shadow/runtime/mailbox.h"
#include "validate/shadow/runtime/nccl_communicator.h"
#include "validate/shadow/runtime/nccl_reduce.h"
#include "validate/shadow/runtime/runtime.h"

extern "C" {
int ncclCommInitAll(gpuplan::shadow::Communicator** communicators, int ranks, const int* devices);
int ncclCommDestroy(gpuplan::shadow::Communicator* communicator);
int ncclCommSplit(gpuplan::shadow::Communicator* parent, int color, int key, gpuplan::shadow::Communicator** part,
                  void* config);
int ncclGroupStart();
int ncclGroupEnd();
int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int reduction,
                  gpuplan::shadow::Communicator* communicator, const void* stream);
int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int reduction,
                      gpuplan::shadow::Communicator* communicator, const void* stream);
int ncclAllGather(const void* from, void* to, std::size_t count, int type, gpuplan::shadow::Communicator* communicator,
                  const void* stream);
int ncclAlltoAll(const void* from, void* to, std::size_t count, int type, gpuplan::shadow::Communicator* communicator,
                 const void* stream);
int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root,
                  gpuplan::shadow::Communicator* communicator, const void* stream);
int ncclScatter(const void* from, void* to, std::size_t count, int type, int root,
                gpuplan::shadow::Communicator* communicator, const void* stream);
int ncclSend(const void* from, std::size_t count, int type, int peer, gpuplan::shadow::Communicator* communicator,
             const void* stream);
int ncclRecv(void* to, std::size_t count, int type, int peer, gpuplan::shadow::Communicator* communicator,
             const void* stream);
int ncclRedOpCreatePreMulSum(int* operation, const void* scalar, int type, int residence,
                             gpuplan::shadow::Communicator* communicator);
int ncclRedOpDestroy(int operation, gpuplan::shadow::Communicator* communicator);
}

namespace gpuplan::shadow {
namespace {

template <typename T>
std::vector<T> reduced(std::vector<std::vector<T>> arrays, int type, Reduction reduction) {
  std::vector<const std::byte*> contributions;
  for (const std::vector<T>& array : arrays) contributions.push_back(reinterpret_cast<const std::byte*>(array.data()));
  std::vector<T> result(arrays.front().size());
  reduce(contributions, result.size(), type, reduction, reinterpret_cast<std::byte*>(result.data()));
  return result;
}

template <typename T>
std::vector<T> reduced_alike(const std::vector<T>& own, int ranks, int type, Reduction reduction) {
  std::vector<T> result(own.size());
  reduce_alike(reinterpret_cast<const std::byte*>(own.data()), ranks, own.size(), type, reduction,
               reinterpret_cast<std::byte*>(result.data()));
  return result;
}

// A clique of ranks in one process, as torch.nn.DataParallel has, whatever the settings.
class Clique {
 public:
  explicit Clique(int ranks) : communicators_(static_cast<std::size_t>(ranks)) {
    REQUIRE(ncclCommInitAll(communicators_.data(), ranks, nullptr) == kNcclSuccess);
  }
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;
  ~Clique() {
    for (Communicator* const communicator : communicators_) ncclCommDestroy(communicator);
  }
  Communicator* operator[](std::size_t rank) const { return communicators_[rank]; }

  // Runs body(communicator, rank) on a thread for each rank; returns their sum of results, 0 where all went well.
  template <typename F>
  int each(F&& body) const {
    std::vector<std::thread> threads;
    std::vector<int> results(communicators_.size());
    for (std::size_t rank = 0; rank < communicators_.size(); ++rank) {
      threads.emplace_back([&, rank] { results[rank] = body(communicators_[rank], rank); });
    }
    int sum = 0;
    for (std::size_t rank = 0; rank < communicators_.size(); ++rank) {
      threads[rank].join();
      sum += results[rank];
    }
    return sum;
  }

 private:
  std::vector<Communicator*> communicators_;
};

TEST_CASE("integers are reduced by each operation and wrap") {
  const std::vector<std::vector<std::int32_t>> arrays = {{1, -5, 7}, {2, 4, -7}, {3, 6, 1}};
  CHECK(reduced(arrays, kNcclInt32, {kNcclSum, 1}) == std::vector<std::int32_t>{6, 5, 1});
  CHECK(reduced(arrays, kNcclInt32, {kNcclProduct, 1}) == std::vector<std::int32_t>{6, -120, -49});
  CHECK(reduced(arrays, kNcclInt32, {kNcclMaximum, 1}) == std::vector<std::int32_t>{3, 6, 7});
  CHECK(reduced(arrays, kNcclInt32, {kNcclMinimum, 1}) == std::vector<std::int32_t>{1, -5, -7});
  CHECK(reduced(arrays, kNcclInt32, {kNcclAverage, 1}) == std::vector<std::int32_t>{2, 1, 0});
  CHECK(reduced<std::uint8_t>({{200}, {100}}, kNcclUint8, {kNcclSum, 1}) == std::vector<std::uint8_t>{44});
  CHECK(reduced<std::int64_t>({{1LL << 60}, {1}}, kNcclInt64, {kNcclSum, 1}) ==
        std::vector<std::int64_t>{(1LL << 60) + 1});
  // More ranks than the type counts to; a factor that no integer has.
  CHECK(reduced(std::vector<std::vector<std::int8_t>>(256, {0}), kNcclInt8, {kNcclAverage, 1}) ==
        std::vector<std::int8_t>{0});
  CHECK(reduced<std::int32_t>({{7}, {7}}, kNcclInt32, {kNcclSum, 1e300}) == std::vector<std::int32_t>{0});
}

TEST_CASE("floating-point types are rounded once, to nearest even") {
  CHECK(reduced<float>({{1.5F}, {2.25F}}, kNcclFloat32, {kNcclSum, 1}) == std::vector<float>{3.75F});
  CHECK(reduced<float>({{1.5F}, {2.5F}}, kNcclFloat32, {kNcclSum, 0.25}) == std::vector<float>{1.0F});
  using Bits = std::vector<std::uint16_t>;
  // Halves: 1 + 1 = 2, 65504 + 65504 = infinity, 2048 + 1 = 2048 (a tie), 2^-24 + 2^-24 = 2^-23 (subnormal).
  CHECK(reduced<std::uint16_t>({{0x3c00, 0x7bff, 0x6800, 0x0001}, {0x3c00, 0x7bff, 0x3c00, 0x0001}}, kNcclFloat16,
                               {kNcclSum, 1}) == Bits{0x4000, 0x7c00, 0x6800, 0x0002});
  // bfloat16: -1 + 3 = 2; NaN stays.
  const Bits brain = reduced<std::uint16_t>({{0xbf80, 0x7fc0}, {0x4040, 0x3f80}}, kNcclBfloat16, {kNcclSum, 1});
  CHECK(brain[0] == 0x4000);
  CHECK((brain[1] & 0x7fff) > 0x7f80);
  // 1 and 448 in E4M3, 1 and 57344 in E5M2.
  CHECK(reduced<std::uint8_t>({{0x38, 0x7e}, {0x38, 0x00}}, kNcclFloat8e4m3, {kNcclSum, 1}) ==
        std::vector<std::uint8_t>{0x40, 0x7e});
  CHECK(reduced<std::uint8_t>({{0x3c, 0x7b}, {0x3c, 0x00}}, kNcclFloat8e5m2, {kNcclSum, 1}) ==
        std::vector<std::uint8_t>{0x40, 0x7b});
}

TEST_CASE("every half and bfloat16 survives a sum with nothing") {
  for (const int type : {kNcclFloat16, kNcclBfloat16}) {
    const unsigned infinity = type == kNcclFloat16 ? 0x7c00 : 0x7f80;
    unsigned same = 0;
    for (unsigned bits = 0; bits <= infinity; ++bits) {
      const std::vector<std::uint16_t> one = {static_cast<std::uint16_t>(bits)};
      if (reduced<std::uint16_t>({one}, type, {kNcclSum, 1}) == one) ++same;
    }
    CAPTURE(type);
    CHECK(same == infinity + 1);
  }
}

TEST_CASE("ranks that are alike contribute the same") {
  CHECK(reduced_alike<float>({1.5F}, 4, kNcclFloat32, {kNcclSum, 1}) == std::vector<float>{6});
  CHECK(reduced_alike<float>({1.5F}, 4, kNcclFloat32, {kNcclAverage, 1}) == std::vector<float>{1.5F});
  CHECK(reduced_alike<float>({2}, 4, kNcclFloat32, {kNcclProduct, 1}) == std::vector<float>{16});
  CHECK(reduced_alike<std::int64_t>({-3}, 1024, kNcclInt64, {kNcclSum, 1}) == std::vector<std::int64_t>{-3072});
  CHECK(reduced_alike<std::int64_t>({-3}, 1024, kNcclInt64, {kNcclMinimum, 1}) == std::vector<std::int64_t>{-3});
}

TEST_CASE("a message reaches its readers once, and zeros are not stored") {
  const Mailbox mailbox("/tmp", "gpuplan-test-" + std::to_string(getpid()));
  const int value = 42;
  const std::array<int, 2> readers = {1, 2};
  mailbox.post("all.0", 0, readers, make_message(&value, sizeof value));
  const auto past = std::chrono::steady_clock::time_point::min();
  for (const int reader : readers) {
    const std::optional<Message> message = mailbox.take("all.0", 0, reader, past);
    REQUIRE(message);
    CHECK(std::memcmp(message->bytes(), &value, sizeof value) == 0);
    CHECK(!mailbox.take("all.0", 0, reader, past));
  }
  const std::array<char, 64> zeros{};
  CHECK(make_message(zeros.data(), zeros.size()).data.empty());
  mailbox.post("all.1", 0, readers, make_message(zeros.data(), zeros.size()));
  CHECK(mailbox.take("all.1", 0, 1, past)->size == 64);
  mailbox.leave(1);
  CHECK(mailbox.take("all.1", 0, 2, past)->bytes() == nullptr);
  mailbox.leave(2);
  CHECK(access(("/tmp/nccl-gpuplan-test-" + std::to_string(getpid())).c_str(), F_OK) != 0);
}

TEST_CASE("collectives of small messages arrive between ranks") {
  const Clique clique(3);
  const int failed = clique.each([](Communicator* c, std::size_t rank) {
    const auto own = static_cast<std::int32_t>(rank);
    std::array<std::int32_t, 3> all{-1, -1, -1}, blocks{own * 10, own * 10 + 1, own * 10 + 2};
    int wrong = ncclAllGather(&own, all.data(), 1, kNcclInt32, c, nullptr);
    wrong += all != std::array<std::int32_t, 3>{0, 1, 2};
    std::int32_t sum = own + 1;
    wrong += ncclAllReduce(&sum, &sum, 1, kNcclInt32, kNcclSum, c, nullptr) + (sum != 6);
    std::int32_t root = own + 7;
    wrong += ncclBroadcast(&root, &root, 1, kNcclInt32, 1, c, nullptr) + (root != 8);
    wrong += ncclAlltoAll(blocks.data(), all.data(), 1, kNcclInt32, c, nullptr);
    wrong += all != std::array<std::int32_t, 3>{own, 10 + own, 20 + own};
    std::int32_t part = -1;
    wrong += ncclReduceScatter(blocks.data(), &part, 1, kNcclInt32, kNcclMaximum, c, nullptr) + (part != 20 + own);
    wrong += ncclScatter(blocks.data(), &part, 1, kNcclInt32, 2, c, nullptr) + (part != 20 + own);
    return wrong;
  });
  CHECK(failed == 0);
}

TEST_CASE("a group sends before it waits, also to itself, and one thread can be all ranks") {
  const Clique clique(2);
  std::array<float, 2> values{1, 2}, got{};
  ncclGroupStart();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const int other = static_cast<int>(1 - rank);
    CHECK(ncclRecv(&got[rank], 1, kNcclFloat32, other, clique[rank], nullptr) == kNcclSuccess);
    CHECK(ncclSend(&values[rank], 1, kNcclFloat32, other, clique[rank], nullptr) == kNcclSuccess);
  }
  CHECK(ncclGroupEnd() == kNcclSuccess);
  CHECK(got == std::array<float, 2>{2, 1});

  ncclGroupStart();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ncclAllReduce(&values[rank], &values[rank], 1, kNcclFloat32, kNcclAverage, clique[rank], nullptr);
  }
  CHECK(ncclGroupEnd() == kNcclSuccess);
  CHECK(values == std::array<float, 2>{1.5F, 1.5F});
}

TEST_CASE("a communicator splits by color, ordered by key") {
  const Clique clique(4);
  const int failed = clique.each([](Communicator* c, std::size_t rank) {
    Communicator* part = nullptr;
    const auto own = static_cast<int>(rank);
    int wrong = ncclCommSplit(c, own % 2, -own, &part, nullptr);
    if (part == nullptr) return 1;
    wrong += (part->ranks != 2) + (part->rank != (own < 2 ? 1 : 0));
    std::int32_t sum = own;
    wrong += ncclAllReduce(&sum, &sum, 1, kNcclInt32, kNcclSum, part, nullptr) + (sum != (own % 2 == 0 ? 2 : 4));
    Communicator* none = part;
    wrong += ncclCommSplit(part, kNcclSplitNoColor, 0, &none, nullptr) + (none != nullptr);
    return wrong + ncclCommDestroy(part);
  });
  CHECK(failed == 0);
}

TEST_CASE("large messages move nothing and wait for nobody") {
  const Clique clique(2);
  const auto count = static_cast<std::size_t>(settings().copy_limit) + 1;
  std::vector<std::uint8_t> from(count, 1), to(count, 2);
  CHECK(ncclAllReduce(from.data(), to.data(), count, kNcclUint8, kNcclSum, clique[0], nullptr) == kNcclSuccess);
  CHECK(to == std::vector<std::uint8_t>(count, 2));
}

TEST_CASE("imagined ranks contribute what this one does") {
  Communicator* const c = join_communicator("imagined", 4, 1, 0, false);
  std::array<std::int64_t, 4> all{};
  const std::int64_t own = 5;
  CHECK(ncclAllGather(&own, all.data(), 1, kNcclInt64, c, nullptr) == kNcclSuccess);
  CHECK(all == std::array<std::int64_t, 4>{5, 5, 5, 5});
  std::int64_t value = 3;
  ncclAllReduce(&value, &value, 1, kNcclInt64, kNcclSum, c, nullptr);
  CHECK(value == 12);
  ncclBroadcast(&own, &value, 1, kNcclInt64, 1, c, nullptr);
  CHECK(value == 5);
  value = 9;
  ncclBroadcast(&own, &value, 1, kNcclInt64, 0, c, nullptr);
  CHECK(value == 9);
  ncclGroupStart();
  ncclSend(&own, 1, kNcclInt64, 3, c, nullptr);
  ncclRecv(&value, 1, kNcclInt64, 3, c, nullptr);
  CHECK(ncclGroupEnd() == kNcclSuccess);
  CHECK(value == 5);
  // A gather as PyTorch 2.15 makes one of a list: a broadcast for each rank, in a group.
  std::array<std::int64_t, 4> parts{};
  ncclGroupStart();
  for (int root = 0; root < 4; ++root) {
    std::int64_t* const part = &parts[static_cast<std::size_t>(root)];
    ncclBroadcast(root == 1 ? &own : part, part, 1, kNcclInt64, root, c, nullptr);
  }
  CHECK(ncclGroupEnd() == kNcclSuccess);
  CHECK(parts == std::array<std::int64_t, 4>{5, 5, 5, 5});
  const float half = 0.5F;
  float number = 2;
  int scaled_sum = 0;
  CHECK(ncclRedOpCreatePreMulSum(&scaled_sum, &half, kNcclFloat32, 1, c) == kNcclSuccess);
  ncclAllReduce(&number, &number, 1, kNcclFloat32, scaled_sum, c, nullptr);
  CHECK(number == 4);
  CHECK(ncclAllReduce(&number, &number, 1, kNcclFloat32, scaled_sum + 1, c, nullptr) == kNcclInvalidArgument);
  CHECK(ncclAllReduce(&number, &number, SIZE_MAX / 4, kNcclFloat32, kNcclSum, c, nullptr) == kNcclInvalidArgument);
  // Made for every reduction, as FSDP does: equal factors share a number.
  for (int i = 0; i < 1000; ++i) {
    int again = 0;
    CHECK(ncclRedOpCreatePreMulSum(&again, &half, kNcclFloat32, 1, c) == kNcclSuccess);
    CHECK(again == scaled_sum);
    CHECK(ncclRedOpDestroy(again, c) == kNcclSuccess);
  }
  CHECK(c->reductions.size() == 1);
  ncclCommDestroy(c);
}

}  // namespace
}  // namespace gpuplan::shadow
