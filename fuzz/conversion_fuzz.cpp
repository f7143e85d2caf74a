// Parses any bytes as a file of an untrusted model or adapter. The conversion fails with an Error
// of one line, or makes a readable GGUF file. The first byte selects the file; the other files of
// the model are small and valid.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "convert/convert.h"
#include "convert/sample_model.h"
#include "gguf/file.h"

namespace {

using namespace billow;
using convert::SampleModel;

constexpr uint64_t kWidth = SampleModel::kWidth;
constexpr uint64_t kFeedForward = SampleModel::kFeedForward;
constexpr uint64_t kTokens = 4;
constexpr uint64_t kRank = 2;

void make_model(SampleModel& model) {
  for (const char* name : {"model.embed_tokens", "lm_head"})
    model.linear(name, kTokens, kWidth, false);
  model.tensors["model.norm.weight"] = {{kWidth}, "F32"};
  const std::string layer = "model.layers.0.";
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
    model.tensors[layer + norm + ".weight"] = {{kWidth}, "F32"};
  for (const char* part : {"q_proj", "k_proj", "v_proj", "o_proj"})
    model.linear(layer + "self_attn." + part, kWidth, kWidth, false);
  for (const char* part : {"gate_proj", "up_proj"})
    model.linear(layer + "mlp." + part, kFeedForward, kWidth, false);
  model.linear(layer + "mlp.down_proj", kWidth, kFeedForward, false);
  model.config = Json{{"architectures", {"LlamaForCausalLM"}},
                      {"hidden_size", kWidth},
                      {"num_hidden_layers", 1},
                      {"num_attention_heads", 4},
                      {"intermediate_size", kFeedForward},
                      {"max_position_embeddings", 64},
                      {"rms_norm_eps", 1e-5},
                      {"vocab_size", kTokens}};
  model.tokenizer = Json::parse(
      R"({"added_tokens":[{"id":3,"content":"<|end|>","special":true}],
          "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
          "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})");
}

// Adds a part for pictures: one layer of SigLIP, and Gemma 3's projector.
void add_pictures(SampleModel& model) {
  const std::string tower = "vision_tower.vision_model.";
  const std::string layer = tower + "encoder.layers.0.";
  model.tensors[tower + "embeddings.patch_embedding.weight"] = {{kWidth, 3, 2, 2}, "F32"};
  model.linear(tower + "embeddings.position_embedding", 16, kWidth, false);
  for (const char* part : {"q_proj", "k_proj", "v_proj", "out_proj"})
    model.linear(layer + "self_attn." + part, kWidth, kWidth);
  model.linear(layer + "mlp.fc1", kFeedForward, kWidth);
  model.linear(layer + "mlp.fc2", kWidth, kFeedForward);
  model.norm(layer + "layer_norm1");
  model.norm(layer + "layer_norm2");
  model.norm(tower + "post_layernorm");
  model.tensors["multi_modal_projector.mm_input_projection_weight"] = {{kWidth, kWidth}, "F32"};
  model.tensors["multi_modal_projector.mm_soft_emb_norm.weight"] = {{kWidth}, "F32"};
  model.config["architectures"] = {"Gemma3ForConditionalGeneration"};
  model.config["mm_tokens_per_image"] = 4;
  model.config["vision_config"] = {{"hidden_size", kWidth},  {"intermediate_size", kFeedForward},
                                   {"num_hidden_layers", 1}, {"num_attention_heads", 4},
                                   {"image_size", 8},        {"patch_size", 2}};
  model.texts["preprocessor_config.json"] =
      R"({"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5]})";
}

void make_adapter(SampleModel& adapter) {
  const std::string module = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  adapter.tensors[module + "A.weight"] = {{kRank, kWidth}, "F32"};
  adapter.tensors[module + "B.weight"] = {{kWidth, kRank}, "F32"};
  adapter.texts["adapter_config.json"] = R"({"peft_type":"LORA","r":2,"lora_alpha":4})";
}

// Parses lines of a name, a number of rows and a number of columns.
convert::SampleTensors tensors_of(const std::string& lines) {
  constexpr uint64_t kMaxSize = 96;
  convert::SampleTensors tensors;
  std::istringstream in(lines);
  std::string name;
  uint64_t n_rows = 0;
  uint64_t n_columns = 0;
  while (in >> name >> n_rows >> n_columns) {
    const bool is_ascii = std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
    if (is_ascii) tensors[name] = {{n_rows % kMaxSize, n_columns % kMaxSize}, "F32"};
  }
  return tensors;
}

template <typename Convert>
void attempt(Convert convert) {
  std::vector<std::byte> file;
  const auto sink = [&](std::span<const std::byte> piece) {
    file.insert(file.end(), piece.begin(), piece.end());
  };
  try {
    convert(sink);
  } catch (const Error& error) {
    const std::string_view what = error.what();
    BILLOW_CHECK(!what.empty() && what.find('\n') == std::string_view::npos);
    return;
  }
  gguf::File::parse(file, "fuzz");
}

void attempt_projector(SampleModel& model) {
  const std::vector<convert::SourceFile> files = model.files();
  convert::Options options;
  options.part = convert::Part::kPictures;
  attempt([&](const auto& sink) { convert::convert(files, options, {}, sink); });
  try {
    convert::has_projector(files);
  } catch (const Error&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  enum Part : uint8_t {
    kModelConfig,
    kBaseConfig,
    kAdapterConfig,
    kAdapterTensors,
    kPicturesConfig,
    kPicturesTensors,
    kProcessor,
    kNewerProcessor,
    kParts
  };
  const auto part = static_cast<Part>(data[0] % kParts);
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  SampleModel model;
  make_model(model);
  if (part >= kPicturesConfig) {
    add_pictures(model);
    if (part == kPicturesConfig) model.texts["config.json"] = bytes;
    if (part == kPicturesTensors) model.tensors = tensors_of(bytes);
    if (part == kProcessor) model.texts["preprocessor_config.json"] = bytes;
    if (part == kNewerProcessor) model.texts["processor_config.json"] = bytes;
    attempt_projector(model);
    return 0;
  }
  if (part == kModelConfig || part == kBaseConfig) model.texts["config.json"] = bytes;
  if (part == kModelConfig) {
    attempt([&](const auto& sink) { convert::convert(model.files(), {}, {}, sink); });
    return 0;
  }
  model.tensors.clear();
  SampleModel adapter;
  make_adapter(adapter);
  if (part == kAdapterConfig) adapter.texts["adapter_config.json"] = bytes;
  if (part == kAdapterTensors) adapter.tensors = tensors_of(bytes);
  attempt([&](const auto& sink) {
    convert::convert_adapter(adapter.files(), model.files(), {}, {}, sink);
  });
  return 0;
}
