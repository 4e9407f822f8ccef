#include "tools/git/lfs.h"

#include <algorithm>

#include "tools/git/run.h"

namespace gpuplan::git {

// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md: the version first, the other keys by their names.
std::optional<std::string> lfs_pointer(std::string_view text) {
  constexpr std::string_view kVersion = "version https://git-lfs.github.com/spec/v1\n", kKey = "\noid sha256:";
  constexpr std::size_t kDigits = 64, kMostBytes = 1024;
  if (!text.starts_with(kVersion) || text.size() > kMostBytes) return std::nullopt;
  const std::size_t at = text.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  std::string digits(text.substr(at + kKey.size(), kDigits));
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (digits.size() != kDigits || !std::ranges::all_of(digits, is_digit)) return std::nullopt;
  return digits;
}

std::filesystem::path lfs_content(const std::filesystem::path& repository, const std::string& sha256) {
  const Result result = run(repository, {"rev-parse", "--git-common-dir"});
  if (result.status != 0) throw failure(result);
  return repository / result.line() / "lfs" / "objects" / sha256.substr(0, 2) / sha256.substr(2, 2) / sha256;
}

}  // namespace gpuplan::git
