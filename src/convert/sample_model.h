// For tests: small models in Hugging Face's layout, with weights of a fixed pattern. Not
// thread-safe.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/json.h"
#include "base/test_folder.h"
#include "convert/convert.h"
#include "quant/half.h"

namespace billow::convert {

// A tensor of small multiples of 1/64, which every type can represent.
struct SampleTensor {
  std::vector<uint64_t> shape;
  std::string dtype = "F32";

  uint64_t n() const {
    uint64_t all = 1;
    for (const uint64_t size : shape) all *= size;
    return all;
  }
};

inline uint64_t sample_seed(std::string_view name) {
  uint64_t hash = 1469598103934665603u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

inline float sample_value(uint64_t seed, uint64_t i) {
  const uint64_t hash = (seed ^ i) * 1099511628211u;
  return (static_cast<float>((hash >> 40) % 127) - 63) / 64;
}

inline float sample_value(std::string_view name, uint64_t i) {
  return sample_value(sample_seed(name), i);
}

inline std::string sample_bytes(std::string_view name, const SampleTensor& tensor) {
  const uint64_t seed = sample_seed(name);
  const uint64_t n = tensor.n();
  std::string bytes;
  for (uint64_t i = 0; i < n; ++i) {
    const float value = sample_value(seed, i);
    const uint16_t half =
        tensor.dtype == "F16" ? quant::f32_to_f16(value) : quant::f32_to_bf16(value);
    const bool is_wide = tensor.dtype == "F32";
    const char* from =
        is_wide ? reinterpret_cast<const char*>(&value) : reinterpret_cast<const char*>(&half);
    if (tensor.dtype == "U8") {
      const auto code = static_cast<unsigned char>(std::abs(value) * 64 + 96);
      bytes.push_back(static_cast<char>(code));
    } else if (tensor.dtype == "I64") {
      bytes.append(8, '\1');
    } else {
      bytes.append(from, is_wide ? sizeof value : sizeof half);
    }
  }
  return bytes;
}

// Returns the bytes of a safetensors file with this header.
inline std::string with_header(const std::string& header, std::string_view data) {
  std::string bytes;
  for (size_t i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header.size() >> (8 * i) & 255));
  return bytes + header + std::string(data);
}

using SampleTensors = std::map<std::string, SampleTensor>;

inline std::string safetensors_bytes(const SampleTensors& tensors) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const std::string bytes = sample_bytes(name, tensor);
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  }
  return with_header(header.dump(), data);
}

// A model that tests can change, and its files.
class SampleModel {
 public:
  static constexpr uint64_t kWidth = 32, kFeedForward = 48, kLayers = 2;

  void linear(const std::string& name, uint64_t n_out, uint64_t n_in, bool has_bias = true) {
    tensors[name + ".weight"] = {{n_out, n_in}, "F32"};
    if (has_bias) tensors[name + ".bias"] = {{n_out}, "F32"};
  }
  void norm(const std::string& name) {
    tensors[name + ".weight"] = {{kWidth}, "F32"};
    tensors[name + ".bias"] = {{kWidth}, "F32"};
  }

  // Adds the tensors of BertModel and of models with the same structure. All names begin with
  // `prefix`.
  void add_bert(const std::string& prefix, uint64_t n_positions, uint64_t n_types) {
    const uint64_t n_tokens = config["vocab_size"];
    linear(prefix + "embeddings.word_embeddings", n_tokens, kWidth, false);
    linear(prefix + "embeddings.token_type_embeddings", n_types, kWidth, false);
    linear(prefix + "embeddings.position_embeddings", n_positions, kWidth, false);
    norm(prefix + "embeddings.LayerNorm");
    for (uint64_t i = 0; i < kLayers; ++i) {
      const std::string layer = prefix + "encoder.layer." + std::to_string(i);
      for (const char* part : {"query", "key", "value"}) {
        linear(layer + ".attention.self." + part, kWidth, kWidth);
      }
      linear(layer + ".attention.output.dense", kWidth, kWidth);
      norm(layer + ".attention.output.LayerNorm");
      linear(layer + ".intermediate.dense", kFeedForward, kWidth);
      linear(layer + ".output.dense", kWidth, kFeedForward);
      norm(layer + ".output.LayerNorm");
    }
    config.update(Json{{"hidden_size", kWidth},
                       {"num_hidden_layers", kLayers},
                       {"num_attention_heads", 4},
                       {"intermediate_size", kFeedForward},
                       {"hidden_act", "gelu"},
                       {"layer_norm_eps", 1e-5},
                       {"max_position_embeddings", n_positions},
                       {"type_vocab_size", n_types}});
  }

  void add_word_pieces() {
    tokenizer = Json::parse(R"({
      "added_tokens": [{"id": 0, "content": "[PAD]", "special": true},
                       {"id": 1, "content": "[UNK]", "special": true},
                       {"id": 2, "content": "[CLS]", "special": true},
                       {"id": 3, "content": "[SEP]", "special": true},
                       {"id": 4, "content": "[MASK]", "special": true}],
      "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                     "strip_accents": null, "lowercase": true},
      "pre_tokenizer": {"type": "BertPreTokenizer"},
      "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}},
                   {"SpecialToken": {"id": "[SEP]"}}],
        "pair": [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}},
                 {"SpecialToken": {"id": "[SEP]"}}, {"Sequence": {"id": "B"}},
                 {"SpecialToken": {"id": "[SEP]"}}]},
      "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "hello": 5,
                          "world": 6, "##s": 7, ",": 8, "cafe": 9, "#": 10}}})");
    config["vocab_size"] = 12;  // one row more than there are pieces
  }

  void add_unigram(const std::string& charsmap = "") {
    tokenizer = Json::parse(R"({
      "added_tokens": [{"id": 0, "content": "<s>", "special": true},
                       {"id": 1, "content": "<pad>", "special": true},
                       {"id": 2, "content": "</s>", "special": true},
                       {"id": 3, "content": "<unk>", "special": true},
                       {"id": 9, "content": "<mask>", "special": true, "lstrip": true}],
      "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": ""},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
      "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}]},
      "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}},
                   {"SpecialToken": {"id": "</s>"}}],
        "pair": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}},
                 {"SpecialToken": {"id": "</s>"}}, {"SpecialToken": {"id": "</s>"}},
                 {"Sequence": {"id": "B"}}, {"SpecialToken": {"id": "</s>"}}]},
      "model": {"type": "Unigram", "unk_id": 3, "vocab": [
        ["<s>", 0], ["<pad>", 0], ["</s>", 0], ["<unk>", 0], ["▁", -3], ["▁hello", -4.5],
        ["▁wor", -5], ["ld", -5], ["s", -2.25], ["<mask>", 0]]}})");
    tokenizer["normalizer"]["normalizers"][0]["precompiled_charsmap"] = base64_encoded(charsmap);
    config["vocab_size"] = 10;
  }

  void add_nomic() {
    const uint64_t n_tokens = config["vocab_size"];
    linear("embeddings.word_embeddings", n_tokens, kWidth, false);
    linear("embeddings.token_type_embeddings", 2, kWidth, false);
    norm("emb_ln");
    for (uint64_t i = 0; i < kLayers; ++i) {
      const std::string layer = "encoder.layers." + std::to_string(i);
      linear(layer + ".attn.Wqkv", 3 * kWidth, kWidth, false);
      linear(layer + ".attn.out_proj", kWidth, kWidth, false);
      linear(layer + ".mlp.fc11", kFeedForward, kWidth, false);
      linear(layer + ".mlp.fc12", kFeedForward, kWidth, false);
      linear(layer + ".mlp.fc2", kWidth, kFeedForward, false);
      norm(layer + ".norm1");
      norm(layer + ".norm2");
    }
    config.update(Json::parse(R"({"architectures": ["NomicBertModel"],
      "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 48, "n_positions": 8192,
      "max_trained_positions": 2048, "activation_function": "swiglu", "causal": false,
      "layer_norm_epsilon": 1e-12, "mlp_fc1_bias": false, "mlp_fc2_bias": false,
      "prenorm": false, "qkv_proj_bias": false, "rotary_emb_base": 1000,
      "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": false, "rotary_emb_scale_base": null,
      "type_vocab_size": 2})"));
  }

  void add_pooling(const std::string& description) {
    texts["modules.json"] = R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
      {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
      {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])";
    texts["1_Pooling/config.json"] = description;
  }

  // Writes all files. A text in `texts` replaces the generated file with the same name.
  std::vector<SourceFile> files() {
    std::map<std::string, std::string> all = texts;
    all.try_emplace("config.json", config.dump());
    if (!tokenizer.is_null()) all.try_emplace("tokenizer.json", tokenizer.dump());
    if (!tensors.empty()) all.try_emplace("model.safetensors", safetensors_bytes(tensors));
    std::vector<SourceFile> list;
    for (const auto& [name, bytes] : all) {
      const std::string path = folder_.file(std::to_string(list.size()));
      std::ofstream(path, std::ios::binary) << bytes;
      list.push_back({name, path});
    }
    return list;
  }

  Json config = Json::object();
  Json tokenizer;
  SampleTensors tensors;
  std::map<std::string, std::string> texts;

 private:
  TestFolder folder_;
};

// A BertModel with WordPiece and mean pooling.
inline void make_bert(SampleModel& model) {
  model.add_word_pieces();
  model.add_bert("", 16, 2);
  model.config["architectures"] = {"BertModel"};
  model.tensors["embeddings.position_ids"] = {{1, 16}, "I64"};
  model.linear("pooler.dense", SampleModel::kWidth, SampleModel::kWidth);
  model.add_pooling(R"({"word_embedding_dimension": 32, "pooling_mode_cls_token": false,
                        "pooling_mode_mean_tokens": true})");
}

}  // namespace billow::convert
