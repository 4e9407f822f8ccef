// The roofline of a step: which points there are, the screen, and the drawing.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "estimator/report/roofline.h"
#include "estimator/report/roofline_axes.h"
#include "estimator/report/time_text.h"
#include "estimator/report/xml_text.h"
#include "tests/support/golden.h"
#include "tests/support/report_example.h"
#include "tests/support/test_spec.h"
#include "tests/support/xml_reader.h"

namespace gpuplan {
namespace {

using testing::contains;

LayerRow timed_layer(std::string name, std::string_view type, std::int64_t flops, std::int64_t bytes, std::int64_t ns) {
  LayerRow row = tests::layer_row(std::move(name), type, 1, {1}, {1});
  row.work_flops = flops;
  row.work_bytes = bytes;
  row.busy_ns = ns;
  return row;
}

// A GPU of 10 TFLOP/s in fp16 and 1 TFLOP/s in fp32 that moves 100 GB/s: ridges at 100 and at 10 FLOP/byte.
Report timed_report() {
  Report report = tests::example_report();
  report.gpu = tests::example_gpu();
  StepTime time;
  time.roofs = {{"fp16", 10e12}, {"fp32", 1e12}};
  time.peak_bytes = 100e9;
  report.time = time;
  report.layers = {
      timed_layer("h.0.conv1", "Conv2d", 1'000'000'000, 5'000'000, 500'000),  // 200 FLOP/byte, 2 TFLOP/s
      timed_layer("h.0.relu", "ReLU", 1'000'000, 8'000'000, 100'000),         // 0.125, 10 GFLOP/s
      timed_layer("h.1.conv1", "Conv2d", 1'000'000'000, 5'000'000, 500'000),
      timed_layer("h.1.relu", "ReLU", 1'000'000, 8'000'000, 100'000),
      timed_layer("h.1.relu2", "ReLU", 1'000'000, 8'000'000, 100'000),
      timed_layer("flatten", "Flatten", 0, 0, 0),
      timed_layer("head", "Linear", 40'000'000, 4'000'000, 100'000),  // 10 FLOP/byte, 400 GFLOP/s
  };
  return report;
}

}  // namespace

TEST_CASE("layers that do the same are one point, named by what their paths have in common") {
  const Roofline r = roofline(timed_report());
  REQUIRE_EQ(r.points.size(), 3);
  CHECK_EQ(r.points[0].name, "h.*.conv1");
  CHECK_EQ(r.points[0].layers, 2);
  CHECK_EQ(r.points[0].intensity, doctest::Approx(200));
  CHECK_EQ(r.points[0].flops_per_second, doctest::Approx(2e12));
  CHECK_EQ(r.points[0].per_mille, 714);  // 1 of 1.4 ms
  CHECK_EQ(r.points[1].name, "h.*.relu*");
  CHECK_EQ(r.points[1].layers, 3);
  CHECK_EQ(r.points[2].name, "head");
  CHECK_EQ(r.without, 1);
}

TEST_CASE("the roof is the lower of the memory's slope and the highest arithmetic") {
  const Roofline r = roofline(timed_report());
  CHECK_EQ(r.ridge(r.roofs[0]), doctest::Approx(100));
  CHECK_EQ(r.ridge(r.roofs[1]), doctest::Approx(10));
  CHECK_EQ(r.roof(1), doctest::Approx(100e9));
  CHECK_EQ(r.roof(100), doctest::Approx(10e12));
  CHECK_EQ(r.roof(1000), doctest::Approx(10e12));
}

TEST_CASE("axes are whole decades with room for every point and ridge") {
  const RooflineAxes axes = axes_of(roofline(timed_report()));
  CHECK_EQ(axes.intensity.first, -1);   // 0.125
  CHECK_EQ(axes.intensity.decades, 4);  // four times the ridge of 100
  CHECK_EQ(axes.rate.first, 10);
  CHECK_EQ(axes.rate.decades, 3);
  CHECK_EQ(axes.rate.part(1e10), doctest::Approx(0));
  CHECK_EQ(axes.rate.part(1e13), doctest::Approx(1));
  CHECK_EQ(axes.rate.part(1e20), 1);
  CHECK_EQ(axes.intensity.value(0.5), doctest::Approx(10));
  CHECK_EQ(name_of_decade(-2), "0.01");
  CHECK_EQ(name_of_decade(3), "1,000");
  CHECK_EQ(rate_of_decade(12), "1 TFLOP/s");
}

TEST_CASE("the roofline as printed") {
  const Roofline r = roofline(timed_report());
  TextStyle style;
  tests::check_golden("roofline.txt", roofline_text(r, style, 12));
  style.unicode = false;
  const std::string ascii = roofline_text(r, style, 2);
  tests::check_golden("roofline_ascii.txt", ascii);
  CHECK(std::ranges::all_of(ascii, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  for (const int width : {1, 40, 60, 1000}) {
    style.width = width;
    CHECK(contains(roofline_text(r, style, 2), "FLOP/byte"));
  }
  Report nothing = timed_report();
  nothing.layers.clear();
  CHECK_EQ(roofline_text(roofline(nothing), style, 12), "  no layer computes anything\n");
  CHECK_FALSE(tests::xml_error(roofline_svg(roofline(nothing), 12)));
}

TEST_CASE("XML text keeps what XML can hold and replaces the rest") {
  CHECK_EQ(xml_text("a<b>&\"c'\n"), "a&lt;b&gt;&amp;&quot;c&#39;\n");
  CHECK_EQ(xml_text("é 层 😀"), "é 层 😀");
  const std::string replaced = "\xEF\xBF\xBD";
  CHECK_EQ(xml_text(std::string("\0", 1)), replaced);
  CHECK_EQ(xml_text("\x1b[31m"), replaced + "[31m");
  CHECK_EQ(xml_text("\xff"), replaced);
  CHECK_EQ(xml_text("\xC0\xAF"), replaced + replaced);                 // overlong
  CHECK_EQ(xml_text("\xED\xA0\x80"), replaced + replaced + replaced);  // a surrogate
  CHECK_EQ(xml_text("\xEF\xBF\xBE"), replaced);                        // U+FFFE
  CHECK_EQ(xml_text("\xE5\xB1"), replaced + replaced);                 // cut off
}

TEST_CASE("the drawing is well-formed XML whatever the names are, and nothing of them is markup") {
  Report report = timed_report();
  const std::string hostile = "</title><script>alert('1')</script>&\"\x01\xff]]>";
  report.model.name = hostile;
  report.layers[0].name = report.layers[2].name = hostile;
  report.layers[6].type = "<b>&";
  report.gpu->title = hostile;
  const std::string svg = roofline_svg(roofline(report), 12);
  const auto error = tests::xml_error(svg);
  CHECK_MESSAGE(!error, error.value_or(""));
  CHECK_FALSE(contains(svg, "<script"));
  CHECK_FALSE(contains(svg, "http-equiv"));
  CHECK_FALSE(contains(svg, "href"));
  CHECK(contains(svg, "&lt;script&gt;"));
}

TEST_CASE("the drawing has a circle a point and a tooltip each, and letters that do not cover each other") {
  const std::string svg = roofline_svg(roofline(timed_report()), 12);
  CHECK(contains(svg, "prefers-color-scheme: dark"));
  CHECK(contains(svg, "h.*.conv1 × 2, Conv2d: 200 FLOP/byte, 2.00 TFLOP/s, 71.4 % of the time"));
  CHECK(contains(svg, "fp16 10.0 TFLOP/s"));
  CHECK(contains(svg, "memory 100 GB/s"));
  // Forty layers at one place: every letter that is drawn has a place of its own.
  Report crowded = timed_report();
  crowded.layers.clear();
  for (int i = 0; i < 40; ++i)
    crowded.layers.push_back(timed_layer("l" + std::to_string(i), "Linear", 1'000'000'000 + i, 5'000'000, 500'000 + i));
  const std::string drawn = roofline_svg(roofline(crowded), 40);
  std::vector<std::pair<double, double>> places;
  const std::string plot = drawn.substr(0, drawn.find("<g>"));
  for (std::size_t at = plot.find("class=\"mark\""); at != std::string::npos;
       at = plot.find("class=\"mark\"", at + 1)) {
    const std::size_t y = plot.rfind(" y=\"", at) + 4, x = plot.rfind(" x=\"", at) + 4;
    places.emplace_back(std::stod(plot.substr(x)), std::stod(plot.substr(y)));
  }
  CHECK_GE(places.size(), 30);
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const double right = std::abs(places[i].first - places[j].first),
                   down = std::abs(places[i].second - places[j].second);
      const bool apart = right >= 9.9 || down >= 11.9;
      CHECK(apart);
    }
}

}  // namespace gpuplan
