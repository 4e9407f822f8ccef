// --opt and what belongs to it.
#include <algorithm>

#include "tools/options/run_values.h"

namespace gpuplan {

namespace {

Choices<OptimizerConfig> optimizers() {
  const auto plain = [](OptimizerKind kind) {
    OptimizerConfig config;
    config.kind = kind;
    return config;
  };
  OptimizerConfig momentum = plain(OptimizerKind::sgd);
  momentum.momentum = true;
  OptimizerConfig nesterov = momentum;
  nesterov.nesterov = true;
  OptimizerConfig amsgrad = plain(OptimizerKind::adam);
  amsgrad.amsgrad = true;
  return {{"sgd", plain(OptimizerKind::sgd)},
          {"momentum", momentum},
          {"sgd_momentum", momentum},
          {"nesterov", nesterov},
          {"adam", plain(OptimizerKind::adam)},
          {"adamw", plain(OptimizerKind::adamw)},
          {"amsgrad", amsgrad},
          {"rmsprop", plain(OptimizerKind::rmsprop)},
          {"adagrad", plain(OptimizerKind::adagrad)},
          {"adadelta", plain(OptimizerKind::adadelta)},
          {"nadam", plain(OptimizerKind::nadam)},
          {"radam", plain(OptimizerKind::radam)},
          {"adamax", plain(OptimizerKind::adamax)}};
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : optimizers()) names.push_back(name);
  return names;
}

// A bare flag, or a number: 0 is off.
bool flag_with_number(const std::string& flag, const std::string& text) {
  if (text.empty() || text == "false") return false;
  if (text == "true") return true;
  const bool digits = text.find_first_not_of("0123456789.") == std::string::npos && text != "." &&
                      std::count(text.begin(), text.end(), '.') <= 1;
  const bool scientific = text.find_first_not_of("0123456789.e-") == std::string::npos &&
                          text.find("e-") != std::string::npos && text.front() != 'e' && text.front() != '-' &&
                          text.back() != '-';
  if (!digits && !scientific)
    throw Error(flag + " expects no value or a number >= 0, as in " + flag + "=1.0, not \"" + text + "\"",
                ErrorKind::usage);
  return text.substr(0, text.find('e')).find_first_of("123456789") != std::string::npos;
}

OptimizerConfig optimizer_config(const RunOptions& o, Mode mode, PyTorchVersion pytorch) {
  OptimizerConfig config;
  if (mode == Mode::infer) {
    config.kind = OptimizerKind::none;
    return config;
  }
  config = choose<OptimizerConfig>("--opt", o.optimizer.empty() ? "sgd" : o.optimizer, optimizers());
  // 1.13 runs the for-loop implementation unless told otherwise; 2.0 made foreach the default on CUDA.
  config.impl =
      word_or("--opt-impl", o.optimizer_impl, pytorch < 200 ? OptimizerImpl::for_loop : OptimizerImpl::foreach_);
  config.weight_decay = flag_with_number("--weight-decay", o.weight_decay);
  return config;
}

}  // namespace gpuplan
