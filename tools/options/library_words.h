// Values of --like and --weights that name a library, whose own code `gpuplan plan` runs.
#pragma once

#include <string>

namespace gpuplan {

/// trl-sft, trl-dpo, torchtune, or a loop with settings: trl-sft(packing=True).
bool is_library_like(const std::string& like);

/// Forms that are the libraries' own, which their code makes and multiplies: int4:torchao, HqqConfig(nbits=3).
bool is_library_form(const std::string& weights);

}  // namespace gpuplan
