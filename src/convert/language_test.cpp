#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "convert/convert.h"
#include "convert/sample_model.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow::convert {
namespace {

constexpr uint64_t kWidth = SampleModel::kWidth;
constexpr uint64_t kFeedForward = SampleModel::kFeedForward;
constexpr uint64_t kLayers = SampleModel::kLayers;
constexpr uint64_t kTokens = 20;
constexpr uint64_t kHeads = 4;
constexpr uint64_t kKvHeads = 2;
constexpr uint64_t kHeadLen = 8;

// Returns a byte-level vocabulary of a few letters.
Json sample_tokenizer() {
  return Json::parse(R"({
    "added_tokens": [{"id": 8, "content": "<|end|>", "special": true},
                     {"id": 9, "content": "<tool>", "special": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Digits", "individual_digits": true},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]},
    "post_processor": null,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġab": 4, "1": 5},
              "merges": ["a b", ["Ġ", "ab"]]}})");
}

void make_llama(SampleModel& model, const std::string& name = "LlamaForCausalLM") {
  const auto norm = [&](const std::string& tensor, uint64_t n) {
    model.tensors[tensor + ".weight"] = {{n}, "F32"};
  };
  model.linear("model.embed_tokens", kTokens, kWidth, false);
  for (uint64_t i = 0; i < kLayers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i);
    norm(layer + ".input_layernorm", kWidth);
    norm(layer + ".post_attention_layernorm", kWidth);
    const bool has_bias = name == "Qwen2ForCausalLM";
    model.linear(layer + ".self_attn.q_proj", kHeads * kHeadLen, kWidth, has_bias);
    model.linear(layer + ".self_attn.k_proj", kKvHeads * kHeadLen, kWidth, has_bias);
    model.linear(layer + ".self_attn.v_proj", kKvHeads * kHeadLen, kWidth, has_bias);
    model.linear(layer + ".self_attn.o_proj", kWidth, kHeads * kHeadLen, false);
    model.linear(layer + ".mlp.gate_proj", kFeedForward, kWidth, false);
    model.linear(layer + ".mlp.up_proj", kFeedForward, kWidth, false);
    model.linear(layer + ".mlp.down_proj", kWidth, kFeedForward, false);
    if (name != "Qwen3ForCausalLM") continue;
    norm(layer + ".self_attn.q_norm", kHeadLen);
    norm(layer + ".self_attn.k_norm", kHeadLen);
  }
  norm("model.norm", kWidth);
  model.linear("lm_head", kTokens, kWidth, false);
  model.config.update(Json{{"architectures", {name}},
                           {"hidden_size", kWidth},
                           {"num_hidden_layers", kLayers},
                           {"num_attention_heads", kHeads},
                           {"num_key_value_heads", kKvHeads},
                           {"intermediate_size", kFeedForward},
                           {"max_position_embeddings", 4096},
                           {"hidden_act", "silu"},
                           {"rms_norm_eps", 1e-5},
                           {"rope_theta", 50000.0}});
  model.tokenizer = sample_tokenizer();
  model.texts["tokenizer_config.json"] =
      R"({"eos_token": "<|end|>", "bos_token": null, "chat_template": "{{ messages }}"})";
}

class LanguageModel : public testing::Test {
 protected:
  gguf::File make(quant::Type type = quant::Type::kF32) {
    notes.clear();
    bytes.clear();
    convert(model.files(), {.name = "m", .weight_type = type},
            {.note = [&](const std::string& line) { notes.push_back(line); }, .progress = {}},
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

  // Returns the numbers of a source tensor with row `row_of(i)` at row i.
  std::vector<float> expected(const std::string& name,
                              const std::function<uint64_t(uint64_t)>& row_of) const {
    const SampleTensor& tensor = model.tensors.at(name);
    const uint64_t n_rows = tensor.shape[0];
    const uint64_t row_len = tensor.n() / n_rows;
    std::vector<float> values;
    for (uint64_t row = 0; row < n_rows; ++row)
      for (uint64_t i = 0; i < row_len; ++i)
        values.push_back(sample_value(name, row_of(row) * row_len + i));
    return values;
  }

  // Returns the source of row `row` in llama.cpp's converter: its permute() of a matrix of heads.
  static uint64_t paired(uint64_t row) {
    const uint64_t head = row / kHeadLen * kHeadLen;
    const uint64_t i = row % kHeadLen;
    return head + i / 2 + i % 2 * (kHeadLen / 2);
  }
  static uint64_t same(uint64_t row) { return row; }

  SampleModel model;
  std::vector<std::byte> bytes;
  std::vector<std::string> notes;
};

TEST_F(LanguageModel, LlamaPairsRowsOfHeads) {
  make_llama(model);
  const gguf::File file = make();
  EXPECT_EQ(file.require_string("general.architecture"), "llama");
  EXPECT_EQ(file.require_uint("llama.attention.head_count"), kHeads);
  EXPECT_EQ(file.require_uint("llama.attention.head_count_kv"), kKvHeads);
  EXPECT_EQ(file.require_uint("llama.rope.dimension_count"), kHeadLen);
  EXPECT_EQ(file.require_uint("llama.context_length"), 4096u);
  const std::string layer = "model.layers.1.self_attn.";
  EXPECT_EQ(numbers(file, "blk.1.attn_q.weight"), expected(layer + "q_proj.weight", paired));
  EXPECT_EQ(numbers(file, "blk.1.attn_k.weight"), expected(layer + "k_proj.weight", paired));
  EXPECT_EQ(numbers(file, "blk.1.attn_v.weight"), expected(layer + "v_proj.weight", same));
  EXPECT_EQ(numbers(file, "blk.1.attn_output.weight"), expected(layer + "o_proj.weight", same));
  EXPECT_EQ(numbers(file, "blk.0.ffn_norm.weight"),
            expected("model.layers.0.post_attention_layernorm.weight", same));
  EXPECT_EQ(numbers(file, "output.weight"), expected("lm_head.weight", same));
  EXPECT_EQ(numbers(file, "output_norm.weight"), expected("model.norm.weight", same));
  EXPECT_TRUE(notes.empty());
}

TEST_F(LanguageModel, QwenHasBiasesOrNormsAndKeepsItsRows) {
  make_llama(model, "Qwen2ForCausalLM");
  const gguf::File second = make();
  EXPECT_EQ(second.require_string("general.architecture"), "qwen2");
  EXPECT_EQ(numbers(second, "blk.0.attn_q.weight"),
            expected("model.layers.0.self_attn.q_proj.weight", same));
  EXPECT_EQ(numbers(second, "blk.1.attn_k.bias"),
            expected("model.layers.1.self_attn.k_proj.bias", same));
  SampleModel third;
  make_llama(third, "Qwen3ForCausalLM");
  model.tensors = third.tensors;
  model.config = third.config;
  const gguf::File file = make();
  EXPECT_EQ(file.require_string("general.architecture"), "qwen3");
  EXPECT_EQ(numbers(file, "blk.1.attn_q_norm.weight"),
            expected("model.layers.1.self_attn.q_norm.weight", same));
}

TEST_F(LanguageModel, DropsTiedOutput) {
  make_llama(model);
  model.tensors.erase("lm_head.weight");
  EXPECT_EQ(make().find_tensor("output.weight"), nullptr);
  make_llama(model);
  model.config["tie_word_embeddings"] = true;
  EXPECT_EQ(make().find_tensor("output.weight"), nullptr);
}

TEST_F(LanguageModel, MatricesHaveRequestedType) {
  make_llama(model);
  const gguf::File file = make(quant::Type::kQ8_0);
  const auto type = [&](const char* name) { return file.find_tensor(name)->type; };
  EXPECT_EQ(type("blk.0.attn_q.weight"), static_cast<uint32_t>(quant::Type::kQ8_0));
  EXPECT_EQ(type("token_embd.weight"), static_cast<uint32_t>(quant::Type::kQ8_0));
  EXPECT_EQ(type("blk.0.ffn_down.weight"), static_cast<uint32_t>(quant::Type::kF16)) << "48 wide";
  EXPECT_EQ(type("blk.0.attn_norm.weight"), static_cast<uint32_t>(quant::Type::kF32));
}

TEST_F(LanguageModel, VocabularySplitsTextsLikeItsOwnLibrary) {
  make_llama(model);
  const gguf::File file = make();
  EXPECT_EQ(file.require_string("tokenizer.ggml.pre"), "smollm");
  const auto tokenizer = tokenizer::Tokenizer::load(file);
  EXPECT_EQ(tokenizer.encode("ab ab11"), (std::vector<tokenizer::TokenId>{2, 4, 5, 5}));
  EXPECT_EQ(tokenizer.encode("a<|end|><tool>", {.parse_special = true}),
            (std::vector<tokenizer::TokenId>{0, 8, 9}));
  EXPECT_EQ(file.require_uint("tokenizer.ggml.eos_token_id"), 8u);
  EXPECT_EQ(file.find("tokenizer.ggml.bos_token_id"), nullptr);
  EXPECT_EQ(file.require_string("tokenizer.chat_template"), "{{ messages }}");
}

TEST_F(LanguageModel, PostProcessorDefinesFirstToken) {
  make_llama(model);
  model.texts["tokenizer_config.json"] = R"({"bos_token": {"content": "<|end|>"}})";
  model.tokenizer["post_processor"] = Json::parse(R"({"type": "Sequence", "processors": [
    {"type": "ByteLevel"},
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>"}},
                                              {"Sequence": {"id": "A"}}]}]})");
  const auto tokenizer = tokenizer::Tokenizer::load(make());
  EXPECT_EQ(tokenizer.encode("ab"), (std::vector<tokenizer::TokenId>{8, 2}));
}

TEST_F(LanguageModel, FindsPreTokenizerByExpression) {
  make_llama(model);
  const auto split = [](const std::string& digits) {
    Json step = Json::parse(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})");
    step["pretokenizers"][0]["pattern"]["Regex"] =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" + digits +
        R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    return step;
  };
  model.tokenizer["pre_tokenizer"] = split("{1,3}");
  EXPECT_EQ(make().require_string("tokenizer.ggml.pre"), "llama-bpe");
  model.tokenizer["pre_tokenizer"] = split("");
  model.tokenizer["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(make().require_string("tokenizer.ggml.pre"), "qwen2");
  model.tokenizer["pre_tokenizer"] = split("{1,2}");
  EXPECT_NE(refusal().find("splits texts in an unknown way"), std::string::npos);
}

TEST_F(LanguageModel, Llama31HasDivisorsOfItsFrequencies) {
  make_llama(model);
  model.config["rope_scaling"] = {{"rope_type", "llama3"},
                                  {"factor", 8.0},
                                  {"low_freq_factor", 1.0},
                                  {"high_freq_factor", 4.0},
                                  {"original_max_position_embeddings", 64}};
  const std::vector<float> divisors = numbers(make(), "rope_freqs.weight");
  ASSERT_EQ(divisors.size(), kHeadLen / 2);
  EXPECT_EQ(divisors.front(), 1) << "a pair with 10 rotations in the original context";
  EXPECT_EQ(divisors.back(), 8) << "a pair with less than one rotation";
}

TEST_F(LanguageModel, WritesOrRefusesOtherRotations) {
  make_llama(model);
  model.config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.5}};
  gguf::File file = make();
  EXPECT_EQ(file.require_string("llama.rope.scaling.type"), "linear");
  model.config["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}};
  file = make();
  EXPECT_EQ(file.require_uint("llama.rope.scaling.original_context_length"), 1024u);
  model.config["rope_scaling"] = {{"type", "dynamic"}, {"factor", 4.0}};
  EXPECT_NE(refusal().find("'dynamic' is not supported"), std::string::npos);
}

TEST_F(LanguageModel, NotesUnusedWindow) {
  make_llama(model, "MistralForCausalLM");
  model.config["sliding_window"] = 1024;
  make();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("a window of 1024 positions"), std::string::npos);
}

TEST_F(LanguageModel, ChatTemplatesMayHaveNamesOrAFile) {
  make_llama(model);
  model.texts["tokenizer_config.json"] =
      R"({"chat_template": [{"name": "default", "template": "d"},
                            {"name": "tool-use", "template": "t"}]})";
  model.texts["chat_template.jinja"] = "";
  const gguf::File named = make();
  EXPECT_EQ(named.require_string("tokenizer.chat_template"), "d");
  EXPECT_EQ(named.require_string("tokenizer.chat_template.tool_use"), "t");
  // transformers: "the file template clobbers any template in the config"
  model.texts["chat_template.jinja"] = "of the file";
  const gguf::File file = make();
  EXPECT_EQ(file.require_string("tokenizer.chat_template"), "of the file");
  EXPECT_EQ(file.find("tokenizer.chat_template.tool_use"), nullptr);
  model.texts["tokenizer_config.json"] = "{}";
  EXPECT_EQ(make().require_string("tokenizer.chat_template"), "of the file");
}

TEST_F(LanguageModel, EmbeddingModelHasPooling) {
  make_llama(model, "Qwen3ForCausalLM");
  model.add_pooling(R"({"pooling_mode_lasttoken": true})");
  EXPECT_EQ(make().get_uint("qwen3.pooling_type"), 3u);
  model.add_pooling(R"({"pooling_mode_max_tokens": true})");
  EXPECT_NE(refusal().find("pooling by max is not supported"), std::string::npos);
}

TEST_F(LanguageModel, RerankerHasRowsOfYesAndNo) {
  for (const bool is_tied : {false, true}) {
    make_llama(model, "Qwen3ForCausalLM");
    model.config["tie_word_embeddings"] = is_tied;
    model.config["_name_or_path"] = "Qwen/Qwen3-Reranker-0.6B";
    model.tokenizer["model"]["vocab"]["yes"] = 6;
    model.tokenizer["model"]["vocab"]["no"] = 7;
    const gguf::File file = make();
    const std::string head = is_tied ? "model.embed_tokens.weight" : "lm_head.weight";
    const std::vector<float> rows = numbers(file, "cls.output.weight");
    ASSERT_EQ(rows.size(), 2 * kWidth);
    EXPECT_EQ(rows[0], sample_value(head, 6 * kWidth));
    EXPECT_EQ(rows[kWidth], sample_value(head, 7 * kWidth));
    EXPECT_EQ(file.find_tensor("output.weight"), nullptr);
    EXPECT_EQ(file.get_uint("qwen3.pooling_type"), 4u);
    EXPECT_NE(file.require_string("tokenizer.chat_template.rerank").find("<Query>: {query}"),
              std::string_view::npos);
  }
  model.tokenizer["model"]["vocab"].erase("yes");
  EXPECT_NE(refusal().find("has no token 'yes'"), std::string::npos);
}

TEST_F(LanguageModel, NamesWhatCannotBeConverted) {
  const struct {
    std::function<void(SampleModel&)> change;
    std::string part;
  } cases[] = {
      {[](SampleModel& m) { m.tensors.erase("model.norm.weight"); },
       "the tensor that becomes 'output_norm.weight' is missing"},
      {[](SampleModel& m) { m.tensors.erase("model.layers.1.input_layernorm.weight"); },
       "the tensor that becomes 'blk.1.attn_norm.weight' is missing"},
      {[](SampleModel& m) { m.tensors.erase("model.layers.1.mlp.up_proj.weight"); },
       "the tensor that becomes 'blk.1.ffn_up.weight' is missing"},
      {[](SampleModel& m) { m.config["num_hidden_layers"] = 3; },
       "there is no tensor of layer 2, but config.json says that there are 3 layers"},
      {[](SampleModel& m) { m.tensors["model.norm.weight"].shape = {3}; },
       "the tensor that becomes 'output_norm.weight' is not as wide as the model, 32"},
      {[](SampleModel& m) { m.tensors["model.layers.0.self_attn.q_proj.weight"].shape = {9, 32}; },
       "tensor 'model.layers.0.self_attn.q_proj.weight' does not have the shape"},
      {[](SampleModel& m) { m.tensors["model.layers.0.odd.weight"] = {{3}, "F32"}; },
       "tensor 'model.layers.0.odd.weight' has no known use in a LlamaForCausalLM"},
      {[](SampleModel& m) { m.config["num_key_value_heads"] = 3; }, "\"num_key_value_heads\""},
      {[](SampleModel& m) {
         m.config.update({{"num_attention_heads", 3}, {"num_key_value_heads", 3}});
       },
       "\"num_attention_heads\""},
      {[](SampleModel& m) { m.config["head_dim"] = 7; }, "\"head_dim\" must be even"},
      {[](SampleModel& m) { m.config["num_hidden_layers"] = 100000; }, "more than 1024"},
      {[](SampleModel& m) { m.config["hidden_act"] = "gelu"; }, "\"hidden_act\": 'gelu'"},
      {[](SampleModel& m) { m.config["rms_norm_eps"] = -1; }, "\"rms_norm_eps\""},
      {[](SampleModel& m) { m.config["quantization_config"] = {{"quant_method", "awq"}}; },
       "quantised by 'awq'"},
      {[](SampleModel& m) { m.tokenizer = nullptr; }, "there is no vocabulary"},
      {[](SampleModel& m) { m.tokenizer["model"]["byte_fallback"] = true; },
       "the step 'Digits' is not supported"},
      {[](SampleModel& m) { m.tokenizer["model"]["type"] = "WordPiece"; }, "'WordPiece'"},
      {[](SampleModel& m) { m.tokenizer["normalizer"] = {{"type", "Lowercase"}}; }, "'Lowercase'"},
      {[](SampleModel& m) { m.tokenizer["model"]["vocab"]["x"] = 99; }, "token 99 has no row"},
      {[](SampleModel& m) { m.tokenizer["post_processor"] = {{"type", "Odd"}}; }, "'Odd'"},
      {[](SampleModel& m) { m.texts["tokenizer_config.json"] = R"({"chat_template": 3})"; },
       "\"chat_template\""},
  };
  for (const auto& test : cases) {
    model.texts.clear();
    model.tensors.clear();
    model.config = Json::object();
    make_llama(model);
    test.change(model);
    EXPECT_NE(refusal().find(test.part), std::string::npos) << test.part << ": " << refusal();
  }
}

}  // namespace
}  // namespace billow::convert
