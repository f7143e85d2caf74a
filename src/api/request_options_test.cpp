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

TEST(RequestOptions, OfTheRequestWinKeyByKey) {
  const RequestOptions options =
      merged_options(R"({"temperature":0.5,"top_k":10,"stop":["a"],"num_ctx":100})",
                     R"({"temperature":0,"num_predict":7,"seed":42})");
  EXPECT_EQ(Json::parse(options.sampling_json),
            Json::parse(R"({"temperature":0,"top_k":10,"seed":42})"));
  EXPECT_EQ(options.stop, std::vector<std::string>{"a"});
  EXPECT_EQ(options.num_predict, 7);
  EXPECT_EQ(options.num_ctx, 100u);
}

TEST(RequestOptions, HaveOllamasDefaults) {
  const RequestOptions options = merged_options("{}", "{}");
  EXPECT_EQ(options.sampling_json, "{}") << "the sampler's own";
  EXPECT_EQ(options.num_predict, -1);
  EXPECT_EQ(options.num_ctx, std::nullopt);
}

TEST(RequestOptions, NullsAndUnknownOnesDoNotCountAndFractionsAreCutOff) {
  const RequestOptions options = merged_options(
      R"({"top_k":5})",
      R"({"top_k":null,"seed":3.9,"num_predict":1e30,"mirostat":"x y","num_gpu":1})");
  EXPECT_EQ(Json::parse(options.sampling_json), Json::parse(R"({"top_k":5,"seed":3})"));
  EXPECT_GT(options.num_predict, int64_t{1} << 60);
}

TEST(RequestOptions, WrongTypesAreNamedAsOllamaNamesThem) {
  const auto merge = [](const char* json) { return [json] { merged_options("{}", json); }; };
  EXPECT_EQ(refusal(merge(R"({"num_ctx":"a"})")), "500 option \"num_ctx\" must be of type integer");
  EXPECT_EQ(refusal(merge(R"({"top_p":true})")), "500 option \"top_p\" must be of type float32");
  EXPECT_EQ(refusal(merge(R"({"stop":"x"})")), "500 option \"stop\" must be of type array");
}

TEST(KeepAlive, IsSecondsOrADuration) {
  using std::chrono::seconds;
  EXPECT_EQ(keep_alive_of(""), std::nullopt);
  EXPECT_EQ(keep_alive_of("null"), std::nullopt);
  EXPECT_EQ(keep_alive_of("60"), seconds(60));
  EXPECT_EQ(keep_alive_of("0.5"), std::chrono::milliseconds(500));
  EXPECT_EQ(keep_alive_of("-1"), scheduler::kForever);
  EXPECT_EQ(keep_alive_of("\"1h30m\""), seconds(5400));
  EXPECT_EQ(keep_alive_of("\"0\""), seconds(0));
  EXPECT_EQ(refusal([] { keep_alive_of("true"); }), "400 Unsupported type: 'bool'");
  EXPECT_EQ(refusal([] { keep_alive_of("\"abc\""); }), "400 time: invalid duration \"abc\"");
  EXPECT_EQ(refusal([] { keep_alive_of("\"10\""); }), "400 time: missing unit in duration \"10\"");
}

TEST(Format, IsRefusedByNameUntilItIsThere) {
  for (const char* none : {"", "null", "\"\""}) EXPECT_NO_THROW(check_format(none));
  EXPECT_EQ(refusal([] { check_format("\"xml\""); }),
            "500 invalid format: \"xml\"; expected \"json\" or a valid JSON Schema object");
  EXPECT_TRUE(refusal([] { check_format("\"json\""); }).starts_with("501 format is not supported"));
  EXPECT_TRUE(refusal([] { check_format("{}"); }).starts_with("501 format is not supported"));
}

}  // namespace
}  // namespace billow::api
