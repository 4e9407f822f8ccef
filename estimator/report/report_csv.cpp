#include <cmath>

#include "estimator/base/csv.h"
#include "estimator/base/list_text.h"
#include "estimator/report/writers.h"

namespace gpuplan {

namespace {

std::string join_shapes(const std::vector<Shape>& shapes) {
  return joined(shapes, " ", [](const Shape& shape) { return format_sizes(shape.sizes(), false); });
}

// Nanoseconds as seconds: the same text in every locale.
std::string seconds(std::int64_t ns) {
  std::string fraction = std::to_string(ns % 1'000'000'000);
  fraction.insert(0, 9 - fraction.size(), '0');
  return std::to_string(ns / 1'000'000'000) + "." + fraction;
}

// Thousandths, rounded.
std::string ratio(std::int64_t a, std::int64_t b) {
  if (b == 0) return "";
  const std::int64_t thousandths = std::llround(1000 * static_cast<double>(a) / static_cast<double>(b));
  std::string fraction = std::to_string(thousandths % 1000);
  fraction.insert(0, 3 - fraction.size(), '0');
  return std::to_string(thousandths / 1000) + "." + fraction;
}

// Empty where times are not known.
std::string time_fields(const Report& report, const LayerRow& layer) {
  if (!report.time) return ",,,,,,,";
  return "," + seconds(layer.forward_ns) + "," + seconds(layer.backward_ns) + "," + seconds(layer.busy_ns) + "," +
         std::string(name_of(layer.bound)) + "," + std::to_string(layer.work_flops) + "," +
         std::to_string(layer.work_bytes) + "," + ratio(layer.work_flops, layer.work_bytes);
}

}  // namespace

std::string report_csv(const Report& report) {
  std::string out =
      "name,type,at,input_shapes,output_shape,parameters,forward_macs,backward_flops,elementwise_flops,saved_bytes,"
      "output_bytes,recompute_flops,forward_seconds,backward_seconds,busy_seconds,bound,flops,bytes_moved,"
      "flops_per_byte\n";
  for (const LayerRow& layer : report.layers) {
    const std::string at = layer.file + ":" + std::to_string(layer.line) + ":" + std::to_string(layer.column);
    out += csv_field(layer.name) + "," + csv_field(std::string(layer.type)) + "," + csv_field(at) + "," +
           csv_field(join_shapes(layer.input_shapes)) + "," + format_sizes(layer.output_shape.sizes(), false);
    for (const std::int64_t n : {layer.parameters, layer.forward_macs, layer.backward_flops, layer.elementwise_flops,
                                 layer.saved_bytes, layer.output_bytes, layer.recompute_flops})
      out += "," + std::to_string(n);
    out += time_fields(report, layer) + "\n";
  }
  return out;
}

}  // namespace gpuplan
