#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "convert/convert.h"
#include "convert/sample_model.h"
#include "gguf/file.h"

namespace billow::convert {
namespace {

constexpr uint64_t kRank = 4;
constexpr uint64_t kWidth = SampleModel::kWidth;
constexpr uint64_t kHeads = 4;
constexpr uint64_t kHeadLen = 8;
constexpr const char* kLayer = "base_model.model.model.layers.";

class Adapter : public testing::Test {
 protected:
  Adapter() {
    base.config = Json{{"architectures", {"LlamaForCausalLM"}},
                       {"hidden_size", kWidth},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", kHeads},
                       {"num_key_value_heads", 2},
                       {"intermediate_size", 48}};
    settings = Json{{"peft_type", "LORA"}, {"r", kRank},        {"lora_alpha", 6},
                    {"bias", "none"},      {"use_dora", false}, {"modules_to_save", nullptr}};
    add("0.self_attn.q_proj", kWidth, kWidth);
    add("1.mlp.down_proj", kWidth, 48);
  }

  void add(const std::string& module, uint64_t n_outputs, uint64_t n_inputs,
           uint64_t rank = kRank) {
    peft.tensors[kLayer + module + ".lora_A.weight"] = {{rank, n_inputs}, "F32"};
    peft.tensors[kLayer + module + ".lora_B.weight"] = {{n_outputs, rank}, "F32"};
  }

  gguf::File make(quant::Type type = quant::Type::kF32) {
    peft.texts["adapter_config.json"] = settings.dump();
    bytes.clear();
    convert_adapter(peft.files(), base.files(), {.name = "a", .weight_type = type}, {},
                    [&](std::span<const std::byte> piece) {
                      bytes.insert(bytes.end(), piece.begin(), piece.end());
                    });
    return gguf::File::parse(bytes, "converted");
  }

  std::string refusal() {
    try {
      make();
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
      return error.what();
    }
    return "";
  }

  static std::vector<float> numbers(const gguf::File& file, const std::string& name) {
    const gguf::TensorInfo* tensor = file.find_tensor(name);
    if (tensor == nullptr || tensor->type != static_cast<uint32_t>(quant::Type::kF32)) return {};
    std::vector<float> values(tensor->n_elements());
    std::memcpy(values.data(), tensor->data.data(), values.size() * sizeof(float));
    return values;
  }

  // Returns the numbers of a source tensor with row `row_of(i)` at row i, times `factor`.
  static std::vector<float> expected(
      const std::string& name, uint64_t n_rows, uint64_t row_len,
      const std::function<uint64_t(uint64_t)>& row_of = [](uint64_t row) { return row; },
      float factor = 1) {
    std::vector<float> values;
    for (uint64_t row = 0; row < n_rows; ++row)
      for (uint64_t i = 0; i < row_len; ++i)
        values.push_back(factor * sample_value(kLayer + name, row_of(row) * row_len + i));
    return values;
  }

  SampleModel base;
  SampleModel peft;
  Json settings;
  std::vector<std::byte> bytes;
};

TEST_F(Adapter, ReordersRowsOfTheSecondHalf) {
  const gguf::File file = make();
  EXPECT_EQ(file.require_string("general.architecture"), "llama");
  EXPECT_EQ(file.require_string("general.type"), "adapter");
  EXPECT_EQ(file.require_string("adapter.type"), "lora");
  EXPECT_EQ(gguf::as_float(*file.find("adapter.lora.alpha")), 6);
  EXPECT_EQ(file.tensors().size(), 4u);
  const auto paired = [](uint64_t row) {
    const uint64_t i = row % kHeadLen;
    return row - i + i / 2 + i % 2 * (kHeadLen / 2);
  };
  const std::string query = "0.self_attn.q_proj.lora_";
  EXPECT_EQ(numbers(file, "blk.0.attn_q.weight.lora_a"),
            expected(query + "A.weight", kRank, kWidth));
  EXPECT_EQ(numbers(file, "blk.0.attn_q.weight.lora_b"),
            expected(query + "B.weight", kWidth, kRank, paired));
  EXPECT_EQ(file.find_tensor("blk.1.ffn_down.weight.lora_a")->shape,
            (std::array<uint64_t, 4>{48, kRank, 1, 1}));
  EXPECT_EQ(file.find_tensor("blk.1.ffn_down.weight.lora_b")->shape,
            (std::array<uint64_t, 4>{kRank, kWidth, 1, 1}));
}

TEST_F(Adapter, HasRequestedType) {
  const gguf::File file = make(quant::Type::kQ8_0);
  const auto type = [&](const char* name) { return file.find_tensor(name)->type; };
  EXPECT_EQ(type("blk.0.attn_q.weight.lora_a"), static_cast<uint32_t>(quant::Type::kQ8_0));
  EXPECT_EQ(type("blk.0.attn_q.weight.lora_b"), static_cast<uint32_t>(quant::Type::kF16));
}

// InternLM2 stores the queries, the key and the value of each group of heads in one matrix.
TEST_F(Adapter, PartsOfMatrixShareFirstHalf) {
  base.config["architectures"] = {"InternLM2ForCausalLM"};
  constexpr uint64_t kGroups = 2;
  constexpr uint64_t kGroupRows = 4 * kHeadLen;
  peft.tensors.clear();
  add("0.attention.wqkv", kGroups * kGroupRows, kWidth);
  const gguf::File file = make();
  EXPECT_EQ(file.require_string("general.architecture"), "internlm2");
  EXPECT_EQ(file.tensors().size(), 6u);
  const std::string joint = "0.attention.wqkv.lora_";
  for (const char* part : {"blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v"})
    EXPECT_EQ(numbers(file, std::string(part) + ".weight.lora_a"),
              expected(joint + "A.weight", kRank, kWidth));
  // Returns the source row of row `i`, for a head with rows in pairs.
  const auto paired = [](uint64_t i) { return i / 2 + i % 2 * (kHeadLen / 2); };
  const auto query = [&](uint64_t row) {
    const uint64_t head = row / kHeadLen;
    return head / 2 * kGroupRows + head % 2 * kHeadLen + paired(row % kHeadLen);
  };
  const auto key = [&](uint64_t row) {
    return row / kHeadLen * kGroupRows + 2 * kHeadLen + paired(row % kHeadLen);
  };
  const auto value = [](uint64_t row) {
    return row / kHeadLen * kGroupRows + 3 * kHeadLen + row % kHeadLen;
  };
  const std::string second = joint + "B.weight";
  EXPECT_EQ(numbers(file, "blk.0.attn_q.weight.lora_b"), expected(second, kWidth, kRank, query));
  EXPECT_EQ(numbers(file, "blk.0.attn_k.weight.lora_b"),
            expected(second, kGroups * kHeadLen, kRank, key));
  EXPECT_EQ(numbers(file, "blk.0.attn_v.weight.lora_b"),
            expected(second, kGroups * kHeadLen, kRank, value));
}

TEST_F(Adapter, StacksExperts) {
  base.config["architectures"] = {"MixtralForCausalLM"};
  base.config["num_local_experts"] = 3;
  peft.tensors.clear();
  for (const char* expert : {"0", "1", "2"})
    add(std::string("1.block_sparse_moe.experts.") + expert + ".w2", kWidth, 48);
  const gguf::File file = make();
  const gguf::TensorInfo* second = file.find_tensor("blk.1.ffn_down_exps.weight.lora_b");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->shape, (std::array<uint64_t, 4>{kRank, kWidth, 3, 1}));
  std::vector<float> all;
  for (const char* expert : {"0", "1", "2"}) {
    const auto own = expected(
        std::string("1.block_sparse_moe.experts.") + expert + ".w2.lora_B.weight", kWidth, kRank);
    all.insert(all.end(), own.begin(), own.end());
  }
  EXPECT_EQ(numbers(file, "blk.1.ffn_down_exps.weight.lora_b"), all);
}

TEST_F(Adapter, ScalesPairsWithOtherAlpha) {
  settings["alpha_pattern"] = Json{{"mlp.down_proj", 3}};
  const gguf::File file = make();
  EXPECT_EQ(gguf::as_float(*file.find("adapter.lora.alpha")), 6);
  const auto same = [](uint64_t row) { return row; };
  EXPECT_EQ(numbers(file, "blk.1.ffn_down.weight.lora_b"),
            expected("1.mlp.down_proj.lora_B.weight", kWidth, kRank, same, 0.5f));
  settings.erase("alpha_pattern");
  settings["use_rslora"] = true;
  EXPECT_EQ(gguf::as_float(*make().find("adapter.lora.alpha")), 12) << "6 times the root of 4";
}

// peft uses the first name that matches, in the order of the file.
TEST_F(Adapter, FirstNameThatMatchesDecidesAlpha) {
  peft.tensors.clear();
  for (const char* module : {"0.self_attn.v_proj", "1.self_attn.v_proj"})
    add(module, kWidth / 2, kWidth);
  settings["lora_alpha"] = 8;
  settings["alpha_pattern"] = Json{{"layers.0.self_attn.v_proj", 32}, {"v_proj", 16}};
  const auto same = [](uint64_t row) { return row; };
  const auto expect_factors = [&](float first, float second) {
    const gguf::File file = make();
    const auto alpha = static_cast<float>(*gguf::as_float(*file.find("adapter.lora.alpha")));
    const auto expect_factor = [&](const std::string& layer, float factor) {
      EXPECT_EQ(numbers(file, "blk." + layer + ".attn_v.weight.lora_b"),
                expected(layer + ".self_attn.v_proj.lora_B.weight", kWidth / 2, kRank, same,
                         factor / alpha))
          << layer;
    };
    expect_factor("0", first);
    expect_factor("1", second);
  };
  expect_factors(32, 16);
  settings["alpha_pattern"] = Json{{"v_proj", 16}, {"layers.0.self_attn.v_proj", 32}};
  expect_factors(16, 16);
  settings["alpha_pattern"] = Json{{"self_attn.v_proj", 32}, {"0.self_attn.v_proj", 16}};
  expect_factors(32, 32);
}

TEST_F(Adapter, NamesSettingThatGgufCannotExpress) {
  const Json good = settings;
  const auto expect_refused = [&](const char* field, const Json& value, const char* why) {
    settings = good;
    settings[field] = value;
    EXPECT_NE(refusal().find(why), std::string::npos) << field << ": " << refusal();
  };
  expect_refused("use_dora", true, "\"use_dora\": DoRA cannot be converted");
  expect_refused("modules_to_save", Json{"lm_head"}, "\"modules_to_save\": modules that are kept");
  expect_refused("alora_invocation_tokens", Json{1}, "(aLoRA) cannot be converted");
  expect_refused("bias", "all", "\"bias\": 'all'");
  expect_refused("bias", "a\nb", "\"bias\": 'a b'");
  expect_refused("peft_type", "IA3", "\"peft_type\": 'IA3' is not supported");
  expect_refused("lora_alpha", nullptr, "\"lora_alpha\"");
  expect_refused("lora_alpha", 0, "changes nothing");
  expect_refused("lora_alpha", 1e300, "at most a million");
  expect_refused("alpha_pattern", Json{{".*proj", 1}}, "a regular expression is not supported");
  expect_refused("fan_in_fan_out", true, "does not store turned");
}

TEST_F(Adapter, NamesTensorThatDoesNotFit) {
  const SampleTensors good = peft.tensors;
  const auto expect_refused = [&](const std::string& name, const SampleTensor& tensor,
                                  const char* why) {
    peft.tensors = good;
    peft.tensors[kLayer + name] = tensor;
    EXPECT_NE(refusal().find(why), std::string::npos) << name << ": " << refusal();
  };
  expect_refused("1.mlp.up_proj.lora_A.weight", {{kRank, kWidth}, "F32"},
                 "is present, but the other half of its pair is missing");
  expect_refused("1.mlp.down_proj.lora_B.weight", {{kWidth, 5}, "F32"}, "does not fit");
  expect_refused("1.mlp.down_proj.lora_A.weight", {{kRank, 4, 12}, "F32"}, "is not a matrix");
  expect_refused("1.mlp.down_proj.weight", {{kWidth, 48}, "F32"}, "is not half of a LoRA pair");
  expect_refused("1.mlp.down_proj.lora_magnitude_vector", {{kWidth}, "F32"}, "is not half");
  expect_refused("0.self_attn.q_proj.lora_B.weight", {{30, kRank}, "F32"},
                 "does not have the shape");
  peft.tensors = good;
  add("1.mlp.other_proj", kWidth, kWidth);
  EXPECT_NE(
      refusal().find("changes a matrix that the GGUF file of a LlamaForCausalLM does not have"),
      std::string::npos);
  peft.tensors.clear();
  peft.tensors["base_model.model.model.embed_tokens.lora_embedding_A"] = {{kRank, 20}, "F32"};
  EXPECT_NE(refusal().find("changes a table of tokens"), std::string::npos);
}

// The keys of a GGUF file replace config.json.
TEST_F(Adapter, UsesKeysOfBaseGgufFile) {
  make();
  const std::vector<std::byte> expected = bytes;
  gguf::Writer writer;
  writer.set_string("general.architecture", "llama");
  writer.set_uint("llama.block_count", 2);
  writer.set_uint("llama.embedding_length", kWidth);
  writer.set_uint("llama.attention.head_count", kHeads);
  writer.set_uint("llama.attention.head_count_kv", 2);
  writer.set_uint("llama.feed_forward_length", 48);
  const auto made_by = [&](const gguf::Writer& keys, double scale = 1.0) {
    const std::vector<std::byte> base_bytes = keys.to_bytes();
    bytes.clear();
    convert_adapter(peft.files(), gguf::File::parse(base_bytes, "base.gguf"),
                    {.name = "a", .weight_type = quant::Type::kF32, .adapter_scale = scale}, {},
                    [&](std::span<const std::byte> piece) {
                      bytes.insert(bytes.end(), piece.begin(), piece.end());
                    });
    return bytes;
  };
  EXPECT_EQ(made_by(writer), expected);
  made_by(writer, -0.5);
  const gguf::File scaled = gguf::File::parse(bytes, "scaled.gguf");
  EXPECT_EQ(gguf::as_float(*scaled.find("adapter.lora.alpha")), -3);
  const auto refusal_of = [&](const gguf::Writer& keys) -> std::string {
    try {
      made_by(keys);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  writer.set_string("general.architecture", "bert");
  EXPECT_NE(refusal_of(writer).find("\"bert\" cannot be converted"), std::string::npos);
  writer.set_string("general.architecture", "llama");
  writer.set_string("llama.attention.head_count", "x");
  EXPECT_NE(refusal_of(writer).find("llama.attention.head_count"), std::string::npos);
  gguf::Writer bare;
  bare.set_string("general.architecture", "llama");
  EXPECT_NE(refusal_of(bare).find("with only its base's GGUF file"), std::string::npos)
      << refusal_of(bare);
}

TEST_F(Adapter, RefusesBaseThatIsNotLanguageModel) {
  base.config["architectures"] = {"BertModel"};
  EXPECT_NE(refusal().find("is not a supported language model (BertModel)"), std::string::npos);
}

}  // namespace
}  // namespace billow::convert
