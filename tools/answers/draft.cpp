#include "tools/answers/draft.h"

#include <filesystem>

#include "tools/files/write_file.h"
#include "tools/options/output_options.h"
#include "tools/process/read_source.h"

namespace gpuplan {

namespace {

// A pipe or a device has nothing to lose.
bool would_lose(const std::string& file, const std::string& text) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return false;
  const std::uintmax_t bytes = std::filesystem::file_size(file, ignored);
  return bytes != 0 && (bytes != text.size() || read_start(file, text.size()) != text);
}

}  // namespace

void write_draft(const std::string& file, const std::string& text, bool replace) {
  if (file.empty() || file == "-") return write_stdout(text);
  if (!replace && would_lose(file, text))
    throw Error(file + " already exists with different contents", ErrorKind::usage)
        .help("replace it with --force, or choose another file with -o");
  write_file(file, text);
}

}  // namespace gpuplan
