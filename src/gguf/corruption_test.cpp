// Parses damaged files. Each file is read completely or rejected with a one-line message. Run these
// tests under AddressSanitizer and UndefinedBehaviorSanitizer to find memory errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/cursor.h"
#include "gguf/file.h"
#include "gguf/raw_file.h"
#include "gguf/shard.h"

namespace billow::gguf {
namespace {

constexpr size_t kDataBytes = 32 + 18;

RawFile small_file(uint32_t version) {
  RawFile file(version);
  file.counts(2, 6);
  file.key("general.architecture", ValueType::kString).text("llama");
  file.key("general.alignment", ValueType::kU32).number(uint32_t{32});
  file.key("flag", ValueType::kBool).number(uint8_t{1});
  file.key("texts", ValueType::kArray).array(ValueType::kString, 2).text("a").text("bc");
  file.key("scores", ValueType::kArray).array(ValueType::kF32, 2).number(1.0f).number(-1.0f);
  file.key("nested", ValueType::kArray).array(ValueType::kArray, 1);
  file.array(ValueType::kU16, 1).number(uint16_t{9});
  file.tensor("a", {4, 2}, 0, 0).tensor("b", {32}, 2, 32);
  return file.pad().data(kDataBytes, 0x55);
}

uint64_t touched(const Array& array) {
  uint64_t sum = array.n;
  for (const std::string_view text : array.strings) sum += text.empty() ? 0u : uint8_t(text.back());
  for (const Array& inner : array.arrays) sum += touched(inner);
  for (const std::byte b : array.bytes) sum += std::to_integer<uint64_t>(b);
  return sum;
}

// Returns a text that describes all metadata and tensors.
std::string described(const std::vector<Entry>& metadata, const std::vector<TensorInfo>& tensors) {
  std::string text;
  for (const Entry& entry : metadata) {
    text += std::string(entry.key) + "=" + std::to_string(static_cast<int>(entry.value.type));
    if (const Array* array = as_array(entry.value)) text += std::to_string(touched(*array));
    text += " ";
  }
  for (const TensorInfo& tensor : tensors)
    text += tensor.name + ":" + std::to_string(tensor.type) + std::to_string(tensor.n_elements());
  return text;
}

std::string read_whole(std::span<const std::byte> bytes) {
  try {
    const Shard shard = parse_shard(bytes, "m.gguf");
    return described(shard.metadata, shard.tensors);
  } catch (const Error& error) {
    return error.what();
  }
}

// Reads no more of the file than the header needs.
std::string read_by_parts(std::span<const std::byte> bytes) {
  for (uint64_t n = std::min<uint64_t>(kMinHeaderBytes, bytes.size());;) {
    // Allocates exactly this size, so that a sanitizer detects a read past the end.
    const std::vector<std::byte> first(bytes.begin(),
                                       bytes.begin() + static_cast<std::ptrdiff_t>(n));
    try {
      const Shard shard = parse_header(first, bytes.size(), "m.gguf");
      for (const TensorInfo& tensor : shard.tensors) EXPECT_TRUE(tensor.data.empty());
      return described(shard.metadata, shard.tensors);
    } catch (const MoreBytesNeeded& more) {
      if (more.n_bytes <= n || more.n_bytes > bytes.size()) return "asks for impossible bytes";
      n = more.n_bytes;
    } catch (const Error& error) {
      return error.what();
    }
  }
}

// Returns true if the bytes are a readable model, and false if they were rejected properly.
bool read_or_refused(std::span<const std::byte> bytes) {
  // Allocates exactly this size, so that a sanitizer detects a read past the end.
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  EXPECT_EQ(read_by_parts(copy), read_whole(copy));
  try {
    const File file = File::parse(copy, "m.gguf");
    uint64_t sum = 0;
    for (const Entry& entry : file.metadata()) {
      EXPECT_EQ(file.find(entry.key), &entry.value);
      if (const Array* array = as_array(entry.value)) sum += touched(*array);
    }
    for (const TensorInfo& tensor : file.tensors()) {
      EXPECT_EQ(file.find_tensor(tensor.name), &tensor);
      for (const std::byte b : tensor.data) sum += std::to_integer<uint64_t>(b);
    }
    EXPECT_GT(sum, 0u);
    return true;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("m.gguf: ")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 400u) << message;
    return false;
  }
}

class Corruption : public testing::TestWithParam<uint32_t> {};

TEST_P(Corruption, RejectsEveryTruncation) {
  const RawFile file = small_file(GetParam());
  EXPECT_TRUE(read_or_refused(file.bytes()));
  for (size_t n = 0; n < file.bytes().size(); ++n) {
    EXPECT_FALSE(read_or_refused(file.bytes().first(n))) << "of " << n << " bytes";
  }
}

TEST_P(Corruption, SurvivesEveryDamagedByte) {
  const RawFile file = small_file(GetParam());
  std::vector<std::byte> bytes(file.bytes().begin(), file.bytes().end());
  size_t n_refused = 0;
  for (size_t i = 0; i < bytes.size() - kDataBytes; ++i) {
    const std::byte right = bytes[i];
    const std::array damages = {right ^ std::byte{0x01}, right ^ std::byte{0x02},
                                right ^ std::byte{0x80}, std::byte{0x00},
                                std::byte{0x7F},         std::byte{0xFF}};
    for (const std::byte damage : damages) {
      bytes[i] = damage;
      if (!read_or_refused(bytes)) ++n_refused;
    }
    bytes[i] = right;
  }
  EXPECT_GT(n_refused, bytes.size());
}

INSTANTIATE_TEST_SUITE_P(Gguf, Corruption, testing::Values(1u, 2u, 3u));

}  // namespace
}  // namespace billow::gguf
