// The host device's optimizers and GradScaler against what PyTorch 2.15 computes in fp64 on a CPU: torch.optim with its
// defaults (SGD with lr=0.001), foreach=False, on one parameter [0.5, -1.25, 2] whose gradient in step t is
// [sin t, sin(t + 1), sin(t + 2)], printed by repr() after steps 1, 2 and 7.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/host_device/blocks.h"
#include "tests/host_device/optimizer.h"

namespace gpuplan::host {
namespace {

using Row = std::vector<double>;

struct Recorded {
  std::string name;
  OptimizerConfig config;
  std::size_t states;
  Row first, second, seventh;
};

OptimizerConfig config_of(OptimizerKind kind, bool weight_decay = false) {
  OptimizerConfig config;
  config.kind = kind;
  config.weight_decay = weight_decay;
  return config;
}

std::vector<Recorded> recorded() {
  OptimizerConfig nesterov = config_of(OptimizerKind::sgd);
  nesterov.momentum = nesterov.nesterov = true;
  OptimizerConfig centered = config_of(OptimizerKind::rmsprop);
  centered.momentum = centered.centered = true;
  return {
      {"SGD(nesterov=True, momentum=0.9)",
       nesterov,
       1,
       {0.498401205128865, -1.2517276651109688, 1.9997318719846862},
       {0.4959919485202018, -1.2527323240420114, 2.001055489519243},
       {0.4957083474023034, -1.2511413219128105, 2.0030583348752384}},
      {"Adam",
       config_of(OptimizerKind::adam),
       2,
       {0.49900000001188394, -1.2509999999890025, 1.9990000000708616},
       {0.497998731516691, -1.251776301010858, 1.999608771618233},
       {0.4970914146930588, -1.2512316568684891, 2.001229986712162}},
      {"AdamW",
       config_of(OptimizerKind::adamw),
       2,
       {0.49899500001188396, -1.2509874999890025, 1.9989800000708617},
       {0.49798874156669093, -1.2517512911358581, 1.9995687818182324},
       {0.49705656447502133, -1.2511440765599182, 2.0010899602551278}},
      {"RMSprop",
       config_of(OptimizerKind::rmsprop),
       1,
       {0.4000000118839497, -1.3499999890024994, 1.9000000708616238},
       {0.3264351178022459, -1.3654114986554975, 1.9983221114759298},
       {0.40345730126718776, -1.3109678435362242, 1.9710081952496261}},
      {"RMSprop(centered=True, momentum=0.9)",
       centered,
       3,
       {0.39949623047806837, -1.3505037704173348, 1.8994962900514762},
       {0.23473599417332058, -1.4564693059186014, 1.9076825032828786},
       {-0.0938293432583927, -1.4449605353718258, 2.0782043001205337}},
      {"Adagrad",
       config_of(OptimizerKind::adagrad),
       1,
       {0.4900000000011884, -1.2599999999989002, 1.990000000007086},
       {0.4826604979864535, -1.261533608153397, 1.999830553286089},
       {0.49030762984886345, -1.2560638109776994, 1.9971980024693525}},
      {"Adadelta",
       config_of(OptimizerKind::adadelta),
       2,
       {0.49683774466974884, -1.2531622585372513, 1.9968385159903423},
       {0.4934770088900705, -1.2538842586581322, 2.0012416882508006},
       {0.49797455799398854, -1.2525846169788517, 1.9964395897386704}},
      {"Adadelta(weight_decay=0.01)",
       config_of(OptimizerKind::adadelta, true),
       2,
       {0.49683774440673056, -1.253162258000452, 1.9968383312393136},
       {0.49347770373354855, -1.2538305898342812, 2.001216780475312},
       {0.4978731873490912, -1.2523319653267533, 1.9959298063899573}},
      {"NAdam",
       config_of(OptimizerKind::nadam),
       2,
       {0.49788709644244006, -1.252112903559433, 1.9978870965670543},
       {0.496267162282007, -1.2525582266077553, 1.9999185664782766},
       {0.49778980896804376, -1.2516949384369007, 1.999123178413601}},
      {"NAdam(weight_decay=0.01)",
       config_of(OptimizerKind::nadam, true),
       2,
       {0.49788709644229173, -1.252112903559109, 1.997887096548469},
       {0.49626746902617297, -1.2525345739498202, 1.9999019270730831},
       {0.49773932440851526, -1.2515470154018156, 1.998923615165197}},
      {"RAdam",
       config_of(OptimizerKind::radam),
       2,
       {0.4991585290151921, -1.2509092974268257, 1.9998588799919401},
       {0.4982813599030064, -1.2514142909490378, 2.0001903507751266},
       {0.4975451880528497, -1.2509487131104837, 2.0014288996851533}},
      {"RAdam(weight_decay=0.01)",
       config_of(OptimizerKind::radam, true),
       2,
       {0.4991535290151921, -1.2508967974268257, 1.9998388799919402},
       {0.49827136435811686, -1.2513892862290514, 2.0001503516231267},
       {0.49751982608719175, -1.250885173624597, 2.001327200359581}},
      {"Adamax",
       config_of(OptimizerKind::adamax),
       2,
       {0.4980000000237679, -1.251999999978005, 1.9980000001417233},
       {0.49607066628397894, -1.2531118452351477, 1.998875977112892},
       {0.49462166697834, -1.2522871559298978, 2.001128437761372}},
      {"Adamax(weight_decay=0.01)",
       config_of(OptimizerKind::adamax, true),
       2,
       {0.4980000000236275, -1.2519999999776985, 1.9980000001241311},
       {0.4960702606461961, -1.253099414297198, 1.9988454718822768},
       {0.4945798095537607, -1.2521638891946891, 2.00095303669713}},
  };
}

void check_near(const Row& got, const Row& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-12));
}

// A fused optimizer's count of steps comes before the other states.
void check_steps(const Recorded& r, bool fused) {
  CAPTURE(r.name);
  OptimizerConfig config = r.config;
  if (fused) config.impl = OptimizerImpl::fused;
  const bool counts = fused && config.kind != OptimizerKind::sgd;
  const Block p({3}, DType::fp64, {0.5, -1.25, 2}), count({}, DType::fp32);
  Block g({3});
  std::vector<Block> states(r.states, Block({3}));
  std::vector<KernelTensor> tensors(states.begin(), states.end());
  if (counts) tensors.insert(tensors.begin(), count.tensor());
  for (int t = 1; t <= 7; ++t) {
    for (int i = 0; i < 3; ++i) g.set(i, std::sin(t + i));
    update(config, t, {p, g, tensors});
    if (t == 1) check_near(p.values(), r.first);
    if (t == 2) check_near(p.values(), r.second);
  }
  check_near(p.values(), r.seventh);
  if (counts) CHECK(count.get(0) == 7);
}

TEST_CASE("optimizers step as PyTorch does") {
  for (const Recorded& r : recorded()) check_steps(r, false);
  for (const Recorded& r : recorded())
    if (r.name.starts_with("SGD") || r.name == "Adam" || r.name == "AdamW" || r.name == "Adagrad") check_steps(r, true);
}

// torch.amp.GradScaler("cpu") with gradients that are not finite in steps 2 and 6: get_scale() and
// _get_growth_tracker() after each update. The growth interval is 2000 here and was 3 there: the tracker begins so that
// it is reached in the same step.
TEST_CASE("a GradScaler's scale is halved by infinities and grows after a while without") {
  const Block scale({}, DType::fp32, {65536}), tracker({}, DType::int32);
  Block found_inf({}, DType::fp32);
  const ScalerValues values{scale.tensor().data, tracker.tensor().data, found_inf.tensor().data};
  const Row scales{65536, 65536, 32768, 32768, 32768, 65536, 32768, 32768}, trackers{1, 2, 0, 1, 2, 0, 0, 1};
  for (std::size_t t = 0; t < scales.size(); ++t) {
    CAPTURE(t);
    const double before = scale.get(0);
    Block g({2}, DType::fp32, {0.25 * before, t == 2 || t == 6 ? std::numeric_limits<double>::infinity() : 1 * before});
    const KernelTensor all[] = {g};
    found_inf.set(0, 0);
    unscale(all, values);
    CHECK(g.get(0) == 0.25);
    if (t == 5) store(tracker.tensor(), 0, 1999);
    update_scale(values);
    CHECK(scale.get(0) == scales[t]);
    CHECK(tracker.get(0) == trackers[t]);
  }
}

TEST_CASE("... a NaN is found, too, and a scale that would become infinite stays") {
  const Block scale({}, DType::fp32, {std::ldexp(1.0, 127)}), tracker({}, DType::int32, {1999});
  const Block found_inf({}, DType::fp32);
  const ScalerValues values{scale.tensor().data, tracker.tensor().data, found_inf.tensor().data};
  update_scale(values);
  CHECK(scale.get(0) == std::ldexp(1.0, 127));
  CHECK(tracker.get(0) == 0);
  const Block g({1}, DType::fp16, {std::numeric_limits<double>::quiet_NaN()});
  const KernelTensor all[] = {g};
  unscale(all, values);
  CHECK(found_inf.get(0) == 1);
}

}  // namespace
}  // namespace gpuplan::host
