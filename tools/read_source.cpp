#include "tools/read_source.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "configs/embedded.h"

namespace gpuplan {

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string read_all(std::FILE* file, const std::string& name, std::size_t most = kMaxSourceBytes) {
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const std::size_t n = std::fread(buffer, 1, sizeof buffer, file);
    text.append(buffer, n);
    if (text.size() > most)
      throw Error(name + " is larger than " + std::to_string(most >> 20) + " MiB, which no " +
                  (most == kMaxSourceBytes    ? "model or GPU file is"
                   : most == kMaxCatalogBytes ? "catalog is: keep the lines of a region"
                                              : "model or trace is"));
    if (n == sizeof buffer) continue;
    if (std::ferror(file) != 0) throw Error("cannot read " + name + ": " + std::strerror(errno));
    return text;
  }
}

std::unique_ptr<std::FILE, CloseFile> open_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw Error("cannot read " + path + ": it is a directory");
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) throw Error("cannot read " + path + ": " + std::strerror(errno));
  return file;
}

}  // namespace

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_models()) names.emplace_back(file.name);
  return names;
}

std::string read_start(const std::string& path, std::size_t bytes) {
  std::error_code ignored;
  const std::filesystem::file_type type = std::filesystem::status(path, ignored).type();
  if (type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::character) return "";
  const std::unique_ptr<std::FILE, CloseFile> file = open_file(path);
  std::string start(bytes, '\0');
  start.resize(std::fread(start.data(), 1, bytes, file.get()));
  return start;
}

std::shared_ptr<const Source> read_file_source(const std::string& path, std::size_t most) {
  const std::unique_ptr<std::FILE, CloseFile> file = open_file(path);
  return std::make_shared<const Source>(Source{path, read_all(file.get(), path, most)});
}

std::shared_ptr<const Source> read_stdin_source(std::size_t most) {
  return std::make_shared<const Source>(Source{"<stdin>", read_all(stdin, "standard input", most)});
}

std::shared_ptr<const Source> read_zoo_source(std::string_view name) {
  for (const EmbeddedFile& file : embedded_models())
    if (file.name == name)
      return std::make_shared<const Source>(Source{"zoo:" + std::string(name), std::string(file.text)});
  throw Error("the zoo has no model \"" + std::string(name) + "\"" + did_you_mean(name, zoo_names()))
      .help("the models of the zoo: gpuplan explain zoo");
}

}  // namespace gpuplan
