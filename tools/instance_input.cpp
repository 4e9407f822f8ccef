#include "tools/instance_input.h"

#include <sys/stat.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "configs/embedded.h"
#include "tools/read_source.h"

namespace gpuplan {

namespace {

constexpr std::int64_t kSecondsOfDay = 86400;

std::int64_t seconds_now() {
  if (const char* const set = std::getenv("SOURCE_DATE_EPOCH")) {
    std::int64_t seconds = 0;
    const std::string_view text = set;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error == std::errc() && end == text.data() + text.size() && seconds >= 0) return seconds;
    throw Error("SOURCE_DATE_EPOCH is a number of seconds, not \"" + std::string(text) + "\"", ErrorKind::environment);
  }
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::vector<Instance> load_instances(const std::string& file, std::span<const Gpu> gpus) {
  if (!file.empty()) return read_instances(*read_file_source(file, kMaxCatalogBytes), gpus);
  std::vector<Instance> all;
  for (const EmbeddedFile& embedded : embedded_instances()) {
    std::vector<Instance> some = read_instances({std::string(embedded.path), std::string(embedded.text)}, gpus);
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  return all;
}

Day today() { return seconds_now() / kSecondsOfDay; }

Day day_of_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mtime / kSecondsOfDay : today();
}

}  // namespace gpuplan
