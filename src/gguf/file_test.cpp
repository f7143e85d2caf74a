#include "gguf/file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/raw_file.h"
#include "gguf/shard.h"

namespace billow::gguf {
namespace {

constexpr uint32_t kF32 = 0;

// Every value type, nested arrays and two tensors, in the given version.
RawFile complete_file(uint32_t version) {
  RawFile file(version);
  file.counts(2, 16);
  file.key("u8", ValueType::kU8).number(uint8_t{200});
  file.key("i8", ValueType::kI8).number(int8_t{-100});
  file.key("u16", ValueType::kU16).number(uint16_t{60000});
  file.key("i16", ValueType::kI16).number(int16_t{-30000});
  file.key("u32", ValueType::kU32).number(uint32_t{4000000000});
  file.key("i32", ValueType::kI32).number(int32_t{-2000000000});
  file.key("u64", ValueType::kU64).number(~uint64_t{0});
  file.key("i64", ValueType::kI64).number(int64_t{-1} << 62);
  file.key("f32", ValueType::kF32).number(0.25f);
  file.key("f64", ValueType::kF64).number(1e-300);
  file.key("yes", ValueType::kBool).number(uint8_t{1});
  file.key("text", ValueType::kString).text("wave");
  file.key("texts", ValueType::kArray).array(ValueType::kString, 3).text("a").text("").text("\xff");
  file.key("numbers", ValueType::kArray).array(ValueType::kI16, 2);
  file.number(int16_t{-2}).number(int16_t{3});
  file.key("empty", ValueType::kArray).array(ValueType::kF32, 0);
  file.key("nested", ValueType::kArray).array(ValueType::kArray, 2);
  file.array(ValueType::kU8, 2).number(uint8_t{7}).number(uint8_t{8});
  file.array(ValueType::kString, 1).text("deep");
  file.tensor("first", {2, 3}, kF32, 0).tensor("second", {32}, 2, 32);
  return file.pad().data(24, 0x11).pad().data(18, 0x22);
}

TEST(Lookups, RecordFoundTensors) {
  const RawFile raw = complete_file(3);
  const File file = File::parse(raw.bytes(), "memory");
  std::vector<bool> found(2);
  file.find_tensor("first");
  file.watch_lookups(&found);
  EXPECT_EQ(found, (std::vector<bool>{false, false}));
  file.find_tensor("second");
  file.find_tensor("third");
  EXPECT_EQ(found, (std::vector<bool>{false, true}));
  file.watch_lookups(nullptr);
  file.find_tensor("first");
  EXPECT_EQ(found, (std::vector<bool>{false, true}));
}

class FileOfVersion : public testing::TestWithParam<uint32_t> {};

TEST_P(FileOfVersion, ReadsEveryValueType) {
  const RawFile raw = complete_file(GetParam());
  const File file = File::parse(raw.bytes(), "memory");
  EXPECT_EQ(file.version(), GetParam());
  EXPECT_EQ(file.path(), "memory");
  EXPECT_EQ(file.n_bytes(), raw.bytes().size());
  EXPECT_EQ(file.n_files(), 1u);
  EXPECT_EQ(file.alignment(), 32u);
  ASSERT_EQ(file.metadata().size(), 16u);
  EXPECT_EQ(file.metadata()[0].key, "u8");
  EXPECT_EQ(file.require_uint("u8"), 200u);
  EXPECT_EQ(file.require_float("i8"), -100.0);
  EXPECT_EQ(file.require_uint("u16"), 60000u);
  EXPECT_EQ(file.require_float("i16"), -30000.0);
  EXPECT_EQ(file.require_uint("u32"), 4000000000u);
  EXPECT_EQ(file.require_float("i32"), -2e9);
  EXPECT_EQ(file.require_uint("u64"), ~uint64_t{0});
  EXPECT_EQ(std::get<int64_t>(file.find("i64")->data), -4611686018427387904);
  EXPECT_EQ(file.require_float("f32"), 0.25);
  EXPECT_EQ(file.require_float("f64"), 1e-300);
  EXPECT_EQ(file.get_bool("yes"), true);
  EXPECT_EQ(file.require_string("text"), "wave");
}

TEST_P(FileOfVersion, ReadsArraysAndNestedArrays) {
  const RawFile raw = complete_file(GetParam());
  const File file = File::parse(raw.bytes(), "memory");
  const Array* texts = file.get_string_array("texts");
  ASSERT_NE(texts, nullptr);
  EXPECT_EQ(texts->strings, (std::vector<std::string_view>{"a", "", "\xff"}));
  const Array* numbers = file.get_array("numbers");
  ASSERT_NE(numbers, nullptr);
  EXPECT_EQ(numbers->n, 2u);
  EXPECT_EQ(numbers->integer(0), -2);
  EXPECT_EQ(file.get_array("empty")->n, 0u);
  const Array* nested = file.get_array("nested");
  ASSERT_NE(nested, nullptr);
  ASSERT_EQ(nested->arrays.size(), 2u);
  EXPECT_EQ(nested->arrays[0].integer(1), 8);
  EXPECT_EQ(nested->arrays[1].strings[0], "deep");
}

TEST_P(FileOfVersion, SkippingStringArraysChangesNothingElse) {
  const RawFile raw = complete_file(GetParam());
  const Shard shard = parse_shard(raw.bytes(), "memory", StringArrays::kSkipped);
  const Array* texts = as_array(*shard.find("texts"));
  EXPECT_EQ(texts->n, 3u);
  EXPECT_TRUE(texts->strings.empty());
  EXPECT_EQ(as_array(*shard.find("numbers"))->integer(1), 3);
  EXPECT_EQ(as_array(*shard.find("nested"))->arrays[0].integer(0), 7);
  ASSERT_EQ(shard.tensors.size(), 2u);
  EXPECT_EQ(shard.tensors[1].data.size(), 18u);
}

TEST_P(FileOfVersion, ReadsTensorsAndTheirData) {
  const RawFile raw = complete_file(GetParam());
  const File file = File::parse(raw.bytes(), "memory");
  ASSERT_EQ(file.tensors().size(), 2u);
  const TensorInfo* first = file.find_tensor("first");
  ASSERT_EQ(first, &file.tensors()[0]);
  EXPECT_EQ(first->type, kF32);
  EXPECT_EQ(first->n_dims, 2u);
  EXPECT_EQ(first->shape, (std::array<uint64_t, 4>{2, 3, 1, 1}));
  EXPECT_EQ(first->n_elements(), 6u);
  EXPECT_EQ(first->data.size(), 24u);
  EXPECT_EQ(first->data[23], std::byte{0x11});
  const TensorInfo* second = file.find_tensor("second");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->data.size(), 18u);
  EXPECT_EQ(second->data[0], std::byte{0x22});
  EXPECT_EQ(file.find_tensor("third"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Gguf, FileOfVersion, testing::Values(1u, 2u, 3u));

TEST(File, UsesAlignmentFromMetadata) {
  RawFile raw;
  raw.counts(1, 1).key("general.alignment", ValueType::kU32).number(uint32_t{256});
  raw.tensor("t", {1}, kF32, 256).pad(256).data(256, 1).data(4, 2);
  const File file = File::parse(raw.bytes(), "memory");
  EXPECT_EQ(file.alignment(), 256u);
  EXPECT_EQ(file.tensors()[0].data[0], std::byte{2});
}

TEST(File, AcceptsTensorsInAnyOrderWithGaps) {
  RawFile raw;
  raw.counts(2, 0).tensor("late", {1}, kF32, 96).tensor("early", {1}, kF32, 0);
  raw.pad().data(96, 1).data(4, 2);
  const File file = File::parse(raw.bytes(), "memory");
  EXPECT_EQ(file.find_tensor("late")->data[0], std::byte{2});
  EXPECT_EQ(file.find_tensor("early")->data[0], std::byte{1});
}

TEST(File, NeedsNoPaddingWithoutTensors) {
  RawFile raw;
  raw.counts(0, 1).key("general.architecture", ValueType::kString).text("llama");
  EXPECT_TRUE(File::parse(raw.bytes(), "memory").tensors().empty());
}

TEST(File, AbsentKeyIsAnErrorOnlyIfRequired) {
  RawFile raw;
  raw.counts(0, 0);
  const File file = File::parse(raw.bytes(), "memory");
  EXPECT_EQ(file.find("a"), nullptr);
  EXPECT_EQ(file.get_uint("a"), std::nullopt);
  EXPECT_EQ(file.get_float("a"), std::nullopt);
  EXPECT_EQ(file.get_bool("a"), std::nullopt);
  EXPECT_EQ(file.get_string("a"), std::nullopt);
  EXPECT_EQ(file.get_array("a"), nullptr);
  EXPECT_EQ(file.get_string_array("a"), nullptr);
  try {
    file.require_uint("llama.block_count");
    ADD_FAILURE() << "no error for a missing key";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "memory: metadata key \"llama.block_count\" is missing; the model was not converted "
              "completely");
  }
  EXPECT_THROW(file.require_float("a"), Error);
  EXPECT_THROW(file.require_string("a"), Error);
}

TEST(File, WrongTypeErrorNamesKeyAndType) {
  const RawFile raw = complete_file(3);
  const File file = File::parse(raw.bytes(), "memory");
  const auto message = [&](auto&& get) -> std::string {
    try {
      get();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { file.get_uint("text"); }),
            "memory: metadata key \"text\" is of the type string; a non-negative integer "
            "is expected");
  EXPECT_EQ(message([&] { file.get_uint("i8"); }),
            "memory: metadata key \"i8\" is of the type i8 -100; a non-negative integer "
            "is expected");
  EXPECT_EQ(message([&] { file.get_float("texts"); }),
            "memory: metadata key \"texts\" is of the type array of string; a number is expected");
  EXPECT_EQ(message([&] { file.get_bool("f32"); }),
            "memory: metadata key \"f32\" is of the type f32; a bool is expected");
  EXPECT_EQ(message([&] { file.get_string("yes"); }),
            "memory: metadata key \"yes\" is of the type bool; a string is expected");
  EXPECT_EQ(message([&] { file.get_array("text"); }),
            "memory: metadata key \"text\" is of the type string; an array is expected");
  EXPECT_EQ(message([&] { file.get_string_array("numbers"); }),
            "memory: metadata key \"numbers\" is of the type array of i16; an array of strings is "
            "expected");
}

TEST(File, ViewsSurviveMoves) {
  const RawFile raw = complete_file(3);
  File first = File::parse(raw.bytes(), "memory");
  const TensorInfo* tensor = first.find_tensor("first");
  const File second = std::move(first);
  EXPECT_EQ(second.find_tensor("first"), tensor);
  EXPECT_EQ(second.require_string("text"), "wave");
}

}  // namespace
}  // namespace billow::gguf
