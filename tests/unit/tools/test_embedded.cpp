// The embedded data and the generated catalog hold what the repository's folders hold.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "configs/embedded.h"
#include "layers/catalog.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = GPUPLAN_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file, path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::size_t files_in(const fs::path& folder, const fs::path& extension) {
  const auto matches = [&](const fs::directory_entry& entry) { return entry.path().extension() == extension; };
  return static_cast<std::size_t>(std::count_if(fs::directory_iterator(folder), fs::directory_iterator(), matches));
}

void compare_with_folder(std::span<const EmbeddedFile> files, const std::string& folder) {
  CHECK(files.size() == files_in(kRoot / folder, ".yaml"));
  CHECK(std::ranges::is_sorted(files, {}, &EmbeddedFile::name));
  for (const EmbeddedFile& file : files) {
    CHECK(std::string(file.path) == folder + "/" + std::string(file.name) + ".yaml");
    CHECK_MESSAGE(file.text == read(kRoot / file.path), file.path);
  }
}

}  // namespace

TEST_CASE("embedded models are the files of configs/models, byte for byte") {
  compare_with_folder(embedded_models(), "configs/models");
}

TEST_CASE("embedded templates are the files of configs/families, byte for byte") {
  compare_with_folder(embedded_families(), "configs/families");
}

TEST_CASE("embedded GPUs are the files of configs/gpus, byte for byte") {
  compare_with_folder(embedded_gpus(), "configs/gpus");
}

TEST_CASE("the catalog is sorted by name and names no layer twice") {
  const Catalog catalog = make_catalog();
  CHECK_FALSE(catalog.empty());
  for (std::size_t i = 1; i < catalog.size(); ++i) CHECK(catalog[i - 1]->name < catalog[i]->name);
}

TEST_CASE("every file of layers/ gives the catalog at least one layer") {
  CHECK(make_catalog().size() >= files_in(kRoot / "layers", ".cpp"));
}

}  // namespace gpuplan
