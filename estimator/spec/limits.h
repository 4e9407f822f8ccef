// Bounds on what a model file may ask for, so that a hostile or mistaken file is a prompt error and not
// a machine out of memory. Each is far above any network in use.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuplan {

constexpr std::size_t kMaxSpecBytes = std::size_t{4} << 20;        // one file
constexpr std::size_t kMaxScalarBytes = 4096;                      // one YAML scalar, hence one layer call
constexpr std::size_t kMaxNameBytes = 128;                         // a layer, block or variable name
constexpr std::int64_t kMaxYamlNodes = 500'000;                    // scalars and collections, aliases counted in full
constexpr int kMaxYamlDepth = 256;                                 // collections within collections
constexpr int kMaxExpressionDepth = 64;                            // parentheses, tuples, unary operators
constexpr std::size_t kMaxArguments = 64;                          // of one layer call
constexpr std::size_t kMaxVariables = 256;                         // in `vars:`
constexpr std::size_t kMaxParams = 64;                             // of one block
constexpr std::size_t kMaxInputs = 64;                             // of the model
constexpr int kMaxModuleDepth = 48;                                // blocks, repeats, residuals within each other
constexpr int kMaxExtends = 16;                                    // files in one chain of `extends:`
constexpr std::int64_t kMaxEntries = 250'000;                      // entries of the expanded model
constexpr std::int64_t kMaxExpandedBytes = std::int64_t{1} << 30;  // what the expanded model may occupy
constexpr std::size_t kMaxLoraTargets = 256;                       // of `lora:`
constexpr std::size_t kMaxInputRank = 7;                           // Shape::kMaxRank less the batch

}  // namespace gpuplan
