#include "tools/options/megatron_script.h"

#include <cctype>

namespace gpuplan {
namespace {

struct ScriptWord {
  std::string text;
  SourceMark mark;
  bool ends_line = false;  // a line end that no backslash hides comes next
};

class ScriptReader {
 public:
  explicit ScriptReader(const Source& script) : script_(script), text_(script.text) {}

  std::vector<ScriptWord> words() {
    std::vector<ScriptWord> words;
    while (skip_to_word(words)) words.push_back(word());
    return words;
  }

 private:
  char at(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool is_space() const { return std::isspace(static_cast<unsigned char>(at())) != 0; }
  void go_on() {
    column_ = at() == '\n' ? 1 : column_ + 1;
    if (at() == '\n') ++line_;
    ++at_;
  }

  bool skip_to_word(std::vector<ScriptWord>& before) {
    while (at_ < text_.size()) {
      if (at() == '\\' && at(1) == '\n') {
        go_on();
      } else if (at() == '#') {
        while (at_ < text_.size() && at() != '\n') go_on();
        continue;
      } else if (!is_space()) {
        return true;
      } else if (at() == '\n' && !before.empty()) {
        before.back().ends_line = true;
      }
      go_on();
    }
    return false;
  }

  ScriptWord word() {
    ScriptWord word{"", {&script_, line_, column_, 1}};
    const std::size_t begin = at_;
    char quote = '\0';
    for (; at_ < text_.size() && (quote != '\0' || !is_space()); go_on()) {
      if (quote == '\0' && at() == '\\' && at(1) == '\n') break;
      if (at() == quote)
        quote = '\0';
      else if (quote == '\0' && (at() == '"' || at() == '\''))
        quote = at();
      else
        word.text += at();
    }
    word.mark.length = static_cast<int>(at_ - begin);
    return word;
  }

  const Source& script_;
  const std::string& text_;
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;
};

}  // namespace

std::vector<ScriptArgument> script_arguments(const Source& script) {
  const std::vector<ScriptWord> words = ScriptReader(script).words();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].text.ends_with(".py")) begin = i + 1;
  std::vector<ScriptArgument> arguments;
  for (std::size_t i = begin; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    if (text.starts_with("--")) {
      const std::size_t equals = text.find('=');
      arguments.push_back({text.substr(2, equals == std::string::npos ? equals : equals - 2), words[i].mark, {}});
      ScriptArgument& a = arguments.back();
      for (char& c : a.name)
        if (c == '_') c = '-';
      if (equals != std::string::npos) a.values.push_back(text.substr(equals + 1));
    } else if (!arguments.empty()) {
      arguments.back().values.push_back(text);
    }
    if (begin > 0 && words[i].ends_line) break;  // the command's end
  }
  return arguments;
}

}  // namespace gpuplan
