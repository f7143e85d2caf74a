#include "convert/language_file.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/error.h"
#include "convert/chat_templates.h"
#include "convert/language_tensors.h"
#include "convert/sampling_defaults.h"
#include "convert/vocabulary.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow::convert {
namespace {

// Writes keys of one architecture.
class ArchitectureKeys {
 public:
  ArchitectureKeys(gguf::Writer& writer, std::string_view architecture)
      : writer_(writer), architecture_(architecture) {}
  void set_uint(std::string_view key, uint32_t value) { writer_.set_uint(name(key), value); }
  void set_float(std::string_view key, double value) {
    writer_.set_float(name(key), static_cast<float>(value));
  }
  void set_string(std::string_view key, std::string_view value) {
    writer_.set_string(name(key), value);
  }

 private:
  std::string name(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }

  gguf::Writer& writer_;
  const std::string_view architecture_;
};

void write_sizes(const LanguageConfig& config, uint32_t n_tokens, gguf::Writer& writer) {
  ArchitectureKeys keys(writer, config.family->architecture);
  keys.set_uint("block_count", config.n_layers);
  keys.set_uint("context_length", config.n_context);
  keys.set_uint("embedding_length", config.n_embd);
  keys.set_uint("feed_forward_length", config.n_feed_forward);
  keys.set_uint("attention.head_count", config.n_heads);
  keys.set_uint("attention.head_count_kv", config.n_kv_heads);
  keys.set_float("attention.layer_norm_rms_epsilon", config.norm_epsilon);
  keys.set_uint("attention.key_length", config.head_len);
  keys.set_uint("attention.value_length", config.head_len);
  keys.set_float("rope.freq_base", config.rope_base);
  keys.set_uint("rope.dimension_count", config.head_len);
  keys.set_uint("vocab_size", n_tokens);
  if (config.rope.type.empty()) return;
  keys.set_string("rope.scaling.type", config.rope.type);
  keys.set_float("rope.scaling.factor", config.rope.factor);
  if (config.rope.original_context != 0)
    keys.set_uint("rope.scaling.original_context_length", config.rope.original_context);
}

// The vocabulary must be one that we can read, before hours of work are done on the weights.
void check_metadata(const gguf::Writer& writer) {
  const std::vector<std::byte> bytes = writer.to_bytes();
  const auto reader = tokenizer::Tokenizer::load(gguf::File::parse(bytes, "converted"));
  const std::string text = "a";
  if (reader.encode(text, {.add_special = false}).empty()) {
    throw Error(ErrorCode::kUnsupported,
                "tokenizer.json: its vocabulary has no token for a letter");
  }
}

}  // namespace

std::vector<PlannedTensor> describe_language_model(const Sources& sources,
                                                   const LanguageFamily& family, Weights& weights,
                                                   const Listener& listener, gguf::Writer& writer) {
  const LanguageConfig config = read_language_config(sources, family);
  const uint32_t n_tokens = n_language_tokens(weights);
  std::vector<PlannedTensor> plan = plan_language_model(config, weights);
  writer.set_string("general.architecture", family.architecture);
  write_sizes(config, n_tokens, writer);
  read_language_vocabulary(sources, n_tokens).write(writer);
  write_chat_templates(sources, writer);
  write_sampling_defaults(sources, writer);
  check_metadata(writer);
  if (config.window && listener.note) {
    listener.note(
        fmt::format("the model was trained with a window of {} positions; here each token "
                    "sees all before it",
                    *config.window));
  }
  return plan;
}

}  // namespace billow::convert
