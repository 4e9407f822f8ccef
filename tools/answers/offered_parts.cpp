#include "tools/answers/offered_parts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "tools/answers/offered_meshes_text.h"

namespace gpuplan {
namespace {

Error no_part(const std::string& problem) {
  return Error(problem).help("gpuplan fit --may mesh ... --shard N/COUNT --format json writes the part again");
}

// Of one row, whose place errors name.
template <class T>
T number_of(const std::string& text, const char* what, T least, const std::string& place) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least) || std::isinf(double(value)))
    throw no_part(place + ": " + what + " is \"" + text + "\", which is no such number");
  return value;
}

// "8 x aws p5.48xlarge", what sweep_rows() writes, and the price of all.
std::optional<Offer> offer_named(const std::string& words, const std::string& usd, const std::string& place) {
  if (words.empty()) return std::nullopt;
  const std::size_t times = words.find(" x ");
  const std::size_t space = times == std::string::npos ? times : words.find(' ', times + 3);
  if (space == std::string::npos)
    throw no_part(place + ": instances is \"" + words + "\", which is not as \"8 x aws p5.48xlarge\"");
  Offer offer;
  offer.count = number_of<std::int64_t>(words.substr(0, times), "the number of instances", 1, place);
  offer.instance.provider = words.substr(times + 3, space - times - 3);
  offer.instance.name = words.substr(space + 1);
  offer.usd = number_of<double>(usd, "usd_per_hour", 0, place);
  return offer;
}

// What is listed has a time, by which rows are compared.
OfferedMesh mesh_of(const SweepRow& row, const std::string& place) {
  if (!row.figures->step_seconds) throw no_part(place + ": step_seconds is missing");
  OfferedMesh mesh;
  mesh.place = static_cast<std::size_t>(row.point);
  mesh.gpu = row.values[0];
  mesh.gpus = number_of<std::int64_t>(row.values[1], "gpus", 1, place);
  mesh.offer = offer_named(row.values[2], row.values[3], place);
  mesh.flags = row.values[5];
  mesh.figures = *row.figures;
  return mesh;
}

}  // namespace

std::vector<SweepRow> part_rows(const OfferedMeshes& part) {
  std::vector<SweepRow> rows = sweep_rows(part);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].point = static_cast<std::int64_t>(part.rows[i].place);
  for (const UnlistedOffer& offer : part.unlisted) {
    SweepRow& row = rows.emplace_back();
    row.point = static_cast<std::int64_t>(offer.place);
    row.values = {offer.gpu, std::to_string(offer.gpus), "", "", "", ""};
    row.error = offer.why;
  }
  std::ranges::stable_sort(rows, {}, &SweepRow::point);
  return rows;
}

OfferedMeshes joined_offers(const SweepLines& lines) {
  OfferedMeshes all;
  all.offers = lines.points;
  std::vector<OfferedMesh> rows;
  std::set<std::int64_t> fitting;
  std::set<std::string> untimed;
  std::string refused;
  for (std::size_t i = 0; i < lines.rows.size(); ++i) {
    const SweepRow& row = lines.rows[i];
    if (row.figures) rows.push_back(mesh_of(row, lines.places[i]));
    if (row.error == kNoStepTime) untimed.insert(row.values[0]);
    if (row.figures || row.error == kNoStepTime || row.error == kOthersAreBetter)
      fitting.insert(row.point);
    else if (row.error != kNoWayFits && refused.empty())
      refused = lines.places[i] + ": " + row.error;
  }
  if (fitting.empty() && !refused.empty()) throw Error(refused);
  all.fitting = static_cast<std::int64_t>(fitting.size());
  all.untimed.assign(untimed.begin(), untimed.end());
  for (const OfferedMesh& row : rows)
    if (std::ranges::none_of(rows, [&](const OfferedMesh& other) { return beats(other, row); }))
      all.rows.push_back(row);
  std::ranges::stable_sort(all.rows, {}, [](const OfferedMesh& row) { return *row.figures.step_seconds; });
  return all;
}

}  // namespace gpuplan
