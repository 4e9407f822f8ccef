// Megatron-LM's arguments by name, as a script says them, and what they are when it does not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/options/megatron_script.h"

namespace gpuplan {

/// All throw Error, at the argument, for a value that is not understood.
class MegatronArguments {
 public:
  /// Throws Error for an argument whose effect on memory is not known here. The script outlives it.
  explicit MegatronArguments(const Source& script);

  bool flag(std::string_view name) const;
  /// Its one value.
  std::string word(std::string_view name, std::string otherwise) const;
  /// From 1 on.
  std::optional<std::int64_t> whole(std::string_view name) const;
  std::int64_t whole(std::string_view name, std::int64_t otherwise) const { return whole(name).value_or(otherwise); }
  std::int64_t needed(std::string_view name) const;
  /// From 0 on.
  double real(std::string_view name, double otherwise) const;

  [[noreturn]] void refuse(std::string_view name, std::string message, std::string help) const;
  /// Throws `why` where it has another value, or is not there.
  void expect(std::string_view name, const std::string& wanted, const std::string& otherwise, std::string why) const;
  void expect_flag(std::string_view name, std::string why) const;
  const std::string& source_name() const { return script_.name; }

 private:
  const ScriptArgument* find(std::string_view name) const;

  const Source& script_;
  std::vector<ScriptArgument> arguments_;
};

}  // namespace gpuplan
