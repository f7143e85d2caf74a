#include "convert/encoder_file.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "convert/encoder_config.h"
#include "convert/encoder_tensors.h"
#include "convert/vocabulary.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow::convert {
namespace {

void write_sizes(gguf::Writer& writer, const EncoderConfig& config) {
  const std::string prefix = std::string(config.family->architecture) + ".";
  writer.set_uint(prefix + "block_count", config.n_layers);
  writer.set_uint(prefix + "context_length", config.n_context);
  writer.set_uint(prefix + "embedding_length", config.n_embd);
  writer.set_uint(prefix + "feed_forward_length", config.n_feed_forward);
  writer.set_uint(prefix + "attention.head_count", config.n_heads);
  if (config.n_kv_heads != 0)
    writer.set_uint(prefix + "attention.head_count_kv", config.n_kv_heads);
  if (config.head_len != 0) {
    writer.set_uint(prefix + "attention.key_length", config.head_len);
    writer.set_uint(prefix + "attention.value_length", config.head_len);
  }
  writer.set_float(prefix + (config.norms_by_root ? "attention.layer_norm_rms_epsilon"
                                                  : "attention.layer_norm_epsilon"),
                   static_cast<float>(config.norm_epsilon));
  writer.set_bool(prefix + "attention.causal", false);
  if (config.rope_base)
    writer.set_float(prefix + "rope.freq_base", static_cast<float>(*config.rope_base));
  if (config.local_rope_base)
    writer.set_float(prefix + "rope.freq_base_swa", static_cast<float>(*config.local_rope_base));
  if (config.scales_no_rope) writer.set_string(prefix + "rope.scaling.type", "none");
  if (config.window != 0) {
    writer.set_uint(prefix + "attention.sliding_window", config.window);
    writer.set_uint(prefix + "attention.sliding_window_pattern", config.window_period);
  }
  if (config.n_experts != 0) {
    writer.set_uint(prefix + "moe_every_n_layers", config.experts_period);
    writer.set_uint(prefix + "expert_count", config.n_experts);
    writer.set_uint(prefix + "expert_used_count", config.n_used_experts);
  }
  if (!config.activation.empty())
    writer.set_string(prefix + "hidden_activation", config.activation);
  if (config.n_words != 0) writer.set_uint(prefix + "vocab_size", config.n_words);
  if (config.classifier_pooling)
    writer.set_uint(prefix + "classifier.pooling_type",
                    static_cast<uint32_t>(*config.classifier_pooling));
  const Layout layout = config.family->layout;
  if (layout == Layout::kModern || layout == Layout::kEuro) return;
  const bool has_no_types = layout == Layout::kDistil || layout == Layout::kNeo;
  writer.set_uint("tokenizer.ggml.token_type_count", has_no_types ? 1 : config.n_token_types);
}

void write_pooling(gguf::Writer& writer, const EncoderConfig& config, const Sources& sources,
                   const Weights& weights, const Listener& listener) {
  const std::string prefix = std::string(config.family->architecture) + ".";
  const PoolingChoice choice = read_pooling(sources, *config.family);
  if (choice.is_guess && listener.note) {
    listener.note("no file defines the pooling: using the mean");
  }
  writer.set_uint(prefix + "pooling_type", static_cast<uint32_t>(choice.pooling));
  if (choice.pooling != Pooling::kRank) return;
  std::vector<std::string> labels = config.labels;
  const size_t n = n_classes(config, weights);
  if (labels.size() != n) labels.clear();
  for (size_t i = labels.size(); i < n; ++i) labels.push_back("LABEL_" + std::to_string(i));
  writer.set_strings(prefix + "classifier.output_labels", labels);
}

// Notes a shorter text limit of the model's own library. The GGUF file has no such limit; the
// client chooses how to shorten texts.
void note_cut(const Sources& sources, const EncoderConfig& config, const Listener& listener) {
  constexpr const char* kFile = "sentence_bert_config.json";
  const auto document = sources.document(kFile);
  if (!document || !listener.note) return;
  const auto max = DocumentFields(*document, kFile).count("max_seq_length");
  if (!max || *max >= config.n_context) return;
  listener.note("the model's own library limits texts to " + std::to_string(*max) +
                " tokens; this file allows " + std::to_string(config.n_context));
}

// Checks that Billow can read the vocabulary, before hours of work on the weights.
void check_metadata(const gguf::Writer& writer, const Vocabulary& vocabulary) {
  const std::vector<std::byte> bytes = writer.to_bytes();
  const auto reader = tokenizer::Tokenizer::load(gguf::File::parse(bytes, "converted"));
  const auto ids = reader.encode("a");
  const SpecialTokens& special = vocabulary.special;
  const auto is = [](tokenizer::TokenId id, std::optional<uint32_t> wanted) {
    return wanted && id == static_cast<tokenizer::TokenId>(*wanted);
  };
  const bool begins =
      !special.adds_bos.value_or(false) ||
      (!ids.empty() && (is(ids.front(), special.bos) || is(ids.front(), special.cls)));
  const bool ends =
      !special.adds_eos.value_or(false) ||
      (ids.size() > 1 && (is(ids.back(), special.eos) || is(ids.back(), special.separator)));
  if (!begins || !ends) {
    throw Error(ErrorCode::kUnsupported,
                "tokenizer.json: texts would not get the tokens that begin and end them");
  }
}

// Notes dropped task adapters. GGUF stores adapters in separate files.
void note_adapters(const Weights& weights, const Listener& listener) {
  const auto left = weights.left();
  const auto n =
      std::ranges::count_if(left, [](const std::string& name) { return is_of_adapter(name); });
  if (n == 0 || !listener.note) return;
  listener.note("the adapters for single tasks (" + std::to_string(n) +
                " tensors) are left out: vectors are those of the model without one");
}

}  // namespace

std::vector<PlannedTensor> describe_encoder(const Sources& sources, Weights& weights,
                                            const Listener& listener, gguf::Writer& writer) {
  const EncoderConfig config = read_encoder_config(sources);
  std::vector<PlannedTensor> plan = plan_encoder(config, weights);
  const Vocabulary vocabulary = read_vocabulary(sources, n_vocabulary(config, weights));
  writer.set_string("general.architecture", config.family->architecture);
  write_sizes(writer, config);
  write_pooling(writer, config, sources, weights, listener);
  vocabulary.write(writer);
  check_metadata(writer, vocabulary);
  note_cut(sources, config, listener);
  note_adapters(weights, listener);
  return plan;
}

}  // namespace billow::convert
