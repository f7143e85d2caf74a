// Invalid files. The parser rejects each with a one-line message that names the file, the place and
// the fault.
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "base/error.h"
#include "gguf/file.h"
#include "gguf/raw_file.h"

namespace billow::gguf {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ4_0 = 2;
constexpr uint32_t kI8 = 24;

void expect_refused(std::span<const std::byte> bytes, std::initializer_list<std::string_view> parts,
                    ErrorCode code = ErrorCode::kInvalidInput) {
  try {
    File::parse(bytes, "m.gguf");
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), code) << message;
    EXPECT_TRUE(message.starts_with("m.gguf: ")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string_view part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << message << "\n  lacks " << part;
    }
  }
}

void expect_refused(const RawFile& file, std::initializer_list<std::string_view> parts,
                    ErrorCode code = ErrorCode::kInvalidInput) {
  expect_refused(file.bytes(), parts, code);
}

// Returns a file with one tensor, followed by `n_data` bytes.
RawFile with_tensor(std::initializer_list<uint64_t> shape, uint32_t type, uint64_t offset,
                    size_t n_data) {
  RawFile file;
  file.counts(1, 0).tensor("blk.0.w", shape, type, offset);
  return file.pad().data(n_data);
}

TEST(Refusal, NamesKindOfOtherFiles) {
  const auto refused = [](std::string_view text, std::string_view part) {
    expect_refused(std::as_bytes(std::span(text)), {"not a GGUF file", part});
  };
  refused("version https://git-lfs.github.com/spec/v1", "Git LFS pointer");
  refused("<!DOCTYPE html>", "web page");
  refused("tjgg and more", "old GGML file");
  refused("GGU", "not a GGUF file");
  refused("", "not a GGUF file");
}

TEST(Refusal, UnknownVersions) {
  for (const uint32_t version : {0u, 4u, 77u}) {
    expect_refused(RawFile(version).counts(0, 0),
                   {"header, byte 4", "GGUF version " + std::to_string(version), "reads 1 to 3"},
                   ErrorCode::kUnsupported);
  }
}

TEST(Refusal, BigEndianFiles) {
  for (const uint32_t version : {0x02000000u, 0x03000000u}) {
    expect_refused(RawFile(version).counts(0, 0), {"header", "big-endian"},
                   ErrorCode::kUnsupported);
  }
}

TEST(Refusal, CountsLargerThanTheFile) {
  expect_refused(RawFile().counts(1000, 0), {"1000 tensors do not fit"});
  expect_refused(RawFile().counts(0, ~uint64_t{0}), {"18446744073709551615 metadata entries"});
  expect_refused(RawFile(1).counts(0, 0xFFFFFFFF), {"4294967295 metadata entries"});
  RawFile array;
  array.counts(0, 1).key("k", ValueType::kArray).array(ValueType::kF64, uint64_t{1} << 61);
  expect_refused(array.data(64), {"metadata entry 0 \"k\"", "array elements do not fit"});
  RawFile texts;
  texts.counts(0, 1).key("k", ValueType::kArray).array(ValueType::kString, 9);
  expect_refused(texts.data(64), {"9 array elements do not fit in the 64 remaining bytes"});
}

TEST(Refusal, StringsLongerThanTheFile) {
  RawFile value;
  value.counts(0, 1).key("k", ValueType::kString).count(~uint64_t{0}).chars("ab");
  expect_refused(value, {"metadata entry 0 \"k\", byte 45", "takes 18446744073709551615 bytes",
                         "2 are left", "truncated", "download it again"});
  RawFile key;
  key.counts(0, 1).count(100).data(20);
  expect_refused(key, {"metadata entry 0, byte 32", "the key takes 100 bytes, but 20 are left"});
}

TEST(Refusal, EmptyLongAndDuplicateKeys) {
  RawFile empty;
  empty.counts(0, 1).key("", ValueType::kU8).data(9);
  expect_refused(empty, {"metadata entry 0", "the key is empty"});
  RawFile large;
  large.counts(0, 1).key(std::string(65536, 'k'), ValueType::kU8).data(1);
  expect_refused(large, {"metadata entry 0", "65536 bytes long; 65535 is the limit"});
  RawFile twice;
  twice.counts(0, 3);
  for (const char* key : {"a", "b", "a"}) twice.key(key, ValueType::kU8).data(1);
  expect_refused(twice, {"metadata entry 2 \"a\"", "duplicate of entry 0"});
}

TEST(Refusal, UnknownValueTypes) {
  RawFile value;
  value.counts(0, 1).key("k", static_cast<ValueType>(13)).data(8);
  expect_refused(value, {"metadata entry 0 \"k\"", "value type 13 does not exist"});
  RawFile element;
  element.counts(0, 1).key("k", ValueType::kArray).array(static_cast<ValueType>(99), 0);
  expect_refused(element, {"value type 99 does not exist"});
}

TEST(Refusal, InvalidBools) {
  RawFile value;
  value.counts(0, 1).key("k", ValueType::kBool).number(uint8_t{2});
  expect_refused(value, {"metadata entry 0 \"k\"", "a bool is 2"});
  RawFile element;
  element.counts(0, 1).key("k", ValueType::kArray).array(ValueType::kBool, 2);
  expect_refused(element.number(uint8_t{1}).number(uint8_t{255}), {"a bool is 255"});
}

TEST(Refusal, ArraysNestedTooDeep) {
  for (const int depth : {8, 9}) {
    RawFile file;
    file.counts(0, 1).key("k", ValueType::kArray);
    for (int i = 1; i < depth; ++i) file.array(ValueType::kArray, 1);
    file.array(ValueType::kU8, 0);
    if (depth == 8) {
      EXPECT_NO_THROW(File::parse(file.bytes(), "m.gguf"));
    } else {
      expect_refused(file, {"metadata entry 0 \"k\"", "nested deeper than 8"});
    }
  }
}

TEST(Refusal, InvalidAlignments) {
  for (const uint32_t alignment : {0u, 4u, 48u, 1u << 21}) {
    RawFile file;
    file.counts(0, 1).key("general.alignment", ValueType::kU32).number(alignment);
    expect_refused(file, {"\"general.alignment\" is " + std::to_string(alignment), "power of two"});
  }
  RawFile text;
  text.counts(0, 1).key("general.alignment", ValueType::kString).text("32");
  expect_refused(text, {"\"general.alignment\" is string"});
}

TEST(Refusal, InvalidShapes) {
  expect_refused(with_tensor({}, kF32, 0, 64), {"tensor 0 \"blk.0.w\"", "0 dimensions"});
  expect_refused(with_tensor({1, 1, 1, 1, 1}, kF32, 0, 64), {"5 dimensions; there must be 1 to 4"});
  expect_refused(with_tensor({4, 0}, kF32, 0, 64), {"tensor 0 \"blk.0.w\"", "dimension 1 is 0"});
  const uint64_t large = uint64_t{1} << 32;
  expect_refused(with_tensor({large, large}, kF32, 0, 64), {"dimension 1", "too large"});
  expect_refused(with_tensor({uint64_t{1} << 63}, kF32, 0, 64), {"dimension 0", "too large"});
  expect_refused(with_tensor({uint64_t{1} << 62}, kF32, 0, 64), {"tensor 0", "too large"});
  expect_refused(with_tensor({33, 2}, kQ4_0, 0, 64), {"rows of 33 elements", "Q4_0", "hold 32"});
}

TEST(Refusal, UnknownTensorTypes) {
  for (const uint32_t type : {4u, 31u, 139u, 4294967295u}) {
    expect_refused(with_tensor({32}, type, 0, 64),
                   {"tensor 0 \"blk.0.w\"", "tensor type " + std::to_string(type)},
                   ErrorCode::kUnsupported);
  }
}

TEST(Refusal, EmptyAndDuplicateTensorNames) {
  RawFile empty;
  empty.counts(1, 0).tensor("", {1}, kF32, 0).pad().data(32);
  expect_refused(empty, {"tensor 0, byte", "the name is empty"});
  RawFile twice;
  twice.counts(2, 0).tensor("t", {1}, kF32, 0).tensor("t", {1}, kF32, 32).pad().data(64);
  expect_refused(twice, {"tensor 1 \"t\"", "duplicate of tensor 0"});
}

TEST(Refusal, MisalignedOverlappingAndTruncatedData) {
  expect_refused(with_tensor({1}, kF32, 4, 64),
                 {"tensor 0 \"blk.0.w\"", "offset 4 is not a multiple of the alignment 32"});
  expect_refused(with_tensor({17}, kF32, 0, 64), {"tensor 0 \"blk.0.w\"", "data of 68 bytes",
                                                  "beyond the end of the file", "truncated"});
  EXPECT_NO_THROW(File::parse(with_tensor({16}, kF32, 0, 64).bytes(), "m.gguf"));
  expect_refused(with_tensor({1}, kF32, ~uint64_t{31}, 64), {"beyond the end of the file"});
  RawFile overlap;
  overlap.counts(3, 0).tensor("c", {8}, kF32, 64).tensor("a", {33}, kI8, 0);
  overlap.tensor("b", {1}, kF32, 32).pad().data(96);
  expect_refused(overlap, {"tensor 2 \"b\"", "overlaps that of tensor 1 \"a\""});
  RawFile same;
  same.counts(2, 0).tensor("a", {1}, kF32, 0).tensor("b", {1}, kF32, 0).pad().data(32);
  expect_refused(same, {"tensor 1 \"b\"", "overlaps that of tensor 0 \"a\""});
}

TEST(Refusal, MessageIsOneShortLineForAnyName) {
  RawFile file;
  file.counts(0, 1).key("a\nb\xff" + std::string(60000, 'x'), static_cast<ValueType>(13)).data(8);
  expect_refused(file, {"\"a?b\xef\xbf\xbdx", "...\""});
}

TEST(Refusal, MissingFileIsNotFound) {
  try {
    File::open("/nowhere/model.gguf");
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
}

}  // namespace
}  // namespace billow::gguf
