#include "tools/options/tensor_words.h"

#include <sstream>

#include "estimator/base/error.h"
#include "tools/options/several_gpus.h"
#include "tools/options/words.h"

namespace gpuplan {

void read_tensor(const std::string& text, Strategy& s) {
  if (text.empty()) return;
  if (text.ends_with(','))
    throw Error("--tp " + text + " ends with a comma", ErrorKind::usage).help("--tp 4, or --tp 4,sequence,loss");
  std::istringstream parts(text);
  std::string word;
  std::getline(parts, word, ',');
  if (word == "sequence" || word == "loss")
    throw Error("--tp " + text + " does not say how many ranks share each layer", ErrorKind::usage)
        .help("--tp 4," + text);
  s.tensor = whole_number("--tp", word, 1, kMostGpus);
  while (std::getline(parts, word, ',')) {
    bool& is = *choose<bool*>("--tp", word, {{"sequence", &s.tensor_plan.sequence}, {"loss", &s.tensor_plan.loss}});
    if (is) throw Error("--tp says " + word + " twice", ErrorKind::usage).help("leave one of them out");
    is = true;
  }
  if (s.tensor == 1 && s.tensor_plan.sequence)
    throw Error("sequence parallelism is of ranks that share layers, and --tp 1 has one", ErrorKind::usage)
        .help("--tp 2,sequence, or leave it out");
  if (s.tensor_plan.loss && !s.tensor_plan.sequence)
    throw Error("loss parallelism is planned with sequence parallelism, as torchtitan's default has both",
                ErrorKind::usage)
        .help("--tp " + std::to_string(s.tensor) + ",sequence,loss");
}

}  // namespace gpuplan
