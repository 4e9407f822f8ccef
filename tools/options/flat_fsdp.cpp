#include "tools/options/flat_fsdp.h"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

enum class Word : std::uint8_t {
  version,
  param,
  reduce,
  strategy,
  replicate,
  wrap,
  original,
  prefetch,
  ahead,
  offload,
  sync,
  buffer,
  send,
  other
};

enum class Sharding : std::uint8_t { full, gradients, none, hybrid };

Word word_of(const std::string& key) {
  const Word word = choose<Word>("--fsdp version=1", key,
                                 {{"version", Word::version},
                                  {"param", Word::param},
                                  {"reduce", Word::reduce},
                                  {"strategy", Word::strategy},
                                  {"replicate", Word::replicate},
                                  {"wrap", Word::wrap},
                                  {"orig-params", Word::original},
                                  {"prefetch", Word::prefetch},
                                  {"forward-prefetch", Word::ahead},
                                  {"offload", Word::offload},
                                  {"sync", Word::sync},
                                  {"buffer", Word::buffer},
                                  {"sync-states", Word::send},
                                  {"reshard", Word::other},
                                  {"reshard-root", Word::other}});
  if (word == Word::other)
    throw Error("--fsdp " + key + "= is FSDP2's, and version=1 says FSDP1", ErrorKind::usage)
        .help("strategy=full gives back what is gathered after forward, strategy=grad-op after backward");
  return word;
}

bool is_true(const std::string& key, const std::string& value) {
  return choose<bool>("--fsdp " + key, value, {{"true", true}, {"false", false}});
}

// HYBRID_SHARD without a mesh shards within each node (_init_utils.py, _init_intra_and_inter_node_groups).
void read_sharding(Sharding sharding, std::int64_t replicas, Strategy& s) {
  if (sharding != Sharding::hybrid && replicas > 0)
    throw Error("--fsdp replicate= needs strategy=hybrid", ErrorKind::usage).help("--fsdp version=1,strategy=hybrid");
  s.reshard_after_forward = sharding != Sharding::gradients;
  if (sharding == Sharding::none) s.replicas = s.ranks();
  if (sharding != Sharding::hybrid) return;
  s.replicas = replicas > 0 ? replicas : s.ranks() / s.gpus_per_node;
  if (replicas == 0 && (s.ranks() % s.gpus_per_node != 0 || s.replicas < 2))
    throw Error("--fsdp strategy=hybrid shares the model within each node, and " + std::to_string(s.ranks()) +
                    " ranks are no two nodes of " + std::to_string(s.gpus_per_node),
                ErrorKind::usage)
        .help("--fsdp version=1,strategy=hybrid,replicate=2, or --gpus-per-node");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> fsdp_pairs(const std::string& words) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::istringstream parts(words);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    pairs.emplace_back(part.substr(0, equals), equals == part.npos ? "" : part.substr(equals + 1));
  }
  return pairs;
}

void take_fsdp_key(std::vector<std::string>& given, const std::string& key, const std::string& value) {
  if (value.empty()) throw Error("--fsdp " + key + " has no value", ErrorKind::usage).help("--fsdp " + key + "=...");
  if (std::ranges::find(given, key) != given.end())
    throw Error("--fsdp says " + key + " twice", ErrorKind::usage).help("leave out one of them");
  given.push_back(key);
}

bool asks_for_flat_parameters(const std::string& words) {
  return std::ranges::any_of(fsdp_pairs(words), [](const auto& p) { return p.first == "version" && p.second == "1"; });
}

void read_flat_fsdp(const SeveralGpusOptions& o, Strategy& s) {
  using Prefetch = FlatSettings::Prefetch;
  s.data = DataParallel::fsdp;
  FlatSettings& flat = s.flat.emplace();
  if (o.keep_unsharded)
    throw Error("--no-reshard is FSDP2's", ErrorKind::usage).help("--fsdp version=1,strategy=grad-op");
  std::vector<std::string> given;
  Sharding sharding = Sharding::full;
  std::int64_t replicas = 0;
  for (const auto& pair : fsdp_pairs(o.fsdp)) {
    const std::string &key = pair.first, &value = pair.second;
    const Word word = word_of(key);
    take_fsdp_key(given, key, value);
    const auto type = [&] {
      return choose<DType>("--fsdp " + key, value,
                           {{"bf16", DType::bf16}, {"fp16", DType::fp16}, {"fp32", DType::fp32}});
    };
    switch (word) {
      case Word::param: s.param_type = type(); break;
      case Word::reduce: s.reduce_type = type(); break;
      case Word::buffer: flat.buffer_type = type(); break;
      case Word::send: flat.sends_states = is_true(key, value); break;
      case Word::strategy:
        sharding = choose<Sharding>("--fsdp strategy", value,
                                    {{"full", Sharding::full},
                                     {"grad-op", Sharding::gradients},
                                     {"none", Sharding::none},
                                     {"hybrid", Sharding::hybrid}});
        break;
      case Word::replicate: replicas = whole_number("--fsdp replicate", value, 1, kMostGpus); break;
      case Word::wrap:
        if (!o.wrap.empty()) throw Error("--wrap and --fsdp wrap= say the same", ErrorKind::usage);
        s.unit_glob = value;
        break;
      case Word::original: flat.original_parameters = is_true(key, value); break;
      case Word::prefetch:
        flat.prefetch = choose<Prefetch>(
            "--fsdp prefetch", value, {{"pre", Prefetch::before}, {"post", Prefetch::after}, {"none", Prefetch::none}});
        break;
      case Word::ahead: flat.gathers_ahead = is_true(key, value); break;
      case Word::offload: s.offloads = is_true(key, value); break;
      case Word::sync: s.reduces_last = choose<bool>("--fsdp sync", value, {{"last", true}, {"each", false}}); break;
      case Word::version:
      case Word::other: break;
    }
  }
  read_sharding(sharding, replicas, s);
}

void refuse_beside_flat(const SeveralGpusOptions& o, const Strategy& s) {
  const std::pair<const char*, bool> flags[] = {{"--tp", s.tensor > 1},
                                                {"--pp", s.pipeline > 1},
                                                {"--ep", s.experts > 1},
                                                {"--cp", !o.context.empty() && o.context != "1"}};
  for (const auto& [flag, given] : flags)
    if (given)
      throw Error(std::string(flag) + " is planned with FSDP2, and version=1 says FSDP1", ErrorKind::usage)
          .help("--fsdp without version=1");
}

}  // namespace gpuplan
