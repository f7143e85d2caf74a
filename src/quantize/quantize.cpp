#include "quantize/quantize.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>

#include "base/error.h"
#include "cpu/thread_team.h"
#include "quant/type.h"
#include "quantize/encode.h"
#include "quantize/number_check.h"

namespace billow::quantize {
namespace {

constexpr uint32_t kQuantizationVersion = 2;
constexpr size_t kShareElements = size_t{1} << 15;  // that a thread encodes at a time
constexpr size_t kSharesPerThread = 16;             // in one piece of the file
constexpr size_t kMaxMetadataText = 127;            // other programs cut texts at this length, too

MixtureOptions with_importance(const Options& options) {
  MixtureOptions mixture = options.mixture;
  const Importance* importance = options.importance;
  mixture.has_importance = nullptr;
  if (importance != nullptr) {
    mixture.has_importance = [importance](std::string_view name) {
      return importance->entries.contains(name);
    };
  }
  return mixture;
}

uint64_t bytes_as(const gguf::TensorInfo& info, uint32_t type) {
  return info.type == type ? info.data.size()
                           : quant::row_bytes(static_cast<quant::Type>(type), info.n_elements());
}

bool is_looked_up(std::string_view name) noexcept {
  return name == "token_embd.weight" || name == "per_layer_token_embd.weight";
}

// Returns the importance of a tensor's columns, one matrix after the other; null: none. Embedding
// tables are only looked up, so a table ignores an entry of the wrong size.
const float* importance_of(const gguf::TensorInfo& info, const Importance* importance) {
  if (importance == nullptr) return nullptr;
  const auto found = importance->entries.find(info.name);
  if (found == importance->entries.end()) return nullptr;
  const std::vector<float>& values = found->second;
  if (values.size() == info.shape[0] * info.shape[2]) return values.data();
  if (is_looked_up(info.name)) return nullptr;
  throw Error(ErrorCode::kInvalidInput,
              "the importance matrix has " + std::to_string(values.size()) + " columns for '" +
                  info.name + "', which has " + std::to_string(info.shape[0] * info.shape[2]));
}

// Encodes one tensor, piece by piece, on all threads of a team.
class TensorEncoder {
 public:
  TensorEncoder(const gguf::TensorInfo& info, quant::Type type, const float* importance,
                cpu::ThreadTeam& team)
      : info_(info),
        source_(*quant::find_type(info.type)),
        target_(quant::row(type)),
        importance_(importance),
        team_(team),
        row_len_(static_cast<size_t>(info.shape[0])),
        rows_per_share_(std::max<size_t>(1, kShareElements / row_len_)),
        values_(static_cast<size_t>(team.size())) {}

  size_t n_rows() const noexcept { return static_cast<size_t>(info_.n_elements()) / row_len_; }
  size_t rows_per_piece() const noexcept {
    return rows_per_share_ * kSharesPerThread * static_cast<size_t>(team_.size());
  }
  size_t source_row_bytes() const noexcept { return info_.data.size() / n_rows(); }

  // Encodes rows begin .. begin + n - 1. The bytes are valid until the next call. Throws Error.
  std::span<const std::byte> encode(size_t begin, size_t n) {
    const size_t row_bytes = quant::row_bytes(target_.type, row_len_);
    out_.resize(n * row_bytes);
    const size_t n_shares = (n + rows_per_share_ - 1) / rows_per_share_;
    std::array<std::atomic<bool>, kFaults.size()> found = {};
    const auto encode_share = [&](size_t share, int member) {
      const size_t first = share * rows_per_share_;
      const size_t n_own = std::min(rows_per_share_, n - first);
      std::vector<float>& values = values_[static_cast<size_t>(member)];
      values.resize(n_own * row_len_);
      source_.decode(info_.data.data() + (begin + first) * source_row_bytes(), values.size(),
                     values.data());
      const Fault fault = encode_matrices(values, begin + first, out_.data() + first * row_bytes);
      for (size_t i = 0; i < kFaults.size(); ++i)
        if (fault == kFaults[i]) found[i] = true;
    };
    team_.for_pieces(n_shares, 1, [&](size_t from, size_t end, int member) {
      for (size_t share = from; share < end; ++share) encode_share(share, member);
    });
    for (size_t i = 0; i < kFaults.size(); ++i)
      if (found[i]) throw_fault(kFaults[i], info_.name, target_.type);
    return out_;
  }

 private:
  // The first of these that a piece has becomes the Error.
  static constexpr std::array kFaults = {Fault::kNotFinite, Fault::kTooLarge, Fault::kImportance};

  // Encodes rows of a stack of matrices. All rows of one matrix share an importance. May overwrite
  // `values`.
  Fault encode_matrices(std::span<float> values, size_t first_row, std::byte* to) const {
    const auto rows_per_matrix = static_cast<size_t>(info_.shape[1]);
    const auto n_matrices = static_cast<size_t>(info_.shape[2]);
    const size_t n = values.size() / row_len_;
    for (size_t row = 0; row < n;) {
      const size_t matrix = (first_row + row) / rows_per_matrix % n_matrices;
      const size_t left = rows_per_matrix - (first_row + row) % rows_per_matrix;
      const size_t n_own = importance_ == nullptr ? n : std::min(n - row, left);
      const float* importance = importance_ == nullptr ? nullptr : importance_ + matrix * row_len_;
      const Fault fault =
          encode_checked(target_.type, values.subspan(row * row_len_, n_own * row_len_), row_len_,
                         importance, to + row * quant::row_bytes(target_.type, row_len_));
      if (fault != Fault::kNone) return fault;
      row += n_own;
    }
    return Fault::kNone;
  }

  const gguf::TensorInfo& info_;
  const quant::TypeRow& source_;
  const quant::TypeRow& target_;
  const float* importance_;
  cpu::ThreadTeam& team_;
  size_t row_len_;
  size_t rows_per_share_;
  std::vector<std::vector<float>> values_;  // one buffer per thread
  std::vector<std::byte> out_;
};

std::string_view shortened(std::string_view text) { return text.substr(0, kMaxMetadataText); }

void set_metadata(const gguf::File& file, const Options& options, gguf::Writer& writer) {
  for (const gguf::Entry& entry : file.metadata()) {
    if (!entry.key.starts_with("split.")) writer.set(entry.key, entry.value);
  }
  writer.set_uint("general.quantization_version", kQuantizationVersion);
  const auto number = options.mixture.file_type->number;
  if (number) writer.set_uint("general.file_type", *number);
  if (options.importance == nullptr) return;
  const Importance& importance = *options.importance;
  writer.set_string("quantize.imatrix.file", shortened(options.importance_file));
  if (!importance.datasets.empty()) {
    writer.set_string("quantize.imatrix.dataset", shortened(importance.datasets.front()));
  }
  writer.set_uint("quantize.imatrix.entries_count",
                  static_cast<uint32_t>(importance.entries.size()));
  if (importance.n_chunks > 0) {
    writer.set_uint("quantize.imatrix.chunks_count", importance.n_chunks);
  }
}

}  // namespace

Plan plan(const gguf::File& file, const Options& options) {
  Plan plan;
  plan.decisions = plan_mixture(facts_of(file), tensors_of(file), with_importance(options));
  for (const Decision& decision : plan.decisions) {
    const gguf::TensorInfo& info = file.tensors()[decision.tensor];
    plan.source_bytes += info.data.size();
    plan.target_bytes += bytes_as(info, decision.type);
    if (info.type == decision.type) continue;
    const float* importance = importance_of(info, options.importance);
    const quant::TypeRow* type = quant::find_type(decision.type);
    if (importance == nullptr && type != nullptr && needs_importance(type->type)) {
      throw Error(ErrorCode::kUnsupported,
                  "tensor '" + std::string(info.name) + "' can become " + std::string(type->name) +
                      " only with an importance matrix that has an entry for it");
    }
  }
  return plan;
}

void quantize(const gguf::File& file, const Plan& plan, const Options& options, int n_threads,
              const Listener& listener, const gguf::Writer::Sink& sink) {
  cpu::ThreadTeam team(n_threads);
  gguf::Writer writer;
  set_metadata(file, options, writer);
  uint64_t n_done = 0;
  const auto progress = [&](std::span<const std::byte> source) {
    file.release(source);
    n_done += source.size();
    if (listener.progress) listener.progress(n_done, plan.source_bytes);
  };
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    const Decision& decision = plan.decisions[i];
    const gguf::TensorInfo& info = file.tensors()[decision.tensor];
    writer.add_tensor(info.name, decision.type, std::span(info.shape).first(info.n_dims),
                      [&, i](const gguf::Writer::Sink& to) {
                        if (listener.tensor) listener.tensor(i, decision);
                        if (info.type == decision.type || info.data.empty()) {
                          to(info.data);
                          return progress(info.data);
                        }
                        TensorEncoder encoder(info, static_cast<quant::Type>(decision.type),
                                              importance_of(info, options.importance), team);
                        for (size_t row = 0; row < encoder.n_rows();) {
                          const size_t n =
                              std::min(encoder.rows_per_piece(), encoder.n_rows() - row);
                          to(encoder.encode(row, n));
                          progress(info.data.subspan(row * encoder.source_row_bytes(),
                                                     n * encoder.source_row_bytes()));
                          row += n;
                        }
                      });
  }
  writer.write_to(sink);
}

}  // namespace billow::quantize
