#include "registry/content_range.h"

#include <gtest/gtest.h>

namespace billow::registry {
namespace {

TEST(ContentRange, HasTheFirstByteAndTheTotal) {
  const ContentRange range = parse_content_range("bytes 100-199/5000");
  EXPECT_EQ(range.first, 100u);
  EXPECT_EQ(range.total, 5000u);
  EXPECT_EQ(parse_content_range("bytes 0-1/*").first, 0u);
  for (const char* text : {"", "bytes", "bytes 0-1", "bytes 0-1/*", "bytes 0-1/-1", "bytes 0-1/9x",
                           "items 0-1/9", "bytes 0-1/99999999999999999999"})
    EXPECT_FALSE(parse_content_range(text).total) << text;
}

TEST(ContentRange, ResponsesSayTheSizeOfTheWholeFile) {
  Reply head{.status = 206, .headers = {{"Content-Length", "2"}}, .body = ""};
  EXPECT_FALSE(whole_bytes(head));
  head.headers.set("Content-Range", "bytes 0-1/9");
  EXPECT_EQ(whole_bytes(head), 9u);
  head.status = 200;
  EXPECT_EQ(whole_bytes(head), 2u);
  head.headers.remove("Content-Length");
  EXPECT_FALSE(whole_bytes(head));
}

}  // namespace
}  // namespace billow::registry
