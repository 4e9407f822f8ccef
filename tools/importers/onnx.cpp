#include "tools/importers/onnx.h"

#include "tools/importers/import.h"
#ifdef GPUPLAN_READS_ONNX
#include "tools/importers/onnx/import_onnx.h"
#endif

namespace gpuplan {

#ifdef GPUPLAN_READS_ONNX
std::shared_ptr<const Source> onnx_spec(const std::string& path, std::vector<Variable>& set,
                                        const std::string& called) {
  const std::string& name = called.empty() ? path : called;
  return std::make_shared<const Source>(Source{import_name(name), import_onnx(path, set, name)});
}
#else
std::shared_ptr<const Source> onnx_spec(const std::string& path, std::vector<Variable>&, const std::string& called) {
  throw Error((called.empty() ? path : called) +
                  " is an ONNX model, and this gpuplan was built without ONNX: apt install libonnx-dev libprotobuf-dev "
                  "protobuf-compiler, and build it again",
              ErrorKind::environment);
}
#endif

}  // namespace gpuplan
