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
#include "base/test_folder.h"

namespace billow {
namespace {

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
  const TestFolder folder;
  const std::string path = folder.file("file");
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
}

// A normal open() or read() would block on each of these, or the path is not a file.
TEST(RegularFile, RejectsOtherFilesWithoutWaiting) {
  const TestFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(code_of(pipe), ErrorCode::kInvalidInput);
  const std::string link = folder.file("link");
  std::filesystem::create_symlink(pipe, link);
  EXPECT_EQ(code_of(link), ErrorCode::kInvalidInput);

  const std::string name = folder.file("socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(name.size(), sizeof address.sun_path);
  std::ranges::copy(name, address.sun_path);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(code_of(name), ErrorCode::kInvalidInput);
  ::close(listener);

  EXPECT_EQ(code_of("/dev/null"), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(folder.path()), ErrorCode::kInvalidInput);
  EXPECT_EQ(code_of(folder.file("absent")), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace billow
