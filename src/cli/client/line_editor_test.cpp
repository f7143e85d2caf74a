#include "cli/client/line_editor.h"
#include "base/test_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace billow::cli {
namespace {

TEST(PlainLineEditor, ReadsLinesToTheEnd) {
  std::istringstream in("one\r\n\ntwo");
  PlainLineEditor editor(in);
  EXPECT_EQ(editor.read(false).text, "one");
  EXPECT_EQ(editor.read(true).text, "");
  EXPECT_EQ(editor.read(false).text, "two");
  EXPECT_EQ(editor.read(false).kind, TypedLine::Kind::kEnd);
}

TEST(PlainLineEditor, ShowsPromptsOnRequest) {
  std::istringstream in("one\ntwo");
  PlainLineEditor editor(in, true);
  testing::internal::CaptureStdout();
  editor.read(false);
  editor.read(true);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), ">>> ... ");
}

TEST(LineHistory, StoresTheLastEntriesInItsFile) {
  const TestFolder folder;
  const std::string path = folder.file("below/history");
  LineHistory history(path);
  for (size_t i = 0; i < LineHistory::kMaxEntries + 5; ++i)
    history.add("line " + std::to_string(i));
  history.add("last");
  history.add("last");
  history.add("  ");
  const LineHistory again(path);
  EXPECT_EQ(again.entries().size(), LineHistory::kMaxEntries);
  EXPECT_EQ(again.entries().front(), "line 6");
  EXPECT_EQ(again.entries().back(), "last");
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST(LineHistory, StoresAnEntryOfSeveralLinesOnOneLine) {
  const TestFolder folder;
  const std::string path = folder.file("history");
  LineHistory(path).add("one\n\n two\\n\t\"\"\"");
  std::ifstream file(path);
  const std::string content(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(std::ranges::count(content, '\n'), 1);
  const LineHistory again(path);
  EXPECT_EQ(again.entries(), std::vector<std::string>{"one\n\n two\\n\t\"\"\""});
}

TEST(LineHistory, TwoSessionsKeepTheirEntries) {
  const TestFolder folder;
  const std::string path = folder.file("history");
  LineHistory one(path);
  LineHistory two(path);
  one.add("a");
  two.add("b");
  one.add("c");
  EXPECT_EQ(one.entries(), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(LineHistory(path).entries(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(LineHistory, WorksWithoutAFile) {
  LineHistory history("");
  history.add("one");
  EXPECT_EQ(history.entries().size(), 1u);
}

}  // namespace
}  // namespace billow::cli
