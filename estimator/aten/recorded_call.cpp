#include "estimator/aten/recorded_call.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "estimator/base/integers.h"

namespace gpuplan::aten {
namespace {

constexpr int kMostOutputs = 64;  // of one operator

/// The words of one argument, and what is wrong with one of them.
class Words {
 public:
  Words(const LayerBuilder& b, std::string_view argument, const RecordedAt& at)
      : b_(b), argument_(argument), at_(at), rest_(b.word(argument)) {}

  /// Empty behind the last one.
  std::string_view next() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    word_ = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(word_.size());
    return word_;
  }

  [[noreturn]] void fail(const std::string& expected) const {
    b_.fail(argument_, "\"" + std::string(word_) + "\" in " + std::string(argument_) + " cannot be read",
            "expected " + expected);
  }

  bool counts_cudnn() const { return b_.run().scratch == Scratch::full; }

  /// "512", "4096b", "512+4096b", with "e" behind it in elements of the operands' type.
  std::int64_t amount(std::string_view text) const {
    const bool elements = text.ends_with('e');
    if (elements) text.remove_suffix(1);
    std::int64_t total = 0;
    const std::string_view all = text;
    while (!text.empty()) {
      const std::size_t plus = text.find('+');
      std::string_view term = text.substr(0, plus);
      text.remove_prefix(plus == std::string_view::npos ? text.size() : plus + 1);
      const bool per_sample = term.ends_with('b');
      if (per_sample) term.remove_suffix(1);
      const std::int64_t n = per_sample && term.empty() ? 1 : whole(term);
      total = checked_add(total, per_sample ? checked_mul(n, at_.batch) : n);
      if (plus != std::string_view::npos && text.empty()) fail("an amount as 512+4096b, b for the batch");
    }
    if (all.empty()) fail("an amount as 512+4096b, b for the batch");
    return elements ? checked_mul(total, size_of(at_.type)) : total;
  }

  std::int64_t at_least_one(std::string_view text) const {
    const std::int64_t n = amount(text);
    if (n == 0) fail("1 or more");
    return n;
  }

  /// "2:512,16:4096": bytes at some batches, between which they are on a line; beyond the last they grow as the batch
  /// does.
  std::int64_t between(std::string_view text) const {
    std::int64_t batch = 0, bytes = 0;
    while (!text.empty()) {
      const std::size_t comma = text.find(',');
      const std::string_view pair = text.substr(0, comma);
      const std::size_t colon = pair.find(':');
      if (colon == std::string_view::npos) fail("bytes at batches as 2:512,16:4096");
      const std::int64_t next = whole(pair.substr(0, colon)), then = whole(pair.substr(colon + 1));
      if (next <= batch) fail("batches that grow, as 2:512,16:4096");
      if (at_.batch == next || (at_.batch < next && bytes == 0)) return then;
      if (at_.batch < next) return then == 0 ? bytes : bytes + on_line(then - bytes, at_.batch - batch, next - batch);
      batch = next, bytes = then;
      text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    }
    return on_line(bytes, at_.batch, batch);
  }

  /// "float[b,8,14,14]": a tensor's type and sizes; "float[]/4096b": and the bytes of its storage.
  OutputSpec tensor(std::string_view text) const {
    const std::size_t slash = text.find('/');
    const std::int64_t storage = slash == std::string_view::npos ? 0 : amount(text.substr(slash + 1));
    text = text.substr(0, slash);
    const std::size_t open = text.find('[');
    if (open == std::string_view::npos || !text.ends_with(']')) fail("a type and sizes as float[b,8,14,14]");
    const std::string_view name = text.substr(0, open);
    const std::optional<DType> type = name == "float" ? at_.type : name == "amp" ? at_.amp : dtype_from_name(name);
    if (!type) fail("float for the operands' type, amp for autocast's, float32, int64, bool, ... before [");
    Shape shape;
    std::string_view sizes = text.substr(open + 1, text.size() - open - 2);
    while (!sizes.empty()) {
      const std::size_t comma = sizes.find(',');
      if (shape.rank() == Shape::kMaxRank) fail("at most " + std::to_string(Shape::kMaxRank) + " dimensions");
      shape.push_back(at_least_one(sizes.substr(0, comma)));
      sizes.remove_prefix(comma == std::string_view::npos ? sizes.size() : comma + 1);
    }
    return {.shape = shape, .dtype = *type, .placing = Placing::contiguous, .bytes = storage};
  }

  /// The number behind a letter, less than `count`.
  int place(std::string_view digits, int count, const std::string& expected) const {
    const std::int64_t n = whole(digits);
    if (n >= count) fail(expected);
    return static_cast<int>(n);
  }

  std::int64_t whole(std::string_view digits) const {
    std::int64_t n = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, n);
    if (digits.empty() || error != std::errc{} || stop != end || n < 0)
      fail("a number where \"" + std::string(digits) + "\" is");
    return n;
  }

 private:
  /// The part of it, rounded; in floating point, as bytes times a batch may not fit.
  std::int64_t on_line(std::int64_t all, std::int64_t part, std::int64_t whole) const {
    const double bytes = static_cast<double>(all) * static_cast<double>(part) / static_cast<double>(whole);
    if (std::abs(bytes) > 0x1p62) fail("bytes that fit in 64 bits at every batch");
    return std::llround(bytes);
  }

  const LayerBuilder& b_;
  std::string_view argument_;
  RecordedAt at_;
  std::string_view rest_, word_;
};

/// Words of both directions: what is allocated while the kernels run, what of it goes, and their products.
class Scratch {
 public:
  Scratch(const Words& words, RecordedCall& call) : words_(words), call_(call), writer_(call.program) {}

  bool read(std::string_view word) {
    if (word.starts_with("macs=")) {
      call_.macs = checked_add(call_.macs, words_.amount(word.substr(5)));
    } else if (word.starts_with('+') || word.starts_with("c+")) {
      const std::string_view text = word.substr(word.find('+') + 1);
      const std::int64_t bytes = text.find(':') != std::string_view::npos ? words_.between(text) : words_.amount(text);
      allocations_.push_back(writer_.allocate(word.starts_with('+') || words_.counts_cudnn() ? bytes : 0));
    } else if (word.starts_with('-')) {
      const int which = words_.place(word.substr(1), static_cast<int>(allocations_.size()) + 1,
                                     "- and which of the + before it, from 1");
      if (which == 0) words_.fail("- and which of the + before it, from 1");
      std::int64_t& allocation = allocations_[index(which) - 1];
      if (allocation == kReleased) words_.fail("an allocation that was not freed before");
      writer_.release(allocation);
      allocation = kReleased;
    } else {
      return false;
    }
    return true;
  }

  void result(const OutputSpec& result, int of) {
    writer_.result();
    call_.results.push_back(result);
    call_.of.push_back(of);
  }

 private:
  static constexpr std::int64_t kReleased = -2;
  const Words& words_;
  RecordedCall& call_;
  ScratchWriter writer_;
  std::vector<std::int64_t> allocations_;
};

/// What backward keeps, with an h before it what goes with the graph alone: s512, x0, y0, hs512, hx0.
bool read_kept(std::string_view word, const Words& words, int inputs, Scratch& scratch, RecordedCall& call) {
  const bool held = word.starts_with('h');
  const std::string_view what = word.substr(held ? 1 : 0);
  if (what.starts_with('s'))
    scratch.result({Shape{words.at_least_one(what.substr(1))}, DType::uint8, Placing::contiguous},
                   held ? RecordedCall::kHeld : RecordedCall::kSaved);
  else if (what.starts_with('x'))
    (held ? call.held_inputs : call.kept_inputs).push_back(words.place(what.substr(1), inputs, "an input's number"));
  else if (word.starts_with('y'))
    call.kept_outputs.push_back(words.place(word.substr(1), kMostOutputs, "an output's number"));
  else
    return false;
  return true;
}

bool has_gradient_of(const RecordedCall& call, int input) {
  const auto has = [&](const auto& list, auto of) { return std::ranges::find(list, input, of) != list.end(); };
  return has(call.of, std::identity()) || has(call.passed, &RecordedCall::Same::input) ||
         has(call.over_inputs, &RecordedCall::Over::input) || has(call.over_saved, &RecordedCall::Over::input);
}

/// The gradient of `input`, by what stands behind its equals sign: g0, x0, s0.
void read_gradient(std::string_view where, int input, const Words& words, std::array<int, 3> counts,
                   RecordedCall& call) {
  const auto [outputs, inputs, saved] = counts;
  const std::string_view digits = where.substr(std::min<std::size_t>(1, where.size()));
  const auto up_to = [](const char* what, int count) { return what + std::to_string(count - 1); };
  if (where.starts_with('x'))
    call.over_inputs.push_back({input, words.place(digits, inputs, up_to("an input from 0 to ", inputs))});
  else if (where.starts_with('s'))
    call.over_saved.push_back({input, words.place(digits, saved, "which s of the forward, from 0")});
  else if (where.starts_with('g'))
    call.passed.push_back({input, words.place(digits, outputs, up_to("an output from 0 to ", outputs))});
  else
    words.fail("dN, dN=gM, dN=xM or dN=sM");
}

}  // namespace

RecordedCall recorded_forward(const LayerBuilder& b, std::string_view argument, const RecordedAt& at) {
  RecordedCall call;
  Words words(b, argument, at);
  Scratch scratch(words, call);
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    const std::size_t equals = word.find('=');
    if (word.starts_with('y') && equals != std::string_view::npos && word.substr(equals + 1).starts_with('x'))
      call.in_place.push_back({words.place(word.substr(equals + 2), b.input_count(), "an input's number"),
                               words.place(word.substr(1, equals - 1), kMostOutputs, "an output's number")});
    else if (word.starts_with('y') && equals != std::string_view::npos)
      scratch.result(words.tensor(word.substr(equals + 1)),
                     words.place(word.substr(1, equals - 1), kMostOutputs, "an output's number"));
    else if (!read_kept(word, words, b.input_count(), scratch, call) && !scratch.read(word))
      words.fail("yN=TYPE[SIZES], s, + or macs= with an amount, - with a number, or what is kept: xN, yN, hxN, hs");
  }
  std::vector<bool> seen;
  std::vector<int> outputs = call.of;
  for (const RecordedCall::Same& same : call.in_place) outputs.push_back(same.output);
  for (const int of : outputs) {
    if (of < 0) continue;
    if (index(of) >= seen.size()) seen.resize(index(of) + 1);
    if (seen[index(of)])
      b.fail(argument, "output " + std::to_string(of) + " is there twice", "expected y0, y1, ... once each");
    seen[index(of)] = true;
  }
  if (seen.empty() || std::ranges::find(seen, false) != seen.end())
    b.fail(argument, seen.empty() ? "no output" : "an output is missing",
           "expected y0=float[b,8], y1=..., as many as there are");
  for (const int kept : call.kept_outputs)
    if (index(kept) >= seen.size())
      b.fail(argument, "y" + std::to_string(kept) + " is no output", "expected one of them");
  return call;
}

RecordedCall recorded_backward(const LayerBuilder& b, std::string_view argument, const RecordedAt& at,
                               std::span<const TensorId> inputs, int outputs, int saved) {
  RecordedCall call;
  Words words(b, argument, at);
  Scratch scratch(words, call);
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (scratch.read(word)) continue;
    if (!word.starts_with('d'))
      words.fail("d and the number of an input, + or macs= with an amount, or - with a number");
    const std::size_t same = word.find('=');
    const auto count = static_cast<int>(inputs.size());
    const int input = words.place(word.substr(1, same == std::string_view::npos ? same : same - 1), count,
                                  "an input from 0 to " + std::to_string(count - 1));
    const TensorId of = inputs[index(input)];
    if (has_gradient_of(call, input)) words.fail("the gradient of an input once");
    if (same == std::string_view::npos)
      scratch.result({b.shape(of), b.dtype(of), Placing::contiguous}, input);
    else
      read_gradient(word.substr(same + 1), input, words, {outputs, count, saved}, call);
  }
  return call;
}

}  // namespace gpuplan::aten
