#include "llama/find.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow::llama {
namespace {

namespace fs = std::filesystem;

class FindServer : public testing::Test {
 protected:
  FindServer() {
    const char* path = ::getenv("PATH");
    before_ = path == nullptr ? "" : path;
    fs::create_directories(folders_.file("first/llama-server"));
    fs::create_directory(folders_.file("second"));
    ::setenv("PATH", (folders_.file("first") + ":" + folders_.file("second")).c_str(), 1);
  }
  ~FindServer() override { ::setenv("PATH", before_.c_str(), 1); }

  const TestFolder folders_;
  std::string before_;
};

TEST_F(FindServer, SkipsWhatIsNoProgram) {
  EXPECT_EQ(find_server(""), std::nullopt);
  const std::string program = folders_.file("second/llama-server");
  std::ofstream(program) << "x";
  EXPECT_EQ(find_server(""), std::nullopt);
  fs::permissions(program, fs::perms::owner_all);
  EXPECT_EQ(find_server(""), program);
  EXPECT_EQ(find_server("llama-server"), program);
  EXPECT_EQ(find_server(program), program);
}

TEST_F(FindServer, RefusesAWantedFolder) {
  EXPECT_THROW(find_server(folders_.file("first/llama-server")), Error);
  EXPECT_THROW(find_server("llama-server"), Error);
}

}  // namespace
}  // namespace billow::llama
