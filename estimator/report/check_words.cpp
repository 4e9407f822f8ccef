// The words that the writers of gpuplan check share.
#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "estimator/report/check_report.h"
#include "estimator/report/time_text.h"

namespace gpuplan {
namespace {

// In thousandths of the limit, so that the fullest of several can be told; what is no ceiling comes last.
std::int64_t use_of(const Assertion& a) {
  const bool ceiling = a.kind == Assertion::Kind::max || a.kind == Assertion::Kind::fits;
  if (!ceiling) return -1;
  return a.limit > 0 ? a.value / std::max<std::int64_t>(a.limit / 1000, 1) : 0;
}

std::string subject_of(const Assertion& a) {
  const std::string figure(name_of(a.figure));
  return a.pattern.empty() ? figure : figure + " of " + a.subject;
}

// "(13 %)", of a share below half a percent with a decimal.
std::string share(std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return "";
  const std::int64_t tenths = in_tenths(part * 100, whole);
  return " (" + (tenths < 100 ? format_tenths(tenths) : std::to_string((tenths + 5) / 10)) + " %)";
}

std::string over(const Assertion& a, std::string_view what, Units units) {
  const std::int64_t excess = a.value - a.limit;
  return subject_of(a) + " " + format_amount(a.figure, a.value, units) + " is " +
         format_amount(a.figure, excess, units) + share(excess, a.limit) + " over the " + std::string(what) + " of " +
         (a.text.empty() || a.text.ends_with('%') ? format_amount(a.figure, a.limit, units) : a.text);
}

}  // namespace

int CheckReport::count(State state) const {
  return static_cast<int>(std::ranges::count(results, state, &CheckResult::state));
}

State CheckReport::worst() const {
  State worst = State::ok;
  for (const CheckResult& result : results) worst = std::max(worst, result.state);
  return worst;
}

const Assertion* lead(const CheckResult& result) {
  // Where all is well, the peak is what people look for.
  const auto order = [](const Assertion& a) {
    const bool peak = a.state == State::ok && a.figure == Figure::peak && a.kind == Assertion::Kind::max;
    return std::tuple(a.state, peak, use_of(a));
  };
  const auto first = std::ranges::max_element(result.assertions, {}, order);
  return first == result.assertions.end() ? nullptr : &*first;
}

const Assertion* compared(const CheckResult& result) {
  const Assertion* const first = lead(result);
  if (first == nullptr || first->kind != Assertion::Kind::warn) return first;
  for (const Assertion& a : result.assertions)
    if (a.kind == Assertion::Kind::max && a.figure == first->figure) return &a;
  return first;
}

std::int64_t percent_of_limit(const Assertion& a) {
  if (a.limit <= 0) return 0;
  constexpr std::int64_t kSafe = std::int64_t{1} << 53;  // a hundredfold of it fits in 64 bits
  std::int64_t value = a.value, limit = a.limit;
  for (; value > kSafe || limit > kSafe; value /= 1024) limit = std::max<std::int64_t>(limit / 1024, 1);
  return value * 100 / limit;
}

bool can_be_raised(const Assertion& a) { return a.kind == Assertion::Kind::max || a.kind == Assertion::Kind::min; }

std::string format_amount(Figure figure, std::int64_t amount, Units units) {
  switch (unit_of(figure)) {
    case Unit::bytes: return format_bytes(amount, units);
    case Unit::count: return format_count(amount);
    case Unit::flop: return format_flops(amount);
    case Unit::nanoseconds: return format_seconds(static_cast<double>(amount) / 1e9);
    case Unit::micro_usd: return format_figure(static_cast<double>(amount) / 1e6) + " USD/Msample";
  }
  return "";
}

std::string format_growth(Figure figure, std::int64_t value, std::int64_t base, const TextStyle& style) {
  const std::int64_t delta = value - base;
  if (delta == 0) return style.unicode ? "±0" : "+0";
  std::string text = (delta > 0 ? "+" : "-") + format_amount(figure, std::abs(delta), style.units);
  if (base <= 0) return text;
  // In tenths of a percent, of amounts that a hundredfold of still fits in 64 bits.
  std::int64_t part = std::abs(delta), whole = base;
  for (; part > std::int64_t{1} << 53; part /= 1024) whole = std::max<std::int64_t>(whole / 1024, 1);
  const std::int64_t tenths = in_tenths(part * 100, whole);
  return text + " (" + (delta > 0 ? "+" : "-") + format_tenths(tenths) + " %)";
}

std::string sentence(const Assertion& a, Units units) {
  const std::string inherited = a.inherited ? ", as in the base" : "";
  switch (a.kind) {
    case Assertion::Kind::max: return over(a, a.pattern.empty() ? "budget" : "module's budget", units) + inherited;
    case Assertion::Kind::warn: return over(a, "warning level", units);
    case Assertion::Kind::min:
      return subject_of(a) + " " + format_amount(a.figure, a.value, units) + " is " +
             format_amount(a.figure, a.limit - a.value, units) + " under the floor of " + a.text + inherited;
    case Assertion::Kind::fits:
      return "needs " + format_bytes(a.value, units) + ", " + format_bytes(a.value - a.limit, units) + " more than " +
             a.subject + " has (" + format_bytes(a.limit, units) + ")" + inherited;
    case Assertion::Kind::growth: {
      TextStyle style;
      style.units = units;
      return std::string(name_of(a.figure)) + " grew by " + format_growth(a.figure, a.value, *a.base, style).substr(1) +
             " to " + format_amount(a.figure, a.value, units) + ", the limit is " +
             format_amount(a.figure, a.limit, units);
    }
  }
  return "";
}

std::string headline(const CheckResult& result) {
  if (result.state == State::error) return result.error;
  const Assertion* const a = lead(result);
  if (a == nullptr) return "no limit applies";
  if (a->state != State::ok) return sentence(*a);
  if (a->kind == Assertion::Kind::growth)
    return std::string(name_of(a->figure)) + " " + format_amount(a->figure, a->value) + ", within its growth limit";
  return std::string(name_of(a->figure)) + " " + format_amount(a->figure, a->value) + " of " +
         format_amount(a->figure, a->limit);
}

}  // namespace gpuplan
