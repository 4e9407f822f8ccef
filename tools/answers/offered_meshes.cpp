#include "tools/answers/offered_meshes.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/number_text.h"
#include "estimator/distributed/strategy.h"
#include "estimator/plan/plan.h"
#include "estimator/report/rent_job.h"
#include "estimator/search/device_bytes.h"
#include "estimator/search/figures.h"
#include "estimator/search/workers.h"
#include "layers/catalog.h"
#include "tools/answers/mesh_planner.h"
#include "tools/answers/planning.h"

namespace gpuplan {
namespace {

constexpr double kMuchSent = 0.1;  // of a step

// So many GPUs of a kind, and what is asked of them.
struct Place {
  std::size_t kind = 0;  // of OfferedQuestion::gpus
  std::int64_t gpus = 1;
  std::optional<Offer> offer;
  MeshQuestion mesh;
  std::string words;  // of the place: "--gpu h100 --gpus 16 --network 3200"
  std::vector<FittingWay> rows;

  const SweepFigures* fastest() const {
    const SweepFigures* best = nullptr;
    for (const FittingWay& row : rows)
      if (row.figures.step_seconds && (best == nullptr || *row.figures.step_seconds < *best->step_seconds))
        best = &row.figures;
    return best;
  }
};

bool same_link(const std::optional<Link>& a, const std::optional<Link>& b) {
  return a.has_value() == b.has_value() && (!a || a->bytes_per_second == b->bytes_per_second);
}

// `gpuplan plan` knows one link within a node, that of the GPU.
std::vector<Instance> connected_as_planned(const Gpu& gpu, const FitQuestion& question,
                                           std::span<const Instance> instances) {
  std::vector<Instance> rented = rentable(gpu, question, instances);
  std::erase_if(rented, [&](const Instance& i) {
    const Offer offer{i, 1, 0};
    return i.gpu_count > 1 && !same_link(topology_of(gpu, &offer, question).within_node, link_within_node(gpu));
  });
  return rented;
}

// The cheapest; several instances are joined by a network that is known.
std::optional<Offer> offer_of(const std::vector<Instance>& rented, std::int64_t gpus, const FitQuestion& question) {
  std::vector<Instance> joinable = rented;
  const bool together =
      std::ranges::any_of(rented, [&](const Instance& i) { return static_cast<std::int64_t>(i.gpu_count) == gpus; });
  std::erase_if(joinable, [&](const Instance& i) {
    const auto whole = static_cast<std::int64_t>(i.gpu_count);
    return together ? whole != gpus : gpus % whole != 0 || whole == 1 || (!question.network_gbps && !i.network_gbps);
  });
  const std::vector<Offer> offers = offers_of(joinable, gpus, question);
  if (offers.empty() || (question.most_usd && offers.front().usd > *question.most_usd)) return std::nullopt;
  return offers.front();
}

std::vector<std::int64_t> counts_of(const std::vector<Instance>& rented, const FitQuestion& question) {
  if (!question.gpus.empty()) return question.gpus;
  std::vector<std::int64_t> counts = counts_offered(rented);
  for (std::int64_t joined = 2 * counts.back(); counts.back() > 1 && joined <= kMostJoined; joined *= 2)
    counts.push_back(joined);
  return counts;
}

class Search {
 public:
  Search(const OfferedQuestion& question, std::span<const Instance> instances) : question_(question) {
    for (std::size_t kind = 0; kind < question.gpus.size(); ++kind) {
      const std::vector<Instance> rented = connected_as_planned(question.gpus[kind], question.market, instances);
      for (const std::int64_t gpus : counts_of(rented, question.market)) {
        std::optional<Offer> offer = offer_of(rented, gpus, question.market);
        if (offer || !question.market.gpus.empty()) add_place(kind, gpus, std::move(offer));
      }
    }
    measure_states();
  }

  OfferedMeshes find(const std::function<void(std::size_t, std::size_t)>& told) {
    plan_ranks(told);
    plan_meshes(told);
    return answer();
  }

 private:
  void add_place(std::size_t kind, std::int64_t gpus, std::optional<Offer> offer) {
    Place place;
    place.kind = kind;
    place.gpus = gpus;
    place.mesh = {question_.run, question_.fsdp, question_.checkpoints, question_.micro_batches};
    place.mesh.run.gpu = question_.names[kind];
    place.words = "--gpu " + shell_word(question_.names[kind]);
    if (gpus > 1) {
      SeveralGpusOptions& several = place.mesh.several;
      several.gpus = std::to_string(gpus);
      place.words += " --gpus " + several.gpus;
      const std::int64_t node = offer ? static_cast<std::int64_t>(offer->instance.gpu_count) : 8;
      if (node != 8 && gpus > std::min<std::int64_t>(node, 8)) several.gpus_per_node = std::to_string(node);
      if (!several.gpus_per_node.empty()) place.words += " --gpus-per-node " + several.gpus_per_node;
      std::optional<double> gbps = question_.market.network_gbps;
      if (!gbps && offer) gbps = offer->instance.network_gbps;
      if (gbps && gpus > node) several.network = number_text(*gbps);
      if (!several.network.empty()) place.words += " --network " + several.network;
    } else {
      place.mesh.several = {};
    }
    place.offer = std::move(offer);
    places_.push_back(std::move(place));
  }

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

  bool is_too_small(const Place& place) const {
    if (question_.fsdp.fsdp.find("offload=true") != std::string::npos) return false;
    return state_bytes_ / place.gpus > usable_bytes(question_.gpus[place.kind]);
  }

  // Of a way that shares less than all.
  bool is_too_small(const Place& place, const MeshWay& way) const {
    const std::optional<Strategy> s = strategy_of(way.several);
    if (!s || s->offloads) return false;
    std::int64_t bytes = state_bytes_ / place.gpus;
    if (s->data == DataParallel::ddp) bytes = state_bytes_ / (s->tensor * s->pipeline);
    if (s->data == DataParallel::fsdp && s->replicas > 1) bytes *= s->replicas;
    return bytes > usable_bytes(question_.gpus[place.kind]);
  }

  std::optional<FittingWay> planned(const Place& place, const MeshWay& way) {
    if (is_too_small(place, way)) return std::nullopt;
    ++planned_;
    try {
      return fitting_way(place.mesh, way);
    } catch (const Error& e) {
      const std::lock_guard lock(mutex_);
      if (!refused_) refused_ = e;
      return std::nullopt;
    }
  }

  void plan_ranks(const std::function<void(std::size_t, std::size_t)>& told) {
    std::vector<std::pair<Place*, MeshWay>> tasks;
    for (Place& place : places_)
      if (!is_too_small(place))
        for (MeshWay& way : ways_of_ranks(place.mesh)) tasks.emplace_back(&place, std::move(way));
    std::vector<std::optional<FittingWay>> rows(tasks.size());
    run_on_workers(
        tasks.size(), cores(), [&](std::size_t i) { rows[i] = planned(*tasks[i].first, tasks[i].second); },
        [&](std::size_t done) {
          if (told) told(done, tasks.size());
        });
    for (std::size_t i = 0; i < tasks.size(); ++i)
      if (rows[i]) tasks[i].first->rows.push_back(*std::move(rows[i]));
  }

  static bool asks_for_meshes(const Place& place) {
    if (place.gpus == 1) return false;
    if (place.rows.empty()) return true;
    const SweepFigures* const best = place.fastest();
    if (best == nullptr || !best->communication_seconds) return false;
    return *best->communication_seconds > kMuchSent * *best->step_seconds;
  }

  void plan_meshes(const std::function<void(std::size_t, std::size_t)>& told) {
    std::vector<Place*> places;
    for (Place& place : places_)
      if (!is_too_small(place) && asks_for_meshes(place)) places.push_back(&place);
    // The largest takes longest.
    std::ranges::stable_sort(places, std::greater{}, &Place::gpus);
    run_on_workers(
        places.size(), cores(), [&](std::size_t i) { climb(*places[i]); },
        [&](std::size_t done) {
          if (told) told(done, places.size());
        });
  }

  // Plans them; false where some fit, and none is faster than `seconds`, which is then that of the fastest.
  bool improves(Place& place, const std::vector<MeshWay>& ways, double& seconds) {
    const double before = seconds;
    bool fits = false;
    for (const MeshWay& way : ways) {
      std::optional<FittingWay> row = planned(place, way);
      if (!row) continue;
      fits = true;
      seconds = std::min(seconds, row->figures.step_seconds.value_or(HUGE_VAL));
      place.rows.push_back(*std::move(row));
    }
    return !fits || seconds < before;
  }

  // Stages are doubled while that is faster, or until they fit; so are the ranks that share layers.
  void climb(Place& place) {
    const SweepFigures* const first = place.fastest();
    double best = first == nullptr ? HUGE_VAL : *first->step_seconds;
    for (std::int64_t tensor = 1; tensor <= most_layers(place.mesh); tensor *= 2) {
      double layers = HUGE_VAL, piped = HUGE_VAL;
      if (tensor > 1) (void)improves(place, ways_of_layers(place.mesh, tensor), layers);
      for (std::int64_t stages = 2; stages * tensor <= place.gpus; stages *= 2)
        if (!improves(place, ways_of_stages(place.mesh, stages, tensor), piped)) break;
      const double fastest = std::min(layers, piped);
      if (tensor > 1 && fastest < HUGE_VAL && fastest >= best) break;
      best = std::min(best, fastest);
    }
  }

  // In memory, time and money; what has no price is judged by the others.
  static bool beats(const OfferedMesh& a, const OfferedMesh& b) {
    const auto of = [](const OfferedMesh& row) {
      return std::tuple(row.figures.device_bytes, *row.figures.step_seconds, row.usd_per_step().value_or(HUGE_VAL));
    };
    const auto [bytes_a, seconds_a, usd_a] = of(a);
    const auto [bytes_b, seconds_b, usd_b] = of(b);
    return bytes_a <= bytes_b && seconds_a <= seconds_b && usd_a <= usd_b && of(a) != of(b);
  }

  OfferedMesh offered(const Place& place, const FittingWay& row) const {
    const std::string flags = flags_of(row.way, row.micro_batches);
    return {question_.names[place.kind], place.gpus, place.offer, place.words + (flags.empty() ? "" : " " + flags),
            row.figures};
  }

  // Each row with its place and way.
  struct Candidate {
    OfferedMesh mesh;
    const Place* place = nullptr;
    const FittingWay* way = nullptr;
  };

  static std::vector<Candidate> unbeaten(const std::vector<Candidate>& all) {
    std::vector<Candidate> kept;
    for (const Candidate& row : all)
      if (std::ranges::none_of(all, [&](const Candidate& other) { return beats(other.mesh, row.mesh); }))
        kept.push_back(row);
    return kept;
  }

  OfferedMeshes answer() {
    OfferedMeshes all;
    std::vector<Candidate> rows;
    std::set<std::string> untimed;
    all.offers = static_cast<std::int64_t>(places_.size());
    for (const Place& place : places_) {
      if (place.rows.empty()) continue;
      ++all.fitting;
      if (place.fastest() == nullptr) untimed.insert(question_.names[place.kind]);
      for (const FittingWay& row : place.rows)
        if (row.figures.step_seconds) rows.push_back({offered(place, row), &place, &row});
    }
    all.planned = planned_;
    all.untimed.assign(untimed.begin(), untimed.end());
    if (all.fitting == 0 && refused_) throw Error(*refused_);
    // Those that are left are planned as `gpuplan plan` does it.
    rows = unbeaten(rows);
    run_on_workers(rows.size(), cores(),
                   [&](std::size_t i) { rows[i].mesh.figures = figures_of_worst(rows[i].place->mesh, *rows[i].way); });
    std::erase_if(rows, [](const Candidate& row) { return !row.mesh.figures.fits; });
    for (Candidate& row : unbeaten(rows)) all.rows.push_back(std::move(row.mesh));
    std::ranges::stable_sort(all.rows, {}, [](const OfferedMesh& row) { return *row.figures.step_seconds; });
    return all;
  }

  const OfferedQuestion& question_;
  std::vector<Place> places_;
  std::int64_t state_bytes_ = 0;
  std::atomic<std::int64_t> planned_ = 0;
  std::mutex mutex_;
  std::optional<Error> refused_;
};

}  // namespace

std::optional<double> OfferedMesh::usd_per_step() const {
  if (!offer || !figures.step_seconds) return std::nullopt;
  return offer->usd * *figures.step_seconds / 3600;
}

OfferedMeshes offered_meshes(const OfferedQuestion& question, std::span<const Instance> instances,
                             const std::function<void(std::size_t done, std::size_t all)>& told) {
  if (question.run.batch.empty())
    throw Error("--may mesh of several numbers of GPUs compares steps of one batch", ErrorKind::usage)
        .help("--batch 512, which is that of all GPUs");
  return Search(question, instances).find(told);
}

}  // namespace gpuplan
