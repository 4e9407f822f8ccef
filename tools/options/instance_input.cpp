#include "tools/options/instance_input.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "configs/embedded.h"
#include "estimator/device/read_number.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"

namespace gpuplan {

namespace {

constexpr std::int64_t kSecondsOfDay = 86400;

std::int64_t seconds_now() {
  if (const char* const set = std::getenv("SOURCE_DATE_EPOCH")) {
    if (const std::optional<std::int64_t> seconds = decimal(set); seconds && *seconds >= 0) return *seconds;
    throw Error("SOURCE_DATE_EPOCH is a number of seconds, not \"" + std::string(set) + "\"", ErrorKind::environment);
  }
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

// What a catalog has where it knows no region: prices of all of them, or the market's.
bool is_place(const std::string& region) { return !region.starts_with("all") && !region.starts_with("market "); }

void match(const char* flag, std::string& word, std::vector<std::string> words) {
  for (const std::string& known : words)
    if (same_word(known, word)) {
      word = known;
      return;
    }
  std::erase_if(words, [](const std::string& known) { return !is_place(known); });
  std::ranges::sort(words);
  words.erase(std::unique(words.begin(), words.end()), words.end());  // Clang 14 cannot use libstdc++'s ranges::unique
  throw unknown_word(flag, word, words);
}

}  // namespace

std::vector<Instance> load_instances(const std::string& file, std::span<const Gpu> gpus) {
  if (!file.empty()) return read_instances(*read_file_source(file, kCatalogLimit), gpus);
  std::vector<Instance> all;
  for (const EmbeddedFile& embedded : embedded_instances()) {
    std::vector<Instance> some = read_instances({std::string(embedded.path), std::string(embedded.text)}, gpus);
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  return all;
}

void match_places(std::vector<std::string>& providers, std::string& region, std::span<const Instance> instances) {
  std::vector<std::string> known_providers, known_regions;
  for (const Instance& i : instances) {
    known_providers.push_back(i.provider);
    if (!i.region.empty()) known_regions.push_back(i.region);
  }
  for (std::string& provider : providers) match("--provider", provider, known_providers);
  if (!region.empty()) match("--region", region, known_regions);
}

Day today() { return seconds_now() / kSecondsOfDay; }

Day day_of_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mtime / kSecondsOfDay : today();
}

}  // namespace gpuplan
