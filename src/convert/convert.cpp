#include "convert/convert.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "convert/encoded_rows.h"
#include "convert/encoder_config.h"
#include "convert/encoder_tensors.h"
#include "convert/vocabulary.h"
#include "convert/weights.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow::convert {
namespace {

struct WeightType {
  std::string_view name;
  quant::Type type;
  uint32_t file_type;  // general.file_type
};
constexpr std::array kWeightTypes{
    WeightType{"F32", quant::Type::kF32, 0}, WeightType{"F16", quant::Type::kF16, 1},
    WeightType{"Q8_0", quant::Type::kQ8_0, 7}, WeightType{"BF16", quant::Type::kBF16, 32}};

constexpr uint32_t kQuantizationVersion = 2;

void write_general(gguf::Writer& writer, const Options& options, const EncoderConfig& config) {
  const auto* type = std::ranges::find(kWeightTypes, options.weight_type, &WeightType::type);
  writer.set_string("general.architecture", config.family->architecture);
  writer.set_string("general.type", "model");
  if (!options.name.empty()) writer.set_string("general.name", options.name);
  writer.set_uint("general.file_type", type->file_type);
  writer.set_uint("general.quantization_version", kQuantizationVersion);
}

void write_sizes(gguf::Writer& writer, const EncoderConfig& config) {
  const std::string prefix = std::string(config.family->architecture) + ".";
  writer.set_uint(prefix + "block_count", config.n_layers);
  writer.set_uint(prefix + "context_length", config.n_context);
  writer.set_uint(prefix + "embedding_length", config.n_embd);
  writer.set_uint(prefix + "feed_forward_length", config.n_feed_forward);
  writer.set_uint(prefix + "attention.head_count", config.n_heads);
  writer.set_float(prefix + "attention.layer_norm_epsilon",
                   static_cast<float>(config.norm_epsilon));
  writer.set_bool(prefix + "attention.causal", false);
  if (config.rope_base) {
    writer.set_float(prefix + "rope.freq_base", static_cast<float>(*config.rope_base));
  }
  writer.set_uint("tokenizer.ggml.token_type_count", config.n_token_types);
}

void write_pooling(gguf::Writer& writer, const EncoderConfig& config, const Sources& sources,
                   const Weights& weights, const Listener& listener) {
  const std::string prefix = std::string(config.family->architecture) + ".";
  const PoolingChoice choice = read_pooling(sources, *config.family);
  if (choice.is_guess && listener.note) {
    listener.note("no file says how vectors are pooled: using the mean");
  }
  writer.set_uint(prefix + "pooling_type", static_cast<uint32_t>(choice.pooling));
  if (choice.pooling != Pooling::kRank) return;
  std::vector<std::string> labels = config.labels;
  const size_t n = n_classes(config, weights);
  if (labels.size() != n) labels.clear();
  for (size_t i = labels.size(); i < n; ++i) labels.push_back("LABEL_" + std::to_string(i));
  writer.set_strings(prefix + "classifier.output_labels", labels);
}

// Texts are cut by the caller, not by the file.
void note_cut(const Sources& sources, const EncoderConfig& config, const Listener& listener) {
  constexpr const char* kFile = "sentence_bert_config.json";
  const auto document = sources.document(kFile);
  if (!document || !listener.note) return;
  const auto most = DocumentFields(*document, kFile).count("max_seq_length");
  if (!most || *most >= config.n_context) return;
  listener.note("the model's own library cuts texts at " + std::to_string(*most) +
                " tokens; here they may have " + std::to_string(config.n_context));
}

// The vocabulary must be one that we can read, before hours of work are done on the weights.
void check_metadata(const gguf::Writer& writer, const Vocabulary& vocabulary) {
  const std::vector<std::byte> bytes = writer.to_bytes();
  const auto reader = tokenizer::Tokenizer::load(gguf::File::parse(bytes, "converted"));
  const auto ids = reader.encode("a");
  const auto as_id = [](uint32_t id) { return static_cast<tokenizer::TokenId>(id); };
  if (ids.size() < 2 || ids.front() != as_id(*vocabulary.special.bos) ||
      ids.back() != as_id(*vocabulary.special.eos)) {
    throw Error(ErrorCode::kUnsupported,
                "tokenizer.json: texts would not get the tokens that begin and end them");
  }
}

quant::Type type_of(const PlannedTensor& tensor, quant::Type wanted) {
  if (!tensor.is_matrix || tensor.is_table) return quant::Type::kF32;
  const bool fits = tensor.row_len % quant::row(wanted).group_len == 0;
  return fits ? wanted : quant::Type::kF16;
}

}  // namespace

std::optional<quant::Type> find_weight_type(std::string_view name) {
  for (const WeightType& known : kWeightTypes) {
    if (equal_ignoring_case(known.name, name)) return known.type;
  }
  return std::nullopt;
}

void convert(std::span<const SourceFile> files, const Options& options, const Listener& listener,
             const gguf::Writer::Sink& sink) {
  const Sources sources(files);
  const EncoderConfig config = read_encoder_config(sources);
  Weights weights(sources);
  const std::vector<PlannedTensor> plan = plan_encoder(config, weights);
  const Vocabulary vocabulary = read_vocabulary(sources, n_vocabulary(weights));
  gguf::Writer writer;
  write_general(writer, options, config);
  write_sizes(writer, config);
  write_pooling(writer, config, sources, weights, listener);
  vocabulary.write(writer);
  check_metadata(writer, vocabulary);
  note_cut(sources, config, listener);
  uint64_t n_total = 0;
  for (const PlannedTensor& tensor : plan) {
    const quant::Type type = type_of(tensor, options.weight_type);
    std::vector<uint64_t> shape{tensor.row_len};
    if (tensor.is_matrix) shape.push_back(tensor.n_rows);
    n_total += quant::row_bytes(type, tensor.row_len) * tensor.n_rows;
    writer.add_tensor(tensor.name, static_cast<uint32_t>(type), shape,
                      [&weights, tensor, type](const gguf::Writer::Sink& out) {
                        write_encoded_rows(weights, tensor, type, out);
                      });
  }
  uint64_t n_done = 0;
  writer.write_to([&](std::span<const std::byte> piece) {
    sink(piece);
    n_done = std::min(n_done + piece.size(), n_total);  // the header is not counted apart
    if (listener.progress) listener.progress(n_done, n_total);
  });
}

}  // namespace billow::convert
