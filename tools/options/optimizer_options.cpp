// --opt and what belongs to it.
#include <algorithm>
#include <cctype>
#include <optional>

#include "tools/options/python_step.h"
#include "tools/options/run_values.h"
#include "tools/python_models/python_optimizer.h"

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

using Rule = BitsandbytesOptimizer::Rule;

bool can_be_paged(Rule rule) {
  return rule == Rule::adam || rule == Rule::adamw || rule == Rule::lion || rule == Rule::ademamix;
}

// bitsandbytes' classes by their own names or transformers' (`optim=`): AdamW8bit, paged_adamw_8bit, adamw_bnb_8bit.
bool has_8bit_kernel(Rule rule) { return rule != Rule::lamb && rule != Rule::lars; }

void refuse_unknown_kernel(const BitsandbytesOptimizer& of) {
  if (!of.eight_bit || has_8bit_kernel(of.rule)) return;
  const std::string name(name_of(of.rule));
  throw Error("bitsandbytes refuses " + name + "8bit: \"Unsupported optimizer name: " + name + "\"", ErrorKind::usage)
      .help("--opt " + name + " has states of 32 bits");
}

std::optional<OptimizerConfig> bitsandbytes_optimizer(const std::string& text) {
  std::string name;
  for (const char c : text)
    if (c != '_' && c != '-') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto take = [&name](bool there, std::size_t at, std::size_t size) {
    if (there) name.erase(at, size);
    return there;
  };
  const auto take_end = [&](std::string_view end) {
    return take(name.ends_with(end), name.size() - std::min(end.size(), name.size()), end.size());
  };
  BitsandbytesOptimizer of;
  of.paged = take(name.starts_with("paged"), 0, 5);
  of.eight_bit = take_end("8bit");
  const bool wide = !of.eight_bit && take_end("32bit");
  const bool bnb = take_end("bnb");
  const std::vector<std::string_view> rules = split(all_words(Rule{}), '|');
  const auto found = std::ranges::find(rules, std::string_view(name));
  if (found == rules.end()) return std::nullopt;
  of.rule = static_cast<Rule>(found - rules.begin());
  if (is_in_torch(of.rule) && !of.paged && !of.eight_bit && !wide && !bnb) return std::nullopt;
  // AdEMAMix32bit makes one state less than AdEMAMix, and its kernel writes beyond it.
  if (of.rule == Rule::ademamix && wide) return std::nullopt;
  if (of.paged && !can_be_paged(of.rule)) return std::nullopt;
  OptimizerConfig config;
  config.kind = OptimizerKind::none;
  config.bitsandbytes = of;
  return config;
}

// transformers' `optim=` for torch.optim.AdamW, and whether it is the fused one.
std::optional<bool> is_fused_adamw_of_transformers(std::string_view name) {
  if (name == "adamw_torch") return false;
  if (name == "adamw_torch_fused") return true;
  return std::nullopt;
}

OptimizerConfig chosen_optimizer(const std::string& name, const Choices<OptimizerConfig>& known) {
  const auto found = std::ranges::find(known, name, &std::pair<std::string, OptimizerConfig>::first);
  if (found != known.end()) return found->second;
  throw Error("--opt: no optimizer is called \"" + name + "\"" + did_you_mean(name, optimizer_names()),
              ErrorKind::usage)
      .help(
          "gpuplan explain optimizers lists them; a class of a package (schedulefree.AdamWScheduleFree) or a function "
          "of a file (optim.py:make) is recorded where Python has PyTorch");
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : optimizers()) names.push_back(name);
  for (const std::string_view rule : split(all_words(Rule{}), '|'))
    for (const char* paged : {"", "paged_"})
      for (const char* bits : {"8bit", "32bit", ""}) {
        const std::string name = paged + std::string(rule) + bits;
        const std::optional<OptimizerConfig> of = bitsandbytes_optimizer(name);
        if (of && name_of(*of) == name && (!of->bitsandbytes->eight_bit || has_8bit_kernel(of->bitsandbytes->rule)))
          names.push_back(name);
      }
  for (std::string& name : recorded_optimizer_names()) names.push_back(std::move(name));
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
  if (const std::optional<OptimizerConfig> of_library = bitsandbytes_optimizer(o.optimizer)) {
    if (!o.optimizer_impl.empty())
      throw Error("--opt-impl is torch.optim's: bitsandbytes' " + o.optimizer + " has one implementation",
                  ErrorKind::usage);
    config = *of_library;
    refuse_unknown_kernel(*config.bitsandbytes);
    config.weight_decay = flag_with_number("--weight-decay", o.weight_decay);
    return config;
  }
  if (is_recorded_optimizer(o.optimizer)) {
    if (!o.optimizer_impl.empty() || !o.weight_decay.empty())
      throw Error(std::string(o.optimizer_impl.empty() ? "--weight-decay" : "--opt-impl") + ": --opt " + o.optimizer +
                      " has its own arguments",
                  ErrorKind::usage)
          .help("for example: --opt 'torch.optim.Adafactor(foreach=True, weight_decay=0.1)'");
    refuse_untrusted_optimizer(o);
    config.kind = OptimizerKind::none;
    config.recorder = python_optimizer(o.optimizer, python_step(o).gpu);
    return config;
  }
  Choices<OptimizerConfig> known = optimizers();
  const std::optional<bool> fused = is_fused_adamw_of_transformers(o.optimizer);
  config = chosen_optimizer(fused ? "adamw" : o.optimizer.empty() ? "sgd" : o.optimizer, known);
  // 1.13 runs the for-loop implementation unless told otherwise; 2.0 made foreach the default on CUDA.
  const OptimizerImpl usual = pytorch < 200 ? OptimizerImpl::for_loop : OptimizerImpl::foreach_;
  config.impl = word_or("--opt-impl", o.optimizer_impl, fused.value_or(false) ? OptimizerImpl::fused : usual);
  config.weight_decay = flag_with_number("--weight-decay", o.weight_decay);
  return config;
}

}  // namespace gpuplan
