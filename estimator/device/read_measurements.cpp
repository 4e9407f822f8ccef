#include "estimator/device/read_measurements.h"

#include <array>
#include <string>
#include <string_view>

#include "estimator/base/calendar.h"
#include "estimator/device/measurement_words.h"
#include "estimator/device/read_number.h"
#include "estimator/spec/keys.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 50;  // of any size, and 13 days of nanoseconds

std::string checked_text(const YamlNode& map, std::string_view key) {
  const YamlNode& node = require(map, "measured", key);
  if (node.kind != YamlNode::Kind::scalar || node.text.empty())
    throw Error(std::string(key) + " must be text, not " + describe(node)).at(node.mark);
  return node.text;
}

// YYYY-MM-DD.
std::string date_of(const YamlNode& map) {
  std::string text = checked_text(map, "date");
  if (!day_of(text)) {
    const YamlNode& node = *map.find("date");
    throw Error("date must be YYYY-MM-DD, not " + describe(node)).at(node.mark).label("such as 2026-11-21");
  }
  return text;
}

// A table's rows: `names` says what stands in each column; the last is the time. Each row's sizes come after those of
// the row before.
template <std::size_t columns, class Add>
void read_rows(const YamlNode& list, std::string_view table, const std::array<std::string_view, columns>& names,
               Add add) {
  expect_list(list, table);
  std::array<std::int64_t, columns - 1> before{};
  for (const YamlNode* const item : list.children) {
    expect_list(*item, "a row of " + std::string(table));
    if (item->children.size() != columns) {
      std::string wanted;
      for (const std::string_view name : names) wanted += (wanted.empty() ? "" : ", ") + std::string(name);
      throw Error("a row of " + std::string(table) + " has " + std::to_string(columns) + " numbers, not " +
                  std::to_string(item->children.size()))
          .at(item->mark)
          .label("[" + wanted + "]");
    }
    std::array<std::int64_t, columns> row{};
    for (std::size_t i = 0; i < columns; ++i)
      row[i] = whole_number_of(*item->children[i], names[i], names[i] == "padding" ? 0 : 1, kMost);
    std::array<std::int64_t, columns - 1> sizes{};
    for (std::size_t i = 0; i + 1 < columns; ++i) sizes[i] = row[i];
    if (sizes <= before)
      throw Error(sizes == before ? "these sizes appear twice" : "the rows are not sorted by their sizes")
          .at(item->mark);
    before = sizes;
    add(row);
  }
}

std::vector<TimedBytes> bytes_table(const YamlNode& map, std::string_view what, std::string_view key) {
  constexpr std::array<std::string_view, 2> kColumns{"bytes", "nanoseconds"};
  std::vector<TimedBytes> table;
  read_rows(require(map, what, key), key, kColumns, [&](const std::array<std::int64_t, 2>& row) {
    table.push_back({row[0], row[1]});
  });
  return table;
}

void read_gemm(const YamlNode& map, Measurements& m) {
  constexpr std::array<std::string_view, 4> kColumns{"m", "n", "k", "nanoseconds"};
  expect_map(map, "gemm");
  expect_keys(map, "gemm", {"fp32", "tf32", "fp16", "bf16"});
  for (const auto& [type, word] : kProductTypes) {
    const YamlNode* const list = map.find(word);
    if (list == nullptr) continue;
    read_rows(*list, word, kColumns, [&, t = type](const std::array<std::int64_t, 4>& row) {
      m.gemm.push_back({t, row[0], row[1], row[2], row[3]});
    });
  }
}

void read_passes(const YamlNode& map, TimedConvolution c, Measurements& m) {
  constexpr std::array<std::string_view, 10> kColumns{"n", "c", "h",      "w",       "k",
                                                      "r", "s", "stride", "padding", "nanoseconds"};
  expect_map(map, "a layout of convolution");
  expect_keys(map, "a layout of convolution", {"forward", "backward_data", "backward_filter"});
  for (const auto& [pass, word] : kPasses) {
    const YamlNode* const list = map.find(word);
    if (list == nullptr) continue;
    c.pass = pass;
    read_rows(*list, word, kColumns, [&](const std::array<std::int64_t, 10>& row) {
      c.n = row[0], c.c = row[1], c.h = row[2], c.w = row[3], c.k = row[4], c.r = row[5], c.s = row[6];
      c.stride = row[7], c.padding = row[8], c.nanoseconds = row[9];
      m.convolution.push_back(c);
    });
  }
}

void read_convolution(const YamlNode& map, Measurements& m) {
  expect_map(map, "convolution");
  expect_keys(map, "convolution", {"fp32", "tf32", "fp16", "bf16"});
  for (const auto& [type, type_word] : kProductTypes) {
    const YamlNode* const layouts = map.find(type_word);
    if (layouts == nullptr) continue;
    expect_map(*layouts, "a type of convolution");
    expect_keys(*layouts, "a type of convolution", {"nchw", "nhwc"});
    for (const auto& [layout, word] : kLayouts) {
      TimedConvolution c;
      c.type = type;
      c.layout = layout;
      if (const YamlNode* const passes = layouts->find(word)) read_passes(*passes, c, m);
    }
  }
}

void read_host_link(const YamlNode& map, Measurements& m) {
  constexpr std::string_view kWhat = "host_link";
  expect_map(map, kWhat);
  expect_keys(map, kWhat, {"to_device_pageable", "to_device_pinned", "to_host_pageable", "to_host_pinned"});
  m.to_device_pageable = bytes_table(map, kWhat, "to_device_pageable");
  m.to_device_pinned = bytes_table(map, kWhat, "to_device_pinned");
  m.to_host_pageable = bytes_table(map, kWhat, "to_host_pageable");
  m.to_host_pinned = bytes_table(map, kWhat, "to_host_pinned");
}

}  // namespace

Measurements read_measurements(const YamlNode& map) {
  constexpr std::string_view kWhat = "measured";
  expect_map(map, kWhat);
  expect_keys(map, kWhat, {"date", "with", "launch_ns", "copy", "host_link", "gemm", "convolution"});
  Measurements m;
  m.date = date_of(map);
  m.with = checked_text(map, "with");
  m.launch_ns = whole_number_of(require(map, kWhat, "launch_ns"), "launch_ns", 1, kMost);
  m.copy = bytes_table(map, kWhat, "copy");
  read_host_link(require(map, kWhat, "host_link"), m);
  read_gemm(require(map, kWhat, "gemm"), m);
  read_convolution(require(map, kWhat, "convolution"), m);
  return m;
}

}  // namespace gpuplan
