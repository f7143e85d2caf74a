#include "base/cache_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/test_folder.h"

namespace billow {
namespace {

namespace fs = std::filesystem;

class CacheFolderTest : public testing::Test {
 protected:
  static std::span<const std::byte> bytes(const std::string& text) {
    return std::as_bytes(std::span(text));
  }
  void put(const CacheFolder& folder, const std::string& name, const std::string& text) {
    std::string why;
    const auto writer = folder.write(name, text.size(), &why);
    ASSERT_NE(writer, nullptr) << why;
    writer->write(bytes(text));
    writer->commit();
  }
  std::string text_of(const CacheFolder& folder, const std::string& name) {
    const auto file = folder.open(name);
    if (!file) return "(none)";
    std::string text(file->size_bytes(), ' ');
    file->read_at(0, std::as_writable_bytes(std::span(text)));
    return text;
  }
  // Makes a file the least recently used one.
  void age(const std::string& name) {
    const timespec times[2] = {{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 0}};
    for (const char* suffix : {"", ".checked"})
      ::utimensat(AT_FDCWD, (path_ + "/" + name + suffix).c_str(), times, 0);
  }
  size_t n_files() const {
    if (!fs::exists(path_)) return 0;
    return static_cast<size_t>(std::distance(fs::directory_iterator(path_), {}));
  }

  TestFolder temporary_;
  const std::string path_ = temporary_.file("cache");
};

TEST_F(CacheFolderTest, StoresAndReplacesFile) {
  const CacheFolder folder({path_, 100});
  EXPECT_EQ(text_of(folder, "a"), "(none)");
  put(folder, "a", "one");
  EXPECT_EQ(text_of(folder, "a"), "one");
  put(folder, "a", "two");
  EXPECT_EQ(text_of(folder, "a"), "two");
  folder.remove("a");
  EXPECT_EQ(text_of(folder, "a"), "(none)");
  EXPECT_EQ(n_files(), 0u);
}

TEST_F(CacheFolderTest, RemovesFileWithoutCommit) {
  const CacheFolder folder({path_, 100});
  put(folder, "a", "one");
  {
    std::string why;
    const auto writer = folder.write("a", 3, &why);
    writer->write(bytes("tw"));
    EXPECT_EQ(text_of(folder, "a"), "one");
  }
  EXPECT_EQ(text_of(folder, "a"), "one");
  EXPECT_EQ(n_files(), 2u);  // the file and its record
}

TEST_F(CacheFolderTest, FileStaysCheckedUntilItChanges) {
  const CacheFolder folder({path_, 100});
  put(folder, "a", "one");
  EXPECT_TRUE(folder.is_checked("a", *folder.open("a")));
  // The times of a file have the resolution of the system's tick, which is 10 ms at most.
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::ofstream(path_ + "/a") << "0ne";
  EXPECT_FALSE(folder.is_checked("a", *folder.open("a")));
  folder.set_checked("a", *folder.open("a"));
  EXPECT_TRUE(folder.is_checked("a", *folder.open("a")));
  fs::remove(path_ + "/a.checked");
  EXPECT_FALSE(folder.is_checked("a", *folder.open("a")));
  std::ofstream(path_ + "/a.checked") << "another boot 1 2 3 4 5\n";
  EXPECT_FALSE(folder.is_checked("a", *folder.open("a")));
}

TEST_F(CacheFolderTest, EvictsLeastRecentlyUsedFile) {
  const CacheFolder folder({path_, 10});
  put(folder, "a", "1234");
  put(folder, "b", "1234");
  age("a");
  age("b");
  ASSERT_TRUE(folder.open("a"));
  put(folder, "c", "1234");
  EXPECT_EQ(text_of(folder, "b"), "(none)");
  EXPECT_EQ(text_of(folder, "a"), "1234");
  EXPECT_EQ(text_of(folder, "c"), "1234");
}

TEST_F(CacheFolderTest, RejectsFileAboveLimitWithoutEviction) {
  const CacheFolder folder({path_, 10});
  put(folder, "a", "1234");
  std::string why;
  EXPECT_EQ(folder.write("b", 11, &why), nullptr);
  EXPECT_NE(why.find("limit"), std::string::npos) << why;
  EXPECT_EQ(text_of(folder, "a"), "1234");
}

TEST_F(CacheFolderTest, RejectsFileThatWouldFillTheDisk) {
  const CacheFolder folder({path_, UINT64_MAX});
  std::string why;
  EXPECT_EQ(folder.write("a", uint64_t{1} << 60, &why), nullptr);
  EXPECT_NE(why.find("disk"), std::string::npos) << why;
  EXPECT_EQ(n_files(), 0u);
}

TEST_F(CacheFolderTest, UnfinishedFilesOfOtherWritersCount) {
  const CacheFolder folder({path_, 100});
  std::string why;
  auto first = folder.write("a", 60, &why);
  ASSERT_NE(first, nullptr) << why;
  EXPECT_EQ(folder.write("b", 60, &why), nullptr);
  EXPECT_NE(why.find("no room"), std::string::npos) << why;
  EXPECT_NE(folder.write("b", 40, &why), nullptr);
  first.reset();
  EXPECT_NE(folder.write("b", 60, &why), nullptr);
}

TEST_F(CacheFolderTest, ReplacedFileCounts) {
  const CacheFolder folder({path_, 100});
  put(folder, "a", std::string(60, 'x'));
  put(folder, "a", std::string(60, 'y'));
  EXPECT_EQ(text_of(folder, "a"), std::string(60, 'y'));
  put(folder, "b", "1");
  put(folder, "a", "short");
  EXPECT_EQ(text_of(folder, "b"), "1");
}

// The removal of a file that is open or mapped would free no space.
TEST_F(CacheFolderTest, KeepsFilesInUse) {
  const CacheFolder folder({path_, 100});
  put(folder, "a", std::string(60, 'x'));
  std::string why;
  {
    const auto file = folder.open("a");
    ASSERT_TRUE(file);
    EXPECT_EQ(folder.write("b", 60, &why), nullptr);
  }
  void* bytes = MAP_FAILED;
  {
    const auto file = folder.open("a");
    ASSERT_TRUE(file);
    bytes = ::mmap(nullptr, 60, PROT_READ, MAP_PRIVATE, file->fd(), 0);
    ASSERT_NE(bytes, MAP_FAILED);
  }
  EXPECT_EQ(folder.write("b", 60, &why), nullptr);
  EXPECT_EQ(text_of(folder, "a"), std::string(60, 'x'));
  ::munmap(bytes, 60);
  EXPECT_NE(folder.write("b", 60, &why), nullptr) << why;
  EXPECT_EQ(text_of(folder, "a"), "(none)");
}

// Returns the bytes of all files of the folder, or 0 if another process has its lock.
uint64_t bytes_in(const std::string& path) {
  std::map<ino_t, uint64_t> sizes;  // by inode: a file may get its name while this loop runs
  const FolderLock locked(path);
  if (!locked) return 0;
  for (const auto& entry : fs::directory_iterator(path)) {
    struct stat status{};
    if (entry.path().extension() != ".checked" && ::lstat(entry.path().c_str(), &status) == 0)
      sizes[status.st_ino] = static_cast<uint64_t>(status.st_size);
  }
  uint64_t sum = 0;
  for (const auto& [inode, n] : sizes) sum += n;
  return sum;
}

// Several processes write, replace, read and die. The folder never exceeds its limit. Each process
// looks after each of its writes.
TEST_F(CacheFolderTest, ProcessesTogetherKeepTheLimit) {
  constexpr uint64_t kLimit = 1000;
  constexpr int kProcesses = 4;
  fs::create_directories(path_);
  void* const shared = ::mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const max = new (shared) std::atomic<uint64_t>(0);
  const auto write_and_read = [&](int child) {
    const CacheFolder folder({path_, kLimit});
    std::mt19937 random(static_cast<unsigned>(child));
    for (int i = 0; i < 300; ++i) {
      std::string why;
      const std::string name(1, static_cast<char>('a' + random() % 8));
      const auto file = folder.open(name);
      const auto writer = folder.write(name, 1 + random() % 600, &why);
      if (!writer) continue;
      writer->write(bytes(std::string(1 + random() % 2, 'x')));
      const uint64_t now = bytes_in(path_);
      for (uint64_t before = *max; now > before && !max->compare_exchange_weak(before, now);) {
      }
      if (child == 0 && i == 200) ::_exit(0);  // leaves an unfinished file
      if (random() % 4 != 0) writer->commit();
    }
  };
  for (int child = 0; child < kProcesses; ++child) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid != 0) continue;
    try {
      write_and_read(child);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "process %d: %s\n", child, error.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  for (int n_ended = 0; n_ended < kProcesses; ++n_ended) {
    int status = 0;
    ASSERT_GT(::waitpid(-1, &status, 0), 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_LE(*max, kLimit);
  EXPECT_GT(*max, kLimit / 2) << "the test writes too little";
  ::munmap(shared, sizeof(std::atomic<uint64_t>));
  std::string why;
  EXPECT_NE(CacheFolder({path_, kLimit}).write("z", kLimit, &why), nullptr) << why;
}

TEST_F(CacheFolderTest, OnlyOneWriterPerFile) {
  const CacheFolder folder({path_, 100});
  std::string why;
  auto writer = folder.write("a", 3, &why);
  ASSERT_NE(writer, nullptr);
  std::string reason;
  EXPECT_EQ(folder.write("a", 3, &reason), nullptr);
  EXPECT_NE(reason.find("another process"), std::string::npos) << reason;
  EXPECT_NE(folder.write("b", 3, &why), nullptr);
  writer.reset();
  EXPECT_NE(folder.write("a", 3, &why), nullptr);
}

TEST_F(CacheFolderTest, RemovesUnfinishedFileOfKilledWriter) {
  const CacheFolder folder({path_, 100});
  put(folder, "a", "one");
  const pid_t child = ::fork();
  if (child == 0) {
    std::string why;
    const auto writer = folder.write("b", 3, &why);
    writer->write(bytes("tw"));
    ::_exit(0);  // without a destructor
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(n_files(), 3u);
  std::string why;
  const auto writer = folder.write("c", 3, &why);
  folder.clean([](const std::string&) { return false; });
  EXPECT_EQ(n_files(), 3u);  // a, its record, and the unfinished c
  EXPECT_EQ(text_of(folder, "b"), "(none)");
  writer->commit();
  folder.clean([](const std::string& path) { return path.ends_with("/a"); });
  EXPECT_EQ(text_of(folder, "a"), "(none)");
  EXPECT_EQ(n_files(), 2u);
}

TEST_F(CacheFolderTest, StoresNothingWithoutFolderOrLimit) {
  for (const CacheFolder& folder : {CacheFolder({"", 100}), CacheFolder({path_, 0})}) {
    EXPECT_FALSE(folder.is_enabled());
    EXPECT_FALSE(folder.open("a"));
    std::string why;
    EXPECT_EQ(folder.write("a", 1, &why), nullptr);
    folder.remove("a");
    folder.clean([](const std::string&) { return true; });
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(CacheFolderTest, ThrowsIfFolderCannotBeCreated) {
  std::ofstream(path_ + ".file") << "x";
  const CacheFolder folder({path_ + ".file/folder", 100});
  std::string why;
  EXPECT_THROW(folder.write("a", 1, &why), Error);
  fs::remove(path_ + ".file");
}

}  // namespace
}  // namespace billow
