// The test binary's main(); the tests are in test_<noun>.cpp. A test case that checks nothing fails: what it was to
// look at is not there.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

// doctest makes the listener: what it has seen is left here for main().
std::vector<std::string>& cases_without_checks() {
  static std::vector<std::string> names;
  return names;
}

// Of a part that --first and --last name; doctest's summary counts every test case.
int& cases_that_ran() {
  static int count = 0;
  return count;
}

class ChecksOfCases : public doctest::IReporter {
 public:
  explicit ChecksOfCases(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData& data) override {
    name_ = data.m_name;
    ++cases_that_ran();
  }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (stats.numAssertsCurrentTest == 0) cases_without_checks().push_back(name_);
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData& data) override {
    if (data.m_skip) std::printf("skip  %s: %s\n", data.m_name, data.m_description);
  }

 private:
  std::string name_;
};
REGISTER_LISTENER("checks of cases", 1, ChecksOfCases);

}  // namespace

int main(int argc, char** argv) {
  const int failed = doctest::Context(argc, argv).run();
  std::printf("%d test cases ran\n", cases_that_ran());
  for (const std::string& name : cases_without_checks())
    std::fprintf(stderr, "the test case \"%s\" checks nothing\n", name.c_str());
  return failed != 0 || cases_without_checks().empty() ? failed : 1;
}
