#include "estimator/budget/figure.h"

namespace gpuplan {
namespace {

constexpr std::array<Figure, 8> kOfStep = {Figure::peak,  Figure::reserved,  Figure::device,    Figure::params,
                                           Figure::saved, Figure::step_flop, Figure::step_time, Figure::cost};
constexpr std::array<Figure, 3> kOfModule = {Figure::saved, Figure::params, Figure::step_flop};

// A bare number is a count of single ones.
constexpr std::array<AmountUnit, 6> kCounts = {
    {{"", 1}, {"k", 1'000}, {"M", 1'000'000}, {"G", 1'000'000'000}, {"B", 1'000'000'000}, {"T", 1'000'000'000'000}}};
constexpr std::array<AmountUnit, 7> kFlops = {{{"FLOP", 1},
                                               {"kFLOP", 1'000},
                                               {"MFLOP", 1'000'000},
                                               {"GFLOP", 1'000'000'000},
                                               {"TFLOP", 1'000'000'000'000},
                                               {"PFLOP", 1'000'000'000'000'000},
                                               {"EFLOP", 1'000'000'000'000'000'000}}};
constexpr std::array<AmountUnit, 6> kTimes = {{{"ns", 1},
                                               {"us", 1'000},
                                               {"ms", 1'000'000},
                                               {"s", 1'000'000'000},
                                               {"min", 60'000'000'000},
                                               {"h", 3'600'000'000'000}}};
constexpr std::array<AmountUnit, 1> kPrices = {{{"USD/Msample", 1'000'000}}};

}  // namespace

std::string_view name_of(Figure figure) {
  constexpr std::array<std::string_view, kFigures> kNames = {"peak",      "reserved",  "device", "params",
                                                             "step_flop", "step_time", "cost",   "saved"};
  return kNames[static_cast<std::size_t>(figure)];
}

std::span<const Figure> figures_of_step() { return kOfStep; }
std::span<const Figure> figures_of_module() { return kOfModule; }

Unit unit_of(Figure figure) {
  switch (figure) {
    case Figure::peak:
    case Figure::reserved:
    case Figure::device:
    case Figure::saved: return Unit::bytes;
    case Figure::params: return Unit::count;
    case Figure::step_flop: return Unit::flop;
    case Figure::step_time: return Unit::nanoseconds;
    case Figure::cost: return Unit::micro_usd;
  }
  return Unit::bytes;
}

std::span<const AmountUnit> units_of(Unit unit) {
  switch (unit) {
    case Unit::bytes: return byte_units();
    case Unit::count: return kCounts;
    case Unit::flop: return kFlops;
    case Unit::nanoseconds: return kTimes;
    case Unit::micro_usd: return kPrices;
  }
  return {};
}

std::string_view example_of(Unit unit) {
  switch (unit) {
    case Unit::bytes: return "8 GiB";
    case Unit::count: return "25.6 M";
    case Unit::flop: return "2 TFLOP";
    case Unit::nanoseconds: return "120 ms";
    case Unit::micro_usd: return "0.50 USD/Msample";
  }
  return "";
}

}  // namespace gpuplan
