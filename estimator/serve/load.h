// Requests that users send, and how an engine serves them: a discrete-event simulation of continuous batching, step by
// step, as vLLM V1 schedules (vllm/v1/core/sched/scheduler.py). Deterministic: arrivals and lengths are given.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "estimator/serve/engine_step.h"

namespace gpuplan {

struct Request {
  double arrival = 0;       // seconds
  std::int64_t prompt = 1;  // tokens
  std::int64_t answer = 1;  // tokens that are generated, the first one included
};

/// A Poisson process of so many requests a second, drawn by inversion from SplitMix64, which is the same everywhere.
std::vector<double> poisson_arrivals(double rate, std::size_t requests, std::uint64_t seed);

/// Of a sorted list of values, by linear interpolation; share from 0 to 1.
double quantile(std::span<const double> sorted, double share);

struct Quantiles {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};
Quantiles quantiles_of(std::vector<double> values);

/// What an engine does under a load. Rates are of all requests, from the first arrival to the last token.
struct ServedLoad {
  std::size_t requests = 0;
  double seconds = 0;       // until the last token
  Quantiles first_token;    // seconds from arrival
  Quantiles token;          // seconds between tokens, a request's mean; of answers of two tokens and more
  double output_rate = 0;   // tokens a second that are generated
  double request_rate = 0;  // that are finished a second
  double mean_running = 0;  // sequences, over time
  std::int64_t most_running = 0;
  std::int64_t most_cache = 0;   // tokens
  std::int64_t preemptions = 0;  // sequences that gave their blocks back and were computed again
  double busy = 0;               // share of the time in which steps run
  std::string limit;             // what keeps requests waiting
};

/// `requests` in the order of their arrivals. `shared_prefix`: tokens that all prompts begin with, computed once and
/// held once. A step runs a token of each sequence, then parts of prompts, first come, first served, while there are
/// tokens in the step, places and blocks; where blocks run out, the sequence that came last gives its back. Throws
/// Error (usage) for a request that is longer than the engine takes, or than its cache.
ServedLoad simulate_load(std::span<const Request> requests, const EngineLimits& limits, const StepSeconds& seconds,
                         std::int64_t shared_prefix = 0);

}  // namespace gpuplan
