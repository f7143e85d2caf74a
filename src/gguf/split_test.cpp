#include "gguf/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_folder.h"
#include "gguf/file.h"
#include "gguf/raw_file.h"
#include "gguf/writer.h"

namespace billow::gguf {
namespace {

namespace fs = std::filesystem;

// Creates a folder per test, with a model of three files that have one tensor each.
class Split : public testing::Test {
 protected:
  void SetUp() override {
    for (uint16_t i = 0; i < 3; ++i) write(i, i, 3, 3, "t" + std::to_string(i));
  }

  std::string path(uint64_t number) const {
    return split_path((folder_ / "model").string(), number, 3);
  }

  void write(uint64_t file_number, uint16_t number, uint16_t count, int32_t n_tensors,
             const std::string& tensor) const {
    RawFile file;
    file.counts(1, 4).key("split.no", ValueType::kU16).number(number);
    file.key("split.count", ValueType::kU16).number(count);
    file.key("split.tensors.count", ValueType::kI32).number(n_tensors);
    file.key("general.name", ValueType::kString).text("part " + std::to_string(number));
    file.tensor(tensor, {1}, 0, 0).pad().data(4, static_cast<uint8_t>(number + 1));
    std::ofstream(path(file_number), std::ios::binary)
        .write(reinterpret_cast<const char*>(file.bytes().data()),
               static_cast<std::streamsize>(file.bytes().size()));
  }

  void expect_refused(const std::string& opened, std::initializer_list<std::string> parts,
                      ErrorCode code = ErrorCode::kInvalidInput) const {
    try {
      File::open(opened);
      ADD_FAILURE() << "opened " << opened;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.code(), code) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      for (const std::string& part : parts) {
        EXPECT_NE(message.find(part), std::string::npos) << message << "\n  lacks " << part;
      }
    }
  }

  TestFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(Split, FirstFileOpensTheWholeModel) {
  const File file = File::open(path(0));
  EXPECT_EQ(file.n_files(), 3u);
  EXPECT_EQ(file.n_bytes(),
            fs::file_size(path(0)) + fs::file_size(path(1)) + fs::file_size(path(2)));
  EXPECT_EQ(file.require_string("general.name"), "part 0");
  ASSERT_EQ(file.tensors().size(), 3u);
  for (uint8_t i = 0; i < 3; ++i) {
    const TensorInfo* tensor = file.find_tensor("t" + std::to_string(i));
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->data[0], std::byte(i + 1));
  }
}

TEST_F(Split, HeadersAloneGiveTheSameMetadata) {
  const File whole = File::open(path(0));
  const File file = File::open_header(path(0));
  for (uint64_t i = 0; i < 3; ++i) fs::resize_file(path(i), 10);  // no later reads
  EXPECT_EQ(file.n_files(), 3u);
  EXPECT_EQ(file.n_bytes(), whole.n_bytes());
  EXPECT_EQ(file.require_string("general.name"), "part 0");
  ASSERT_EQ(file.tensors().size(), 3u);
  for (const TensorInfo& tensor : file.tensors()) {
    EXPECT_TRUE(tensor.data.empty());
    EXPECT_EQ(file.find_tensor(tensor.name), &tensor);
    EXPECT_EQ(tensor.n_elements(), whole.find_tensor(tensor.name)->n_elements());
  }
}

TEST_F(Split, ReadsTensorsWithoutMapping) {
  const std::vector<std::string> paths{path(0), path(1), path(2)};
  const File file = File::open_split_headers(paths);
  ASSERT_EQ(file.tensors().size(), 3u);
  const auto read = [&](const TensorInfo& tensor) {
    std::vector<std::byte> bytes;
    file.read_tensor(tensor,
                     [&](auto piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
    return bytes;
  };
  for (uint8_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(file.tensors()[i].data.empty());
    EXPECT_EQ(read(file.tensors()[i]), std::vector<std::byte>(4, std::byte(i + 1)));
  }
  fs::resize_file(path(1), fs::file_size(path(1)) - 1);
  EXPECT_EQ(read(file.tensors()[0]).size(), 4u);
  EXPECT_THROW(read(file.tensors()[1]), Error);
}

TEST_F(Split, ReadsTensorOfManyPieces) {
  constexpr uint64_t kElements = 700'001;  // of 4 bytes: two and a half pieces
  std::vector<float> values(kElements);
  for (uint64_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i);
  Writer writer;
  const std::array<uint64_t, 1> shape{kElements};
  writer.add_tensor("small", 0, std::array<uint64_t, 1>{1},
                    std::as_bytes(std::span(values).first(1)));
  writer.add_tensor("large", 0, shape, std::as_bytes(std::span(values)));
  const std::string written = (folder_ / "large.gguf").string();
  writer.write(written);
  const File file = File::open_header(written);
  std::vector<std::byte> bytes;
  file.read_tensor(file.tensors()[1],
                   [&](auto piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  EXPECT_TRUE(std::ranges::equal(bytes, std::as_bytes(std::span(values))));
}

TEST_F(Split, ReadsLongHeader) {
  constexpr uint64_t kTexts = 300'000;
  RawFile raw;
  raw.counts(0, 2).key("texts", ValueType::kArray).array(ValueType::kString, kTexts);
  for (uint64_t i = 0; i < kTexts; ++i) raw.text(std::to_string(i));
  raw.key("last", ValueType::kU8).number(uint8_t{7});
  std::ofstream(path(0), std::ios::binary)
      .write(reinterpret_cast<const char*>(raw.bytes().data()),
             static_cast<std::streamsize>(raw.bytes().size()));
  const File file = File::open_header(path(0));
  EXPECT_EQ(file.require_uint("last"), 7u);
  ASSERT_EQ(file.get_string_array("texts")->strings.size(), kTexts);
  for (uint64_t i = 0; i < kTexts; ++i)
    ASSERT_EQ(file.get_string_array("texts")->strings[i], std::to_string(i));
}

TEST_F(Split, OtherPartNamesTheFirst) {
  expect_refused(path(1),
                 {path(1) + ": part 2 of a model of 3 files", "open the first part", path(0)});
}

TEST_F(Split, ReportsMissingPart) {
  fs::remove(path(2));
  expect_refused(path(0), {path(2) + ": part 3 of the 3 files", "missing"}, ErrorCode::kNotFound);
}

TEST_F(Split, ReportsPartWithWrongNumber) {
  write(1, 2, 3, 3, "x");
  expect_refused(path(0), {path(1) + ": the file says it is part 3 of 3"});
  write(1, 1, 4, 3, "x");
  expect_refused(path(0), {path(1) + ": the file says it is part 2 of 4"});
}

TEST_F(Split, RejectsWrongNumberOfTensors) {
  write(0, 0, 3, 7, "t0");
  expect_refused(path(0), {path(0), "hold 3 tensors, but split.tensors.count is 7"});
}

TEST_F(Split, RejectsTensorInTwoFiles) {
  write(2, 2, 3, 3, "t0");
  expect_refused(path(0), {"tensor 2 \"t0\"", "tensor 0"});
}

TEST_F(Split, RejectsRenamedFirstFile) {
  const std::string renamed = (folder_ / "renamed.gguf").string();
  fs::rename(path(0), renamed);
  expect_refused(renamed, {"part 1 of a model of 3 files", "NAME-00001-of-00003.gguf"});
}

TEST_F(Split, RejectsInvalidSplitKeys) {
  write(0, 3, 3, 3, "t0");
  expect_refused(path(0), {"split.no 3 of split.count 3 is invalid"});
  write(0, 0, 3, -1, "t0");
  expect_refused(path(0), {"\"split.tensors.count\" must be an unsigned integer"});
}

TEST_F(Split, ReportsDamagedPart) {
  fs::resize_file(path(1), fs::file_size(path(1)) - 1);
  expect_refused(path(0), {path(1) + ": tensor 0 \"t1\"", "truncated"});
}

TEST_F(Split, SplitOfOneFileIsAPlainFile) {
  write(0, 0, 1, 1, "t0");
  const File file = File::open(path(0));
  EXPECT_EQ(file.n_files(), 1u);
  EXPECT_EQ(file.tensors().size(), 1u);
}

TEST_F(Split, RejectsPartsParsedFromMemory) {
  const MappedFile mapped(path(0));
  EXPECT_THROW(File::parse(mapped.bytes(), "memory"), Error);
}

}  // namespace
}  // namespace billow::gguf
