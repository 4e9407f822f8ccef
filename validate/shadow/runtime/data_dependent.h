// Kernels whose result's size depends on values, which are all zero here.
#pragma once

namespace gpuplan::shadow {

/// Notes for the report that `function`, a kernel about to be launched, selects by value: nonzero, x[mask],
/// masked_select, unique, repeat_interleave, bincount, whatever calls them (Python, C++, TorchScript); not in a thread
/// whose reads Python notes itself. Costs one comparison for a kernel that was launched before.
void note_data_dependent(const void* function);

}  // namespace gpuplan::shadow
