#include "cli/client/kept_files.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "base/test_folder.h"

namespace billow::cli {
namespace {

namespace fs = std::filesystem;

class KeptFilesTest : public testing::Test {
 protected:
  KeptFiles files(const std::string& path, const std::string& model = "m") {
    return {folder_.file("records"), model, {{"x.gguf", folder_.file(path)}}};
  }

  TestFolder folder_;
};

TEST_F(KeptFilesTest, NoticesARenamedFolder) {
  write_test_file(folder_.file("models/x.gguf"), "old");
  write_test_file(folder_.file("new/x.gguf"), "new");
  EXPECT_FALSE(files("models/x.gguf").are_stored());
  files("models/x.gguf").store();
  EXPECT_TRUE(files("models/x.gguf").are_stored());
  EXPECT_FALSE(files("models/x.gguf", "other").are_stored());
  fs::rename(folder_.file("models"), folder_.file("old"));
  fs::rename(folder_.file("new"), folder_.file("models"));
  EXPECT_FALSE(files("models/x.gguf").are_stored());
}

// A trainer may write into a file while the file is sent.
TEST_F(KeptFilesTest, NoticesAChangeOfTheSameSize) {
  write_test_file(folder_.file("x.gguf"), "old");
  const KeptFiles before = files("x.gguf");
  std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the resolution of file times
  write_test_file(folder_.file("x.gguf"), "new");
  before.store();
  EXPECT_FALSE(files("x.gguf").are_stored());
}

TEST_F(KeptFilesTest, NoticesAnotherTargetOfALink) {
  write_test_file(folder_.file("a.gguf"), "one");
  write_test_file(folder_.file("b.gguf"), "two");
  fs::create_symlink("a.gguf", folder_.file("x.gguf"));
  files("x.gguf").store();
  EXPECT_TRUE(files("x.gguf").are_stored());
  fs::remove(folder_.file("x.gguf"));
  fs::create_symlink("b.gguf", folder_.file("x.gguf"));
  EXPECT_FALSE(files("x.gguf").are_stored());
}

TEST_F(KeptFilesTest, NoticesAnotherNumberOfFiles) {
  write_test_file(folder_.file("a.gguf"), "one");
  write_test_file(folder_.file("b.gguf"), "two");
  const LocalFile a{"a.gguf", folder_.file("a.gguf")};
  const LocalFile b{"b.gguf", folder_.file("b.gguf")};
  KeptFiles(folder_.path(), "m", {a, b}).store();
  EXPECT_TRUE(KeptFiles(folder_.path(), "m", {a, b}).are_stored());
  EXPECT_FALSE(KeptFiles(folder_.path(), "m", {a}).are_stored());
}

TEST_F(KeptFilesTest, StoresNothingWithoutAFolder) {
  const KeptFiles none("", "m", {});
  none.store();
  EXPECT_FALSE(none.are_stored());
}

}  // namespace
}  // namespace billow::cli
