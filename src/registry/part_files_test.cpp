#include "registry/part_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/text.h"
#include "store/folder.h"

namespace billow::registry {
namespace {

constexpr uint64_t kLarge = 250'000'000;  // three parts

class PartFilesTest : public testing::Test {
 protected:
  std::string path(const std::string& ending) const {
    return folder_.path() + "/" + digest_.file_name() + ending;
  }
  std::vector<std::string> names() const { return store::children(folder_.path()); }
  // Returns the text of a part's record file without the spaces after it.
  std::string part_text(const char* suffix) const { return std::string(trimmed(text(suffix))); }
  std::string text(const std::string& ending) const {
    const auto file = store::read_file(path(ending), 1 << 20);
    return file ? file->bytes : "none";
  }

  TestFolder folder_;
  const store::Digest digest_ = store::digest_of("abcdef");
};

TEST_F(PartFilesTest, HaveTheFormatOfOllama) {
  const PartFiles files(folder_.path(), digest_, kLarge);
  EXPECT_EQ(files.parts(), plan_parts(kLarge));
  const std::string name = digest_.file_name() + "-partial";
  EXPECT_EQ(names(), (std::vector<std::string>{name, name + "-0", name + "-1", name + "-2"}));
  EXPECT_EQ(part_text("-partial-2"), R"({"N":2,"Offset":200000000,"Size":50000000,"Completed":0})");
  EXPECT_EQ(store::file_status(path("-partial"))->size_bytes, kLarge);
}

TEST_F(PartFilesTest, StoreBytesAtTheirPlaces) {
  {
    PartFiles files(folder_.path(), digest_, 6);
    files.write(0, std::string_view("abc"));
    files.write(0, std::string_view(""));
    files.write(0, std::string_view("def"));
    EXPECT_THROW(files.write(0, std::string_view("g")), Error);
    EXPECT_EQ(files.parts()[0].completed, 6u);
    files.commit(path(""));
  }
  EXPECT_EQ(names(), std::vector<std::string>{digest_.file_name()});
  EXPECT_EQ(text(""), "abcdef");
}

TEST_F(PartFilesTest, ResumeFromTheLastSave) {
  const std::string piece(700'000, 'x');
  {
    PartFiles files(folder_.path(), digest_, kLarge);
    files.write(1, piece);
    EXPECT_EQ(part_text("-partial-1"),
              R"({"N":1,"Offset":100000000,"Size":100000000,"Completed":0})");
    for (int i = 0; i < 3; ++i) files.write(1, piece);
    EXPECT_EQ(part_text("-partial-1"),
              R"({"N":1,"Offset":100000000,"Size":100000000,"Completed":2100000})");
    files.write(2, piece);
    files.save(2);
  }
  {
    const PartFiles files(folder_.path(), digest_, kLarge);
    EXPECT_EQ(files.parts()[0].completed, 0u);
    EXPECT_EQ(files.parts()[1].completed, 2'100'000u) << "the rest is fetched again";
    EXPECT_EQ(files.parts()[2].completed, 700'000u);
    std::ifstream bytes(path("-partial"), std::ios::binary);
    bytes.seekg(100'000'000);
    std::string found(2'100'000, '\0');
    bytes.read(found.data(), static_cast<std::streamsize>(found.size()));
    EXPECT_TRUE(found == std::string(2'100'000, 'x'));
  }
}

TEST_F(PartFilesTest, StartOverIfTheFilesDoNotMatch) {
  const auto completed_after = [&](const auto& damage) {
    {
      PartFiles files(folder_.path(), digest_, kLarge);
      files.restart(false);
      files.write(1, std::string_view("abc"));
      files.save(1);
    }
    damage();
    const PartFiles files(folder_.path(), digest_, kLarge);
    EXPECT_EQ(files.parts(),
              resumed_parts({{0, files.parts()[0]}, {1, files.parts()[1]}, {2, files.parts()[2]}},
                            kLarge));
    return completed_bytes(files.parts());
  };
  EXPECT_EQ(completed_after([] {}), 3u);
  EXPECT_EQ(completed_after([&] { write_test_file(path("-partial-2"), "{"); }), 0u);
  EXPECT_EQ(completed_after([&] { std::filesystem::remove(path("-partial-0")); }), 0u);
  EXPECT_EQ(completed_after([&] { std::filesystem::remove(path("-partial")); }), 0u);
  EXPECT_EQ(completed_after([&] { std::filesystem::resize_file(path("-partial"), kLarge - 1); }),
            0u);
  EXPECT_EQ(completed_after([&] { write_test_file(path("-partial-9"), "{}"); }), 3u)
      << "a file that is not a part is ignored";
  EXPECT_EQ(completed_after([&] {
              write_test_file(path("-partial-3"),
                              R"({"N":3,"Offset":250000000,"Size":5,"Completed":0})");
            }),
            0u)
      << "a part beyond the blob's end";
}

TEST_F(PartFilesTest, CanRestartInOnePart) {
  PartFiles files(folder_.path(), digest_, kLarge);
  files.write(0, std::string_view("abc"));
  files.restart(true);
  EXPECT_EQ(files.parts(), (std::vector<Part>{{0, kLarge, 0}}));
  EXPECT_EQ(names().size(), 2u);
  files.remove();
  EXPECT_TRUE(names().empty());
}

TEST_F(PartFilesTest, RestartFreesTheSpaceOfTheOldBytes) {
  PartFiles files(folder_.path(), digest_, kLarge);
  files.write(1, std::string(3'000'000, 'x'));
  const auto n_blocks = [&] {
    struct stat status{};
    EXPECT_EQ(::stat(path("-partial").c_str(), &status), 0);
    return status.st_blocks;
  };
  EXPECT_GT(n_blocks(), 0);
  files.restart(false);
  EXPECT_EQ(n_blocks(), 0);
  EXPECT_EQ(store::file_status(path("-partial"))->size_bytes, kLarge);
}

TEST_F(PartFilesTest, NeedNoLocksOfTheFileSystem) {
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL}) {
    PartFiles files(folder_.path(), digest_, 6, {}, {}, [&](int) { return error; });
    files.write(0, std::string_view("abcdef"));
    files.commit(path(""));
    EXPECT_EQ(text(""), "abcdef");
    EXPECT_EQ(names().size(), 1u);
  }
}

TEST_F(PartFilesTest, AFailureLeavesNoFilesWithoutBytes) {
  EXPECT_THROW(PartFiles(folder_.path(), digest_, 6, {}, {}, [](int) { return EIO; }), Error);
  EXPECT_TRUE(names().empty()) << "it could not be locked";
  EXPECT_THROW(PartFiles(folder_.path(), digest_, uint64_t{1} << 63), Error);
  EXPECT_TRUE(names().empty()) << "the file system has no files of this size";
  {
    PartFiles files(folder_.path(), digest_, 6);
    files.write(0, std::string_view("abc"));
    files.save(0);
  }
  EXPECT_THROW(PartFiles(folder_.path(), digest_, 6, {}, {}, [](int) { return EIO; }), Error);
  EXPECT_EQ(completed_bytes(PartFiles(folder_.path(), digest_, 6).parts()), 3u);
}

TEST_F(PartFilesTest, ARecordThatCannotBeWrittenLeavesNoTemporaryFile) {
  PartFiles files(folder_.path(), digest_, 6);
  const std::vector<std::string> before = names();
  std::filesystem::remove(path("-partial-0"));
  std::filesystem::create_directory(path("-partial-0"));  // no file can replace a folder
  files.write(0, std::string_view("abc"));
  try {
    files.save(0);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              path("-partial-0") + ": cannot be written: Is a directory");
  }
  EXPECT_EQ(names(), before);
}

TEST_F(PartFilesTest, TemporaryFilesOfAKilledProgramAreRemoved) {
  {
    const PartFiles files(folder_.path(), digest_, 6);
  }
  const std::vector<std::string> before = names();
  const std::string of_another = store::digest_of("x").file_name() + "-writing-0";
  write_test_file(folder_.path() + "/" + of_another, "");
  write_test_file(path("-writing-0"), "{");
  write_test_file(path("-writing-7"), "");
  const PartFiles files(folder_.path(), digest_, 6);
  std::vector<std::string> after = before;
  after.push_back(of_another);
  std::ranges::sort(after);
  EXPECT_EQ(names(), after);
}

TEST_F(PartFilesTest, OnlyOneObjectCanOpenThem) {
  for (const bool is_committed : {true, false}) {
    std::optional<PartFiles> first(std::in_place, folder_.path(), digest_, 6);
    std::atomic<bool> is_open{false};
    std::atomic<int> n_tries{0};
    std::jthread waits([&] {
      const PartFiles second(folder_.path(), digest_, 6, {}, {}, [&](int fd) {
        ++n_tries;
        return lock_file(fd);
      });
      is_open = true;
      EXPECT_EQ(completed_bytes(second.parts()), 0u);
      EXPECT_TRUE(store::file_status(path("-partial"))) << "not the file that has become the blob";
    });
    // The second try comes after the first one has failed.
    while (n_tries < 2 && !is_open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(is_open);
    first->write(0, std::string_view("abcdef"));
    is_committed ? first->commit(path("")) : first->remove();
    EXPECT_FALSE(is_open);
    first.reset();
  }
  EXPECT_EQ(text(""), "abcdef");
}

TEST_F(PartFilesTest, ErrorNamesTheFileThatCannotBeWritten) {
  try {
    const PartFiles files(folder_.path() + "/none", digest_, 6);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              folder_.path() + "/none/" + digest_.file_name() +
                  "-partial: cannot be written: No such file or directory");
  }
}

}  // namespace
}  // namespace billow::registry
