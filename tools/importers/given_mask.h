// The specs of transformers' decoders with an attention_mask, as a data collator gives it beside the tokens.
#pragma once

#include <memory>

#include "estimator/base/error.h"

namespace gpuplan {

/// A decoder's spec, of the zoo or imported, that is given an attention_mask and has the variable `padded`: whether any
/// token is padding. Nothing where the spec is none whose mask is made of its positions alone.
std::shared_ptr<const Source> with_attention_mask(const Source& spec);

}  // namespace gpuplan
