#include "estimator/spec/extends.h"

#include <string>
#include <unordered_map>

#include "estimator/spec/limits.h"

namespace gpuplan {
namespace {

// Depth is bounded by kMaxYamlDepth.
const YamlNode& merge(const YamlNode& base, const YamlNode& over, YamlArena& arena) {
  if (base.kind != YamlNode::Kind::map || over.kind != YamlNode::Kind::map) return over;
  std::unordered_map<std::string_view, std::size_t> place;
  YamlNode merged = base;
  merged.mark = over.mark;
  for (std::size_t i = 0; i < base.children.size(); i += 2) place[base.children[i]->text] = i;
  for (std::size_t i = 0; i < over.children.size(); i += 2) {
    const auto found = place.find(over.children[i]->text);
    if (found == place.end()) {
      merged.children.push_back(over.children[i]);
      merged.children.push_back(over.children[i + 1]);
      continue;
    }
    merged.children[found->second] = over.children[i];
    const YamlNode*& value = merged.children[found->second + 1];
    value = &merge(*value, *over.children[i + 1], arena);
  }
  return arena.emplace_back(std::move(merged));
}

std::shared_ptr<const Source> open_base(const YamlNode& name, const Source& from, const SpecOptions& options) {
  if (name.kind != YamlNode::Kind::scalar || name.text.empty())
    throw Error("extends must be the name of a file, not " + describe(name)).at(name.mark);
  if (!options.open) throw Error("extends cannot be used here: there is no folder to look in").at(name.mark);
  try {
    std::shared_ptr<const Source> base = options.open(name.text, from.name);
    if (base == nullptr) throw Error("cannot open \"" + name.text + "\"");
    return base;
  } catch (Error& error) {
    throw error.at(name.mark);
  }
}

}  // namespace

const YamlNode& read_document(std::shared_ptr<const Source> source, const SpecOptions& options, YamlArena& arena,
                              std::vector<std::shared_ptr<const Source>>& sources) {
  std::vector<const YamlNode*> chain;
  const std::size_t before = sources.size();  // of documents that were read earlier, which may extend the same
  for (;;) {
    sources.push_back(source);
    chain.push_back(&parse_yaml(*source, arena));
    const YamlNode* name = chain.back()->find("extends");
    if (name == nullptr) break;
    if (chain.size() > static_cast<std::size_t>(kMaxExtends))
      throw Error("a chain of more than " + std::to_string(kMaxExtends) + " files").at(name->mark);
    source = open_base(*name, *source, options);
    for (std::size_t i = before; i < sources.size(); ++i)
      if (sources[i]->name == source->name)
        throw Error(source->name + " extends itself").at(name->mark).label("already being read");
  }
  const YamlNode* document = chain.back();
  for (std::size_t i = chain.size() - 1; i-- > 0;) document = &merge(*document, *chain[i], arena);
  return *document;
}

}  // namespace gpuplan
