// NCCL's public interface (nccl.h of 2.20 to 2.30), as far as the runtime implements it: own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuplan::shadow {

enum NcclResult : int {
  kNcclSuccess = 0,
  kNcclUnhandledCudaError = 1,
  kNcclSystemError = 2,
  kNcclInternalError = 3,
  kNcclInvalidArgument = 4,
  kNcclInvalidUsage = 5,
  kNcclRemoteError = 6,
  kNcclInProgress = 7,
  kNcclTimeout = 8,
};

enum NcclType : int {
  kNcclInt8 = 0,
  kNcclUint8 = 1,
  kNcclInt32 = 2,
  kNcclUint32 = 3,
  kNcclInt64 = 4,
  kNcclUint64 = 5,
  kNcclFloat16 = 6,
  kNcclFloat32 = 7,
  kNcclFloat64 = 8,
  kNcclBfloat16 = 9,
  kNcclFloat8e4m3 = 10,
  kNcclFloat8e5m2 = 11,
  kNcclTypes = 12,
};

/// Numbers from kNcclBuiltInReductions on are those that ncclRedOpCreatePreMulSum made.
enum NcclReduction : int {
  kNcclSum = 0,
  kNcclProduct = 1,
  kNcclMaximum = 2,
  kNcclMinimum = 3,
  kNcclAverage = 4,
  kNcclBuiltInReductions = 5,
};

/// Where ncclRedOpCreatePreMulSum finds its scalar; the other value, 1, is the host.
constexpr int kNcclScalarOnDevice = 0;
constexpr int kNcclSplitNoColor = -1;

struct NcclUniqueId {
  char internal[128];
};

struct NcclWaitSignal {
  int count, peer, signal, context;
};

/// Bytes of one element; 0 for a number that is no type.
constexpr std::size_t nccl_size_of(int type) {
  constexpr std::size_t sizes[kNcclTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < kNcclTypes ? sizes[type] : 0;
}

}  // namespace gpuplan::shadow
