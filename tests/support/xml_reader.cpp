#include "tests/support/xml_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "estimator/report/xml_text.h"

namespace gpuplan::tests {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == ':' || c == '_'; }

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  std::optional<std::string> error() {
    while (!rest_.empty() && wrong_.empty()) {
      if (!open_.empty() || rest_.front() == '<')
        rest_.front() == '<' ? tag() : characters('<');
      else if (std::isspace(static_cast<unsigned char>(rest_.front())) != 0)
        rest_.remove_prefix(1);
      else
        wrong_ = "text outside of the root";
      if (open_.empty() && ended_ > 1) wrong_ = "two roots";
    }
    if (wrong_.empty() && !open_.empty()) wrong_ = "not closed: " + open_.back();
    return wrong_.empty() ? std::nullopt
                          : std::optional(wrong_ + " before \"" + std::string(rest_.substr(0, 40)) + '"');
  }

 private:
  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::string name() {
    const auto end = std::ranges::find_if_not(rest_, is_name);
    const auto length = static_cast<std::size_t>(end - rest_.begin());
    const std::string found(rest_.substr(0, length));
    if (found.empty()) wrong_ = "a name is missing";
    rest_.remove_prefix(length);
    return found;
  }

  void tag() {
    take("<");
    if (take("/")) {
      const std::string of = name();
      if (open_.empty() || open_.back() != of) return void(wrong_ = "closes " + of);
      open_.pop_back();
      ended_ += open_.empty() ? 1 : 0;
      if (!take(">")) wrong_ = "a tag does not end";
      return;
    }
    const std::string of = name();
    std::vector<std::string> seen;
    while (wrong_.empty() && take(" ")) attribute(seen);
    if (take("/>")) {
      ended_ += open_.empty() ? 1 : 0;
    } else if (take(">")) {
      open_.push_back(of);
    } else {
      wrong_ = "a tag does not end";
    }
  }
  void attribute(std::vector<std::string>& seen) {
    const std::string of = name();
    if (std::ranges::find(seen, of) != seen.end()) wrong_ = "twice: " + of;
    seen.push_back(of);
    if (!take("=\"")) return void(wrong_ = "no value: " + of);
    characters('"');
    if (!take("\"")) wrong_ = "a value does not end";
  }

  // Up to `end`. Every & is one of XML's five entities, and every other character may be there.
  void characters(char end) {
    while (!rest_.empty() && rest_.front() != end && wrong_.empty()) {
      if (rest_.front() == '<') return void(wrong_ = "< in a value");
      if (rest_.front() == '&') {
        static constexpr std::array<std::string_view, 5> kEntities = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
        if (std::ranges::none_of(kEntities, [&](std::string_view e) { return take(e); })) wrong_ = "a bare &";
        continue;
      }
      const std::size_t next = std::min(rest_.find_first_of(std::string("&<") + end), rest_.size());
      const std::string_view run = rest_.substr(0, next);
      if (xml_text(run).find("\xEF\xBF\xBD") != std::string::npos && run.find("\xEF\xBF\xBD") == std::string::npos)
        wrong_ = "a character that XML does not have";
      rest_.remove_prefix(next);
    }
  }

  std::string_view rest_;
  std::string wrong_;
  std::vector<std::string> open_;
  int ended_ = 0;
};

}  // namespace

std::optional<std::string> xml_error(std::string_view text) { return Reader(text).error(); }

}  // namespace gpuplan::tests
