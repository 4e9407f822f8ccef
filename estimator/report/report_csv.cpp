#include "estimator/market/csv.h"
#include "estimator/report/writers.h"

namespace gpuplan {

namespace {

std::string join_shapes(const std::vector<Shape>& shapes) {
  std::string out;
  for (const Shape& shape : shapes) out += (out.empty() ? "" : " ") + format_sizes(shape.sizes(), false);
  return out;
}

}  // namespace

std::string report_csv(const Report& report) {
  std::string out =
      "name,type,at,input_shapes,output_shape,parameters,forward_macs,backward_flops,elementwise_flops,saved_bytes,"
      "output_bytes,recompute_flops\n";
  for (const LayerRow& layer : report.layers) {
    const std::string at = layer.file + ":" + std::to_string(layer.line) + ":" + std::to_string(layer.column);
    out += csv_field(layer.name) + "," + csv_field(std::string(layer.type)) + "," + csv_field(at) + "," +
           csv_field(join_shapes(layer.input_shapes)) + "," + format_sizes(layer.output_shape.sizes(), false);
    for (const std::int64_t n : {layer.parameters, layer.forward_macs, layer.backward_flops, layer.elementwise_flops,
                                 layer.saved_bytes, layer.output_bytes, layer.recompute_flops})
      out += "," + std::to_string(n);
    out += "\n";
  }
  return out;
}

}  // namespace gpuplan
