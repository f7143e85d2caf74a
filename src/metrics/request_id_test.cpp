#include "metrics/request_id.h"

#include <gtest/gtest.h>

#include <set>

namespace billow::metrics {
namespace {

TEST(RequestId, AcceptsOnlyAllowedCharactersAndLengths) {
  EXPECT_TRUE(is_request_id("aZ09._-"));
  EXPECT_TRUE(is_request_id(std::string(128, 'a')));
  EXPECT_FALSE(is_request_id(std::string(129, 'a')));
  for (const char* text : {"", "a b", "a/b", "a\n", "\xC3\xA4", "a:b", "a@", "["}) {
    EXPECT_FALSE(is_request_id(text)) << text;
  }
  EXPECT_FALSE(is_request_id(std::string_view("a\0", 2)));
}

TEST(RequestId, IsUnique) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = new_request_id();
    EXPECT_EQ(id.size(), 32u);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), id.npos);
    EXPECT_TRUE(is_request_id(id));
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 1000u);
}

TEST(TraceParent, ParsesWellFormedHeader) {
  const auto parent = parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  ASSERT_TRUE(parent);
  EXPECT_EQ(parent->trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(parent->parent_id, "b7ad6b7169203331");
  EXPECT_TRUE(parent->sampled);
  const auto other = parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fe");
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->sampled);
}

TEST(TraceParent, AcceptsMoreFieldsInLaterVersions) {
  const std::string fields = "-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  EXPECT_TRUE(parse_traceparent("cc" + fields));
  EXPECT_TRUE(parse_traceparent("cc" + fields + "-more"));
  EXPECT_FALSE(parse_traceparent("cc" + fields + ".more"));
  EXPECT_FALSE(parse_traceparent("00" + fields + "-more"));
  EXPECT_FALSE(parse_traceparent("ff" + fields));
}

TEST(TraceParent, RejectsMalformedHeader) {
  for (const char* text : {"", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
                           "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                           "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
                           "0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}) {
    EXPECT_FALSE(parse_traceparent(text)) << text;
  }
}

}  // namespace
}  // namespace billow::metrics
