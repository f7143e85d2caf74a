#include "api/request_options.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/json.h"
#include "http/status.h"

namespace billow::api {
namespace {

std::string refusal(const std::function<void()>& call) {
  try {
    call();
    return "none";
  } catch (const http::StatusError& error) {
    return std::to_string(error.status()) + " " + error.what();
  }
}

TEST(RequestOptions, OptionsOfTheRequestOverrideTheModels) {
  const Options options =
      overlaid(options_of_text(R"({"temperature":0.5,"top_k":10,"stop":["a"],"num_ctx":100})"),
               options_of_text(R"({"temperature":0,"num_predict":7,"seed":42})"));
  EXPECT_EQ(options.sampling, (scheduler::Sampling{.temperature = 0.0, .top_k = 10, .seed = 42}));
  EXPECT_EQ(options.stop, std::vector<std::string>{"a"});
  EXPECT_EQ(options.num_predict, 7);
  EXPECT_EQ(options.num_ctx, 100u);
}

TEST(RequestOptions, HaveOllamasDefaults) {
  const Options options = options_of_text("{}");
  EXPECT_EQ(options.sampling, scheduler::Sampling()) << "the sampler's defaults";
  EXPECT_EQ(options.num_predict, std::nullopt);
  EXPECT_EQ(options.num_ctx, std::nullopt);
}

TEST(RequestOptions, IgnoresNullsAndUnknownOptionsAndTruncatesFractions) {
  const Options options = overlaid(
      options_of_text(R"({"top_k":5})"),
      options_of_text(R"({"top_k":null,"seed":3.9,"num_predict":1e30,"color":"x","num_gpu":1})"));
  EXPECT_EQ(options.sampling, (scheduler::Sampling{.top_k = 5, .seed = 3}));
  EXPECT_GT(options.num_predict, int64_t{1} << 60);
}

TEST(RequestOptions, ReportsWrongTypesLikeOllama) {
  const auto merge = [](const char* json) { return [json] { options_of_text(json); }; };
  EXPECT_EQ(refusal(merge(R"({"num_ctx":"a"})")), "500 option \"num_ctx\" must be of type integer");
  EXPECT_EQ(refusal(merge(R"({"top_p":true})")), "500 option \"top_p\" must be of type float32");
  EXPECT_EQ(refusal(merge(R"({"stop":"x"})")), "500 option \"stop\" must be of type array");
}

TEST(RequestOptions, WrongTypesAreTheClientsFaultOutsideOfOllamasApi) {
  const Json wrong = {{"num_ctx", "a"}};
  const std::string text = " option \"num_ctx\" must be of type integer";
  EXPECT_EQ(refusal([&] { options_of(wrong); }), "400" + text);
  EXPECT_EQ(refusal([&] { options_of(wrong, 500); }), "500" + text);
}

TEST(KeepAlive, IsSecondsOrADuration) {
  using std::chrono::seconds;
  const auto of = [](const Json& value) { return keep_alive_of(&value); };
  EXPECT_EQ(keep_alive_of(nullptr), std::nullopt);
  EXPECT_EQ(of(nullptr), std::nullopt);
  EXPECT_EQ(of(60), seconds(60));
  EXPECT_EQ(of(0.5), std::chrono::milliseconds(500));
  EXPECT_EQ(of(-1), scheduler::kForever);
  EXPECT_EQ(of("1h30m"), seconds(5400));
  EXPECT_EQ(of("0"), seconds(0));
  EXPECT_EQ(refusal([&] { of(true); }), "400 Unsupported type: 'bool'");
  EXPECT_EQ(refusal([&] { of("abc"); }), "400 time: invalid duration \"abc\"");
  EXPECT_EQ(refusal([&] { of("10"); }), "400 time: missing unit in duration \"10\"");
}

TEST(Format, IsJsonOrASchema) {
  using constraint::GrammarKind;
  const auto of = [](const Json& value) { return format_of(&value); };
  EXPECT_EQ(format_of(nullptr), std::nullopt);
  EXPECT_EQ(of(nullptr), std::nullopt);
  EXPECT_EQ(of(""), std::nullopt);
  EXPECT_EQ(of("json")->kind, GrammarKind::kJsonObject);
  EXPECT_EQ(of({{"type", "object"}}),
            (constraint::Grammar{GrammarKind::kJsonSchema, R"({"type":"object"})"}));
  EXPECT_EQ(refusal([&] { of("xml"); }),
            "500 invalid format: \"xml\"; expected \"json\" or a valid JSON Schema object");
}

}  // namespace
}  // namespace billow::api
