// PYTORCH_ALLOC_CONF: what c10/core/AllocatorConfig.cpp accepts and refuses.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "estimator/allocator/allocator.h"
#include "estimator/base/error.h"

using gpuplan::AllocatorSettings;
using gpuplan::Error;
using gpuplan::ErrorKind;
using gpuplan::parse_alloc_conf;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

// The report of the error; "" when the text is accepted.
std::string refusal(const std::string& text) {
  try {
    parse_alloc_conf(text);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::usage);
    return e.render();
  }
  return "";
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("alloc_conf: nothing is PyTorch's defaults") {
  const AllocatorSettings s = parse_alloc_conf("");
  CHECK_FALSE(s.expandable_segments);
  CHECK(s.max_split_bytes == INT64_MAX);
  CHECK(s.max_non_split_rounding_bytes == 20 * kMiB);
  CHECK(s.large_segment_bytes == 20 * kMiB);
  CHECK(s.roundup_power2_divisions == 0);
  CHECK(s.roundup_by_interval.empty());
  CHECK(s.garbage_collection_threshold == 0);
}

TEST_CASE("alloc_conf: several settings, white space, a comma at the end") {
  const AllocatorSettings s =
      parse_alloc_conf(" expandable_segments:True, max_split_size_mb : 32,garbage_collection_threshold:0.5,");
  CHECK(s.expandable_segments);
  CHECK(s.max_split_bytes == 32 * kMiB);
  CHECK(s.garbage_collection_threshold == 0.5);
}

TEST_CASE("alloc_conf: the last of two settings of a key counts") {
  CHECK(parse_alloc_conf("max_split_size_mb:32,max_split_size_mb:64").max_split_bytes == 64 * kMiB);
}

TEST_CASE("alloc_conf: an unknown key is refused with the nearest") {
  const std::string report = refusal("max_split_size:32");
  CHECK(mentions(report, "max_split_size_mb"));
  CHECK(mentions(report, "PYTORCH_ALLOC_CONF:1:1"));
  CHECK(mentions(refusal("expandable_segment:True"), "expandable_segments"));
}

TEST_CASE("alloc_conf: booleans are True and False only") {
  CHECK(mentions(refusal("expandable_segments:true"), "True or False"));
  CHECK(mentions(refusal("expandable_segments:1"), "PYTORCH_ALLOC_CONF:1:21"));
  CHECK(refusal("expandable_segments:False") == "");
}

TEST_CASE("alloc_conf: max_split_size_mb and max_non_split_rounding_mb are not below the large segment") {
  CHECK(mentions(refusal("max_split_size_mb:19"), "at least 20"));
  CHECK(refusal("max_split_size_mb:21") == "");
  CHECK(mentions(refusal("max_non_split_rounding_mb:19"), "at least 20"));
  CHECK(parse_alloc_conf("max_non_split_rounding_mb:40").max_non_split_rounding_bytes == 40 * kMiB);
}

TEST_CASE("alloc_conf: large_segment_size_mb is above 10 and is read before the sizes it bounds") {
  CHECK(mentions(refusal("large_segment_size_mb:10"), "more than 10"));
  const AllocatorSettings s = parse_alloc_conf("max_split_size_mb:12,large_segment_size_mb:12");
  CHECK(s.large_segment_bytes == 12 * kMiB);
  CHECK(s.max_split_bytes == 12 * kMiB);
  CHECK(s.max_non_split_rounding_bytes == 12 * kMiB);  // follows the segment size where it is not given
}

TEST_CASE("alloc_conf: numbers") {
  CHECK(mentions(refusal("max_split_size_mb:-1"), "whole number"));
  CHECK(mentions(refusal("max_split_size_mb:32MB"), "whole number"));
  CHECK(mentions(refusal("max_split_size_mb:99999999999999999999"), "whole number"));
  CHECK(refusal("max_split_size_mb:9223372036854775807") == "");  // capped, as PyTorch caps it
}

TEST_CASE("alloc_conf: garbage_collection_threshold is strictly between 0 and 1") {
  for (const char* bad : {"0", "1", "1.5", "-0.2", "nan", "x", "0.5x"})
    CHECK(mentions(refusal(std::string("garbage_collection_threshold:") + bad), "between 0.0 and 1.0"));
}

TEST_CASE("alloc_conf: one number of divisions for all sizes") {
  CHECK(parse_alloc_conf("roundup_power2_divisions:4").roundup_power2_divisions == 4);
  CHECK(mentions(refusal("roundup_power2_divisions:3"), "power of 2"));
  CHECK(mentions(refusal("roundup_power2_divisions:0"), "power of 2"));
}

TEST_CASE("alloc_conf: divisions by interval") {
  // The first interval named also gives those below it; intervals between two that are named keep 0; ">" is
  // all above the last one named. Interval i starts at 2^i MiB: 64 -> 6, 256 -> 8, 1024 -> 10.
  const AllocatorSettings s = parse_alloc_conf("roundup_power2_divisions:[64:8,256:4,1024:4,>:1]");
  const std::vector<std::int64_t> expected = {8, 8, 8, 8, 8, 8, 8, 0, 4, 0, 4, 1, 1, 1, 1, 1};
  CHECK(s.roundup_by_interval == expected);
  CHECK(mentions(refusal("roundup_power2_divisions:[100:4]"), "power of 2"));
  CHECK(mentions(refusal("roundup_power2_divisions:[64:3]"), "power of 2"));
  CHECK(mentions(refusal("roundup_power2_divisions:[64:4"), "not the end"));
}

TEST_CASE("alloc_conf: keys that place nothing are checked and accepted") {
  CHECK(refusal("backend:native,pinned_use_background_threads:True,pinned_num_register_threads:8") == "");
  CHECK(mentions(refusal("pinned_use_background_threads:yes"), "True or False"));
}

TEST_CASE("alloc_conf: another backend is not modelled") {
  CHECK(mentions(refusal("backend:cudaMallocAsync"), "not modelled"));
  CHECK(mentions(refusal("backend:mine"), "unknown backend"));
}

TEST_CASE("alloc_conf: broken punctuation") {
  CHECK(mentions(refusal("expandable_segments"), "\":\" after a key"));
  CHECK(mentions(refusal("expandable_segments:"), "a value"));
  CHECK(mentions(refusal("expandable_segments:True max_split_size_mb:32"), "True or False"));
  CHECK(mentions(refusal("max_split_size_mb:32:64"), "between settings"));
}
