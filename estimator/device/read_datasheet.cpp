#include "estimator/device/read_datasheet.h"

#include <algorithm>

#include "estimator/base/number_text.h"
#include "estimator/device/read_number.h"
#include "estimator/device/write_gpu.h"
#include "estimator/spec/keys.h"

namespace gpuplan {
namespace {

constexpr std::string_view kDatasheet = "a datasheet";

std::string datasheet_text(const YamlNode& node, std::string_view key) {
  if (node.kind != YamlNode::Kind::scalar || node.text.empty())
    throw Error(std::string(key) + " must be text, not " + describe(node)).at(node.mark);
  return node.text;
}

std::string optional_text(const YamlNode& map, std::string_view key) {
  const YamlNode* const node = map.find(key);
  return node == nullptr ? "" : datasheet_text(*node, key);
}

// One of the words, or "" where the key is missing.
std::string optional_word(const YamlNode& map, std::string_view key, std::initializer_list<std::string_view> words) {
  const std::string text = optional_text(map, key);
  std::string known;
  for (const std::string_view word : words) {
    if (text == word) return text;
    known += (known.empty() ? "" : ", ") + std::string(word);
  }
  if (text.empty()) return text;
  const YamlNode& node = *map.find(key);
  throw Error(std::string(key) + " is not " + describe(node)).at(node.mark).label("expected one of " + known);
}

std::optional<int> optional_count(const YamlNode& map, std::string_view key) {
  constexpr std::int64_t kMost = 1'000'000;
  const YamlNode* const node = map.find(key);
  if (node == nullptr) return std::nullopt;
  return static_cast<int>(whole_number_of(*node, key, 1, kMost));
}

std::optional<double> optional_real(const YamlNode& map, std::string_view key) {
  const YamlNode* const node = map.find(key);
  if (node == nullptr) return std::nullopt;
  return positive_number_of(*node, key);
}

double real_of(const YamlNode& map, std::string_view key) {
  return positive_number_of(require(map, kDatasheet, key), key);
}

void read_rates(const YamlNode& map, Datasheet& sheet) {
  expect_map(map, "teraflops");
  for (std::size_t i = 0; i + 1 < map.children.size(); i += 2) {
    const YamlNode& key = *map.children[i];
    const auto at = std::ranges::find(kRateNames, key.text);
    if (at == kRateNames.end()) {
      std::string known;
      for (const std::string_view name : kRateNames) known += (known.empty() ? "" : ", ") + std::string(name);
      throw Error("teraflops of \"" + key.text + "\" are not known").at(key.mark).help("those that are: " + known);
    }
    sheet.teraflops[static_cast<std::size_t>(at - kRateNames.begin())] =
        positive_number_of(*map.children[i + 1], key.text);
  }
}

std::vector<std::string> names_of(const YamlNode& list) {
  std::vector<std::string> names;
  expect_list(list, "derived");
  for (const YamlNode* const item : list.children) names.push_back(datasheet_text(*item, "derived"));
  return names;
}

}  // namespace

Datasheet read_datasheet(const YamlNode& map) {
  expect_map(map, kDatasheet);
  expect_keys(map, kDatasheet,
              {"chip",
               "cuda_cores",
               "tensor_cores",
               "boost_clock_mhz",
               "tensor_clock_mhz",
               "memory_gib",
               "memory_type",
               "bandwidth_gb_s",
               "l2_mib",
               "teraflops",
               "fp32_accumulate",
               "int8_path",
               "pcie_gen",
               "pcie_lanes",
               "host_link_gb_s",
               "nvlink_gb_s",
               "tdp_w",
               "year",
               "derived",
               "notes",
               "source"});
  require_keys(map, kDatasheet, {"chip", "memory_gib", "memory_type", "bandwidth_gb_s", "teraflops", "year", "source"});
  constexpr int kFirstCuda = 2007, kLastYear = 2100;
  Datasheet sheet;
  sheet.chip = datasheet_text(require(map, kDatasheet, "chip"), "chip");
  sheet.cuda_cores = optional_count(map, "cuda_cores");
  sheet.tensor_cores = optional_count(map, "tensor_cores");
  sheet.boost_clock_mhz = optional_count(map, "boost_clock_mhz");
  sheet.tensor_clock_mhz = optional_count(map, "tensor_clock_mhz");
  sheet.memory_gib = real_of(map, "memory_gib");
  sheet.memory_type = datasheet_text(require(map, kDatasheet, "memory_type"), "memory_type");
  sheet.bandwidth_gb_s = real_of(map, "bandwidth_gb_s");
  sheet.l2_mib = optional_real(map, "l2_mib");
  read_rates(require(map, kDatasheet, "teraflops"), sheet);
  sheet.fp32_accumulate = optional_word(map, "fp32_accumulate", {"full", "half", "disputed"});
  sheet.int8_path = optional_word(map, "int8_path", {"tensor", "dp4a"});
  sheet.pcie_gen = optional_count(map, "pcie_gen");
  sheet.pcie_lanes = optional_count(map, "pcie_lanes");
  sheet.host_link_gb_s = optional_real(map, "host_link_gb_s");
  sheet.nvlink_gb_s = optional_real(map, "nvlink_gb_s");
  sheet.tdp_w = optional_real(map, "tdp_w");
  sheet.year = static_cast<int>(whole_number_of(require(map, kDatasheet, "year"), "year", kFirstCuda, kLastYear));
  if (const YamlNode* const list = map.find("derived")) sheet.derived = names_of(*list);
  sheet.notes = optional_text(map, "notes");
  sheet.source = datasheet_text(require(map, kDatasheet, "source"), "source");
  return sheet;
}

std::string datasheet_yaml(const Datasheet& sheet) {
  std::string out = "datasheet:\n";
  const auto text = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) out += "  " + std::string(key) + ": " + quoted_yaml(value) + "\n";
  };
  const auto count = [&](std::string_view key, std::optional<int> value) {
    if (value) out += "  " + std::string(key) + ": " + std::to_string(*value) + "\n";
  };
  const auto number = [&](std::string_view key, std::optional<double> value) {
    if (value) out += "  " + std::string(key) + ": " + number_text(*value) + "\n";
  };
  text("chip", sheet.chip);
  count("cuda_cores", sheet.cuda_cores);
  count("tensor_cores", sheet.tensor_cores);
  count("boost_clock_mhz", sheet.boost_clock_mhz);
  count("tensor_clock_mhz", sheet.tensor_clock_mhz);
  number("memory_gib", sheet.memory_gib);
  text("memory_type", sheet.memory_type);
  number("bandwidth_gb_s", sheet.bandwidth_gb_s);
  number("l2_mib", sheet.l2_mib);
  out += "  teraflops:\n";
  for (std::size_t r = 0; r < sheet.teraflops.size(); ++r)
    if (sheet.teraflops[r]) out += "    " + std::string(kRateNames[r]) + ": " + number_text(*sheet.teraflops[r]) + "\n";
  text("fp32_accumulate", sheet.fp32_accumulate);
  text("int8_path", sheet.int8_path);
  count("pcie_gen", sheet.pcie_gen);
  count("pcie_lanes", sheet.pcie_lanes);
  number("host_link_gb_s", sheet.host_link_gb_s);
  number("nvlink_gb_s", sheet.nvlink_gb_s);
  number("tdp_w", sheet.tdp_w);
  count("year", sheet.year);
  std::string derived;
  for (const std::string& name : sheet.derived) derived += (derived.empty() ? "" : ", ") + name;
  if (!derived.empty()) out += "  derived: [" + derived + "]\n";
  text("notes", sheet.notes);
  text("source", sheet.source);
  return out;
}

}  // namespace gpuplan
