#include "convert/decoder_embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "convert/dense_modules.h"
#include "convert/encoder_config.h"
#include "gguf/file.h"
#include "quant/type.h"
#include "tokenizer/tokenizer.h"

namespace billow::convert {
namespace {

constexpr std::string_view kWithDenseModules = "gemma-embedding";
constexpr std::string_view kRerankers[] = {"qwen3-reranker", "qwen3-vl-reranker"};
constexpr std::array<std::string_view, 2> kLabels{"yes", "no"};
// The prompt of the model's authors.
constexpr std::string_view kRerankTemplate =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that "
    "answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

bool names_reranker(std::string_view text) {
  const std::string lower = lower_case(text);
  return std::ranges::any_of(
      kRerankers, [&](std::string_view name) { return lower.find(name) != std::string::npos; });
}

bool is_reranker(const Sources& sources, std::string_view architecture, std::string_view name) {
  if (!architecture.starts_with("qwen3")) return false;
  if (names_reranker(name)) return true;
  if (const auto config = sources.document("config.json")) {
    const DocumentFields fields(*config, "config.json");
    if (names_reranker(fields.text("_name_or_path").value_or(""))) return true;
  }
  const auto about = sources.text("README.md");
  if (!about) return false;
  const std::string lower = lower_case(*about);
  return std::ranges::any_of(kRerankers, [&](std::string_view each) {
    return lower.find("# " + std::string(each)) != std::string::npos;
  });
}

// Appends row `id` of a planned tensor, with the values of the checkpoint.
void append_row(const Weights& weights, const PlannedTensor& tensor, uint64_t id,
                std::vector<float>& values) {
  const TensorPart* part = tensor.parts.size() == 1 ? tensor.parts.data() : nullptr;
  const bool is_plain = part == nullptr
                            ? tensor.parts.empty()
                            : part->turned_rows == 0 && part->steps.empty() && !part->column_of;
  const SafeTensor* source = part == nullptr ? tensor.source : part->source;
  const uint64_t n_rows = part == nullptr ? tensor.n_rows : part->n_rows;
  const uint64_t row_len = part == nullptr ? tensor.row_len : part->row_len;
  const quant::TypeRow* type = source == nullptr ? nullptr : quant::find_type(source->dtype);
  if (!is_plain || type == nullptr || id >= n_rows) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("tensor '{}' cannot become the head of a reranker", tensor.name));
  }
  const uint64_t row = part != nullptr && part->row_of ? part->row_of(id) : tensor.first_row + id;
  const size_t row_bytes = quant::row_bytes(type->type, row_len);
  std::vector<std::byte> bytes(row_bytes);
  weights.read(*source, row * row_bytes, bytes);
  const size_t at = values.size();
  values.resize(at + row_len);
  type->decode(bytes.data(), row_len, values.data() + at);
}

void make_reranker(std::string_view architecture, const Weights& weights,
                   std::vector<PlannedTensor>& plan, gguf::Writer& writer) {
  const std::vector<std::byte> bytes = writer.to_bytes();
  const auto reader = tokenizer::Tokenizer::load(gguf::File::parse(bytes, "converted"));
  auto head = std::ranges::find(plan, "output.weight", &PlannedTensor::name);
  const bool is_tied = head == plan.end();
  if (is_tied) head = std::ranges::find(plan, "token_embd.weight", &PlannedTensor::name);
  PlannedTensor classifier;
  classifier.name = "cls.output.weight";
  classifier.n_rows = kLabels.size();
  classifier.is_matrix = true;
  for (const std::string_view label : kLabels) {
    const tokenizer::TokenId id = reader.find(label);
    if (head == plan.end() || id == tokenizer::kNoToken) {
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("the vocabulary of a reranker has no token '{}'", label));
    }
    append_row(weights, *head, static_cast<uint64_t>(id), classifier.values);
  }
  classifier.row_len = classifier.values.size() / kLabels.size();
  if (!is_tied) plan.erase(head);
  plan.push_back(std::move(classifier));
  writer.set_uint(fmt::format("{}.pooling_type", architecture),
                  static_cast<uint32_t>(Pooling::kRank));
  const std::vector<std::string> labels(kLabels.begin(), kLabels.end());
  writer.set_strings(fmt::format("{}.classifier.output_labels", architecture), labels);
  writer.set_string("tokenizer.chat_template.rerank", kRerankTemplate);
  const std::array<std::string, 1> names{"rerank"};
  writer.set_strings("tokenizer.chat_templates", names);
}

// Returns the length of a row in the file.
uint64_t length_of(const PlannedTensor& tensor) {
  if (!tensor.shape.empty()) return tensor.shape.front();
  return tensor.parts.empty() ? tensor.row_len : tensor.parts.front().row_len;
}

std::string architecture_of(const gguf::Writer& writer) {
  const std::vector<std::byte> bytes = writer.to_bytes();
  return std::string(gguf::File::parse(bytes, "converted").require_string("general.architecture"));
}

}  // namespace

void describe_decoder_embedding(const Sources& sources, std::string_view name,
                                const Weights& weights, std::vector<PlannedTensor>& plan,
                                gguf::Writer& writer, const Listener& listener) {
  const bool has_pooling = sources.find("modules.json") != nullptr;
  const std::string architecture = architecture_of(writer);
  if (is_reranker(sources, architecture, name))
    return make_reranker(architecture, weights, plan, writer);
  const bool has_dense = architecture == kWithDenseModules;
  if (!has_pooling) {
    if (has_dense && listener.note)
      listener.note(
          "modules.json is missing: the file gets no pooling and no dense layers, so "
          "vectors differ from those of the model's authors");
    return;
  }
  const PoolingChoice choice = read_pooling(sources, Family{.has_dense_modules = has_dense});
  if (!choice.is_guess)
    writer.set_uint(architecture + ".pooling_type", static_cast<uint32_t>(choice.pooling));
  if (!has_dense) return;
  const auto table = std::ranges::find(plan, "token_embd.weight", &PlannedTensor::name);
  const uint64_t n_embd = table == plan.end() ? 0 : length_of(*table);
  add_dense_modules(sources, architecture, n_embd, plan, writer);
}

}  // namespace billow::convert
