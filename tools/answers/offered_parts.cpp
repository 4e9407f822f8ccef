#include "tools/answers/offered_parts.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "tools/answers/offered_meshes_text.h"

namespace gpuplan {
namespace {

// "8 x aws p5.48xlarge", what sweep_rows() writes, and the price of all.
std::optional<Offer> offer_named(const std::string& words, const std::string& usd) {
  const std::size_t times = words.find(" x "), space = words.find(' ', times + 3);
  if (words.empty() || times == std::string::npos || space == std::string::npos) return std::nullopt;
  Offer offer;
  offer.count = std::strtoll(words.c_str(), nullptr, 10);
  offer.instance.provider = words.substr(times + 3, space - times - 3);
  offer.instance.name = words.substr(space + 1);
  offer.usd = std::strtod(usd.c_str(), nullptr);
  return offer;
}

OfferedMesh mesh_of(const SweepRow& row) {
  return {static_cast<std::size_t>(row.point),       row.values[0], std::strtoll(row.values[1].c_str(), nullptr, 10),
          offer_named(row.values[2], row.values[3]), row.values[5], *row.figures};
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
  for (const SweepRow& row : lines.rows) {
    if (row.figures) rows.push_back(mesh_of(row));
    if (row.error == kNoStepTime) untimed.insert(row.values[0]);
    if (row.figures || row.error == kNoStepTime || row.error == kOthersAreBetter)
      fitting.insert(row.point);
    else if (row.error != kNoWayFits && refused.empty())
      refused = row.error;
  }
  if (fitting.empty() && !refused.empty()) throw Error(refused, ErrorKind::usage);
  all.fitting = static_cast<std::int64_t>(fitting.size());
  all.untimed.assign(untimed.begin(), untimed.end());
  for (const OfferedMesh& row : rows)
    if (std::ranges::none_of(rows, [&](const OfferedMesh& other) { return beats(other, row); }))
      all.rows.push_back(row);
  std::ranges::stable_sort(all.rows, {}, [](const OfferedMesh& row) { return *row.figures.step_seconds; });
  return all;
}

}  // namespace gpuplan
