#include "estimator/compare/causes.h"

#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "estimator/compare/align.h"
#include "estimator/compare/spec_tree.h"
#include "estimator/spec/canonical.h"
#include "estimator/spec/expand.h"
#include "estimator/spec/extends.h"

namespace gpuplan {

namespace {

// Lines of sources by their numbers, of thousands in a row too.
class Lines {
 public:
  Place place_of(const SourceMark& mark) {
    if (mark.source == nullptr || mark.line == 0) return {};
    return {mark.source->name, mark.line, mark.column, mark.length, line(*mark.source, mark.line)};
  }

 private:
  std::string line(const Source& source, int number) {
    std::vector<std::size_t>& starts = starts_[&source];
    if (starts.empty()) {
      starts.push_back(0);
      for (std::size_t at = 0; (at = source.text.find('\n', at)) != std::string::npos;) starts.push_back(++at);
    }
    const auto i = static_cast<std::size_t>(number) - 1;
    if (i >= starts.size()) return "";
    const std::size_t end = i + 1 < starts.size() ? starts[i + 1] - 1 : source.text.size();
    std::string text = source.text.substr(starts[i], end - starts[i]);
    if (text.ends_with('\r')) text.pop_back();
    return text;
  }

  std::unordered_map<const Source*, std::vector<std::size_t>> starts_;
};

// What a model is once nothing of how it is written is left. Names of models and variables change no figure.
std::string resolved(const SpecSyntax& syntax, const std::vector<Variable>& settings) {
  Model model = expand(syntax, settings);
  model.name = "model";
  model.vars.clear();
  return canonical_yaml(model);
}

struct SideReading {
  explicit SideReading(const WrittenModel& written)
      : syntax(parse_spec(read_document(written.source, written.options, arena, sources), "model")),
        settings(written.options.set) {}

  YamlArena arena;
  std::vector<std::shared_ptr<const Source>> sources;
  SpecSyntax syntax;
  std::vector<Variable> settings;
};

// The entries of two lists that have no partner in the other one.
class Alone {
 public:
  Alone(const std::vector<SpecPart>& base, const std::vector<SpecPart>& now, const std::vector<Pairing>& pairs) {
    const SpecPart* next = nullptr;
    for (std::size_t i = pairs.size(); i-- > 0;) {
      const Pairing& pair = pairs[i];
      const SpecPart* const before = pair.base ? &base[*pair.base] : nullptr;
      const SpecPart* const after = pair.now ? &now[*pair.now] : nullptr;
      if (before != nullptr && after == nullptr) followers_[before] = next;
      if (before != nullptr && after == nullptr && !before->key.empty()) base_.emplace(before->key, before);
      if (before == nullptr && after != nullptr && !after->key.empty()) now_.emplace(after->key, after);
      if (after != nullptr) next = after;
    }
  }

  /// The same entry, name and all, elsewhere in the other list; nullptr where there is none.
  const SpecPart* same_in_base(const SpecPart& entry) const { return find(base_, entry); }
  const SpecPart* same_in_now(const SpecPart& entry) const { return find(now_, entry); }
  /// What stands now where a removed entry stood; nullptr at the end of the list.
  const SpecPart* follower_of(const SpecPart& removed) const { return followers_.at(&removed); }

 private:
  using ByName = std::unordered_map<std::string_view, const SpecPart*>;
  static const SpecPart* find(const ByName& entries, const SpecPart& entry) {
    const auto found = entries.find(entry.key);
    return found != entries.end() && same(*found->second, entry) ? found->second : nullptr;
  }

  ByName base_, now_;
  std::unordered_map<const SpecPart*, const SpecPart*> followers_;
};

class Comparison {
 public:
  std::vector<Cause> take() && { return std::move(causes_); }

  void compare(const SpecPart& base, const SpecPart& now, const std::string& path) {
    if (base.value != now.value) {
      add({Cause::Kind::changed, path, base.text, now.text, lines_.place_of(now.mark), lines_.place_of(base.mark)});
      return;
    }
    compare_parts(base, now, path);
    if (now.list || base.list) compare_lists(base, now, path);
  }

 private:
  // What an alias of YAML's brings in again stands at one place.
  void add(Cause cause) {
    const Place& place = cause.at.line > 0 ? cause.at : cause.was;
    if (place.line == 0 || said_.emplace(place.file, place.line, place.column, cause.from, cause.to).second)
      causes_.push_back(std::move(cause));
  }

  static std::string below(const std::string& path, const std::string& name) {
    return path.empty() ? name : name.empty() ? path : path + "." + name;
  }
  static std::string path_of(const SpecPart& part, const std::string& path) {
    return part.in_path ? below(path, part.key) : path;
  }
  // As nn.Sequential names what has no name; a residual or a parallel adds none.
  static std::string entry_path(const SpecPart& entry, std::size_t index, const std::string& path) {
    if (!entry.key.empty()) return below(path, entry.key);
    const bool transparent = entry.value == "residual" || entry.value == "parallel";
    return below(path, transparent ? entry.value : std::to_string(index));
  }

  void compare_parts(const SpecPart& base, const SpecPart& now, const std::string& path) {
    const PartFinder befores(base.parts), nows(now.parts);
    for (const SpecPart& part : now.parts) {
      const SpecPart* const before = befores.find(part.key);
      if (before != nullptr)
        compare(*before, part, path_of(part, path));
      else
        came(part, base, path);
    }
    for (const SpecPart& part : base.parts)
      if (nows.find(part.key) == nullptr) went(part, now, path);
  }

  // Only what is in it counts.
  static bool is_group(const SpecPart& part) { return part.value.empty() && part.text.empty(); }
  static SpecPart empty_group(const SpecPart& around) {
    SpecPart group;
    group.mark = group.whole = around.mark;
    return group;
  }

  // A part that only one side has. Where leaving it out means a value, the value has changed.
  void came(const SpecPart& part, const SpecPart& base, const std::string& path) {
    const std::string what = path_of(part, path);
    if (is_group(part)) return compare(empty_group(base), part, what);
    const Cause::Kind kind = part.otherwise.empty() ? Cause::Kind::added : Cause::Kind::changed;
    add({kind, what, part.otherwise, part.text, lines_.place_of(part.mark), lines_.place_of(base.mark)});
  }
  void went(const SpecPart& part, const SpecPart& now, const std::string& path) {
    const std::string what = path_of(part, path);
    if (is_group(part)) return compare(part, empty_group(now), what);
    const Cause::Kind kind = part.otherwise.empty() ? Cause::Kind::removed : Cause::Kind::changed;
    add({kind, what, part.text, part.otherwise, lines_.place_of(now.mark), lines_.place_of(part.mark)});
  }

  void compare_lists(const SpecPart& base, const SpecPart& now, const std::string& path) {
    const std::vector<Pairing> pairs = align(base.entries, now.entries);
    const Alone alone(base.entries, now.entries, pairs);
    for (const Pairing& pair : pairs) {
      const SpecPart* const before = pair.base ? &base.entries[*pair.base] : nullptr;
      const SpecPart* const after = pair.now ? &now.entries[*pair.now] : nullptr;
      if (before != nullptr && after != nullptr)
        compare_entries(*before, *after, *pair.now, path);
      else if (after != nullptr)
        entry_came(*after, entry_path(*after, *pair.now, path), alone);
      else
        entry_went(*before, entry_path(*before, *pair.base, path), now, alone);
    }
  }

  void entry_came(const SpecPart& entry, const std::string& what, const Alone& alone) {
    const SpecPart* const before = alone.same_in_base(entry);
    if (before != nullptr)
      add({Cause::Kind::moved, what, before->text, entry.text, lines_.place_of(entry.whole),
           lines_.place_of(before->whole)});
    else
      add({Cause::Kind::added, what, "", entry.text, lines_.place_of(entry.whole), {}});
  }

  void entry_went(const SpecPart& entry, const std::string& what, const SpecPart& now, const Alone& alone) {
    if (alone.same_in_now(entry) != nullptr) return;  // moved, which is said where it is now
    const SpecPart* const observer = alone.follower_of(entry);
    const SourceMark& gap = observer != nullptr   ? observer->whole
                            : now.entries.empty() ? now.mark
                                                  : now.entries.back().whole;
    add({Cause::Kind::removed, what, entry.text, "", lines_.place_of(gap), lines_.place_of(entry.whole)});
  }

  void compare_entries(const SpecPart& base, const SpecPart& now, std::size_t index, const std::string& path) {
    const std::string here = entry_path(now, index, path);
    if (base.key != now.key)
      add({Cause::Kind::changed, here + ".name", base.key.empty() ? "none" : base.key,
           now.key.empty() ? "none" : now.key, lines_.place_of(now.whole), lines_.place_of(base.whole)});
    compare(base, now, here);
  }

  Lines lines_;
  std::vector<Cause> causes_;
  std::set<std::tuple<std::string, int, int, std::string, std::string>> said_;
};

}  // namespace

std::vector<Cause> causes(const WrittenModel& base, const WrittenModel& now, Catalog catalog) {
  const SideReading before(base), after(now);
  if (resolved(before.syntax, before.settings) == resolved(after.syntax, after.settings)) return {};
  Comparison comparison;
  comparison.compare(spec_tree(before.syntax, before.settings, catalog),
                     spec_tree(after.syntax, after.settings, catalog), "");
  return std::move(comparison).take();
}

}  // namespace gpuplan
