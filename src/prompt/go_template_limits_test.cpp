// Templates and data that could crash, hang or fill the memory cause errors.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "prompt/go/value.h"
#include "prompt/go_template.h"

namespace billow::prompt {
namespace {

constexpr GoLimits kSmall{.n_steps = 100'000, .n_bytes = 1 << 20};

// Returns the error code, or kIo if there is no error. Nothing here throws kIo.
ErrorCode refusal(const std::string& source, const Json& input = Json::object()) {
  const auto begin = std::chrono::steady_clock::now();
  ErrorCode code = ErrorCode::kIo;
  try {
    GoTemplate(source, kSmall).render(go::from_json(input));
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    code = error.code();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  return code;
}

std::string repeat(const std::string& text, size_t n) {
  std::string result;
  for (size_t i = 0; i < n; ++i) result += text;
  return result;
}

TEST(GoTemplateLimits, LoopsRunOutOfSteps) {
  EXPECT_EQ(refusal("{{ range 1000000000000 }}{{ end }}"), ErrorCode::kTooLarge);
  EXPECT_EQ(refusal("{{ range 100000 }}{{ range 100000 }}{{ end }}{{ end }}"),
            ErrorCode::kTooLarge);
}

TEST(GoTemplateLimits, TextsRunOutOfBytes) {
  EXPECT_EQ(refusal("{{ $x := \"ab\" }}{{ range 64 }}{{ $x = print $x $x }}{{ end }}"),
            ErrorCode::kTooLarge);
  EXPECT_EQ(refusal("{{ range 9000 }}" + repeat("x", 1000) + "{{ end }}"), ErrorCode::kTooLarge);
  EXPECT_EQ(refusal("{{ range 90 }}{{ printf \"%1000000d\" 1 }}{{ end }}"), ErrorCode::kTooLarge);
  EXPECT_EQ(refusal("{{ range 9000 }}{{ len (printf \"%.100000f\" 1.5) }}{{ end }}"),
            ErrorCode::kTooLarge);
  EXPECT_EQ(refusal("{{ range 9000 }}{{ if slice $.x 1 }}{{ end }}{{ end }}",
                    Json::object({{"x", std::string(10'000, 'x')}})),
            ErrorCode::kTooLarge);
}

TEST(GoTemplateLimits, EndlessRecursionIsRefused) {
  EXPECT_EQ(refusal("{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}"),
            ErrorCode::kTooLarge);
  EXPECT_EQ(
      refusal(
          "{{ define \"a\" }}{{ if 1 }}{{ with (print (print 1)) }}{{ template \"a\" }}{{ end }}"
          "{{ end }}{{ end }}{{ template \"a\" }}"),
      ErrorCode::kTooLarge);
}

TEST(GoTemplateLimits, DeepSourcesAreRefused) {
  EXPECT_EQ(refusal("{{ " + repeat("(", 100'000) + "1" + repeat(")", 100'000) + " }}"),
            ErrorCode::kTooLarge);
  EXPECT_EQ(refusal(repeat("{{ if 1 }}", 50'000)), ErrorCode::kTooLarge);
  EXPECT_EQ(refusal(repeat("{{ if 0 }}", 1) + repeat("{{ else if 0 }}", 50'000) + "{{ end }}"),
            ErrorCode::kTooLarge);
  EXPECT_EQ(refusal(repeat("{{ block \"a\" . }}", 50'000)), ErrorCode::kTooLarge);
  EXPECT_EQ(refusal(std::string(kMaxGoTemplateBytes + 1, 'x')), ErrorCode::kTooLarge);
}

TEST(GoTemplateLimits, ManyVariablesAreRefused) {
  EXPECT_EQ(refusal(repeat("{{ $x := 1 }}", 50'000)), ErrorCode::kInvalidInput);
}

TEST(GoTemplateLimits, LongSourcesAreParsedInTime) {
  EXPECT_EQ(refusal(repeat("{{ .x }}", 20'000)), ErrorCode::kIo);
  EXPECT_EQ(refusal("{{ print " + repeat("1 ", 50'000) + "}}"), ErrorCode::kIo);
  EXPECT_EQ(refusal("{{ " + repeat(".x", 400'000) + " }}"), ErrorCode::kTooLarge);
  EXPECT_EQ(refusal(repeat("{{/* */}}", 100'000)), ErrorCode::kIo);
}

TEST(GoTemplateLimits, DeepDataIsRefused) {
  Json value = 1;
  for (size_t i = 0; i < 2'000; ++i) value = Json::array({std::move(value)});
  EXPECT_EQ(refusal("{{ .x }}", Json::object({{"x", value}})), ErrorCode::kTooLarge);
}

TEST(GoTemplateLimits, NestingWithinTheLimitsWorks) {
  const std::string open = "{{ if 1 }}{{ with (print (1)) }}";
  EXPECT_EQ(refusal(repeat(open, 45) + "x" + repeat("{{ end }}{{ end }}", 45)), ErrorCode::kIo);
}

}  // namespace
}  // namespace billow::prompt
