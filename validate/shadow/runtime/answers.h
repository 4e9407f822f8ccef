// What the host reads of device memory that no copy has filled, where Python knows better (values of small tensors are
// computed beside the run: python/gpuplan_shadow_values.py). Entry points for the hook, all of this thread:
//
//   gpuplan_shadow_write(address, bytes, count)  puts known bytes into device memory; returns the write's number
//   gpuplan_shadow_read(address, to, count)      copies bytes that are known, or returns 0
//   gpuplan_shadow_forget(address, count)        these bytes are not known any more
//   gpuplan_shadow_holds(address, write)         whether nothing can have written there since
//   gpuplan_shadow_lost(addresses, most)         writes that launches of this thread can have overwritten since the
//   last
//                                                call, at most so many; returns how many
//   gpuplan_shadow_answer(values, count)         the next reads of up to 8 bytes that nobody knows are these, in order;
//                                                returns how many earlier answers were left, which are dropped
//   gpuplan_shadow_guesses(everywhere)           reads so far that were answered with zeros; of all threads, if asked
#pragma once

#include <cstddef>

namespace gpuplan::shadow {

/// Fills [to, to + bytes) of the host with the next answer, little-endian, or with zeros, which are counted.
void answer_read(void* to, std::size_t bytes);

/// Whether Python notes what this thread reads, with its lines.
bool python_notes_reads();

}  // namespace gpuplan::shadow
