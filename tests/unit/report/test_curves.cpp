// Figures over a variable: where ticks stand, what a sweep is drawn over, the screen and the SVG.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/report/curves.h"
#include "estimator/report/sweep_curves.h"
#include "tests/support/test_spec.h"
#include "tests/support/xml_reader.h"

namespace gpuplan {
namespace {

using testing::contains;

SweepRow swept(std::vector<std::string> values, std::int64_t mib, double speed) {
  SweepRow row;
  row.values = std::move(values);
  SweepFigures figures;
  figures.device_bytes = mib << 20;
  figures.usable_bytes = std::int64_t{4000} << 20;
  if (speed > 0) figures.samples_per_second = speed;
  row.figures = figures;
  return row;
}

const std::vector<std::string> kNames = {"precision", "batch"};
const std::vector<SweepRow> kRows = {swept({"fp32", "8"}, 1000, 100), swept({"fp32", "64"}, 3000, 200),
                                     swept({"bf16", "8"}, 700, 150), swept({"bf16", "64"}, 1500, 400)};

}  // namespace

TEST_CASE("ticks are round, and the last is not below what is drawn") {
  CHECK_EQ(ticks_to(9, false), std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK_EQ(ticks_to(100, false), std::vector<double>{0, 20, 40, 60, 80, 100});
  constexpr double kGiB = 1 << 30;
  CHECK_EQ(ticks_to(4.2 * kGiB, true), std::vector<double>{0, kGiB, 2 * kGiB, 3 * kGiB, 4 * kGiB, 5 * kGiB});
  CHECK_EQ(ticks_to(0, true).size(), 2);
}

TEST_CASE("a sweep is drawn over the flag that has numbers, a curve for each value of the others") {
  const std::vector<CurveFrame> frames = sweep_curves(kNames, kRows);
  REQUIRE_EQ(frames.size(), 2);
  CHECK_EQ(frames[0].x_name, "batch");
  CHECK(frames[0].x_log);  // from 8 to 64
  REQUIRE_EQ(frames[0].curves.size(), 2);
  CHECK_EQ(frames[0].curves[0].name, "precision fp32");
  CHECK_EQ(frames[0].curves[0].points[1].y, 3000.0 * (1 << 20));
  REQUIRE_EQ(frames[0].limits.size(), 1);
  CHECK_EQ(frames[0].limits[0].name, "usable: 3.91 GiB");
  CHECK_EQ(frames[1].curves[1].points[1].y, 400);
}

TEST_CASE("words that are no numbers stand side by side; what cannot be run is left out") {
  std::vector<SweepRow> rows = {swept({"fp32"}, 1000, 0), swept({"bf16"}, 700, 0), {}};
  rows[2].values = {"fp8"};
  rows[2].error = "the GPU has no fp8";
  const std::vector<std::string> names = {"precision"};
  const std::vector<CurveFrame> frames = sweep_curves(names, rows);
  CHECK_EQ(frames[0].x_words, std::vector<std::string>{"fp32", "bf16", "fp8"});
  REQUIRE_EQ(frames[0].curves.size(), 1);
  CHECK_EQ(frames[0].curves[0].points.size(), 2);
  CHECK(frames[1].curves.empty());  // no GPU is named, so no time is known
}

TEST_CASE("a drawing is well-formed and names what it shows; a screen fits its width") {
  std::vector<SweepRow> rows = kRows;
  rows[0].values[0] = "<fp32> & \"more\"";
  const std::vector<CurveFrame> frames = sweep_curves(kNames, rows);
  const std::string svg = curves_svg("Sweep of <a model>", frames);
  const std::string wrong = tests::xml_error(svg).value_or("");
  CHECK_EQ(wrong, "");
  CHECK(contains(svg, "batch 64, precision bf16: 1.46 GiB"));
  CHECK(contains(svg, "usable: 3.91 GiB"));
  for (const bool unicode : {true, false}) {
    const TextStyle style = [&] {
      TextStyle s;
      s.unicode = unicode;
      s.width = 60;
      return s;
    }();
    const std::string text = curves_text(frames[0], style);
    CHECK(contains(text, "4.00 GiB"));
    CHECK(contains(text, "c  precision bf16"));
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      CHECK_LE(display_width(std::string_view(text).substr(at, end - at)),
               68);  // the last value of x may be named beyond
      at = end + 1;
    }
    if (!unicode)
      for (const char c : text) CHECK_GE(c, 0);
  }
  CHECK_EQ(curves_svg("nothing", sweep_curves(kNames, {})), "");
  CHECK_EQ(curves_text(CurveFrame{}, {}), "");
}

}  // namespace gpuplan
