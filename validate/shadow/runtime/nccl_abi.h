// NCCL's public interface (nccl.h of 2.20 to 2.30), as far as the runtime implements it: own declarations.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuplan::shadow {

// ncclResult_t
constexpr int kNcclSuccess = 0;
constexpr int kNcclUnhandledCudaError = 1;
constexpr int kNcclSystemError = 2;
constexpr int kNcclInternalError = 3;
constexpr int kNcclInvalidArgument = 4;
constexpr int kNcclInvalidUsage = 5;
constexpr int kNcclRemoteError = 6;
constexpr int kNcclInProgress = 7;
constexpr int kNcclTimeout = 8;

// ncclDataType_t
constexpr int kNcclInt8 = 0;
constexpr int kNcclUint8 = 1;
constexpr int kNcclInt32 = 2;
constexpr int kNcclUint32 = 3;
constexpr int kNcclInt64 = 4;
constexpr int kNcclUint64 = 5;
constexpr int kNcclFloat16 = 6;
constexpr int kNcclFloat32 = 7;
constexpr int kNcclFloat64 = 8;
constexpr int kNcclBfloat16 = 9;
constexpr int kNcclFloat8e4m3 = 10;
constexpr int kNcclFloat8e5m2 = 11;
constexpr int kNcclTypes = 12;

// ncclRedOp_t; numbers from kNcclBuiltInReductions on are those that ncclRedOpCreatePreMulSum made
constexpr int kNcclSum = 0;
constexpr int kNcclProduct = 1;
constexpr int kNcclMaximum = 2;
constexpr int kNcclMinimum = 3;
constexpr int kNcclAverage = 4;
constexpr int kNcclBuiltInReductions = 5;

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
  constexpr std::size_t kSizes[kNcclTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < kNcclTypes ? kSizes[type] : 0;
}

}  // namespace gpuplan::shadow
