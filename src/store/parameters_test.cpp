#include "store/parameters.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"

namespace billow::store {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string refusal(const Pairs& pairs) {
  try {
    parameters_from_text(pairs);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "";
}

std::string option_fault(const char* options) {
  try {
    check_options(Json::parse(options));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Parameters, ConvertsTextsToTypedValues) {
  const Json json = parameters_from_text(Pairs{{"stop", "a"},
                                               {"temperature", "0.6"},
                                               {"num_ctx", "4096"},
                                               {"stop", "b c"},
                                               {"use_mmap", "F"},
                                               {"seed", "-1"},
                                               {"top_p", "1e-1"},
                                               {"num_ctx", "+8"}});
  EXPECT_EQ(json.dump(), R"({"stop":["a","b c"],"temperature":0.6,"num_ctx":8,"use_mmap":false,)"
                         R"("seed":-1,"top_p":0.1})");
}

TEST(Parameters, RefusesWrongTypesAndUnknownNames) {
  EXPECT_EQ(refusal({{"colour", "red"}}), "unknown parameter 'colour'");
  for (const char* text : {"x", "", "1.5", "1 ", "99999999999999999999", "+-1", "0x10"}) {
    EXPECT_EQ(refusal({{"num_ctx", text}}), std::string("invalid int value [") + text + "]");
  }
  for (const char* text : {"x", "", "1.5.2", "nan", "inf", "1e999", "++1"}) {
    EXPECT_EQ(refusal({{"temperature", text}}), std::string("invalid float value [") + text + "]");
  }
  for (const char* text : {"yes", "", "tRUE", "2"}) {
    EXPECT_EQ(refusal({{"use_mmap", text}}), std::string("invalid bool value [") + text + "]");
  }
}

TEST(Parameters, LeavesOutDeprecatedParametersWithAWarning) {
  std::string warnings;
  const Json json = parameters_from_text(Pairs{{"mirostat", "what"}, {"seed", "1"}},
                                         [&](const std::string& line) { warnings += line; });
  EXPECT_EQ(json.dump(), R"({"seed":1})");
  EXPECT_EQ(warnings, "warning: parameter mirostat is deprecated");
}

TEST(Parameters, ErrorNamesAnOptionOfTheWrongType) {
  EXPECT_EQ(option_fault(R"({"num_ctx":"a"})"), "option \"num_ctx\" must be of type integer");
  EXPECT_EQ(option_fault(R"({"top_p":true})"), "option \"top_p\" must be of type float32");
  EXPECT_EQ(option_fault(R"({"use_mmap":1})"), "option \"use_mmap\" must be of type boolean");
  EXPECT_EQ(option_fault(R"({"stop":"a"})"), "option \"stop\" must be of type array");
  EXPECT_EQ(option_fault(R"({"stop":["a",1]})"), "option \"stop\" must be of an array of strings");
  EXPECT_EQ(option_fault(R"({"num_ctx":4096.7,"top_p":1,"use_mmap":null,"stop":[],"x":{}})"), "");
  EXPECT_NE(option_fault("[]"), "");
}

TEST(Parameters, PrintsValuesWithoutNeedlessFractions) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(value_texts(Json::parse(R"(["a","b"])")), (Texts{"a", "b"}));
  EXPECT_EQ(value_texts(Json(0.6)), Texts{"0.6"});
  EXPECT_EQ(value_texts(Json(4096.0)), Texts{"4096"});
  EXPECT_EQ(value_texts(Json(-1)), Texts{"-1"});
  EXPECT_EQ(value_texts(Json(true)), Texts{"true"});
}

TEST(Parameters, NamesAreUnique) {
  for (const Parameter& parameter : parameters()) {
    EXPECT_EQ(find_parameter(parameter.name), &parameter);
  }
}

}  // namespace
}  // namespace billow::store
