#include "tools/git/renames.h"

#include <vector>

#include "tools/git/run.h"

namespace gpuplan::git {

std::map<std::string, std::string> renames_since(const std::filesystem::path& repository, const std::string& base,
                                                 const std::string& commit) {
  // The similarity and the limit are git's defaults, named so that no one's configuration changes what is found.
  std::vector<std::string> arguments = {"diff",
                                        "--no-ext-diff",
                                        "--no-textconv",
                                        "--ignore-submodules=all",
                                        "--name-status",
                                        "--diff-filter=R",
                                        "-z",
                                        "--find-renames=50%",
                                        "-l1000",
                                        base};
  if (!commit.empty()) arguments.push_back(commit);
  arguments.emplace_back("--");
  const Result result = run(repository, arguments);
  if (result.status != 0) throw failure(result);
  std::vector<std::string> fields;  // "R100", the name before, the name now, and so on
  for (std::size_t from = 0; from < result.output.size();) {
    const std::size_t end = std::min(result.output.find('\0', from), result.output.size());
    fields.push_back(result.output.substr(from, end - from));
    from = end + 1;
  }
  std::map<std::string, std::string> before;
  for (std::size_t i = 0; i + 2 < fields.size(); i += 3) before[fields[i + 2]] = fields[i + 1];
  return before;
}

}  // namespace gpuplan::git
