#include "estimator/graph/entry_inputs.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "estimator/base/error.h"

namespace gpuplan {
namespace {

using Branch = EntryInputs::Branch;

constexpr std::size_t kMaxInputsOfEntry = 10'000;

Branch other(Branch branch) { return branch == Branch::active ? Branch::inactive : Branch::active; }

const BlockNames::Result& in(Branch branch, const BlockNames::Named& named) {
  return branch == Branch::active ? named.active : named.inactive;
}

// NAME.K: output K of an entry with several; kNone when it is not that.
TensorId part(BlockNames& names, const std::string& name, Branch branch) {
  const auto dot = name.rfind('.');
  if (dot == std::string::npos) return kNone;
  const auto* n = names.find(name.substr(0, dot));
  const bool given = n == nullptr && name.starts_with("input.");
  if (n == nullptr && !given) return kNone;
  std::size_t k = 0;
  const auto [end, error] = std::from_chars(name.data() + dot + 1, name.data() + name.size(), k);
  if (error != std::errc{} || end != name.data() + name.size()) return kNone;
  if (!given && in(branch, *n).handed_on && in(other(branch), *n).many != nullptr)
    return k < in(other(branch), *n).many->size() ? in(branch, *n).tensor : kNone;
  const std::vector<TensorId>* outputs = given ? &names.given() : in(branch, *n).many;
  return outputs != nullptr && k < outputs->size() ? (*outputs)[k] : kNone;
}

}  // namespace

// "inputs" is all that the block was given, unless an entry is called so.
void EntryInputs::resolve(BlockNames& names, const Node& node, std::size_t i, Branch branch,
                          std::vector<TensorId>& out) {
  if (node.from[i] != "inputs" || names.find(node.from[i]) != nullptr)
    return out.push_back(resolve(names, node, i, branch));
  for (const TensorId t : names.given()) out.push_back(latest(t));
  if (out.size() > kMaxInputsOfEntry)
    throw Error("an entry takes more than " + std::to_string(kMaxInputsOfEntry) + " inputs")
        .at(node.mark)
        .context(node.where);
}

TensorId EntryInputs::resolve(BlockNames& names, const Node& node, std::size_t i, Branch branch) {
  const std::string& name = node.from[i];
  if (const auto* n = names.find(name)) return ran(latest(in(branch, *n).tensor), node, i, branch);
  if (name == "input" && !names.given().empty()) return latest(names.given().front());
  if (const TensorId t = part(names, name, branch); t != kNone) return ran(latest(t), node, i, branch);
  throw Error("there is no earlier entry \"" + name + "\" in this block" + did_you_mean(name, names.names()))
      .at(i < node.from_marks.size() ? node.from_marks[i] : node.mark)
      .context(node.where);
}

// The tensor that an entry's name stands for, unless that entry is of the other mode and has nothing to hand on.
TensorId EntryInputs::ran(TensorId t, const Node& node, std::size_t i, Branch branch) const {
  const auto after = std::ranges::upper_bound(not_run_, t, {}, &Range::begin);
  const bool runs =
      branch == Branch::inactive || leaves_out_ || after == not_run_.begin() || t >= std::prev(after)->end;
  if (t != kNone && runs) return t;
  const bool trains = mode_ == Mode::train;
  throw Error("the entry \"" + node.from[i] + "\" runs only in " + (trains ? "inference" : "training"))
      .at(i < node.from_marks.size() ? node.from_marks[i] : node.mark)
      .help(trains ? "write when: infer here, too" : "write when: train here, too")
      .context(node.where);
}

EntryInputs::Given EntryInputs::given_to(const Node& node, const Current& x, BlockNames& names, Branch branch,
                                         std::span<const TensorId> besides) {
  if (node.from.empty() && besides.empty() && x.in(branch) != kNone) return {latest(x.in(branch)), {}};
  std::vector<TensorId> inputs;
  if (node.from.empty()) {
    if (x.in(branch) != kNone) inputs.push_back(latest(x.in(branch)));
    inputs.insert(inputs.end(), besides.begin(), besides.end());
  } else {
    for (std::size_t i = 0; i < node.from.size(); ++i) resolve(names, node, i, branch, inputs);
  }
  return {kNone, std::move(inputs)};
}

TensorId EntryInputs::handed_on(const Node& node, const Current& x, BlockNames& names, Branch branch) {
  if (!node.from.empty()) {
    std::vector<TensorId> first;
    resolve(names, node, 0, branch, first);
    if (!first.empty()) return first.front();
  }
  return x.in(branch) == kNone ? kNone : latest(x.in(branch));
}

void EntryInputs::did_not_run(Range tensors) {
  while (!not_run_.empty() && not_run_.back().begin >= tensors.begin) not_run_.pop_back();
  not_run_.push_back(tensors);
}

}  // namespace gpuplan
