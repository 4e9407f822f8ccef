// Compares a text with a file under tests/golden. GPUPLAN_UPDATE_GOLDEN=1 writes the file instead.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace gpuplan::tests {

inline void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(GPUPLAN_SOURCE_DIR) + "/tests/golden/" + name;
  if (std::getenv("GPUPLAN_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream in(path, std::ios::binary);
  std::stringstream expected;
  expected << in.rdbuf();
  INFO("file ", path);
  CHECK_EQ(text, expected.str());
}

}  // namespace gpuplan::tests
