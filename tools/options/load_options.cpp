#include "tools/options/load_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "tools/options/lengths_options.h"
#include "tools/options/serve_options.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kUsualRequests = 1000;
constexpr std::int64_t kMostRequests = 100'000;
constexpr std::int64_t kLongestRequest = 10'000'000;

// "4/s", "90/min", "0.5/s".
double requests_a_second(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  if (error != std::errc{} || !(value > 0 && value < 1e9) || (unit != "/s" && unit != "/min"))
    throw Error("--rate expects requests such as 4/s or 90/min, not \"" + text + "\"", ErrorKind::usage);
  const double rate = unit == "/s" ? value : value / 60;
  constexpr double kLeastRate = 1e-4;  // one in three hours
  if (rate < kLeastRate)
    throw Error("--rate " + text + ": fewer requests than one in three hours", ErrorKind::usage).help("--rate 1/min");
  return rate;
}

// A number for all, or a draw for each: of answers another one than of prompts, so that neither hangs on the other.
std::vector<std::int64_t> lengths(const char* flag, std::string text, std::int64_t requests) {
  const bool drawn_as_prompts = text.starts_with("lognormal:") && text.find("seed=") == std::string::npos;
  if (drawn_as_prompts && std::string_view(flag) == "--out") text += ",seed=1";
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (digits == std::string::npos || (digits > 0 && digits + 1 == text.size()))
    return std::vector(static_cast<std::size_t>(requests), token_count(flag, text));
  try {
    const bool file = !text.starts_with("lognormal:");
    std::vector<std::int64_t> drawn = sample_lengths({text, file ? "" : std::to_string(requests)}, 1).samples;
    if (drawn.empty()) throw Error("no lengths");
    for (std::size_t i = 0; std::ssize(drawn) < requests; ++i) drawn.push_back(drawn[i]);  // a file, again
    drawn.resize(static_cast<std::size_t>(requests));
    return drawn;
  } catch (const Error& e) {
    throw Error(std::string(flag) + " " + text + ": " + e.message(), ErrorKind::usage)
        .help(std::string(flag) + " 800, lognormal:mean=800,max=4096, or a file with a length on each line");
  }
}

}  // namespace

void add_load_options(CLI::App& command, LoadOptions& o) {
  const char* const group = "Load";
  const auto add = [&](const char* name, std::string& to, const char* about, const char* type) {
    command.add_option(name, to, about)->group(group)->type_name(type);
  };
  add("--rate", o.rate, "Requests that arrive, as a Poisson process: 4/s (as many as the engine serves)", "N/s|N/min");
  add("--in", o.prompt, "Tokens of a prompt (512)", "N|lognormal:mean=N,max=N|FILE");
  add("--out", o.answer, "Tokens of an answer (128)", "N|lognormal:mean=N,max=N|FILE");
  add("--requests", o.requests, "Requests to simulate (1000)", "N");
  add("--prefix", o.prefix, "Tokens that all prompts begin with, computed and kept once (0)", "N");
  add("--slo", o.slo, "Service levels: the highest rate at which nine requests in ten meet them",
      "ttft=500ms,tpot=50ms");
}

AskedLoad load_of(const LoadOptions& o) {
  AskedLoad load;
  if (!o.rate.empty()) load.rate = requests_a_second(o.rate);
  if (!o.slo.empty()) load.slo = read_slo(o.slo);
  load.slo_words = o.slo;
  if (!o.prefix.empty()) load.prefix = whole_number("--prefix", o.prefix, 0, kLongestRequest);
  const std::int64_t n = o.requests.empty() ? kUsualRequests : whole_number("--requests", o.requests, 1, kMostRequests);
  const std::string in = o.prompt.empty() ? "512" : o.prompt, out = o.answer.empty() ? "128" : o.answer;
  const std::vector<std::int64_t> prompts = lengths("--in", in, n), answers = lengths("--out", out, n);
  const std::vector<double> arrivals = poisson_arrivals(1, static_cast<std::size_t>(n), 0);
  for (std::size_t i = 0; i < arrivals.size(); ++i) load.requests.push_back({arrivals[i], prompts[i], answers[i]});
  if (load.prefix >= *std::ranges::min_element(prompts))
    throw Error("--prefix " + o.prefix + " is no shorter than the shortest prompt, of " +
                    std::to_string(*std::ranges::min_element(prompts)) + " tokens",
                ErrorKind::usage);
  load.words = in + " tokens in, " + out + " out";
  return load;
}

}  // namespace gpuplan
