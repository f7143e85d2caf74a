#include "base/headed_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow {
namespace {

// A file in a folder of its own.
struct Written {
  explicit Written(const std::string& content) { std::ofstream(path) << content; }

  TestFolder folder;
  const std::string path = folder.file("file");
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(HeadedFile, PutsAHeadBeforeTheFile) {
  const std::string content = std::string(100000, 'x') + "end";
  const Written written(content);
  HeadedFile first(5, written.path);
  const size_t begin = HeadedFile::file_offset(5);
  ASSERT_EQ(first.head().size(), begin);
  ASSERT_EQ(first.bytes().size(), begin + content.size());
  const std::string head = "billow";
  std::ranges::copy(std::as_bytes(std::span(head)), first.head().begin());
  const HeadedFile second(std::move(first));
  EXPECT_EQ(text_of(second.bytes().first(head.size())), head);
  EXPECT_EQ(text_of(second.bytes().subspan(begin)), content);
  second.release(second.bytes());  // begins in the head: no effect
  second.release(second.bytes().subspan(begin, 50000));
  EXPECT_EQ(text_of(second.bytes().first(head.size())), head);
  EXPECT_EQ(text_of(second.bytes().subspan(begin)), content);
}

TEST(HeadedFile, NeedsNoHead) {
  const Written written("billow");
  EXPECT_EQ(HeadedFile::file_offset(0), 0u);
  const HeadedFile file(0, written.path);
  EXPECT_EQ(text_of(file.bytes()), "billow");
}

TEST(HeadedFile, NamesFilesThatCannotBeMapped) {
  const Written empty("");
  for (const std::string& path : {empty.path, std::string("/no/such/file")}) {
    try {
      const HeadedFile file(10, path);
      ADD_FAILURE() << path << " was mapped";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace billow
