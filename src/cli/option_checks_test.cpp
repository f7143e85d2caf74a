#include "cli/option_checks.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/program.h"

namespace billow::cli {
namespace {

std::string fault(const CLI::Validator& check, std::string value) { return check(value); }

TEST(OptionChecks, WholeNumbers) {
  for (const char* good : {"0", "12", "+12", "0x10", "18446744073709551615"})
    EXPECT_EQ(fault(whole_number(0), good), "") << good;
  for (const char* wrong : {"", "-1", " -1", "1.5", "x", "1x", "nan", "+-1"})
    EXPECT_EQ(fault(whole_number(0), wrong),
              "'" + std::string(wrong) + "' is not a whole number of at least 0");
  EXPECT_EQ(fault(whole_number(0), "18446744073709551616"), "18446744073709551616 is too large");
  EXPECT_EQ(fault(whole_number(1), "0"), "'0' is not a whole number of at least 1");
  EXPECT_EQ(fault(whole_number(1, 9), "10"), "'10' is not a whole number from 1 to 9");
}

TEST(OptionChecks, Numbers) {
  for (const char* good : {"0", "2.5", "1e1"}) EXPECT_EQ(fault(number(0.0, 10.0), good), "");
  for (const char* wrong : {"", "-1", "nan", "inf", "11", "x"})
    EXPECT_EQ(fault(number(0.0, 10.0), wrong),
              "'" + std::string(wrong) + "' is not a number from 0 to 10");
}

TEST(OptionChecks, Sizes) {
  EXPECT_EQ(fault(byte_size(), "0"), "");
  EXPECT_EQ(fault(byte_size(), ""), "") << "the default";
  EXPECT_NE(fault(byte_size(), "-1"), "");
  for (const char* good : {"1", "2G", "80%"}) EXPECT_EQ(fault(memory_size(), good), "");
  for (const char* none : {"0", "0K", "0%"})
    EXPECT_EQ(fault(memory_size(), none),
              std::string(none) + " leaves no memory; give a size like 2G or leave it out");
  for (const char* wrong : {"", "x", "101%"}) EXPECT_NE(fault(memory_size(), wrong), "");
}

TEST(OptionChecks, WrongInputBecomesWrongUsage) {
  EXPECT_THROW(as_usage([] { throw Error(ErrorCode::kInvalidInput, "x"); }), CLI::ParseError);
  EXPECT_THROW(as_usage([] { throw Error(ErrorCode::kIo, "x"); }), Error);
  try {
    refuse_usage("no");
  } catch (const CLI::ParseError& error) {
    EXPECT_EQ(error.get_exit_code(), kWrongUsage);
    EXPECT_STREQ(error.what(), "no");
  }
}

// The library would turn -1 into 2^64 - 1.
TEST(OptionChecks, NoUnsignedOptionOfAnyCommandAcceptsNegativeNumbers) {
  CLI::App app;
  declare_commands(app);
  size_t n_options = 0;
  const auto check = [&](const auto& self, const CLI::App& command) -> void {
    for (const CLI::Option* option : command.get_options()) {
      if (!option->get_type_name().starts_with("UINT")) continue;
      ++n_options;
      EXPECT_NE(fault_of(*option, "-1"), "") << command.get_name() << option->get_name();
    }
    for (const CLI::App* part : command.get_subcommands([](const CLI::App*) { return true; }))
      self(self, *part);
  };
  check(check, app);
  EXPECT_GT(n_options, 40u);
}

}  // namespace
}  // namespace billow::cli
