// Whether two lists of entries say the same, and were written in the same place of the spec.
#pragma once

#include "estimator/spec/model.h"

namespace gpuplan {

bool same_body(const Body& a, const Body& b);
bool same_block(const Block& a, const Block& b);
/// Whether an entry goes by more than what its block is given: `tie:` may name a layer by its whole path, which is the
/// block's own in one call and another one's in the next; an entry with `when:` is taken back in the other mode.
bool goes_by_more(const Body& body);

}  // namespace gpuplan
