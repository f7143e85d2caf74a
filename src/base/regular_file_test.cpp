#include "base/regular_file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/error.h"

namespace billow {
namespace {

std::string temporary(const std::string& name) {
  std::string path =
      (std::filesystem::path(testing::TempDir()) / (name + std::to_string(::getpid()))).string();
  std::filesystem::remove(path);
  return path;
}

ErrorCode code_of(const std::string& path) {
  try {
    const RegularFile file(path);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    return error.code();
  }
  ADD_FAILURE() << path << " was opened";
  return ErrorCode::kIo;
}

TEST(RegularFile, ReadsPartsAndStopsAtTheEnd) {
  const std::string path = temporary("regular_file");
  std::ofstream(path) << "0123456789";
  RegularFile first(path);
  const RegularFile file(std::move(first));
  EXPECT_EQ(file.size_bytes(), 10u);
  std::vector<std::byte> bytes(4);
  EXPECT_EQ(file.read_at(3, bytes), 4u);
  EXPECT_EQ(static_cast<char>(bytes[0]), '3');
  EXPECT_EQ(file.read_at(8, bytes), 2u);
  EXPECT_EQ(static_cast<char>(bytes[1]), '9');
  EXPECT_EQ(file.read_at(10, bytes), 0u);
  EXPECT_EQ(file.read_at(1000, bytes), 0u);
  std::filesystem::remove(path);
}

// A normal open() or read() would block on each of these, or the path is not a file.
TEST(RegularFile, RejectsOtherFilesWithoutWaiting) {
  const std::string pipe = temporary("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(code_of(pipe), ErrorCode::kInvalidInput);
  const std::string link = temporary("link");
  std::filesystem::create_symlink(pipe, link);
  EXPECT_EQ(code_of(link), ErrorCode::kInvalidInput);
  std::filesystem::remove(link);
  std::filesystem::remove(pipe);

  const std::string name = temporary("socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(name.size(), sizeof address.sun_path);
  std::ranges::copy(name, address.sun_path);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(code_of(name), ErrorCode::kInvalidInput);
  ::close(listener);
  std::filesystem::remove(name);

  EXPECT_EQ(code_of("/dev/null"), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(testing::TempDir()), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(temporary("absent")), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace billow
