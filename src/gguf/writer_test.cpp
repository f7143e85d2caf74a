#include "gguf/writer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_source_dir.h"
#include "gguf/file.h"

namespace billow::gguf {
namespace {

namespace fs = std::filesystem;

const std::vector<std::byte> kData(24, std::byte{0x5a});

Writer copy_of(const File& file) {
  Writer writer;
  for (const Entry& entry : file.metadata()) writer.set(entry.key, entry.value);
  for (const TensorInfo& tensor : file.tensors()) {
    writer.add_tensor(tensor.name, tensor.type, std::span(tensor.shape).first(tensor.n_dims),
                      tensor.data);
  }
  return writer;
}

// Uses every setter, with scalars of every type, nested arrays and two tensors.
Writer complete_writer() {
  Writer writer;
  writer.set_uint("uint", 4000000000u);
  writer.set_uint64("uint64", ~uint64_t{0});
  writer.set_int("int", std::numeric_limits<int32_t>::min());
  writer.set_float("float", 0.1f);
  writer.set_bool("bool", true);
  writer.set_string("string", "wave\n");
  const std::vector<std::string> strings = {"a", "", std::string("\0\xff", 2)};
  writer.set_strings("strings", strings);
  writer.set_ints("ints", std::vector<int32_t>{-1, 2});
  writer.set_floats("floats", std::vector<float>{0.5f, -0.0f});
  writer.set_bools("bools", {true, false, true});
  writer.set("u8", {ValueType::kU8, uint64_t{255}});
  writer.set("i8", {ValueType::kI8, int64_t{-128}});
  writer.set("u16", {ValueType::kU16, uint64_t{65535}});
  writer.set("i16", {ValueType::kI16, int64_t{-32768}});
  writer.set("i64", {ValueType::kI64, std::numeric_limits<int64_t>::min()});
  writer.set("f64", {ValueType::kF64, 1e-300});
  Array inner{
      .element_type = ValueType::kString, .n = 1, .bytes = {}, .strings = {"deep"}, .arrays = {}};
  Array outer{.element_type = ValueType::kArray,
              .n = 2,
              .bytes = {},
              .strings = {},
              .arrays = {inner, inner}};
  writer.set("nested", {ValueType::kArray, outer});
  writer.add_tensor("first", 0, std::vector<uint64_t>{2, 3}, kData);
  writer.add_tensor("second", 0, std::vector<uint64_t>{1}, std::span(kData).first(4));
  return writer;
}

TEST(Writer, WrittenFileReadsBack) {
  const std::vector<std::byte> bytes = complete_writer().to_bytes();
  const File file = File::parse(bytes, "memory");
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.require_uint("uint"), 4000000000u);
  EXPECT_EQ(file.require_uint("uint64"), ~uint64_t{0});
  EXPECT_EQ(file.require_float("int"), -2147483648.0);
  EXPECT_EQ(file.require_float("float"), double{0.1f});
  EXPECT_EQ(file.get_bool("bool"), true);
  EXPECT_EQ(file.require_string("string"), "wave\n");
  const Array* strings = file.get_string_array("strings");
  ASSERT_NE(strings, nullptr);
  EXPECT_EQ(strings->strings[2], std::string_view("\0\xff", 2));
  EXPECT_EQ(file.get_array("ints")->integer(0), -1);
  EXPECT_EQ(file.get_array("floats")->number(0), 0.5);
  EXPECT_EQ(file.get_array("bools")->element_type, ValueType::kBool);
  EXPECT_EQ(file.get_array("bools")->integer(2), 1);
  EXPECT_EQ(file.require_uint("u8"), 255u);
  EXPECT_EQ(file.require_float("i8"), -128.0);
  EXPECT_EQ(file.require_uint("u16"), 65535u);
  EXPECT_EQ(file.require_float("i16"), -32768.0);
  EXPECT_EQ(std::get<int64_t>(file.find("i64")->data), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(file.require_float("f64"), 1e-300);
  EXPECT_EQ(file.get_array("nested")->arrays[1].strings[0], "deep");
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_TRUE(std::ranges::equal(file.tensors()[0].data, kData));
  EXPECT_EQ(file.tensors()[0].n_dims, 2u);
}

TEST(Writer, ReadAndWriteKeepsBytes) {
  const std::vector<std::byte> bytes = complete_writer().to_bytes();
  EXPECT_EQ(copy_of(File::parse(bytes, "memory")).to_bytes(), bytes);
}

TEST(Writer, SecondValueReplacesFirst) {
  Writer writer;
  writer.set_string("a", "old");
  writer.set_uint("b", 1);
  writer.set_uint("a", 2);
  const std::vector<std::byte> bytes = writer.to_bytes();
  const File file = File::parse(bytes, "memory");
  ASSERT_EQ(file.metadata().size(), 2u);
  EXPECT_EQ(file.metadata()[0].key, "a");
  EXPECT_EQ(file.require_uint("a"), 2u);
}

TEST(Writer, AlignsTensors) {
  for (const uint32_t alignment : {8u, 32u, 4096u}) {
    Writer writer = complete_writer();
    writer.set_uint("general.alignment", alignment);
    const std::vector<std::byte> bytes = writer.to_bytes();
    EXPECT_EQ(bytes.size() % alignment, 0u);
    const File file = File::parse(bytes, "memory");
    EXPECT_EQ(file.alignment(), alignment);
    for (const TensorInfo& tensor : file.tensors()) {
      EXPECT_EQ(static_cast<size_t>(tensor.data.data() - bytes.data()) % alignment, 0u);
    }
  }
}

class WriterToDisk : public testing::Test {
 protected:
  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  TestFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(WriterToDisk, ReplacesFileAndLeavesNothingElse) {
  const std::string path = (folder_ / "model.gguf").string();
  std::ofstream(path) << "old";
  const Writer writer = complete_writer();
  writer.write(path);
  EXPECT_EQ(n_files(), 1u);
  const MappedFile mapped(path);
  EXPECT_TRUE(std::ranges::equal(mapped.bytes(), writer.to_bytes()));
  EXPECT_EQ(File::open(path).tensors().size(), 2u);
}

TEST_F(WriterToDisk, FailureKeepsOldFile) {
  EXPECT_THROW(complete_writer().write((folder_ / "absent" / "model.gguf").string()), Error);
  // A file cannot replace a folder, so that the rename fails after all writes.
  const fs::path target = folder_ / "target";
  fs::create_directory(target);
  std::ofstream(target / "inside") << "kept";
  try {
    complete_writer().write(target.string());
    ADD_FAILURE() << "a folder was replaced";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(target.string()), std::string::npos);
  }
  EXPECT_TRUE(fs::exists(target / "inside"));
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(WriterToDisk, ReplacesNoDeviceAndNoPipe) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, folder_.string()}) {
    try {
      complete_writer().write(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
      EXPECT_TRUE(std::string(error.what()).ends_with("; give the path of a file"));
    }
  }
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(n_files(), 1u);
}

TEST(WriterDeathTest, MisuseFailsCheck) {
  Writer writer;
  EXPECT_DEATH(writer.set_uint("", 1), "CHECK");
  EXPECT_DEATH(writer.add_tensor("t", 0, std::vector<uint64_t>{2}, kData), "CHECK");
  EXPECT_DEATH(writer.add_tensor("t", 4711, std::vector<uint64_t>{6}, kData), "CHECK");
  writer.add_tensor("t", 0, std::vector<uint64_t>{6}, kData);
  EXPECT_DEATH(writer.add_tensor("t", 0, std::vector<uint64_t>{6}, kData), "CHECK");
}

// Files of other programs survive a read and a write byte for byte.
std::vector<fs::path> real_files() {
  std::vector<fs::path> folders = {fs::path(source_dir()) / "../shared/data/vocab"};
  const char* models = std::getenv("BILLOW_TEST_MODELS");
  const char* home = std::getenv("HOME");
  if (models != nullptr) {
    folders.emplace_back(models);
  } else if (home != nullptr) {
    folders.push_back(fs::path(home) / ".cache/billow/models");
  }
  std::vector<fs::path> found;
  for (const fs::path& folder : folders) {
    if (!fs::is_directory(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".gguf") found.push_back(entry.path());
    }
  }
  return found;
}

TEST(RealFiles, ReadAndWriteKeepsBytes) {
  constexpr uint64_t kMaxBytes = 100'000'000;  // to_bytes() holds the whole file in memory
  const std::vector<fs::path> paths = real_files();
  if (paths.empty()) GTEST_SKIP() << "this machine has neither vocabularies nor models";
  for (const fs::path& path : paths) {
    SCOPED_TRACE(path.string());
    const File file = File::open(path.string());
    EXPECT_FALSE(file.require_string("general.architecture").empty());
    if (file.n_bytes() > kMaxBytes || file.n_files() > 1) continue;
    const MappedFile mapped(path.string());
    EXPECT_TRUE(std::ranges::equal(copy_of(file).to_bytes(), mapped.bytes()));
  }
}

}  // namespace
}  // namespace billow::gguf
