#include "convert/golden_values.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "quant/type.h"

namespace billow::convert {
namespace {

// Returns the type that llama.cpp's converter writes for this value.
gguf::ValueType type_of(const Json& value, bool is_element) {
  if (value.is_boolean()) return gguf::ValueType::kBool;
  if (value.is_number_integer()) return is_element ? gguf::ValueType::kI32 : gguf::ValueType::kU32;
  return gguf::ValueType::kF32;
}

}  // namespace

std::string digest(const std::vector<float>& values) {
  uint64_t sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t word;
    std::memcpy(&word, &values[i], sizeof word);
    uint64_t place = (i + 1) * 0x9E3779B97F4A7C15u;
    place ^= place >> 29;
    sum += word * place;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum));
  return text;
}

std::vector<float> numbers_of(const gguf::TensorInfo& tensor) {
  std::vector<float> values;
  const quant::TypeRow* type = quant::find_type(tensor.type);
  if (type != nullptr && type->group_len == 1) {
    values.resize(tensor.n_elements());
    type->decode(tensor.data.data(), values.size(), values.data());
    return values;
  }
  for (const std::byte byte : tensor.data) values.push_back(static_cast<float>(byte));
  return values;
}

Json shape_of(const gguf::TensorInfo& tensor) {
  return std::vector<uint64_t>(tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims);
}

double number_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>() == "inf" ? INFINITY : -INFINITY;
  return value.get<double>();
}
bool is_near(double a, double b) {
  return a == b || std::abs(a - b) <= 2e-6 * std::max(std::abs(a), std::abs(b));
}

void compare_value(const std::string& key, const Json& expected, const gguf::Value& found) {
  if (expected.is_string()) {
    EXPECT_EQ(gguf::as_string(found), expected.get<std::string>()) << key;
    return;
  }
  if (!expected.is_array()) {
    EXPECT_EQ(found.type, type_of(expected, false)) << key;
    const double value = expected.is_boolean() ? expected.get<bool>() : number_of(expected);
    EXPECT_TRUE(is_near(
        gguf::as_float(found).value_or(gguf::as_bool(found).value_or(false) ? 1 : 0), value))
        << key << " is not " << expected;
    return;
  }
  const gguf::Array* array = gguf::as_array(found);
  ASSERT_NE(array, nullptr) << key;
  ASSERT_EQ(array->n, expected.size()) << key;
  // Infinite numbers are texts in the golden file.
  EXPECT_EQ(array->element_type, type_of(expected[0], true)) << key;
  for (size_t i = 0; i < array->n; ++i) {
    const double value =
        expected[i].is_boolean() ? expected[i].get<bool>() : number_of(expected[i]);
    EXPECT_TRUE(is_near(array->number(i), value)) << key << " " << i << " is not " << expected[i];
  }
}

Json tokenizer_of(const Json& config) {
  const bool has_part = config.contains("text_config");
  const Json& text = has_part ? config["text_config"] : config;
  Json words = {{"a", 0}, {"b", 1}, {"ab", 2}};
  const uint64_t n = text.value("vocab_size", config.value("vocab_size", uint64_t{160}));
  for (uint64_t i = 3; i < n; ++i) words["t" + std::to_string(i)] = i;
  return {
      {"added_tokens", Json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"model", {{"type", "BPE"}, {"vocab", words}, {"merges", {"a b"}}}}};
}

std::string test_name(const testing::TestParamInfo<std::string>& about) {
  std::string name = about.param;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

}  // namespace billow::convert
