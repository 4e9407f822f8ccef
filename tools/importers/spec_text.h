// The text of a spec, cut so that parts of it can be exchanged: what is not exchanged stays as it was written, comments
// included.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

class SpecText {
 public:
  /// `text` is laid out as the models of configs/ are: keys of the document at the start of a line, variables and
  /// blocks indented by two spaces. A flow mapping of variables is taken apart.
  explicit SpecText(std::string_view text);

  /// "extends", as written, or "".
  std::string extends() const;
  /// Puts this text over `base`, which it extends, as reading it would: variables and blocks of one name are replaced,
  /// others are added, any other key is replaced whole.
  void merge_into(SpecText base);

  /// The comment above everything, without its marks; one line a line.
  void set_comment(const std::string& lines);
  void add_comment(const std::string& lines);
  void set_name(const std::string& name);
  /// A variable and what stands behind it as a comment. One that is not there is added.
  void set(std::string_view variable, std::int64_t value, const std::string& comment = "");
  void remove_variable(std::string_view variable);
  void remove_block(std::string_view block);
  /// The model is this block alone: its layers, and their order, take the place of the document's. Throws
  /// std::logic_error where there is no such block.
  void unfold(std::string_view block);
  /// Everywhere in the inputs, the blocks, the layers and the loss. Throws std::logic_error where `from` is nowhere:
  /// then the template was changed and its importer was not.
  void replace(std::string_view from, std::string_view to);
  /// One top-level key with all that belongs to it, its line end included; "" removes it.
  void set_section(const std::string& key, const std::string& text);
  std::string section(std::string_view key) const;

  std::string text() const;

 private:
  struct Part {
    std::string key, text;
  };
  static std::vector<Part> parts(std::string_view text, std::size_t indent);
  static std::vector<Part> variables(std::string_view section);
  static void put(std::vector<Part>& list, Part part);
  Part* find(std::string_view key);

  std::string comment_;
  std::vector<Part> sections_;  // in order; those of vars and blocks hold their first line only
  std::vector<Part> vars_, blocks_;
};

/// An embedded model with all that it extends written out, so that it stands alone: the zoo's, or a template of
/// configs/huggingface. Throws Error where there is no model of that name.
SpecText template_text(std::string_view name);

}  // namespace gpuplan
