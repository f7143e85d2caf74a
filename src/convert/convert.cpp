#include "convert/convert.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>

#include "base/error.h"
#include "base/one_line.h"
#include "base/text.h"
#include "convert/adapter_base.h"
#include "convert/adapter_settings.h"
#include "convert/adapter_tensors.h"
#include "convert/decoder_embedding.h"
#include "convert/encoded_rows.h"
#include "convert/encoder_file.h"
#include "convert/language_file.h"
#include "convert/model_config.h"
#include "convert/projector_file.h"
#include "convert/projector_tensors.h"
#include "convert/quantised_checkpoint.h"
#include "convert/weights.h"

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
constexpr uint32_t kNvfp4FileType = 39;

void write_general(gguf::Writer& writer, const Options& options, quant::Type weight_type) {
  const auto* type = std::ranges::find(kWeightTypes, weight_type, &WeightType::type);
  writer.set_string("general.architecture", "");  // the first key; the family sets its value
  writer.set_string("general.type", "model");
  if (!options.name.empty()) writer.set_string("general.name", options.name);
  writer.set_uint("general.file_type", type->file_type);
  writer.set_uint("general.quantization_version", kQuantizationVersion);
}

quant::Type type_of(const QuantisedCheckpoint& quantised, const PlannedTensor& tensor,
                    quant::Type wanted) {
  if (quantised.keeps(tensor)) return quant::Type::kNVFP4;
  if (tensor.type) return *tensor.type;
  const bool is_matrix = tensor.is_matrix || !tensor.shape.empty();
  if (!is_matrix || tensor.is_table) return quant::Type::kF32;
  const uint64_t row_len = tensor.shape.empty() ? tensor.row_len : tensor.shape[0];
  const bool fits = row_len % quant::row(wanted).group_len == 0;
  return fits ? wanted : quant::Type::kF16;
}

// REQUIRES: `weights` outlives the writer, which reads the tensors while it writes.
void add_tensors(gguf::Writer& writer, const Weights& weights,
                 const std::vector<PlannedTensor>& plan,
                 const std::function<quant::Type(const PlannedTensor&)>& type_of_tensor) {
  for (const PlannedTensor& tensor : plan) {
    const quant::Type type = type_of_tensor(tensor);
    std::vector<uint64_t> shape{tensor.row_len, tensor.n_rows};
    if (!tensor.is_matrix) shape = {tensor.row_len * tensor.n_rows};
    if (!tensor.shape.empty()) shape = tensor.shape;
    writer.add_tensor(tensor.name, static_cast<uint32_t>(type), shape,
                      [&weights, tensor, type](const gguf::Writer::Sink& out) {
                        write_encoded_rows(weights, tensor, type, out);
                      });
  }
}

void write(const gguf::Writer& writer, const Listener& listener, const gguf::Writer::Sink& sink) {
  const uint64_t n_total = writer.n_tensor_bytes();
  uint64_t n_done = 0;
  writer.write_to([&](std::span<const std::byte> piece) {
    sink(piece);
    n_done = std::min(n_done + piece.size(), n_total);  // the header does not count
    if (listener.progress) listener.progress(n_done, n_total);
  });
}

// Joins error messages into one line, because they quote names that may be any text.
template <typename Run>
void with_errors_in_one_line(Run run) {
  constexpr size_t kMaxErrorBytes = 4096;
  try {
    run();
  } catch (const Error& error) {
    throw Error(error.code(), one_line(error.what(), kMaxErrorBytes));
  }
}

void convert_model(std::span<const SourceFile> files, const Options& options,
                   const Listener& listener, const gguf::Writer::Sink& sink) {
  const Sources sources(files);
  const LanguageFamily* family = find_language_family(sources);
  Weights weights(sources);
  const QuantisedCheckpoint quantised = open_quantised(sources, weights);
  gguf::Writer writer;
  write_general(writer, options, options.weight_type);
  const LanguageTarget target{.listener = listener, .notes_pictures = !options.with_projector};
  std::vector<PlannedTensor> plan =
      family == nullptr ? describe_encoder(sources, weights, listener, writer)
                        : describe_language_model(sources, *family, weights, target, writer);
  if (family != nullptr)
    describe_decoder_embedding(sources, options.name, weights, plan, writer, listener);
  quantised.add_scales(plan);
  if (!quantised.nvfp4.empty()) writer.set_uint("general.file_type", kNvfp4FileType);
  add_tensors(writer, weights, plan, [&](const PlannedTensor& tensor) {
    return type_of(quantised, tensor, options.weight_type);
  });
  write(writer, listener, sink);
}

void convert_projector(std::span<const SourceFile> files, const Options& options,
                       const Listener& listener, const gguf::Writer::Sink& sink) {
  const Sources sources(files);
  const bool is_quantised = options.weight_type == quant::Type::kQ8_0;
  const quant::Type type = is_quantised ? quant::Type::kF16 : options.weight_type;
  if (is_quantised && listener.note) listener.note("the projector is in F16, not Q8_0");
  Weights weights(sources);
  open_quantised(sources, weights);
  gguf::Writer writer;
  write_general(writer, options, type);
  const std::vector<PlannedTensor> plan =
      describe_projector(sources, weights, type, listener, writer);
  add_tensors(writer, weights, plan, [](const PlannedTensor& tensor) { return *tensor.type; });
  write(writer, listener, sink);
}

// The plan for the first base whose rules match all tensors of the adapter. If no base matches,
// planned_adapter() throws the Error of the first base.
struct PlannedAdapter {
  std::string_view architecture;
  std::unique_ptr<Weights> weights;
  AdapterPlan plan;
};
PlannedAdapter planned_adapter(const Sources& sources, const std::vector<AdapterBase>& bases) {
  const AdapterSettings settings = read_adapter_settings(sources);
  std::exception_ptr first;
  for (const AdapterBase& base : bases) {
    try {
      PlannedAdapter planned = {.architecture = base.family->architecture_name(base.config),
                                .weights = std::make_unique<Weights>(sources),
                                .plan = {}};
      planned.plan = plan_adapter(settings, *base.family, base.config, *planned.weights);
      return planned;
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  std::rethrow_exception(first);
}

void convert_lora(std::span<const SourceFile> files, const std::vector<AdapterBase>& bases,
                  const Options& options, const Listener& listener,
                  const gguf::Writer::Sink& sink) {
  const Sources sources(files);
  const PlannedAdapter planned = planned_adapter(sources, bases);
  gguf::Writer writer;
  write_general(writer, options, options.weight_type);
  writer.set_string("general.architecture", planned.architecture);
  writer.set_string("general.type", "adapter");
  writer.set_string("adapter.type", "lora");
  writer.set_float("adapter.lora.alpha",
                   static_cast<float>(planned.plan.alpha * options.adapter_scale));
  add_tensors(writer, *planned.weights, planned.plan.tensors, [&](const PlannedTensor& tensor) {
    const bool fits = tensor.shape[0] % quant::row(options.weight_type).group_len == 0;
    return fits ? options.weight_type : quant::Type::kF16;
  });
  write(writer, listener, sink);
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
  with_errors_in_one_line([&] {
    if (options.part == Part::kPictures) return convert_projector(files, options, listener, sink);
    convert_model(files, options, listener, sink);
  });
}

bool has_projector(std::span<const SourceFile> files) {
  bool has = false;
  with_errors_in_one_line([&] {
    const Sources sources(files);
    has = find_projector_family(sources) != nullptr && has_picture_tensors(Weights(sources));
  });
  return has;
}

void convert_adapter(std::span<const SourceFile> files, std::span<const SourceFile> base,
                     const Options& options, const Listener& listener,
                     const gguf::Writer::Sink& sink) {
  with_errors_in_one_line(
      [&] { convert_lora(files, {base_of(Sources(base))}, options, listener, sink); });
}

void convert_adapter(std::span<const SourceFile> files, const gguf::File& base,
                     const Options& options, const Listener& listener,
                     const gguf::Writer::Sink& sink) {
  with_errors_in_one_line([&] {
    try {
      convert_lora(files, bases_of(base), options, listener, sink);
    } catch (const Error& error) {
      // There is no config.json: the message names a field that GGUF files do not have.
      if (!std::string_view(error.what()).starts_with("config.json")) throw;
      throw Error(ErrorCode::kUnsupported,
                  std::string("the adapter cannot be converted with only its base's GGUF file (") +
                      error.what() + "); convert it with the base's folder");
    }
  });
}

}  // namespace billow::convert
