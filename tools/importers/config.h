// A config.json of transformers: its values by key, checked, with the defaults of the family for those that are not
// there. A value of null counts as not there, as in transformers. What is wrong is an Error that points at the value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/importers/json_text.h"

namespace gpuplan {

class Config {
 public:
  /// Throws Error where the document is not an object. `source` must outlive the Config.
  explicit Config(const Source& source);

  const std::string& file() const { return file_; }
  /// The value of a key, or of one in an object within ("vision_config.hidden_size"); nullptr where it is missing or
  /// null.
  const JsonValue* find(std::string_view key) const;

  /// True where the key is there and null.
  bool has_null(std::string_view key) const;

  /// A size from 1 to 2^31 - 1.
  std::int64_t size(std::string_view key, std::optional<std::int64_t> otherwise = {}) const;
  /// A number from 0 to 2^31 - 1.
  std::int64_t count(std::string_view key, std::int64_t otherwise) const;
  /// A share from 0 up to, but not including, 1, as it is written: a spec may have it so.
  std::string share(std::string_view key, std::string_view otherwise) const;
  /// A number above 0, as it is written.
  std::string positive(std::string_view key, std::string_view otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;
  std::string word(std::string_view key, std::string_view otherwise) const;

  /// How many labels a classifier tells apart: num_labels, or as many as id2label names, or 2.
  std::int64_t labels() const;
  /// The class that is built: the first of "architectures", or `otherwise`.
  std::string architecture(std::string_view otherwise) const;

  /// What a spec cannot say: an Error where the key is there with anything but null, false, 0 or `harmless`.
  void refuse(std::string_view key, const std::string& why, std::string_view harmless = "") const;
  /// An Error that points at the value of the key, or at the document where it is missing.
  Error wrong(std::string_view key, const std::string& message) const;

 private:
  const JsonValue* written(std::string_view key) const;
  std::int64_t whole(std::string_view key, std::int64_t least) const;
  const JsonValue& require(std::string_view key, JsonValue::Kind kind) const;

  std::string file_;
  JsonValue root_;
};

/// Values of an object within a config, such as rope_parameters: the same checks.
double number_of(const JsonValue& value);

}  // namespace gpuplan
