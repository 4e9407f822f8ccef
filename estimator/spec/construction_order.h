// `order:` of a block or model: its entries in the order that the module's __init__ constructs them in, where that is
// not the order they run in. It decides where weights lie in memory and the order of model.parameters(). The name of a
// container (`attentions` of entries attentions.0 and attentions.1) orders the parameters only: it is registered once
// its items are constructed. `order: {made: [...], registered: [...]}` where an entry is constructed before others and
// assigned after them, as torchvision's ResNets do with `downsample`.
#pragma once

#include <string>
#include <vector>

#include "estimator/spec/syntax.h"
#include "estimator/spec/yaml.h"

namespace gpuplan {

/// Throws Error for anything but one list, or two, of names, each once in it, of entries in `layers`.
EntryOrder read_order(const YamlNode& node, const ListSyntax& layers);

}  // namespace gpuplan
