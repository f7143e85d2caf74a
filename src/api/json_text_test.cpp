#include "api/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "api/fields.h"
#include "base/json.h"

namespace billow::api {
namespace {

template <typename Real>
std::string number(Real value) {
  std::string out;
  append_number(out, value);
  return out;
}

TEST(JsonText, IsCompactAndKeepsTheOrder) {
  const Json value = {{"b", 1}, {"a", {true, nullptr, -2, 3u, 0.5}}, {"c", Json::object()}};
  EXPECT_EQ(to_text(value), R"({"b":1,"a":[true,null,-2,3,0.5],"c":{}})");
}

TEST(JsonText, EscapesHtmlCharacters) {
  EXPECT_EQ(to_text("<a & b>\u2028\u2029"), R"("\u003ca \u0026 b\u003e\u2028\u2029")");
  EXPECT_EQ(to_text({{"<", 1}}), R"({"\u003c":1})");
}

TEST(JsonText, EscapesStringsLikeGo) {
  EXPECT_EQ(to_text("\"\\\b\f\n\r\t\x01\x7fé😀"), "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\x7fé😀\"");
  EXPECT_EQ(to_text("a\xff"), R"("a\ufffd")");
}

TEST(JsonText, WritesNumbersLikeGo) {
  EXPECT_EQ(number(1.0), "1");
  EXPECT_EQ(number(-0.25), "-0.25");
  EXPECT_EQ(number(0.1), "0.1");
  EXPECT_EQ(number(123456789012345680.0), "123456789012345680");
  EXPECT_EQ(number(1e20), "100000000000000000000");
  EXPECT_EQ(number(1e21), "1e+21");
  EXPECT_EQ(number(0.000001), "0.000001");
  EXPECT_EQ(number(1.5e-7), "1.5e-7");
  EXPECT_EQ(number(1e-10), "1e-10");
  EXPECT_EQ(number(0.1f), "0.1");
  EXPECT_EQ(number(-0.0116f), "-0.0116");
  EXPECT_EQ(number(1e-7f), "1e-7");
  EXPECT_EQ(number(std::nan("")), "null");
}

TEST(JsonText, TheTimeIsInUtc) {
  std::string form = utc_now_text();
  for (char& c : form) c = c >= '0' && c <= '9' ? '0' : c;
  EXPECT_TRUE(form.starts_with("0000-00-00T00:00:00")) << form;
  EXPECT_TRUE(form.ends_with("0Z")) << form;
  EXPECT_FALSE(utc_now_text().ends_with(".Z"));
}

}  // namespace
}  // namespace billow::api
