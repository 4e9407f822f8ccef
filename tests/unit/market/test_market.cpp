// CSV files, instances and their prices, and the catalogs that others keep.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "estimator/base/calendar.h"
#include "estimator/base/csv.h"
#include "estimator/device/find_gpu.h"
#include "estimator/market/import_catalog.h"
#include "estimator/market/instance.h"
#include "estimator/report/instance_list.h"
#include "tools/options/instance_input.h"
#include "tools/options/run_options.h"

using namespace gpuplan;

namespace {

std::string csv_error(const std::string& text) {
  const Source source{"x.csv", text};
  try {
    const CsvTable table(source);
  } catch (const Error& error) {
    return std::to_string(error.line()) + ":" + std::to_string(error.column()) + " " + error.message();
  }
  return "";
}

const std::string kHead = "provider,instance_type,gpu,gpu_count,on_demand_usd_per_hour,spot_usd_per_hour,price_date\n";

std::string instance_error(const std::string& text) {
  const Source source{"x.csv", text};
  try {
    (void)read_instances(source, gpu_table());
  } catch (const Error& error) {
    return std::to_string(error.line()) + ":" + std::to_string(error.column()) + " " + error.message();
  }
  return "";
}

ImportedCatalog imported(const std::string& text, const std::string& region = "") {
  return import_catalog({"c.csv", text}, {.provider = "cloud", .region = region, .date = "2026-11-01"}, gpu_table());
}

}  // namespace

TEST_CASE("CSV is read as RFC 4180 writes it") {
  const Source source{"x.csv", "a,b\r\n1,\"x, \"\"y\"\"\nz\"\n\n,last"};
  const CsvTable table(source);
  REQUIRE_EQ(table.rows(), 2);
  CHECK_EQ(table.at(0, "a").text, "1");
  CHECK_EQ(table.at(0, "b").text, "x, \"y\" z");
  CHECK_EQ(table.at(1, "a").text, "");
  CHECK_EQ(table.at(1, "b").text, "last");
  CHECK_EQ(table.at(1, "b").mark.line, 5);
  CHECK_EQ(table.at(1, "b").mark.column, 2);
  CHECK_EQ(table.at(1, "c").text, "");
  CHECK_FALSE(table.has("c"));
}

TEST_CASE("a CSV file with something wrong is refused at its place") {
  CHECK_EQ(csv_error(""), "0:0 x.csv is empty");
  CHECK_EQ(csv_error("a,b\n1\n"), "2:1 this line has 1 fields, the first has 2");
  CHECK_EQ(csv_error("a,b,a\n"), "1:5 the column \"a\" appears twice");
  CHECK_EQ(csv_error("a,b\n1,\"2\n"), "2:3 a quoted field does not end");
  CHECK_EQ(csv_error("a,b\n1,\"2\"3\n"), "2:6 text after a quoted field");
  CHECK_EQ(csv_error(std::string("a\n1\0\n", 5)), "2:1 a control character in a field");
}

// tests/facts/instances.csv: the table that configs/instances was written from.
TEST_CASE("the instances in the program are those of the facts") {
  std::ostringstream text;
  text << std::ifstream(std::string(GPUPLAN_SOURCE_DIR) + "/tests/facts/instances.csv").rdbuf();
  const Source source{"instances.csv", text.str()};
  const CsvTable facts(source);
  const std::vector<Gpu> gpus = gpu_table();
  const std::vector<Instance> instances = load_instances("", gpus);
  REQUIRE_EQ(facts.rows(), 262);
  REQUIRE_EQ(instances.size(), 262);
  for (std::size_t row = 0; row < facts.rows(); ++row) {
    const auto field = [&](std::string_view column) { return facts.at(row, column).text; };
    CAPTURE(field("instance_type"));
    const auto same = [&](const Instance& i) {
      return i.provider == field("provider") && i.name == field("instance_type") && i.region == field("region");
    };
    const auto at = std::ranges::find_if(instances, same);
    REQUIRE(at != instances.end());
    CHECK_EQ(find_gpu(gpus, field("gpu"))->name, at->gpu);
    const auto check = [&](std::string_view column, const std::optional<double>& value) {
      CHECK_EQ(value.has_value(), !field(column).empty());
      if (value) CHECK_EQ(*value, std::strtod(field(column).c_str(), nullptr));
    };
    check("gpu_count", at->gpu_count);
    check("on_demand_usd_per_hour", at->usd);
    check("spot_usd_per_hour", at->spot_usd);
    check("vcpus", at->vcpus);
    check("host_memory_gib", at->host_memory_gib);
    CHECK_EQ(at->price_date, field("price_date"));
  }
  const std::string written = instances_csv(instances);
  CHECK_EQ(instances_csv(read_instances({"again.csv", written}, gpus)), written);
}

TEST_CASE("an instance with something wrong is refused at its place") {
  const auto row = [](const std::string& rest) { return kHead + rest + "\n"; };
  CHECK_EQ(instance_error(row("aws,a,t4,1,0.5,,2026-01-01")), "");
  CHECK_EQ(instance_error(row("aws,a,t44,1,0.5,,2026-01-01")), "2:7 no GPU is called \"t44\" — did you mean \"t4\"?");
  CHECK_EQ(instance_error(row("aws,a,t4,1,0,,2026-01-01")), "2:12 on_demand_usd_per_hour is above 0");
  CHECK_EQ(instance_error(row("aws,a,t4,1,-1,,2026-01-01")), "2:12 on_demand_usd_per_hour is above 0");
  CHECK_EQ(instance_error(row("aws,a,t4,1,nan,,2026-01-01")), "2:12 on_demand_usd_per_hour is a number, not \"nan\"");
  CHECK_EQ(instance_error(row("aws,a,t4,1,inf,,2026-01-01")), "2:12 on_demand_usd_per_hour is a number, not \"inf\"");
  CHECK_EQ(instance_error(row("aws,a,t4,1,1 usd,,2026-01-01")),
           "2:12 on_demand_usd_per_hour is a number, not \"1 usd\"");
  CHECK_EQ(instance_error(row("aws,a,t4,0,1,,2026-01-01")), "2:10 gpu_count is above 0");
  CHECK_EQ(instance_error(row("aws,a,t4,1025,1,,2026-01-01")), "2:10 gpu_count is 1024 at most, not 1025");
  CHECK_EQ(instance_error(row("aws,a,t4,1,1,,yesterday")), "2:15 a price has a day, YYYY-MM-DD, not \"yesterday\"");
  CHECK_EQ(instance_error(row("aws,,t4,1,1,,2026-01-01")), "2:5 instance_type is empty");
  CHECK_EQ(instance_error(kHead + "aws,a,t4,1,1,,2026-01-01\naws,a,t4,1,2,,2026-01-01\n"), "3:5 aws a appears twice");
  const std::string sold_by_gpu = "provider,instance_type,gpu,gpu_count,on_demand_usd_per_hour,price_date,most_gpus\n";
  CHECK_EQ(instance_error(sold_by_gpu + "x,a,t4,1,0.5,2026-01-01,8\n"), "");
  const auto most_error = [&](const char* line) { return instance_error(sold_by_gpu + line + "\n"); };
  CHECK_EQ(most_error("x,a,t4,1,0.5,2026-01-01,1"), "2:25 most_gpus is a whole number from 2 to 64, not 1");
  CHECK_EQ(most_error("x,a,t4,1,0.5,2026-01-01,2.5"), "2:25 most_gpus is a whole number from 2 to 64, not 2.5");
  CHECK_EQ(most_error("x,a,t4,1,0.5,2026-01-01,1e11"), "2:25 most_gpus is a whole number from 2 to 64, not 1e11");
  CHECK_EQ(most_error("x,a,t4,1,0.5,2026-01-01,1e30"), "2:25 most_gpus must be 1e12 at most, not 1e30");
  CHECK_EQ(most_error("x,a,t4,2,0.5,2026-01-01,8"),
           "2:25 most_gpus is of what is sold by the GPU, and a has 2 of them");
  CHECK_EQ(instance_error("provider;instance_type;gpu\n"), "1:1 semicolons part the fields, not commas");
  CHECK_EQ(instance_error("provider\tinstance_type\tgpu\n"), "1:1 tabs part the fields, not commas");
  CHECK_EQ(instance_error("provider,gpu\n"), "1:1 the column instance_type is missing");
  CHECK_EQ(instance_error("provider,instance_typ\n"),
           "1:10 unknown column \"instance_typ\" — did you mean \"instance_type\"?");
}

TEST_CASE("the age of a price is that of its oldest date") {
  CHECK_EQ(day_of("1970-01-01"), 0);
  CHECK_EQ(day_of("2026-11-22"), 20779);
  CHECK_EQ(day_of("2026-02-29"), std::nullopt);
  CHECK_EQ(day_of("2026-1-1"), std::nullopt);
  CHECK_EQ(oldest_day("2026-08-03 (host) + 2022-05-05 (GPU add-on)"), day_of("2022-05-05"));
  CHECK_EQ(oldest_day(">=2025-09-12, <=2026-11 (undated commit)"), day_of("2025-09-12"));
  CHECK_EQ(oldest_day("never"), std::nullopt);
  CHECK_EQ(date_text(20779), "2026-11-22");
}

TEST_CASE("old prices say so") {
  Instance i;
  i.usd = 0.5;
  i.price_date = "2026-01-01";
  const Day day = *day_of("2026-01-01");
  CHECK_EQ(instance_list_text(std::vector{i}, day + 90).find("older than"), std::string::npos);
  CHECK_NE(instance_list_text(std::vector{i}, day - 2).find("1 of 1 prices are dated in the future"),
           std::string::npos);
  CHECK_EQ(instance_list_text(std::vector{i}, day - 1).find("still to come"), std::string::npos);
  CHECK_NE(instance_list_text(std::vector{i}, day + 91).find("1 of 1 prices are older than 90 days, the oldest 91"),
           std::string::npos);
}

// Columns as in skypilot-catalog's catalogs/v8; GPUs by zones, quoted dictionaries, a spot price of 0.
TEST_CASE("SkyPilot's catalog is read by its heading") {
  const ImportedCatalog c = imported(
      "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"
      "g5.xlarge,A10G,1.0,4.0,16.0,\"{'Gpus': [{'Name': 'A10G', 'Count': 1}]}\",1.006,0.44,us-east-1,us-east-1a\n"
      "g5.xlarge,A10G,1.0,4.0,16.0,\"{'Gpus': [{'Name': 'A10G', 'Count': 1}]}\",1.006,0.40,us-east-1,us-east-1b\n"
      "p4de.24xlarge,A100-80GB,8.0,96.0,1152.0,,40.96,0.00,us-west-2,us-west-2a\n"
      "m5.large,,,2,8,,0.096,0.03,us-east-1,us-east-1a\n"
      "dl1.24xlarge,Gaudi HL-205,8.0,96,768,,13.1,,us-east-1,us-east-1a\n"
      "x.1,T4,1,4,16,,0.00,0.00,us-east-1,a\n");
  REQUIRE_EQ(c.instances.size(), 2);
  CHECK_EQ(c.instances[0].name, "g5.xlarge");
  CHECK_EQ(c.instances[0].gpu, "a10g");
  CHECK_EQ(c.instances[0].usd, 1.006);
  CHECK_EQ(c.instances[0].spot_usd, 0.40);
  CHECK_EQ(c.instances[1].gpu, "a100-80gb");
  CHECK_EQ(c.instances[1].gpu_count, 8);
  CHECK_EQ(c.instances[1].spot_usd, std::nullopt);
  CHECK_EQ(c.without_gpu, 1);
  CHECK_EQ(c.without_price, 1);
  CHECK_EQ(c.unknown_gpus, std::map<std::string, int>{{"Gaudi HL-205", 1}});
}

// skypilot-catalog issue 31: the price of a2-highgpu-1g is 0.73948 + 2.9339 in us-central1.
TEST_CASE("of SkyPilot's GCP catalog host and GPU are joined by region") {
  const std::string text =
      "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"
      "a2-highgpu-1g,12,85,,,,0.73948,0.2,us-central1,us-central1-a\n"
      "a2-highgpu-1g,12,85,,,,0.8,0.3,europe-west4,europe-west4-a\n"
      "n1-standard-8,8,30,,,,0.38,0.08,us-central1,us-central1-a\n"
      ",,,A100,1.0,,2.9339,1.1,us-central1,us-central1-a\n"
      ",,,A100,16.0,,46.9,17.6,us-central1,us-central1-a\n";
  const ImportedCatalog c = imported(text);
  REQUIRE_EQ(c.instances.size(), 1);
  CHECK_EQ(c.instances[0].gpu, "a100-40gb");
  CHECK_EQ(*c.instances[0].usd, doctest::Approx(3.67338));
  CHECK_EQ(*c.instances[0].spot_usd, doctest::Approx(1.3));
  CHECK_EQ(c.without_price, 1);  // the GPU has no price in europe-west4
  CHECK_EQ(c.without_gpu, 1);
  CHECK(imported(text, "europe-west4").instances.empty());
}

TEST_CASE("gpuhunt's catalog keeps spot rows apart") {
  const ImportedCatalog c = imported(
      "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor\n"
      "a100,eu,1.80,8,64,1,A100,40,False,100,nvidia\n"
      "a100,eu,0.90,8,64,1,A100,40,True,100,nvidia\n"
      "a100-80,eu,2.20,8,64,1,A100,80,False,100,nvidia\n"
      "mi300,eu,3.00,8,64,1,MI300X,192,False,100,amd\n"
      "cpu,eu,0.10,8,64,0,,,False,100,\n");
  REQUIRE_EQ(c.instances.size(), 2);
  CHECK_EQ(c.instances[0].gpu, "a100-40gb");
  CHECK_EQ(c.instances[0].usd, 1.80);
  CHECK_EQ(c.instances[0].spot_usd, 0.90);
  CHECK_EQ(c.instances[1].gpu, "a100-80gb");
  CHECK_EQ(c.without_gpu, 2);
}

TEST_CASE("a file that is no catalog says what is missing") {
  try {
    (void)imported("name,price\na,1\n");
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK_EQ(error.message(), "this is neither a SkyPilot nor a gpuhunt catalog");
    CHECK_NE(error.render().find("InstanceType, AcceleratorName"), std::string::npos);
  }
  CHECK_THROWS_AS(imported("InstanceType,AcceleratorName,AcceleratorCount,Price,Region\na,T4,1,-3,us\n"), Error);
}
