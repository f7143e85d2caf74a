// Parses any bytes as a file of an untrusted model or adapter. The conversion fails with an Error
// of one line, or makes a readable GGUF file. The first byte selects the file; the other files of
// the model are small and valid.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/test_folder.h"
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
constexpr const char* kTensors = "model.safetensors";

void make_text_model(SampleModel& model) {
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

// Makes a model with a part for pictures: one layer of SigLIP, and Gemma 3's projector. It has no
// tensors for text, because the conversion of pictures skips them.
void make_pictures_model(SampleModel& model) {
  make_text_model(model);
  model.tensors.clear();
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

// Makes a base model of adapters. Only its texts are read.
void make_base(SampleModel& model) {
  make_text_model(model);
  model.tensors.clear();
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

using Files = std::vector<convert::SourceFile>;

// The files of a model that all runs share. They exist as long as the program.
class SharedModel {
 public:
  explicit SharedModel(void (*make)(SampleModel&)) {
    make(model_);
    files_ = model_.files();
  }

  // Returns the files of the model. `bytes` replace the file `name`, until the next call.
  Files with(const std::string& name, std::string_view bytes) const {
    static const TestFolder folder;
    const std::string path = folder.file("input");
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    Files files = files_;
    std::erase_if(files, [&](const convert::SourceFile& file) { return file.name == name; });
    files.push_back({name, path});
    return files;
  }
  const Files& files() const { return files_; }

 private:
  SampleModel model_;
  Files files_;
};

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

void attempt_model(const Files& files) {
  attempt([&](const auto& sink) { convert::convert(files, {}, {}, sink); });
}

void attempt_projector(const Files& files) {
  convert::Options options;
  options.part = convert::Part::kPictures;
  attempt([&](const auto& sink) { convert::convert(files, options, {}, sink); });
  try {
    convert::has_projector(files);
  } catch (const Error&) {
    return;
  }
}

void attempt_adapter(const Files& adapter, const Files& base) {
  attempt([&](const auto& sink) { convert::convert_adapter(adapter, base, {}, {}, sink); });
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
  static const SharedModel model(make_text_model);
  static const SharedModel base(make_base);
  static const SharedModel pictures(make_pictures_model);
  static const SharedModel adapter(make_adapter);
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % kParts) {
    case kModelConfig:
      attempt_model(model.with("config.json", bytes));
      break;
    case kBaseConfig:
      attempt_adapter(adapter.files(), base.with("config.json", bytes));
      break;
    case kAdapterConfig:
      attempt_adapter(adapter.with("adapter_config.json", bytes), base.files());
      break;
    case kAdapterTensors:
      attempt_adapter(adapter.with(kTensors, convert::safetensors_bytes(tensors_of(bytes))),
                      base.files());
      break;
    case kPicturesConfig:
      attempt_projector(pictures.with("config.json", bytes));
      break;
    case kPicturesTensors:
      attempt_projector(pictures.with(kTensors, convert::safetensors_bytes(tensors_of(bytes))));
      break;
    case kProcessor:
      attempt_projector(pictures.with("preprocessor_config.json", bytes));
      break;
    case kNewerProcessor:
      attempt_projector(pictures.with("processor_config.json", bytes));
      break;
    default:
      break;
  }
  return 0;
}
