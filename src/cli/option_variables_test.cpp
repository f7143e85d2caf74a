#include "cli/option_variables.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>

#include "cli/embed_sizes.h"
#include "cli/option_checks.h"
#include "cli/serve_options.h"

namespace billow::cli {
namespace {

class OptionVariables : public ::testing::Test {
 protected:
  OptionVariables() : options_(declare_serve(app_)) { refuse_wrong_counts(app_); }
  ~OptionVariables() override {
    for (const auto& [name, value] : set_) ::unsetenv(name.c_str());
  }

  void set(const std::string& name, const std::string& value) {
    set_[name] = value;
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  scheduler::Environment read() {
    warnings_.clear();
    const scheduler::Warn warn = [&](const std::string& text) { warnings_.push_back(text); };
    return scheduler::read_environment(checked_variables(*options_->command, warn), warn);
  }

  CLI::App app_;
  std::shared_ptr<ServeOptions> options_;
  std::map<std::string, std::string> set_;
  std::vector<std::string> warnings_;
};

TEST_F(OptionVariables, ValuesThatTheOptionRefusesCauseAWarning) {
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"BILLOW_PACKED_LIMIT", "x"},
                                          {"BILLOW_SESSIONS_LIMIT", "-1"},
                                          {"BILLOW_OTLP", "foo"},
                                          {"BILLOW_REGISTRY_MIRROR", "foo"},
                                          {"BILLOW_N_BATCH", "0"},
                                          {"OLLAMA_N_BATCH", "x"},
                                          {"BILLOW_CONTEXT_SIZE", "-5"},
                                          {"BILLOW_DRAFT_MAX", "1000"},
                                          {"BILLOW_STREAM_INTERVAL", "999999"},
                                          {"BILLOW_MAX_PASS_TIME", "999999"}}) {
    set(name, value);
    const scheduler::Environment environment = read();
    ASSERT_EQ(warnings_.size(), 1u) << name;
    EXPECT_TRUE(warnings_[0].starts_with(name + ": ")) << warnings_[0];
    EXPECT_TRUE(warnings_[0].ends_with("; the default is used")) << warnings_[0];
    EXPECT_EQ(environment.packed_limit + environment.sessions_limit + environment.otlp +
                  environment.registry_mirror,
              "");
    EXPECT_FALSE(environment.n_batch || environment.context_size || environment.max_draft ||
                 environment.stream_interval || environment.max_pass_time);
    ::unsetenv(name.c_str());
  }
}

TEST_F(OptionVariables, GoodValuesAreRead) {
  set("BILLOW_DRAFT_MAX", " \"8\" ");
  set("OLLAMA_N_BATCH", "64");
  set("BILLOW_PACKED_LIMIT", "2G");
  const scheduler::Environment environment = read();
  EXPECT_EQ(environment.max_draft, 8u);
  EXPECT_EQ(environment.n_batch, 64u);
  EXPECT_EQ(environment.packed_limit, "2G");
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(OptionVariables, AWrongVariableOfBillowHidesThatOfOllama) {
  set("BILLOW_N_BATCH", "0");
  set("OLLAMA_N_BATCH", "64");
  EXPECT_EQ(read().n_batch, std::nullopt);
  EXPECT_EQ(warnings_.size(), 1u);
  set("BILLOW_N_BATCH", " ");  // no value
  EXPECT_EQ(read().n_batch, 64u);
  EXPECT_EQ(deciding_variable("N_BATCH"), "OLLAMA_N_BATCH");
  EXPECT_EQ(deciding_variable("N_SEQ_MAX"), "");
}

TEST_F(OptionVariables, SizesThatDoNotFitTogetherAreIgnored) {
  set("BILLOW_CONTEXT_SIZE", "5");
  const scheduler::Environment environment = read();
  EXPECT_EQ(environment.context_size, 5u);
  std::string warning;
  const scheduler::Warn warn = [&](const std::string& text) { warning = text; };
  EXPECT_EQ(with_environment({.n_batch = 64}, environment, warn).context_size, std::nullopt);
  EXPECT_TRUE(warning.starts_with("BILLOW_CONTEXT_SIZE: sizes of embedding passes: ")) << warning;
  warning.clear();
  EXPECT_EQ(with_environment({.n_batch = 4}, environment, warn).context_size, 5u);
  EXPECT_EQ(warning, "");
}

}  // namespace
}  // namespace billow::cli
