#include <doctest/doctest.h>

#include "tools/options/words.h"

using namespace gpuplan;

TEST_CASE("sizes have a unit, binary or decimal") {
  CHECK_EQ(size_in_bytes("22 GiB"), 22LL << 30);
  CHECK_EQ(size_in_bytes("22GiB"), 22LL << 30);
  CHECK_EQ(size_in_bytes("1.5 GiB"), 3LL << 29);
  CHECK_EQ(size_in_bytes("80GB"), 80'000'000'000);
  CHECK_EQ(size_in_bytes("12288MiB"), 12LL << 30);
  CHECK_EQ(size_in_bytes("0.001 kB"), 1);
  CHECK_EQ(size_in_bytes("0"), 0);
  CHECK_EQ(size_in_bytes("22 gib"), 22LL << 30);
  CHECK_EQ(size_in_bytes("24 gb"), 24'000'000'000);
  CHECK_EQ(size_in_bytes("24G"), 24'000'000'000);
  for (const char* text :
       {"", "22", "00", "GiB", "4090m", "22 b", "1e3 GiB", "-1 GiB", "1. GiB", ".5 GiB", "22 GiBs", "h100", "1 GiB "})
    CHECK_FALSE(size_in_bytes(text).has_value());
  CHECK_THROWS_AS(size_in_bytes("999999999999 TiB"), Error);  // beyond 64 bits
}

TEST_CASE("whole numbers are digits only, within bounds") {
  CHECK_EQ(whole_number("--batch", "64", 1, 100), 64);
  for (const char* text : {"", "0", "101", "-1", "+1", " 1", "1 ", "1.0", "1e2", "0x10", "99999999999999999999"})
    CHECK_THROWS_WITH_AS(whole_number("--batch", text, 1, 100),
                         (std::string("--batch expects a whole number from 1 to 100, not \"") + text + "\"").c_str(),
                         Error);
}

TEST_CASE("a word that is not in the list says what is, and what is near") {
  const Choices<int> choices = {{"plain", 0}, {"function", 1}, {"loss_only", 2}};
  CHECK_EQ(choose("--loop", "function", choices), 1);
  CHECK_THROWS_WITH_AS(choose("--loop", "plian", choices),
                       "--loop expects plain, function or loss_only, not \"plian\" — did you mean \"plain\"?", Error);
  CHECK_THROWS_AS(choose("--loop", "Plain", choices), Error);
}
