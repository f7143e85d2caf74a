#include "api/slot_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/test_folder.h"
#include "http/status.h"

namespace billow::api {
namespace {

namespace fs = std::filesystem;

class SlotFilesTest : public testing::Test {
 protected:
  template <typename Call>
  static std::string refusal(const Call& call) {
    try {
      call();
      return "none";
    } catch (const http::StatusError& error) {
      return std::to_string(error.status()) + " " + error.what();
    }
  }
  std::string load(const std::string& name, const std::string& model = "m") const {
    return refusal([&] { (void)files_.load(name, model); });
  }

  const std::vector<int32_t> tokens_ = {1, 2, 300, 70000, 5};
  TestFolder root_;
  const std::string folder_ = root_.path() + "/sessions/slots";
  SlotFiles files_{{.folder = folder_, .max_bytes = 1000}};
};

TEST_F(SlotFilesTest, SavesAndLoadsTokens) {
  EXPECT_EQ(load("a.bin"), "400 there is no saved slot \"a.bin\"");
  const uint64_t n_bytes = files_.save("a.bin", "m", tokens_);
  EXPECT_EQ(fs::file_size(folder_ + "/a.bin"), n_bytes);
  EXPECT_EQ(files_.load("a.bin", "m").tokens, tokens_);
  EXPECT_EQ(files_.load("a.bin", "m").n_bytes, n_bytes);
  files_.save("a.bin", "m", {});
  EXPECT_TRUE(files_.load("a.bin", "m").tokens.empty());
  EXPECT_EQ(load("a.bin", "n"), "400 the saved slot \"a.bin\" belongs to another model");
  struct stat status{};
  ASSERT_EQ(::stat(folder_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0700u);
  ASSERT_EQ(::stat((folder_ + "/a.bin").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
}

TEST_F(SlotFilesTest, RefusesNamesThatAreNotPlain) {
  const std::vector<std::string> names = {"",
                                          "/etc/passwd",
                                          "../a",
                                          "a/b",
                                          "a\\b",
                                          ".",
                                          "..",
                                          ".hidden",
                                          "a\nb",
                                          "a.partial-1",
                                          "\xff",
                                          std::string(201, 'a'),
                                          std::string("a\0b", 3)};
  for (const std::string& name : names) {
    const std::string why = refusal([&] { files_.check(name); });
    EXPECT_TRUE(why.starts_with("400 field \"filename\" ")) << why;
    EXPECT_EQ(refusal([&] { files_.save(name, "m", tokens_); }), why);
    EXPECT_EQ(load(name), why);
  }
  EXPECT_FALSE(fs::exists(folder_));
  for (const char* name : {"a", "slot 1.bin", "caf\xc3\xa9", "a..b"}) files_.save(name, "m", {});
}

TEST_F(SlotFilesTest, RefusesToSaveWithoutAFolderOrALimit) {
  for (const SlotFilesOptions& options :
       {SlotFilesOptions{}, SlotFilesOptions{.folder = folder_, .max_bytes = 0}}) {
    SlotFiles files(options);
    const std::string why = refusal([&] { files.save("a", "m", tokens_); });
    EXPECT_TRUE(why.starts_with("501 this server does not save slots")) << why;
    EXPECT_NE(why.find("--sessions-limit"), std::string::npos);
  }
}

TEST_F(SlotFilesTest, RefusesToExceedTheLimit) {
  const std::vector<int32_t> many(130);
  files_.save("a", "m", many);
  const std::string why = refusal([&] { files_.save("b", "m", many); });
  EXPECT_TRUE(why.starts_with("400 saved slots may take")) << why;
  EXPECT_TRUE(why.ends_with("remove files in " + folder_)) << why;
  EXPECT_FALSE(fs::exists(folder_ + "/b"));
  files_.save("a", "m", many);  // replaces
  EXPECT_TRUE(refusal([&] {
                files_.save("c", "m", std::vector<int32_t>(1000));
              }).starts_with("400 saved slots may take"));
}

TEST_F(SlotFilesTest, RemovesOldUnfinishedFilesOfEndedServers) {
  files_.save("a", "m", tokens_);
  const std::string unfinished = folder_ + "/b.partial-1";
  std::ofstream(unfinished) << std::string(900, 'x');
  EXPECT_TRUE(
      refusal([&] { files_.save("c", "m", tokens_); }).starts_with("400 saved slots may take"))
      << "without locks, a young file may have a writer";
  fs::last_write_time(unfinished, fs::file_time_type::clock::now() - std::chrono::hours(1));
  files_.save("c", "m", tokens_);
  EXPECT_FALSE(fs::exists(unfinished));
  EXPECT_EQ(files_.load("a", "m").tokens, tokens_);
}

TEST_F(SlotFilesTest, DamagedFilesAreNeverLoaded) {
  files_.save("a", "m", tokens_);
  std::ifstream file(folder_ + "/a", std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  std::mt19937 random(1);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    std::ofstream(folder_ + "/a", std::ios::binary) << bad;
    EXPECT_NE(load("a"), "none") << "byte " << at;
    std::ofstream(folder_ + "/a", std::ios::binary) << good.substr(0, at);
    EXPECT_EQ(load("a"), "400 the saved slot \"a\" is damaged") << "length " << at;
  }
}

}  // namespace
}  // namespace billow::api
