#include "estimator/report/serving_offers.h"

#include <algorithm>
#include <cstdio>

#include "estimator/base/format.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/text_table.h"
#include "estimator/report/time_text.h"

namespace gpuplan {
namespace {

std::string dollars(double usd) {
  char text[32];
  std::snprintf(text, sizeof text, "$%.2f", usd);
  return text;
}

std::string gpus_of(const ServingRow& row) {
  return row.count > 1 ? std::to_string(row.count) + " x " + row.gpu : row.gpu;
}

std::vector<std::string> cells_of(const ServingRow& row, const TextStyle& style) {
  const LoadPoint& p = row.load->point;
  const std::optional<double> usd = row.load->usd_per_million();
  return {mark_of(row.meets, style),
          gpus_of(row),
          usd ? dollars(*usd) : "",
          format_figure(p.rate),
          format_figure(p.load.output_rate),
          format_seconds(p.load.first_token.p90),
          p.load.token.p90 > 0 ? format_seconds(p.load.token.p90) : "-",
          row.load->offer ? row.load->offer->name + " " + dollars(row.load->offer->usd) + "/h" : "not rented"};
}

}  // namespace

const ServingRow* ServingOffers::best() const {
  const auto found = std::ranges::find_if(rows, [](const ServingRow& row) {
    return row.refused.empty() && row.meets && row.load && row.load->usd_per_million();
  });
  return found == rows.end() ? nullptr : &*found;
}

std::string serving_offers_text(const ServingOffers& offers, const TextStyle& style) {
  std::string out = offers.model + (style.unicode ? " · " : " | ") + offers.engine + (style.unicode ? " · " : " | ") +
                    offers.words + (offers.slo.empty() ? "" : (style.unicode ? " · " : " | ") + offers.slo) + "\n\n";
  TextTable table({kLeft, kLeft, kRight, kRight, kRight, kRight, kRight, kLeft});
  table.row({"", "GPU", "1M out", "requests/s", "tokens/s", "first", "token", "offer"});
  TextTable refused({kLeft, kLeft});
  bool any_refused = false;
  for (const ServingRow& row : offers.rows) {
    if (row.refused.empty() && row.load) {
      table.row(cells_of(row, style));
      continue;
    }
    constexpr std::size_t kMostOfReason = 56;  // of 80 columns
    const bool cut = row.refused.size() > kMostOfReason;
    refused.row({row.gpu, cut ? row.refused.substr(0, kMostOfReason) + "..." : row.refused});
    any_refused = true;
  }
  out += table.text("  ") + "\n";
  if (const ServingRow* best = offers.best())
    out += "  " + mark_of(true, style) + " " + gpus_of(*best) + ": " + dollars(*best->load->usd_per_million()) +
           " for a million tokens out, " + best->load->offer->name + " (price of " + best->load->offer->dated + ")\n";
  else
    out += "  " + mark_of(false, style) +
           (offers.slo.empty() ? " served nowhere that is rented" : " no GPU meets " + offers.slo) + "\n";
  if (any_refused) out += "\n  Not served on\n" + refused.text("    ");
  return out;
}

std::string serving_offers_json(const ServingOffers& offers, std::string_view version) {
  Json out = document_of("gpuplan.serve-offers/1", version);
  out["model"] = offers.model;
  out["engine"] = offers.engine;
  out["words"] = offers.words;
  out["slo"] = text_or_null(offers.slo);
  out["rows"] = Json::array();
  for (const ServingRow& row : offers.rows) {
    Json one = {{"gpu", row.gpu},
                {"count", row.count},
                {"refused", text_or_null(row.refused)},
                {"meets", row.meets},
                {"kv_tokens", row.cache_tokens}};
    const ServedLoad* const load = row.load ? &row.load->point.load : nullptr;
    one["requests_per_second"] = load != nullptr ? Json(row.load->point.rate) : Json(nullptr);
    one["output_tokens_per_second"] = load != nullptr ? Json(load->output_rate) : Json(nullptr);
    one["ttft_p90_seconds"] = load != nullptr ? Json(load->first_token.p90) : Json(nullptr);
    one["tpot_p90_seconds"] = load != nullptr ? Json(load->token.p90) : Json(nullptr);
    one["offer"] = row.load && row.load->offer ? Json(row.load->offer->name) : Json(nullptr);
    one["usd_per_hour"] = row.load && row.load->offer ? Json(row.load->offer->usd) : Json(nullptr);
    one["price_date"] = row.load && row.load->offer ? Json(row.load->offer->dated) : Json(nullptr);
    one["usd_per_million_output_tokens"] = row.load ? or_null(row.load->usd_per_million()) : Json(nullptr);
    out["rows"].push_back(std::move(one));
  }
  return json_text(out);
}

std::string serving_offers_json_schema() {
  return schema::document(
      "What gpuplan serve --on --format json writes",
      "schema:=gpuplan.serve-offers/1 tool:{name version:string} model engine words:string slo:string? rows:$row[]",
      {{"row",
        "{gpu:string count:integer refused:string? meets:boolean kv_tokens:integer "
        "requests_per_second output_tokens_per_second ttft_p90_seconds tpot_p90_seconds:number? "
        "offer:string? usd_per_hour:number? price_date:string? "
        "usd_per_million_output_tokens:number?}"}});
}

}  // namespace gpuplan
