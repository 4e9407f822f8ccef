#include "tools/answers/offered_meshes.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/distributed/strategy.h"
#include "estimator/plan/plan.h"
#include "estimator/search/device_bytes.h"
#include "estimator/search/figures.h"
#include "estimator/search/workers.h"
#include "layers/catalog.h"
#include "tools/answers/mesh_planner.h"
#include "tools/answers/offered_places.h"
#include "tools/answers/planning.h"

namespace gpuplan {
namespace {

constexpr double kMuchSent = 0.1;  // of a step

struct MeshPlace : OfferedPlace {
  std::size_t number = 0;  // among all
  std::vector<PlannedWay> rows;

  const SweepFigures* fastest() const {
    const SweepFigures* best = nullptr;
    for (const PlannedWay& row : rows)
      if (row.figures.step_seconds && (best == nullptr || *row.figures.step_seconds < *best->step_seconds))
        best = &row.figures;
    return best;
  }
};

class Search {
 public:
  Search(const OfferedQuestion& question, std::span<const Instance> instances, Shard shard)
      : question_(question), model_(load_model(question.run)), is_part_(shard.count > 1) {
    std::vector<OfferedPlace> all = offered_places(question, instances);
    offers_ = all.size();
    for (std::size_t i = shard.number; i < all.size(); i += shard.count) places_.push_back({std::move(all[i]), i, {}});
    measure_states();
  }

  bool has_places() const { return offers_ > 0; }

  OfferedMeshes find(const std::function<void(std::size_t, std::size_t)>& told) {
    plan_ranks(told);
    plan_meshes(told);
    return answer();
  }

 private:
  // What all ranks hold together at the optimizer's step, however it is shared. Nothing where it is on the host.
  void measure_states() {
    RunOptions one = question_.run;
    one.batch = one.micro_batches.empty() ? "2" : one.micro_batches;
    one.gpu.clear();
    try {
      const Planning planning = prepare(one);
      const Report report = report_of(make_plan(planning.model, make_catalog(), planning.run));
      if (planning.run.mode == Mode::train && !on_host(planning.run))
        state_bytes_ = report.bytes.parameters + report.bytes.gradients + report.bytes.optimizer_state;
    } catch (const Error&) {
      state_bytes_ = 0;  // each way says what is wrong
    }
  }

  bool is_too_small(const MeshPlace& place) const {
    if (question_.fsdp.fsdp.find("offload=true") != std::string::npos) return false;
    return state_bytes_ / place.gpus > usable_bytes(question_.gpus[place.kind]);
  }

  // Of a way that shares less than all.
  bool is_too_small(const MeshPlace& place, const MeshWay& way) const {
    const std::optional<Strategy> s = strategy_of(way.several);
    if (!s || s->offloads) return false;
    std::int64_t bytes = state_bytes_ / place.gpus;
    if (s->data == DataParallel::ddp) bytes = state_bytes_ / (s->tensor * s->pipeline);
    if (s->data == DataParallel::fsdp && s->replicas > 1) bytes *= s->replicas;
    return bytes > usable_bytes(question_.gpus[place.kind]);
  }

  std::optional<PlannedWay> planned(const MeshPlace& place, const MeshWay& way, std::optional<Error>& refused) {
    if (is_too_small(place, way)) return std::nullopt;
    ++planned_;
    try {
      return fitting_way(place.mesh, way);
    } catch (const Error& e) {
      refused = e;
      return std::nullopt;
    }
  }

  void plan_ranks(const std::function<void(std::size_t, std::size_t)>& told) {
    std::vector<std::pair<MeshPlace*, MeshWay>> tasks;
    for (MeshPlace& place : places_)
      if (!is_too_small(place))
        for (MeshWay& way : ways_of_ranks(place.mesh, model_)) tasks.emplace_back(&place, std::move(way));
    std::vector<std::optional<PlannedWay>> rows(tasks.size());
    std::vector<std::optional<Error>> refused(tasks.size());
    run_on_workers(
        tasks.size(), cores(), [&](std::size_t i) { rows[i] = planned(*tasks[i].first, tasks[i].second, refused[i]); },
        [&](std::size_t done) {
          if (told) told(done, tasks.size());
        });
    for (std::size_t i = 0; i < tasks.size(); ++i)
      if (rows[i]) tasks[i].first->rows.push_back(*std::move(rows[i]));
    if (!tasks.empty() && std::ranges::all_of(refused, [](const auto& e) { return e.has_value(); }))
      refused_ = refused.front();
  }

  static bool asks_for_meshes(const MeshPlace& place) {
    if (place.gpus == 1) return false;
    if (place.rows.empty()) return true;
    const SweepFigures* const best = place.fastest();
    if (best == nullptr || !best->communication_seconds) return false;
    return *best->communication_seconds > kMuchSent * *best->step_seconds;
  }

  void plan_meshes(const std::function<void(std::size_t, std::size_t)>& told) {
    std::vector<MeshPlace*> places;
    for (MeshPlace& place : places_)
      if (!is_too_small(place) && asks_for_meshes(place)) places.push_back(&place);
    // The largest takes longest.
    std::ranges::stable_sort(places, std::greater{}, &MeshPlace::gpus);
    run_on_workers(
        places.size(), cores(), [&](std::size_t i) { climb(*places[i]); },
        [&](std::size_t done) {
          if (told) told(done, places.size());
        });
  }

  // Plans them; false where some fit, and none is faster than `seconds`, which is then that of the fastest.
  bool improves(MeshPlace& place, const std::vector<MeshWay>& ways, double& seconds) {
    const double before = seconds;
    bool fits = false;
    for (const MeshWay& way : ways) {
      std::optional<Error> refused;  // some always are
      std::optional<PlannedWay> row = planned(place, way, refused);
      if (!row) continue;
      fits = true;
      seconds = std::min(seconds, row->figures.step_seconds.value_or(HUGE_VAL));
      place.rows.push_back(*std::move(row));
    }
    return !fits || seconds < before;
  }

  // Stages are doubled while that is faster, or until they fit; so are the ranks that share layers.
  void climb(MeshPlace& place) {
    const SweepFigures* const first = place.fastest();
    double best = first == nullptr ? HUGE_VAL : *first->step_seconds;
    for (std::int64_t tensor = 1; tensor <= most_layers(place.mesh); tensor *= 2) {
      double layers = HUGE_VAL, piped = HUGE_VAL;
      if (tensor > 1) (void)improves(place, ways_of_layers(place.mesh, model_, tensor), layers);
      for (std::int64_t stages = 2; stages * tensor <= place.gpus; stages *= 2)
        if (!improves(place, ways_of_stages(place.mesh, model_, stages, tensor), piped)) break;
      const double fastest = std::min(layers, piped);
      if (tensor > 1 && fastest < HUGE_VAL && fastest >= best) break;
      best = std::min(best, fastest);
    }
    double contexts = HUGE_VAL;
    if (place.rows.empty()) (void)improves(place, ways_of_context(place.mesh, model_), contexts);
  }

  OfferedMesh offered(const MeshPlace& place, const PlannedWay& row) const {
    const std::string flags = flags_of(place.mesh, row);
    return {place.number,
            question_.names[place.kind],
            place.gpus,
            place.offer,
            place.words + (flags.empty() ? "" : " " + flags),
            row.figures};
  }

  // Each row with its place and way.
  struct Candidate {
    OfferedMesh mesh;
    const MeshPlace* place = nullptr;
    const PlannedWay* way = nullptr;
  };

  static std::vector<Candidate> unbeaten(const std::vector<Candidate>& all) {
    std::vector<Candidate> kept;
    for (const Candidate& row : all)
      if (std::ranges::none_of(all, [&](const Candidate& other) { return beats(other.mesh, row.mesh); }))
        kept.push_back(row);
    return kept;
  }

  std::string why_unlisted(const MeshPlace& place) const {
    if (place.rows.empty()) return refused_ ? refused_->message() : kNoWayFits;
    return place.fastest() == nullptr ? kNoStepTime : kOthersAreBetter;
  }

  OfferedMeshes answer() {
    OfferedMeshes all;
    std::vector<Candidate> rows;
    std::set<std::string> untimed;
    all.offers = static_cast<std::int64_t>(offers_);
    for (const MeshPlace& place : places_) {
      if (place.rows.empty()) continue;
      ++all.fitting;
      if (place.fastest() == nullptr) untimed.insert(question_.names[place.kind]);
      for (const PlannedWay& row : place.rows)
        if (row.figures.step_seconds) rows.push_back({offered(place, row), &place, &row});
    }
    all.planned = planned_;
    all.untimed.assign(untimed.begin(), untimed.end());
    if (all.fitting == 0 && refused_ && !is_part_) throw Error(*refused_);
    // Those that are left are planned as `gpuplan plan` does it.
    rows = unbeaten(rows);
    run_on_workers(rows.size(), cores(),
                   [&](std::size_t i) { rows[i].mesh.figures = figures_of_worst(rows[i].place->mesh, *rows[i].way); });
    std::erase_if(rows, [](const Candidate& row) { return !row.mesh.figures.fits; });
    for (Candidate& row : unbeaten(rows)) all.rows.push_back(std::move(row.mesh));
    std::ranges::stable_sort(all.rows, {}, [](const OfferedMesh& row) { return *row.figures.step_seconds; });
    for (const MeshPlace& place : places_)
      if (std::ranges::find(all.rows, place.number, &OfferedMesh::place) == all.rows.end())
        all.unlisted.push_back({place.number, question_.names[place.kind], place.gpus, why_unlisted(place)});
    return all;
  }

  const OfferedQuestion& question_;
  const Model model_;
  std::vector<MeshPlace> places_;
  std::size_t offers_ = 0;  // all, of which places_ may be a part
  bool is_part_ = false;
  std::int64_t state_bytes_ = 0;
  std::atomic<std::int64_t> planned_ = 0;
  std::optional<Error> refused_;  // why no data parallelism is planned of any
};

}  // namespace

bool beats(const OfferedMesh& a, const OfferedMesh& b) {
  const auto of = [](const OfferedMesh& row) {
    return std::tuple(row.figures.device_bytes, *row.figures.step_seconds, row.usd_per_step().value_or(HUGE_VAL));
  };
  const auto [bytes_a, seconds_a, usd_a] = of(a);
  const auto [bytes_b, seconds_b, usd_b] = of(b);
  return bytes_a <= bytes_b && seconds_a <= seconds_b && usd_a <= usd_b && of(a) != of(b);
}

std::optional<double> OfferedMesh::usd_per_step() const {
  if (!offer || !figures.step_seconds) return std::nullopt;
  return offer->usd * *figures.step_seconds / 3600;
}

OfferedMeshes offered_meshes(const OfferedQuestion& question, std::span<const Instance> instances,
                             const std::function<void(std::size_t done, std::size_t all)>& told, Shard shard) {
  if (question.run.batch.empty())
    throw Error("--may mesh of several numbers of GPUs compares steps of one batch", ErrorKind::usage)
        .help("--batch 512, which is that of all GPUs");
  Search search(question, instances, shard);
  if (!search.has_places())
    throw Error("no instance with these GPUs matches the flags", ErrorKind::usage)
        .help("--on, --provider, --region and --budget say which may be rented; --gpus 8 asks of GPUs of your own");
  return search.find(told);
}

}  // namespace gpuplan
