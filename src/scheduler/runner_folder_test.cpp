#include "scheduler/runner_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow::scheduler {
namespace {

namespace fs = std::filesystem;

void write_file(const std::string& path) { std::ofstream(path) << "x"; }

TEST(RunnerFolder, IsPrivateAndRemovedByItsOwner) {
  const TestFolder parent;
  std::string path;
  {
    const RunnerFolder folder(parent.path());
    path = folder.path();
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0700u);
    write_file(path + "/0.sock");
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(RunnerFolder, RemovesOnlyFoldersOfDeadServers) {
  const TestFolder parent;
  const RunnerFolder alive(parent.path());
  write_file(alive.path() + "/0.sock");
  const std::string dead = parent.path() + "/billow-runners-dead00";
  fs::create_directory(dead);
  write_file(dead + "/lock");
  write_file(dead + "/3.sock");
  const std::string empty = parent.path() + "/billow-runners-empty0";
  fs::create_directory(empty);
  const std::string other = parent.path() + "/another";
  fs::create_directory(other);
  const std::string link = parent.path() + "/billow-runners-link00";
  fs::create_directory_symlink(other, link);
  const RunnerFolder next(parent.path());
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_FALSE(fs::exists(empty));
  EXPECT_TRUE(fs::exists(other));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::exists(alive.path() + "/0.sock"));
}

// A program that cleans the folder for temporary files removes old files, but no sockets.
TEST(RunnerFolder, OutlivesItsFiles) {
  const TestFolder parent;
  const RunnerFolder folder(parent.path());
  const std::string socket = folder.path() + "/0.sock";
  ASSERT_EQ(::mknod(socket.c_str(), S_IFSOCK | 0600, 0), 0);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    if (entry.is_regular_file()) fs::remove(entry.path());
  constexpr timespec kLongAgo = {.tv_sec = 1'000'000'000, .tv_nsec = 0};
  const std::array<timespec, 2> times = {kLongAgo, kLongAgo};
  ASSERT_EQ(::utimensat(AT_FDCWD, folder.path().c_str(), times.data(), 0), 0);
  EXPECT_TRUE(folder.exists());
  const RunnerFolder next(parent.path());
  EXPECT_TRUE(fs::exists(socket));
  EXPECT_TRUE(folder.exists());
}

TEST(RunnerFolder, KeepsFoldersOfServersThatLockAFile) {
  const TestFolder parent;
  const std::string older = parent.path() + "/billow-runners-older0";
  fs::create_directory(older);
  const int lock = ::open((older + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(lock, 0);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  {
    const RunnerFolder next(parent.path());
    EXPECT_TRUE(fs::exists(older));
  }
  ::close(lock);
  const RunnerFolder next(parent.path());
  EXPECT_FALSE(fs::exists(older));
}

TEST(RunnerFolder, KnowsThatItWasRemoved) {
  const TestFolder parent;
  auto folder = std::make_unique<RunnerFolder>(parent.path());
  const std::string path = folder->path();
  EXPECT_TRUE(folder->exists());
  fs::remove_all(path);
  EXPECT_FALSE(folder->exists());
  fs::create_directory(path);
  write_file(path + "/0.sock");  // a folder of somebody else
  EXPECT_FALSE(folder->exists());
  folder.reset();
  EXPECT_TRUE(fs::exists(path + "/0.sock"));
  const RunnerFolder next(parent.path());
  EXPECT_TRUE(next.exists());
  EXPECT_NE(next.path(), path);
}

// A server may see the folder of another one before it is locked.
TEST(RunnerFolder, SurvivesServersThatStartAtTheSameTime) {
  const TestFolder parent;
  std::atomic<size_t> n_lost = 0;
  std::vector<std::thread> servers;
  for (int i = 0; i < 8; ++i) {
    servers.emplace_back([&] {
      for (int round = 0; round < 1000; ++round) {
        const RunnerFolder folder(parent.path());
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        n_lost += !folder.exists();
      }
    });
  }
  for (std::thread& server : servers) server.join();
  EXPECT_EQ(n_lost, 0u);
}

TEST(RunnerFolder, ThrowsIfItCannotBeCreated) {
  EXPECT_THROW(RunnerFolder("/nowhere/at/all"), Error);
}

}  // namespace
}  // namespace billow::scheduler
