#include "cli/client/part_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow::cli {
namespace {

// While it exists, files of this process cannot grow beyond `n_bytes`.
class FileLimit {
 public:
  explicit FileLimit(rlim_t n_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = n_bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

// Returns the text of a checkpoint that fails.
std::string failure(PartFile& file) {
  try {
    file.checkpoint();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PartFile, WritesEachByteOnceAfterAFailedWrite) {
  const TestFolder folder;
  const std::string path = folder.file("out");
  const std::string row = std::string(99, 'a') + "\n";
  PartFile file(path, "job");
  file.append("head\n");
  file.mark(1);
  file.checkpoint();
  file.append(row);
  file.mark(2);
  {
    const FileLimit limit(50);
    EXPECT_NE(failure(file).find("cannot write"), std::string::npos);
  }
  EXPECT_EQ(read_test_file(path + ".part").size(), 50u);
  file.append("tail\n");
  file.mark(3);
  file.publish();
  EXPECT_EQ(read_test_file(path), "head\n" + row + "tail\n");
}

TEST(PartFile, ResumesAfterTheLastCheckpoint) {
  const TestFolder folder;
  const std::string path = folder.file("out");
  {
    PartFile file(path, "job");
    file.append("one\n");
    file.mark(4);
    file.checkpoint();
    file.append("lost\n");
    const FileLimit limit(6);
    EXPECT_NE(failure(file), "");
  }
  PartFile file(path, "job");
  EXPECT_EQ(file.n_rows(), 1u);
  EXPECT_EQ(file.input_offset(), 4u);
  file.append("two\n");
  file.publish();
  EXPECT_EQ(read_test_file(path), "one\ntwo\n");
}

}  // namespace
}  // namespace billow::cli
