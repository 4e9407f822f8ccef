#include "tools/process/read_source.h"

#include <filesystem>

#include "configs/embedded.h"

namespace gpuplan {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_models()) names.emplace_back(file.name);
  return names;
}

std::shared_ptr<const Source> read_file_source(const std::string& name, SizeLimit most) {
  return std::make_shared<const Source>(Source{name == "-" ? "<stdin>" : name, read_all(name, most)});
}

NamedFile open_input(const std::string& name) {
  return {.name = name, .piped = is_stream(name) ? read_file_source(name, kTraceLimit) : nullptr};
}

std::string start_of(const NamedFile& input) {
  if (input.piped) return input.piped->text.substr(0, kStartBytes);
  std::error_code ignored;
  return std::filesystem::is_regular_file(input.name, ignored) ? read_start(input.name, kStartBytes) : "";
}

std::shared_ptr<const Source> text_of(const NamedFile& input, SizeLimit most) {
  if (!input.piped) return read_file_source(input.name, most);
  refuse_larger(input.name, input.piped->text.size(), most);
  return input.piped;
}

std::shared_ptr<const Source> read_zoo_source(std::string_view name) {
  for (const EmbeddedFile& file : embedded_models())
    if (file.name == name)
      return std::make_shared<const Source>(Source{"zoo:" + std::string(name), std::string(file.text)});
  throw Error("the zoo has no model \"" + std::string(name) + "\"" + did_you_mean(name, zoo_names()))
      .help("for all built-in models: gpuplan explain zoo");
}

}  // namespace gpuplan
