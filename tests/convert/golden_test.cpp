// Compares conversion with llama.cpp's converter. golden/NAME.json has a checkpoint's
// configuration, the names and shapes of its tensors, and the results of that converter. The
// weights are those of sample_value(), so they are not stored. Keys, tensors, shapes, types and
// numbers must be equal. record_golden.py describes how the files are made.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "convert/convert.h"
#include "convert/sample_model.h"
#include "gguf/file.h"
#include "quant/type.h"

namespace billow::convert {
namespace {

constexpr const char* kFolder = BILLOW_CONVERT_GOLDEN;

Json golden_of(const std::string& name) {
  std::ifstream file(std::string(kFolder) + "/" + name + ".json");
  return Json::parse(file);
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

// Keys that llama.cpp's converter leaves out, although the models need them.
const std::set<std::string, std::less<>> kExtraKeys = {
    // Queries far beyond the original context are scaled up. Without these keys, the model would be
    // different.
    "mistral4.attention.temperature_scale", "mistral4.attention.temperature_length"};

// Equals digest() of record_golden.py.
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
  if (tensor.type == static_cast<uint32_t>(quant::Type::kF32)) {
    values.resize(tensor.data.size() / sizeof(float));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
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

// Returns the type that llama.cpp's converter writes for this value.
gguf::ValueType type_of(const Json& value, bool is_element) {
  if (value.is_boolean()) return gguf::ValueType::kBool;
  if (value.is_number_integer()) return is_element ? gguf::ValueType::kI32 : gguf::ValueType::kU32;
  return gguf::ValueType::kF32;
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden = golden_of(GetParam());
    model.config = golden["config"];
    const std::set<std::string> packed = golden.value("bytes", std::vector<std::string>()).empty()
                                             ? std::set<std::string>()
                                             : golden["bytes"].get<std::set<std::string>>();
    for (const auto& [name, shape] : golden["checkpoint"].items()) {
      model.tensors[name] = {shape.get<std::vector<uint64_t>>(),
                             packed.contains(name) ? "U8" : "F32"};
    }
    add_tokenizer();
    if (golden.contains("dense")) add_dense(golden["dense"]);
  }

  // Adds layers after pooling, each in a separate folder.
  void add_dense(const Json& shapes) {
    Json modules = {{{"path", ""}, {"type", "sentence_transformers.models.Transformer"}},
                    {{"path", "1_Pooling"}, {"type", "sentence_transformers.models.Pooling"}}};
    for (const auto& [folder, shape] : shapes.items()) {
      modules.push_back({{"path", folder}, {"type", "sentence_transformers.models.Dense"}});
      model.texts[folder + "/config.json"] =
          R"({"bias": false, "activation_function": "torch.nn.modules.linear.Identity"})";
      model.texts[folder + "/model.safetensors"] =
          safetensors_bytes({{"linear.weight", {shape.get<std::vector<uint64_t>>(), "F32"}}});
    }
    model.texts["modules.json"] = modules.dump();
    model.texts["1_Pooling/config.json"] = R"({"pooling_mode_mean_tokens": true})";
  }

  // Adds one token per row. The texts of the tokens do not matter here.
  void add_tokenizer() {
    const Json& config = golden["config"];
    const bool has_part = config.contains("text_config");
    const Json& text = has_part ? config["text_config"] : config;
    Json words = Json::object();
    const uint64_t n = text.value("vocab_size", config.value("vocab_size", uint64_t{160}));
    words = {{"a", 0}, {"b", 1}, {"ab", 2}};
    for (uint64_t i = 3; i < n; ++i) words["t" + std::to_string(i)] = i;
    model.tokenizer = {{"added_tokens", Json::array()},
                       {"normalizer", nullptr},
                       {"pre_tokenizer",
                        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
                       {"post_processor", nullptr},
                       {"model", {{"type", "BPE"}, {"vocab", words}, {"merges", {"a b"}}}}};
  }

  gguf::File make(quant::Type type) {
    bytes.clear();
    notes.clear();
    convert(model.files(), {.name = "m", .weight_type = type},
            {.note = [&](const std::string& line) { notes.push_back(line); }, .progress = {}},
            [&](std::span<const std::byte> piece) {
              bytes.insert(bytes.end(), piece.begin(), piece.end());
            });
    return gguf::File::parse(bytes, "converted");
  }

  void compare_keys(const gguf::File& file) const {
    const auto is_compared = [](std::string_view key) {
      return !key.starts_with("general.") && !key.starts_with("tokenizer.");
    };
    std::set<std::string, std::less<>> expected;
    for (const auto& [key, value] : golden["keys"].items()) {
      expected.insert(key);
      const gguf::Value* found = file.find(key);
      if (found == nullptr) {
        ADD_FAILURE() << "no key " << key << " = " << value;
        continue;
      }
      compare(key, value, *found);
    }
    for (const gguf::Entry& entry : file.metadata()) {
      if (is_compared(entry.key) && !kExtraKeys.contains(entry.key)) {
        EXPECT_TRUE(expected.contains(entry.key)) << "an unexpected key: " << entry.key;
      }
    }
  }

  static void compare(const std::string& key, const Json& expected, const gguf::Value& found);

  Json golden;
  SampleModel model;
  std::vector<std::byte> bytes;
  std::vector<std::string> notes;
};

void Golden::compare(const std::string& key, const Json& expected, const gguf::Value& found) {
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

TEST_P(Golden, MatchesLlamaCppsConverter) {
  const gguf::File file = make(quant::Type::kF32);
  compare_keys(file);
  for (const auto& [name, row] : golden["tensors"].items()) {
    const gguf::TensorInfo* tensor = file.find_tensor(name);
    if (tensor == nullptr) {
      ADD_FAILURE() << "no tensor " << name;
      continue;
    }
    EXPECT_EQ(shape_of(*tensor), row[0]) << name;
    const std::vector<float> values = numbers_of(*tensor);
    if (row[2].is_string()) {
      EXPECT_EQ(digest(values), row[2].get<std::string>()) << name;
      continue;
    }
    ASSERT_EQ(values.size(), row[2].size()) << name;
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_TRUE(is_near(values[i], number_of(row[2][i]))) << name << " " << i;
  }
  for (const gguf::TensorInfo& tensor : file.tensors())
    EXPECT_TRUE(golden["tensors"].contains(tensor.name)) << "an unexpected tensor: " << tensor.name;
}

TEST_P(Golden, KeepsTheSameTensorsInFloats) {
  const gguf::File file = make(quant::Type::kBF16);
  for (const auto& [name, row] : golden["tensors"].items()) {
    const gguf::TensorInfo* tensor = file.find_tensor(name);
    if (tensor == nullptr) continue;
    const quant::TypeRow* type = quant::find_type(tensor->type);
    EXPECT_EQ(type->name, row[1].get<std::string>()) << name;
  }
}

// Rewrites the rotation with the keys that configurations had before "rope_parameters".
void spell_rope_as_before(Json& config) {
  Json rope = config["rope_parameters"];
  config.erase("rope_parameters");
  if (rope.contains("full_attention")) {
    config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"];
    const Json full = rope["full_attention"];
    rope = full;
  }
  for (const char* name : {"rope_theta", "partial_rotary_factor"}) {
    if (!rope.contains(name)) continue;
    config[name] = rope[name];
    rope.erase(name);
  }
  const bool is_plain = rope.value("rope_type", "default") == "default";
  if (!is_plain) rope["type"] = rope["rope_type"];
  rope.erase("rope_type");
  config["rope_scaling"] = rope.empty() ? Json() : rope;
}

TEST_P(Golden, OlderRotationKeysMeanTheSame) {
  const bool has_part = model.config.contains("text_config");
  Json& config = has_part ? model.config["text_config"] : model.config;
  if (!config.contains("rope_parameters")) return;  // no rotation
  const Json& rope = config["rope_parameters"];
  const bool is_by_layers = rope.contains("full_attention");
  if (is_by_layers && rope["full_attention"]["rope_type"] == "proportional") return;  // newer
  spell_rope_as_before(config);
  compare_keys(make(quant::Type::kF32));
}

TEST_P(Golden, NotesVisionPartsThatAreLeftOut) {
  make(quant::Type::kF32);
  const bool has_parts = model.config.contains("vision_config");
  const auto is_given = [](const std::string& line) {
    return line.find("the part for pictures is left out") != std::string::npos;
  };
  EXPECT_EQ(std::ranges::any_of(notes, is_given), has_parts);
}

class GoldenLlama4 : public Golden {};
TEST_P(GoldenLlama4, RefusesConstantsThatGgufCannotStore) {
  const Json right = model.config;
  for (const char* name :
       {"attention_chunk_size", "attn_scale", "floor_scale", "no_rope_layer_interval"}) {
    model.config = right;
    model.config[name] = 2;
    try {
      make(quant::Type::kF32);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string_view(error.what())
                      .starts_with(std::string("config.json: \"") + name + "\" must be "))
          << error.what();
    }
    model.config.erase(name);
    EXPECT_NO_THROW(make(quant::Type::kF32)) << name;
  }
}
INSTANTIATE_TEST_SUITE_P(Families, GoldenLlama4, testing::Values("llama4"));

class GoldenEmbedding : public Golden {};
TEST_P(GoldenEmbedding, NotesMissingDenseLayers) {
  const auto is_noted = [](const std::string& line) {
    return line.starts_with("modules.json is missing: ");
  };
  EXPECT_NE(make(quant::Type::kF32).find_tensor("dense_2.weight"), nullptr);
  EXPECT_TRUE(std::ranges::none_of(notes, is_noted));
  model.texts.erase("modules.json");
  EXPECT_EQ(make(quant::Type::kF32).find_tensor("dense_2.weight"), nullptr);
  EXPECT_TRUE(std::ranges::any_of(notes, is_noted));
}
INSTANTIATE_TEST_SUITE_P(Families, GoldenEmbedding, testing::Values("gemma-embedding"));

std::string test_name(const testing::TestParamInfo<std::string>& about) {
  std::string name = about.param;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(golden_names()), test_name);

}  // namespace
}  // namespace billow::convert
