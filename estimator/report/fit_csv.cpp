#include "estimator/base/csv.h"
#include "estimator/base/number_text.h"
#include "estimator/report/fit_table.h"

namespace gpuplan {
namespace {

std::string positive(std::int64_t n) { return n > 0 ? std::to_string(n) : ""; }

}  // namespace

std::string fit_csv(const FitReport& report) {
  std::string out =
      "gpu,title,usable_bytes,refused,asked_bytes,fits,largest_batch,largest_device_bytes,power_of_two,"
      "power_of_two_device_bytes,provider,instance,gpu_count,region,usd_per_hour,price_date,batch,step_seconds,"
      "samples_per_second,usd_per_million_samples,epoch_seconds,usd_per_epoch,run_seconds,usd_per_run,pareto,chosen,"
      "gpus,data_parallel,instances,idle_gpus,limit_bytes,"
      "scaling_efficiency,fits_again_batch,fits_again_device_bytes\n";
  for (std::size_t i = 0; i < report.fit.rows.size(); ++i) {
    const FitRow& row = report.fit.rows[i];
    out += csv_field(row.gpu.name) + "," + csv_field(row.gpu.title) + "," + std::to_string(row.usable_bytes) + "," +
           csv_field(row.refused) + "," + positive(row.asked_bytes) + (row.fits ? ",true," : ",false,") +
           positive(row.largest.samples) + "," + positive(row.largest.bytes) + "," +
           positive(row.power_of_two.samples) + "," + positive(row.power_of_two.bytes) + ",";
    if (row.instance)
      out += csv_field(row.instance->provider) + "," + csv_field(row.instance->name) + "," +
             number_text(row.instance->gpu_count) + "," + csv_field(row.instance->region) + "," +
             number_text(*row.usd) + "," + csv_field(row.instance->price_date);
    else
      out += ",,,,,";
    out += "," + positive(row.fits ? batch_of(row, report.question) : 0);
    const std::optional<double> epoch = epoch_seconds(row, report.question);
    const std::optional<double> run = epoch ? std::optional(*epoch * report.question.epochs) : std::nullopt;
    for (const std::optional<double>& n :
         {row.step_seconds, samples_per_second(row, report.question), usd_per_million(row, report.question), epoch,
          usd_for(row, epoch), run, usd_for(row, run)})
      out += "," + (n ? number_text(*n) : "");
    out += row.pareto ? ",true" : ",false";
    out += report.fit.chosen == i ? ",true," : ",false,";
    out += std::to_string(row.strategy.gpus) + "," +
           (row.strategy.shares() ? std::string(name_of(row.strategy.data)) : "") + "," +
           (row.instance ? std::to_string(row.instances) + "," + std::to_string(row.idle_gpus()) : ",") + "," +
           std::to_string(row.limit_bytes) + "," + (row.efficiency ? number_text(*row.efficiency) : "") + "," +
           positive(row.again.samples) + "," + positive(row.again.bytes) + "\n";
  }
  return out;
}

}  // namespace gpuplan
