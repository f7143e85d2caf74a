#include "convert/language_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "convert/chat_templates.h"
#include "convert/families/keys.h"
#include "convert/language_tensors.h"
#include "convert/sampling_defaults.h"
#include "convert/vocabulary.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow::convert {
namespace {

void check_activation(const LanguageFamily& family, const ModelConfig& config) {
  const auto name =
      config.text({"hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act"});
  if (!name || family.activations.empty()) return;
  const std::string all = fmt::format(" {} ", family.activations);
  if (all.find(fmt::format(" {} ", *name)) != std::string::npos) return;
  config.refuse_unknown(
      fmt::format("\"hidden_act\": '{}' is not supported (known: {})", *name, family.activations));
}

// Checks that Billow can read the vocabulary, before hours of work on the weights.
void check_metadata(const gguf::Writer& writer) {
  const std::vector<std::byte> bytes = writer.to_bytes();
  const auto reader = tokenizer::Tokenizer::load(gguf::File::parse(bytes, "converted"));
  const std::string text = "a";
  if (reader.encode(text, {.add_special = false}).empty()) {
    throw Error(ErrorCode::kUnsupported,
                "tokenizer.json: its vocabulary has no token for a letter");
  }
}

// Adds the tensors that are computed from config.json, before all others.
void add_computed(const LanguageModel& model, const LanguageFamily& family, KeyWriter& keys,
                  std::vector<PlannedTensor>& plan) {
  std::vector<ComputedTensor> tensors;
  if (family.computed != nullptr) tensors = family.computed(model, keys);
  if (std::vector<float> divisors = llama3_divisors(model.config); !divisors.empty())
    tensors.push_back({"rope_freqs.weight", std::move(divisors)});
  for (ComputedTensor& tensor : tensors) {
    PlannedTensor planned;
    planned.name = std::move(tensor.name);
    planned.n_rows = 1;
    planned.row_len = tensor.values.size();
    planned.values = std::move(tensor.values);
    plan.insert(plan.begin(), std::move(planned));
  }
}

uint32_t n_tokens_of(const std::vector<PlannedTensor>& plan) {
  const auto table = std::ranges::find(plan, "token_embd.weight", &PlannedTensor::name);
  if (table == plan.end() || table->shape.size() != 2 || table->shape[1] > INT32_MAX) {
    throw Error(ErrorCode::kInvalidInput, "the token table is not a matrix");
  }
  return static_cast<uint32_t>(table->shape[1]);
}

void note_losses(const LanguagePlan& plan, const LanguageFamily& family, const ModelConfig& config,
                 const LanguageTarget& target) {
  const Listener& listener = target.listener;
  if (!listener.note) return;
  if (plan.n_of_pictures > 0 && target.notes_pictures) {
    listener.note(
        fmt::format("the part for pictures is left out ({} tensors)", plan.n_of_pictures));
  }
  if (plan.n_of_sounds > 0) {
    listener.note(fmt::format("the part for sounds is left out ({} tensors)", plan.n_of_sounds));
  }
  if (plan.n_left_predicting > 0) {
    listener.note(fmt::format("the block that predicts further tokens is left out ({} tensors)",
                              plan.n_left_predicting));
  }
  // GGUF files of these architectures have no window.
  const auto window = config.count({"sliding_window"});
  const auto n_context = config.count({"max_position_embeddings"});
  const bool is_used = config.flag("use_sliding_window", family.architecture == "llama");
  const bool knows_none = family.architecture == "llama" || family.architecture == "qwen2" ||
                          family.architecture == "qwen3";
  if (knows_none && is_used && window && n_context && *window != 0 && *window < *n_context) {
    listener.note(
        fmt::format("the model was trained with a window of {} positions; here each "
                    "token sees all before it",
                    *window));
  }
}

}  // namespace

const LanguageFamily* find_language_family(const Sources& sources) {
  const ModelConfig config(sources);
  const LanguageFamily* family = find_language_family(config.class_name());
  if (family == nullptr && has_any_text_part(config.whole_class_name())) {
    const std::string type = config.text({"model_type"}).value_or("");
    family = find_text_family(type);
    if (family == nullptr) {
      config.refuse_unknown(fmt::format("the text part of the type '{}' is not supported in a {}",
                                        type, config.whole_class_name()));
    }
  }
  return family == nullptr || family->actual == nullptr ? family : &family->actual(config);
}

std::vector<PlannedTensor> describe_language_model(const Sources& sources,
                                                   const LanguageFamily& family, Weights& weights,
                                                   const LanguageTarget& target,
                                                   gguf::Writer& writer) {
  const ModelConfig config(sources, family.defaults);
  check_activation(family, config);
  LanguagePlan plan = plan_language_tensors(family, config, weights);
  const LanguageModel model{config, weights, n_tokens_of(plan.tensors), plan.n_predicting,
                            family.own_rotation};
  const std::string architecture(family.architecture_name(config));
  writer.set_string("general.architecture", architecture);
  KeyWriter keys(writer, architecture);
  family.keys(model, keys);
  add_computed(model, family, keys, plan.tensors);
  read_language_vocabulary(sources, model.n_tokens).write(writer);
  write_chat_templates(sources, writer);
  write_sampling_defaults(sources, writer);
  check_metadata(writer);
  note_losses(plan, family, config, target);
  return std::move(plan.tensors);
}

}  // namespace billow::convert
