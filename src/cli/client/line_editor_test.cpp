#include "cli/client/line_editor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>

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

TEST(LineHistory, KeepsTheLastLinesInItsFile) {
  const std::string folder = testing::TempDir() + "line_history_test-" + std::to_string(::getpid());
  std::filesystem::remove_all(folder);
  const std::string path = folder + "/below/history";
  LineHistory history(path);
  for (size_t i = 0; i < LineHistory::kMostLines + 5; ++i) history.add("line " + std::to_string(i));
  history.add("last");
  history.add("last");
  history.add("  ");
  const LineHistory again(path);
  EXPECT_EQ(again.lines().size(), LineHistory::kMostLines);
  EXPECT_EQ(again.lines().front(), "line 6");
  EXPECT_EQ(again.lines().back(), "last");
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::remove_all(folder);
}

TEST(LineHistory, NeedsNoFile) {
  LineHistory history("");
  history.add("one");
  EXPECT_EQ(history.lines().size(), 1u);
}

}  // namespace
}  // namespace billow::cli
