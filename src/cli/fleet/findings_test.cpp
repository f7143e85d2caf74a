#include "cli/fleet/findings.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace billow::cli {
namespace {

class Findings : public ::testing::Test {
 protected:
  Findings() {
    for (const char* name : {"a", "b"})
      reports_.push_back({.name = name,
                          .url = std::string("http://") + name,
                          .is_ready = true,
                          .version = "0.1.0",
                          .node = name,
                          .is_read_only = true,
                          .loaded = {"m"},
                          .digests = {{"m", "0123456789abcdef"}},
                          .fingerprints = {{"m", "sha256:0123456789abcdef"}},
                          .prefixes = {{"m", {"one", std::string("own-") + name}}}});
  }
  std::string text(bool probed = true) const {
    return findings_text(findings_of(fleet_, place(fleet_), reports_, probed), false);
  }
  bool failed() const { return has_failure(findings_of(fleet_, place(fleet_), reports_, true)); }
  void expect_failure(const std::string& line) const {
    EXPECT_TRUE(failed());
    EXPECT_NE(text().find("failure " + line + "\n"), std::string::npos) << text();
  }
  void expect_warning(const std::string& line) const {
    EXPECT_FALSE(failed());
    EXPECT_NE(text().find("warning " + line + "\n"), std::string::npos) << text();
  }

  Fleet fleet_ = parse_fleet(R"([[host]]
name = "a"
address = "a"
memory = "1G"
[[host]]
name = "b"
address = "b"
memory = "1G"
[[model]]
name = "m"
memory = "1M"
)",
                             "f.toml");
  std::vector<HostReport> reports_;
};

TEST_F(Findings, HostsThatAgree) {
  EXPECT_EQ(text(),
            "ok      ready        a is ready\n"
            "ok      ready        b is ready\n"
            "ok      version      0.1.0 on 2 hosts\n"
            "ok      model        m: 0123456789ab on 2 hosts\n"
            "ok      fingerprint  m: sha256:0123456789ab on 2 hosts\n"
            "ok      prefixes     m: the same digests on 2 hosts\n");
  EXPECT_EQ(text(false).find("prefixes"), std::string::npos);
  EXPECT_FALSE(failed());
}

TEST_F(Findings, AHostThatDoesNotAnswerIsOneFailureAndTheOthersAreCompared) {
  reports_[1] = {.name = "b", .url = "http://b", .error = "refused"};
  expect_failure("reachable    b (http://b): refused");
  EXPECT_NE(text().find("ok      version      0.1.0 on 1 host\n"), std::string::npos) << text();
}

TEST_F(Findings, AHostThatIsNotReady) {
  reports_[0].is_ready = false;
  reports_[0].reasons = {"one", "two"};
  expect_failure("ready        a is not ready: one; two");
  reports_[0].is_draining = true;
  expect_failure("ready        a is draining: one; two");
}

TEST_F(Findings, DifferentVersionsModelsAndFingerprints) {
  reports_[1].version = "0.2.0";
  expect_failure("version      0.1.0 on a; 0.2.0 on b");
  reports_[1].version = "0.1.0";
  reports_[1].digests["m"] = "ffffffffffffffff";
  expect_failure("model        m: 0123456789ab on a; ffffffffffff on b");
  reports_[1].digests["m"] = reports_[0].digests["m"];
  reports_[1].fingerprints["m"] = "sha256:ffffffffffffffff";
  expect_failure("fingerprint  m: sha256:0123456789ab on a; sha256:ffffffffffff on b");
}

TEST_F(Findings, AMissingModel) {
  reports_[1].digests.erase("m");
  expect_failure("model        m is missing on b");
}

TEST_F(Findings, ModelsThatTheFileDoesNotName) {
  reports_[0].digests["x"] = "0000";
  expect_warning("model        x is missing on b, and the hosts file does not name it");
  reports_[1].digests["x"] = "1111";
  expect_failure("model        x: 0000 on a; 1111 on b");
}

TEST_F(Findings, WhatAnOperatorShouldChange) {
  reports_[0].is_read_only = false;
  expect_warning("read-only    a accepts changes of its models; start it with --read-only");
  reports_[1].node = "a";
  expect_warning("node name    a, b call themselves 'a'; start each with its own --node-name");
  reports_[1].loaded.clear();
  expect_warning("model        m is not loaded on b; start them with --preload m");
}

TEST_F(Findings, PrefixesWithoutACommonDigestDisagree) {
  reports_[1].prefixes["m"] = {"two"};
  expect_failure(
      "prefixes     m: a, b have different digests of the same text; compare --kv-type and "
      "adapters");
  reports_[1].prefixes["m"].clear();
  expect_warning("prefixes     m: b kept no prefix of the probe");
  for (HostReport& report : reports_) report.prefixes.clear();  // a model that only embeds
  EXPECT_EQ(text().find("prefixes"), std::string::npos);
}

TEST_F(Findings, Json) {
  const Json json = findings_json(findings_of(fleet_, place(fleet_), reports_, false));
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["findings"][0].dump(), R"({"level":"ok","check":"ready","text":"a is ready"})");
}

TEST_F(Findings, TheTableHasARowForEachHostAndTheirSum) {
  reports_[0].n_waiting = 3;
  reports_[0].n_running = 2;
  reports_[0].busy_ratio = 0.5;
  reports_[0].kv_used_ratio = 0.25;
  reports_[0].n_prompt_tokens = 100;
  reports_[0].n_cached_tokens = 80;
  reports_[1] = {.name = "b", .url = "http://b", .error = "refused"};
  const std::string table = status_table(reports_);
  std::string words;
  for (const char c : table)
    if (c != ' ' || words.empty() || words.back() != ' ') words += c;
  EXPECT_EQ(words,
            "HOST STATE VERSION LOADED WAITING RUNNING BUSY KV CACHED \n"
            "a ready 0.1.0 m 3 2 50% 25% 80% \n"
            "b unreachable - - - - - - - \n"
            "2 hosts 1 ready 3 2 50% 25% 80% \n\n"
            "b: refused\n");
  const Json json = status_json(reports_);
  EXPECT_EQ(json["hosts"][0]["prompt_cached_tokens"], 80);
  EXPECT_EQ(json["hosts"][1]["state"], "unreachable");
  EXPECT_EQ(json["hosts"][1]["error"], "refused");
}

TEST(SeriesValue, ReadsOneSeriesWithoutLabels) {
  const std::string text =
      "# TYPE billow_busy_ratio gauge\nbillow_busy_ratio 0.5\nbillow_busy{a=\"b\"} 3\n"
      "billow_prompt_tokens_total 1200000\n";
  EXPECT_DOUBLE_EQ(series_value(text, "billow_busy_ratio"), 0.5);
  EXPECT_DOUBLE_EQ(series_value(text, "billow_prompt_tokens_total"), 1200000);
  EXPECT_DOUBLE_EQ(series_value(text, "billow_busy"), 0);
  EXPECT_DOUBLE_EQ(series_value("", "billow_busy"), 0);
}

}  // namespace
}  // namespace billow::cli
