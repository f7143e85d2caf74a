// Compares conversion with llama.cpp's converter. golden/NAME.json has a checkpoint's
// configuration, the names and shapes of its tensors, and the results of that converter. The
// weights are those of sample_value(), so they are not stored. Keys, tensors, shapes, types and
// numbers must be equal. record_golden.py describes how the files are made.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "convert/convert.h"
#include "convert/golden_values.h"
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
    model.tokenizer = tokenizer_of(golden["config"]);
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
      compare_value(key, value, *found);
    }
    for (const gguf::Entry& entry : file.metadata()) {
      if (is_compared(entry.key) && !kExtraKeys.contains(entry.key)) {
        EXPECT_TRUE(expected.contains(entry.key)) << "an unexpected key: " << entry.key;
      }
    }
  }

  Json golden;
  SampleModel model;
  std::vector<std::byte> bytes;
  std::vector<std::string> notes;
};

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

INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(golden_names()), test_name);

}  // namespace
}  // namespace billow::convert
