#include "tools/answers/offered_meshes_text.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "estimator/base/list_text.h"
#include "estimator/base/number_text.h"
#include "estimator/report/instance_list.h"
#include "estimator/report/text_table.h"
#include "estimator/report/time_text.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMostMeshes = 12;
constexpr double kPricedSteps = 1000;  // whose price is shown

double usd_of(const OfferedMesh& row) { return row.usd_per_step().value_or(HUGE_VAL); }

class MeshScreen : public StyledScreen {
 public:
  MeshScreen(const OfferedMeshes& meshes, const TextStyle& style) : StyledScreen(style), meshes_(meshes) {
    for (const OfferedMesh& row : meshes.rows) rows_.push_back(&row);
    if (rows_.size() > kMostMeshes) leave_out();
  }

  std::string text(const FitQuestion* market, Day today) const {
    std::string out = rows_.empty() ? "" : table();
    for (const std::string& note : notes(market, today)) {
      std::istringstream in(note);
      std::vector<std::string> words;
      for (std::string word; in >> word;) words.push_back(word);
      out += broken(words, " ");
    }
    return out;
  }

 private:
  std::vector<std::string> notes(const FitQuestion* market, Day today) const {
    std::vector<std::string> notes;
    notes.push_back(
        format_count(meshes_.fitting) + " of " + format_count(meshes_.offers) + " offers fit" +
        (meshes_.planned > 0 ? dot() + format_count(meshes_.planned) + " ways planned" : "") +
        (left_out_ > 0 ? dot() + format_count(left_out_) + " more rows need less memory (--format csv)" : ""));
    if (!meshes_.untimed.empty())
      notes.push_back("not compared, since their step time is not known (--network): " + joined(meshes_.untimed));
    if (meshes_.fitting == 0)
      notes.emplace_back("more GPUs may fit, and more ways: --may mesh,checkpoint,micro-batches");
    if (market != nullptr && !market->network_gbps && market->gpus != std::vector<std::int64_t>{1})
      notes.emplace_back("instances are joined where their network is published; --network GBPS joins any");
    if (rows_.empty()) return notes;
    notes.emplace_back(
        "no row is worse than another in memory, time and money; each is a plan: gpuplan MODEL with its flags");
    if (market == nullptr) {
      notes.emplace_back("prices are those of the parts; times are modelled");
      return notes;
    }
    std::vector<Instance> instances;
    for (const OfferedMesh* row : rows_)
      if (row->offer) instances.push_back(row->offer->instance);
    if (instances.empty()) {
      notes.emplace_back("no instance with these GPUs matches the flags, so prices are not known");
      return notes;
    }
    notes.push_back(std::string("prices are of whole instances, Linux, ") + (market->spot ? "spot" : "on demand") +
                    "; times are modelled");
    if (std::string old = stale_prices_text(instances, today); !old.empty()) notes.push_back(std::move(old));
    return notes;
  }

  // Words on lines behind `indent`, as many as a terminal has room for.
  std::string broken(const std::vector<std::string>& words, const std::string& indent) const {
    const std::size_t width = style_.interactive ? static_cast<std::size_t>(std::max(style_.width, 40)) : SIZE_MAX;
    std::string out = indent;
    std::size_t column = indent.size();
    for (const std::string& word : words) {
      const std::size_t next = column + 1 + display_width(word);
      const bool breaks = next > width && column > indent.size();
      if (breaks) out += "\n  " + indent;
      out += " " + word;
      column = breaks ? indent.size() + 3 + display_width(word) : next;
    }
    return out + "\n";
  }

  // What is on the list for its memory alone, but for the one that needs least.
  void leave_out() {
    const auto beaten = [&](const OfferedMesh* row) {
      return std::ranges::any_of(rows_, [&](const OfferedMesh* other) {
        return *other->figures.step_seconds < *row->figures.step_seconds && usd_of(*other) <= usd_of(*row);
      });
    };
    const OfferedMesh* const least =
        *std::ranges::min_element(rows_, {}, [](const OfferedMesh* row) { return row->figures.device_bytes; });
    std::vector<const OfferedMesh*> kept;
    for (const OfferedMesh* row : rows_)
      if (row == least || !beaten(row)) kept.push_back(row);
    left_out_ = static_cast<std::int64_t>(rows_.size() - kept.size());
    rows_ = std::move(kept);
  }

  std::string times() const { return style_.unicode ? " × " : " x "; }
  std::string instance(const OfferedMesh& row) const {
    if (!row.offer) return "";
    const std::string name = row.offer->instance.provider + " " + row.offer->instance.name;
    return row.offer->count > 1 ? format_count(row.offer->count) + times() + name : name;
  }

  std::vector<std::string> cells(const OfferedMesh& row) const {
    const SweepFigures& f = row.figures;
    const std::int64_t percent = f.device_bytes / std::max<std::int64_t>(f.usable_bytes / 100, 1);
    const std::optional<double> usd = row.usd_per_step();
    const std::string mark = &row == cheapest(meshes_)       ? mark_of(true, style_) + " lowest cost"
                             : &row == &meshes_.rows.front() ? "fastest"
                                                             : "";
    return {(row.gpus > 1 ? format_count(row.gpus) + times() : "") + row.gpu,
            bytes(f.device_bytes),
            format_count(percent) + " %",
            format_seconds(*f.step_seconds),
            format_figure(f.samples_per_second.value_or(0)),
            usd ? format_figure(kPricedSteps * *usd) : "",
            row.offer ? format_usd(row.offer->usd) : "",
            mark,
            instance(row)};
  }

  // Broken before a flag.
  std::string flags(const OfferedMesh& row) const {
    std::istringstream words(row.flags);
    std::vector<std::string> flags;
    for (std::string word; words >> word;)
      if (word.starts_with("--") || flags.empty())
        flags.push_back(word);
      else
        flags.back() += " " + word;
    return broken(flags, "   ");
  }

  std::string table() const {
    using enum TextTable::Align;
    std::vector<std::vector<std::string>> lines = {
        {"GPUs", "needs", "of it", "step", "samples/s", "USD/1k steps", "USD/h", "", "instances"}};
    for (const OfferedMesh* row : rows_) lines.push_back(cells(*row));
    std::vector<TextTable::Align> columns = {left, right, right, right, right, right, right, left, left};
    const auto text = [&] {
      TextTable table(columns);
      for (const std::vector<std::string>& line : lines) table.row(line);
      return table.text();
    };
    const auto is_wide = [&](const std::string& drawn) {
      std::istringstream in(drawn);
      for (std::string line; std::getline(in, line);)
        if (display_width(line) > static_cast<std::size_t>(style_.width)) return true;
      return false;
    };
    const auto drop = [&](std::size_t column) {
      columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(column));
      for (std::vector<std::string>& line : lines) line.erase(line.begin() + static_cast<std::ptrdiff_t>(column));
    };
    constexpr std::size_t kInstances = 8, kUsd = 6, kRate = 4;
    const bool narrow = style_.interactive && is_wide(text());
    if (narrow) drop(kInstances);
    if (narrow && is_wide(text())) drop(kUsd);
    if (narrow && is_wide(text())) drop(kRate);
    std::istringstream in(text());
    std::string out, line;
    std::getline(in, line);
    out += line + "\n";
    for (const OfferedMesh* row : rows_) {
      std::getline(in, line);
      out += line + "\n";
      if (narrow && row->offer) out += "    " + instance(*row) + "\n";
      out += flags(*row);
    }
    return out;
  }

  const OfferedMeshes& meshes_;
  std::vector<const OfferedMesh*> rows_;
  std::int64_t left_out_ = 0;
};

}  // namespace

std::string offered_meshes_text(const OfferedMeshes& meshes, const FitQuestion* market, const TextStyle& style,
                                Day today) {
  return MeshScreen(meshes, style).text(market, today);
}

std::vector<std::string> offered_mesh_names() {
  return {"gpu", "gpus", "instances", "usd_per_hour", "usd_per_step", "flags"};
}

std::vector<SweepRow> sweep_rows(const OfferedMeshes& meshes) {
  std::vector<SweepRow> rows;
  for (const OfferedMesh& mesh : meshes.rows) {
    SweepRow row;
    row.point = static_cast<std::int64_t>(rows.size());
    const std::optional<double> usd = mesh.usd_per_step();
    const std::string instance = mesh.offer ? std::to_string(mesh.offer->count) + " x " +
                                                  mesh.offer->instance.provider + " " + mesh.offer->instance.name
                                            : "";
    row.values = {mesh.gpu,
                  std::to_string(mesh.gpus),
                  instance,
                  mesh.offer ? number_text(mesh.offer->usd) : "",
                  usd ? number_text(*usd) : "",
                  mesh.flags};
    row.figures = mesh.figures;
    rows.push_back(std::move(row));
  }
  return rows;
}

const OfferedMesh* cheapest(const OfferedMeshes& meshes) {
  const OfferedMesh* best = nullptr;
  for (const OfferedMesh& row : meshes.rows)
    if (best == nullptr || usd_of(row) < usd_of(*best)) best = &row;
  return best;
}

}  // namespace gpuplan
