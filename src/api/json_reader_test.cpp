#include "api/json_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "http/status.h"

namespace billow::api {
namespace {

std::string refusal(std::string_view text) {
  try {
    read_json(text);
  } catch (const http::StatusError& error) {
    EXPECT_EQ(error.status(), 400);
    return error.what();
  }
  return "";
}

struct Fault {
  std::string_view text;
  const char* words;
};

// Go's decoder has the same messages.
TEST(JsonReader, ReportsErrorsInGosWords) {
  const Fault kFaults[] = {
      {"", "missing request body"},
      {" \r\n\t", "missing request body"},
      {"{", "unexpected EOF"},
      {"[1", "unexpected EOF"},
      {"{\"a\"", "unexpected EOF"},
      {"\"ab", "unexpected EOF"},
      {"\"ab\\", "unexpected EOF"},
      {"\"\\u12", "unexpected EOF"},
      {"tru", "unexpected EOF"},
      {"-", "unexpected EOF"},
      {"1.", "unexpected EOF"},
      {"1e", "unexpected EOF"},
      {"x", "invalid character 'x' looking for beginning of value"},
      {"}", "invalid character '}' looking for beginning of value"},
      {"'a'", "invalid character '\\'' looking for beginning of value"},
      {"\x01", "invalid character '\\x01' looking for beginning of value"},
      {"\xc3\xa9", "invalid character 'Ã' looking for beginning of value"},
      {"\xff", "invalid character 'ÿ' looking for beginning of value"},
      {"\x80", "invalid character '\\u0080' looking for beginning of value"},
      {"+1", "invalid character '+' looking for beginning of value"},
      {"[1,]", "invalid character ']' looking for beginning of value"},
      {"[,", "invalid character ',' looking for beginning of value"},
      {"{\"a\":}", "invalid character '}' looking for beginning of value"},
      {"{a:1}", "invalid character 'a' looking for beginning of object key string"},
      {"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"},
      {"{\"a\" 1}", "invalid character '1' after object key"},
      {"{\"a\":1 \"b\"", "invalid character '\"' after object key:value pair"},
      {"{\"a\":01}", "invalid character '1' after object key:value pair"},
      {"{\"a\":1]", "invalid character ']' after object key:value pair"},
      {"[1 2]", "invalid character '2' after array element"},
      {"[1}", "invalid character '}' after array element"},
      {"\"a\nb\"", "invalid character '\\n' in string literal"},
      {"\"\\x\"", "invalid character 'x' in string escape code"},
      {"\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"},
      {"\"\\ud83d\\uzzzz\"", "invalid character 'z' in \\u hexadecimal character escape"},
      {"-a", "invalid character 'a' in numeric literal"},
      {"1.a", "invalid character 'a' after decimal point in numeric literal"},
      {"1e+a", "invalid character 'a' in exponent of numeric literal"},
      {"trux", "invalid character 'x' in literal true (expecting 'e')"},
      {"falsy", "invalid character 'y' in literal false (expecting 'e')"},
      {"nul!", "invalid character '!' in literal null (expecting 'l')"},
      {"1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"},
  };
  for (const Fault& fault : kFaults) EXPECT_EQ(refusal(fault.text), fault.words) << fault.text;
}

TEST(JsonReader, ReadsOnlyTheFirstValue) {
  EXPECT_EQ(read_json(R"( {"a":1} {"b")"), Json({{"a", 1}}));
  EXPECT_EQ(read_json("[]]"), Json::array());
  EXPECT_EQ(read_json("01"), 0);
  EXPECT_EQ(read_json("truex"), true);
  EXPECT_EQ(read_json("\"a\"x"), "a");
  EXPECT_EQ(read_json("12"), 12);
}

TEST(JsonReader, ReadsValues) {
  EXPECT_EQ(read_json(R"([null,true,false,-1,1.5,"x",[],{}])").dump(),
            R"([null,true,false,-1,1.5,"x",[],{}])");
  EXPECT_EQ(read_json("-9223372036854775808").get<int64_t>(), INT64_MIN);
  EXPECT_EQ(read_json("18446744073709551615").get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(read_json("18446744073709551616").get<double>(), 18446744073709551616.0);
  EXPECT_EQ(read_json("1e-999").get<double>(), 0.0);
  EXPECT_EQ(read_json("-0").get<int64_t>(), 0);
  EXPECT_TRUE(read_json("1e3").is_number_float());
}

TEST(JsonReader, ReplacesInvalidUtf8) {
  EXPECT_EQ(read_json(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(read_json(R"("\u0041\u00e9\u20AC\ud83d\ude00")"), "Aé€😀");
  EXPECT_EQ(read_json("\"a\xff\xc3(\""), "a\uFFFD\uFFFD(");
  EXPECT_EQ(read_json("\"\xed\xa0\x80\""), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(read_json(R"("\ud83dx")"), "\uFFFDx");
  EXPECT_EQ(read_json(R"("\ude00\ud83d\u0041")"), "\uFFFD\uFFFDA");
  EXPECT_EQ(read_json(R"("\ud83d\ud83d\ude00")"), "\uFFFD😀");
  EXPECT_EQ(read_json("\"\\u0000\""), std::string(1, '\0'));
}

TEST(JsonReader, LastMemberWithANameWins) {
  EXPECT_EQ(read_json(R"({"a":1,"b":2,"a":3})").dump(), R"({"a":3,"b":2})");
}

TEST(JsonReader, EnforcesLimits) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(refusal(nested(kMaxJsonDepth)), "");
  EXPECT_EQ(refusal(nested(kMaxJsonDepth + 1)), "invalid character '[' exceeded max depth");
  EXPECT_EQ(refusal(std::string(100'000, '{')),
            "invalid character '{' looking for beginning of object key string");
  std::string members = "{\"a\":0";
  for (size_t i = 1; i <= kMaxJsonMembers; ++i) members += ",\"" + std::to_string(i) + "\":0";
  EXPECT_EQ(refusal(members + "}"), "an object has more than 10000 members");
  std::string values = "[0";
  for (size_t i = 0; i < kMaxJsonValues; ++i) values += ",0";
  EXPECT_EQ(refusal(values + "]"), "the request has more than 4194304 JSON values");
}

TEST(JsonReader, FI_13_RefusesTooManyElementsExceptNumbers) {
  const auto many = [](const std::string& element, size_t n) {
    std::string array = "[" + element;
    for (size_t i = 1; i < n; ++i) array += "," + element;
    return array + "]";
  };
  for (const char* element : {"\"a\"", "[1]", "null", "{}"}) {
    EXPECT_EQ(read_json(many(element, kMaxJsonElements)).size(), kMaxJsonElements);
    try {
      read_json(many(element, kMaxJsonElements + 1));
      ADD_FAILURE() << element;
    } catch (const http::StatusError& error) {
      EXPECT_EQ(error.status(), 413);
      EXPECT_STREQ(error.what(),
                   "an array of the request has more than 65536 elements; send fewer per request");
    }
  }
  EXPECT_EQ(read_json(many("1", kMaxJsonElements + 1)).size(), kMaxJsonElements + 1);
}

}  // namespace
}  // namespace billow::api
