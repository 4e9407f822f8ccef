#include "tools/options/megatron_script.h"

#include <cctype>
#include <map>
#include <sstream>
#include <utility>

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
  bool hides_line_end() const { return at() == '\\' && (at(1) == '\n' || (at(1) == '\r' && at(2) == '\n')); }
  bool is_space() const { return std::isspace(static_cast<unsigned char>(at())) != 0; }
  void go_on() {
    column_ = at() == '\n' ? 1 : column_ + 1;
    if (at() == '\n') ++line_;
    ++at_;
  }

  bool skip_to_word(std::vector<ScriptWord>& before) {
    while (at_ < text_.size()) {
      if (hides_line_end()) {
        while (at() != '\n') go_on();
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
      if (quote == '\0' && hides_line_end()) break;
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

constexpr std::string_view kProgram = "pretrain_gpt.py";

// NAME="--bf16 ..." and NAME=(--bf16 ...), where they are used as a word: $NAME, ${NAME}, "${NAME[@]}".
class Variables {
 public:
  /// Takes the assignments out of the script's words, and puts what they say where they are named.
  std::vector<ScriptWord> expanded(const std::vector<ScriptWord>& words) {
    std::vector<ScriptWord> all;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string name = assigned(words[i].text);
      if (name.empty()) {
        append(all, words[i]);
      } else if (words[i].text.compare(name.size(), 2, "=(") == 0 ||
                 words[i].text.compare(name.size(), 3, "+=(") == 0) {
        i = take_array(words, i, name);
      } else {
        std::istringstream parts(words[i].text.substr(words[i].text.find('=') + 1));
        values_[name].clear();
        for (std::string part; parts >> part;) append(values_[name], {part, words[i].mark});
      }
    }
    return all;
  }

 private:
  static std::string assigned(const std::string& text) {
    std::size_t end = 0;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
    const bool is = end > 0 && (text.compare(end, 1, "=") == 0 || text.compare(end, 3, "+=(") == 0);
    return is ? text.substr(0, end) : "";
  }

  // To the word that the bracket's end is behind.
  std::size_t take_array(const std::vector<ScriptWord>& words, std::size_t i, const std::string& name) {
    std::vector<ScriptWord>& values = values_[name];
    if (words[i].text[name.size()] != '+') values.clear();
    std::string text = words[i].text.substr(words[i].text.find('(') + 1);
    while (true) {
      const bool ends = text.ends_with(')');
      if (ends) text.pop_back();
      if (!text.empty()) append(values, {text, words[i].mark});
      if (ends || i + 1 == words.size()) return i;
      text = words[++i].text;
    }
  }

  void append(std::vector<ScriptWord>& to, const ScriptWord& word) const {
    const auto known = values_.find(named(word.text));
    if (known == values_.end()) {
      to.push_back(word);
      return;
    }
    const std::vector<ScriptWord> values = known->second;  // `to` may be one of them
    for (const ScriptWord& value : values) to.push_back({value.text, word.mark});
    if (!to.empty() && word.ends_line) to.back().ends_line = true;
  }

  static std::string named(std::string text) {
    if (!text.starts_with('$')) return "";
    text.erase(0, 1);
    if (text.starts_with('{') && text.ends_with('}')) text = text.substr(1, text.size() - 2);
    for (const std::string_view all : {"[@]", "[*]"})
      if (text.ends_with(all)) text.resize(text.size() - all.size());
    return text;
  }

  std::map<std::string, std::vector<ScriptWord>> values_;
};

Error at_word(const std::string& message, const ScriptWord& word) { return Error(message).at(word.mark); }

// Behind the program, of which there is one, or at the beginning of a list of arguments.
std::size_t first_argument(const Source& script, const std::vector<ScriptWord>& words) {
  std::size_t begin = 0;
  const ScriptWord* other = nullptr;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].text.ends_with(kProgram)) {
      if (begin > 0)
        throw at_word(script.name + " starts pretrain_gpt.py twice", words[i]).help("a file that starts one of them");
      begin = i + 1;
    } else if (words[i].text.ends_with(".py")) {
      other = &words[i];
    }
  }
  if (begin > 0 || words.empty() || words.front().text.starts_with("--")) return begin;
  const std::string help =
      "a script whose last command is torchrun ... pretrain_gpt.py --num-layers 32 ..., or those arguments";
  if (other != nullptr)
    throw at_word("--megatron plans pretrain_gpt.py, and this is " + other->text, *other).help(help);
  throw Error(script.name + " does not start pretrain_gpt.py").help(help);
}

// What a shell would put in its place is not known: it may be arguments.
void refuse_unknown(const ScriptArgument* to, const ScriptWord& word) {
  if (!word.text.starts_with('$')) return;
  const bool lists = word.text == "$@" || word.text == "$*" || word.text.find('[') != std::string::npos;
  const bool is_value = to != nullptr && (to->values.empty() || to->name.ends_with("data-path"));
  if (lists || !is_value)
    throw at_word("what " + word.text + " holds is not known, and it may be arguments", word)
        .help("write them in its place");
}

}  // namespace

std::vector<ScriptArgument> script_arguments(const Source& script) {
  const std::vector<ScriptWord> words = Variables().expanded(ScriptReader(script).words());
  const std::size_t begin = first_argument(script, words);
  std::vector<ScriptArgument> arguments;
  for (std::size_t i = begin; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    if (text == "|" || text == ";" || text == "&" || text == "&&" || text.starts_with('>') || text.starts_with("2>"))
      break;
    refuse_unknown(arguments.empty() ? nullptr : &arguments.back(), words[i]);
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
