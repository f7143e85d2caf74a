#include "arch/adapter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address_space.h"
#include "base/error.h"
#include "gguf/tensor_type.h"
#include "nn/packed_weights.h"
#include "quant/half.h"

namespace billow::arch {
namespace {

using kernels::LowRankValues;

constexpr std::string_view kEmbedding = "token_embd.weight";
constexpr std::string_view kOutput = "output.weight";
constexpr size_t kAlignment = 64;
constexpr size_t kMaxRank = size_t{1} << 16;

size_t aligned(size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

[[noreturn]] void refuse(const gguf::File& file, const std::string& why,
                         ErrorCode code = ErrorCode::kInvalidInput) {
  throw Error(code, file.path() + ": " + why);
}

// The two tensors of a pair.
struct Halves {
  const gguf::TensorInfo* a = nullptr;
  const gguf::TensorInfo* b = nullptr;
};

// A pair for one matrix that the model multiplies with, or for the model's embedding.
struct Piece {
  const gguf::File* file = nullptr;
  Halves halves;
  size_t rank = 0;
  float factor = 1.0f;  // multiplies lora_b
  size_t first_a = 0;   // rows of lora_a and lora_b where the rows of this matrix begin
  size_t first_b = 0;
};

struct Target {
  const std::byte* data = nullptr;  // the matrix
  quant::Type type = quant::Type::kF32;
  size_t n_cols = 0;
  size_t n_rows = 0;
  bool is_table = false;  // whether this is the token embedding, which passes read rows of
  std::vector<Piece> pieces;

  size_t rank() const {
    size_t sum = 0;
    for (const Piece& piece : pieces) sum += piece.rank;
    return sum;
  }
  quant::Type a_type() const { return nn::adapter_type(type, n_cols); }
  LowRankValues b_values() const {
    if (!is_table) return nn::adapter_values(type, n_cols);
    return type == quant::Type::kF32 ? LowRankValues::kFloats : LowRankValues::kHalves;
  }
  size_t b_bytes() const { return aligned(kernels::low_rank_bytes(n_rows, rank(), b_values())); }
};

struct Plan {
  std::vector<Target> products;
  Target embedding;  // n_cols is the rank of its rows

  size_t embedding_row_bytes() const {
    return quant::row_bytes(nn::adapter_row_type(embedding.type), embedding.rank());
  }
};

// Builds a plan from headers.
class Planner {
 public:
  explicit Planner(const AdapterBase& base) : base_(base) {
    for (const tensor::Tensor& matrix : base.matrices) by_place_.emplace(matrix.data, &matrix);
  }

  void add(const AdapterSource& source);
  Plan take() && { return std::move(plan_); }

 private:
  void check_header(const gguf::File& file) const;
  std::map<std::string, Halves> pairs_of(const gguf::File& file) const;
  const gguf::TensorInfo& base_tensor(const gguf::File& file, const std::string& name) const;
  void add_embedding(const gguf::TensorInfo& base, const std::string& name, const Piece& piece);
  void add_products(const gguf::TensorInfo& base, const std::string& name, const Piece& piece);

  const AdapterBase& base_;
  std::map<const std::byte*, const tensor::Tensor*> by_place_;  // each matrix once, by its address
  std::map<const std::byte*, size_t> targets_;                  // indices of plan_.products
  Plan plan_;
};

void Planner::check_header(const gguf::File& file) const {
  if (!is_adapter(file))
    refuse(file, "this file is not an adapter: its general.type is not \"adapter\"");
  const std::string_view type = file.get_string("adapter.type").value_or("");
  if (type != "lora") {
    refuse(file,
           "adapters of the type \"" + std::string(type) + "\" are not supported, only \"lora\"",
           ErrorCode::kUnsupported);
  }
  if (file.find("adapter.alora.invocation_tokens") != nullptr) {
    refuse(file, "adapters that begin at invocation tokens (aLoRA) are not supported",
           ErrorCode::kUnsupported);
  }
  const std::string_view wanted = base_.file.require_string("general.architecture");
  const std::string_view found = file.get_string("general.architecture").value_or("");
  if (found != wanted) {
    refuse(file, "this is an adapter for models of the architecture \"" + std::string(found) +
                     "\", but the model is of \"" + std::string(wanted) + "\"");
  }
}

std::map<std::string, Halves> Planner::pairs_of(const gguf::File& file) const {
  constexpr std::string_view kA = ".lora_a";
  constexpr std::string_view kB = ".lora_b";
  std::map<std::string, Halves> pairs;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const bool is_a = tensor.name.ends_with(kA);
    if (!is_a && !tensor.name.ends_with(kB)) {
      refuse(file,
             "tensor " + tensor.name +
                 " is not part of a low-rank pair (X.lora_a and X.lora_b), so the adapter "
                 "cannot be applied as it was trained",
             ErrorCode::kUnsupported);
    }
    if (quant::find_type(tensor.type) == nullptr) {
      refuse(file,
             "tensor " + tensor.name + " has the format " + gguf::tensor_type_name(tensor.type) +
                 ", which is not supported",
             ErrorCode::kUnsupported);
    }
    Halves& halves = pairs[tensor.name.substr(0, tensor.name.size() - kA.size())];
    (is_a ? halves.a : halves.b) = &tensor;
  }
  for (const auto& [name, halves] : pairs) {
    if (halves.a == nullptr || halves.b == nullptr) {
      refuse(file, "tensor " + name + std::string(halves.a == nullptr ? kA : kB) +
                       " is missing; the file is incomplete");
    }
  }
  if (pairs.empty()) refuse(file, "the adapter has no tensors");
  return pairs;
}

// If a model uses its embedding as output matrix, its file has the matrix as the embedding only.
const gguf::TensorInfo& Planner::base_tensor(const gguf::File& file,
                                             const std::string& name) const {
  const gguf::TensorInfo* info = base_.file.find_tensor(name);
  if (info == nullptr && name == kOutput) info = base_.file.find_tensor(kEmbedding);
  if (info != nullptr) return *info;
  refuse(file, "the adapter changes tensor " + name +
                   ", which the model does not have; it was made for another model");
}

void Planner::add(const AdapterSource& source) {
  const gguf::File& file = *source.file;
  check_header(file);
  const auto alpha = static_cast<float>(file.get_float("adapter.lora.alpha").value_or(0.0));
  if (!std::isfinite(alpha) || !std::isfinite(source.scale))
    refuse(file, "adapter.lora.alpha, or the adapter's scale, is not a finite number");
  for (const auto& [name, halves] : pairs_of(file)) {
    const bool is_embedding = name == kEmbedding;
    const size_t rank = halves.b->shape[0];
    if (rank == 0 || rank > kMaxRank)
      refuse(file, "tensor " + halves.b->name + " has a rank of " + std::to_string(rank));
    const Piece piece = {
        .file = &file,
        .halves = halves,
        .rank = rank,
        .factor = alpha == 0.0f ? source.scale : source.scale * alpha / static_cast<float>(rank)};
    const gguf::TensorInfo& base = base_tensor(file, name);
    if (is_embedding)
      add_embedding(base, name, piece);
    else
      add_products(base, name, piece);
  }
}

[[noreturn]] void refuse_shapes(const Piece& piece, const std::string& name) {
  refuse(*piece.file, "the tensors " + name + ".lora_a and " + name +
                          ".lora_b do not have the shapes that the model's " + name +
                          " has; the adapter was made for another model");
}

void Planner::add_embedding(const gguf::TensorInfo& base, const std::string& name,
                            const Piece& piece) {
  const auto& a = piece.halves.a->shape;
  const auto& b = piece.halves.b->shape;
  const bool fits = a[0] == piece.rank && a[1] == base.shape[1] && a[2] == 1 && a[3] == 1 &&
                    b[1] == base.shape[0] && b[2] == 1 && b[3] == 1;
  if (!fits) refuse_shapes(piece, name);
  Target& target = plan_.embedding;
  target.data = base.data.data();
  target.type = quant::find_type(base.type)->type;
  target.n_cols = base.shape[1];  // one row of `a` for each token
  target.n_rows = base.shape[0];
  target.is_table = true;
  target.pieces.push_back(piece);
}

void Planner::add_products(const gguf::TensorInfo& base, const std::string& name,
                           const Piece& piece) {
  const auto& a = piece.halves.a->shape;
  const auto& b = piece.halves.b->shape;
  const auto& of_base = base.shape;
  const bool fits = a[0] == of_base[0] && a[1] == piece.rank && b[1] == of_base[1] &&
                    a[2] == of_base[2] && b[2] == of_base[2] && a[3] == 1 && b[3] == 1;
  if (!fits) refuse_shapes(piece, name);
  bool found = false;
  const std::byte* const begin = base.data.data();
  const std::byte* const end = begin + base.data.size();
  for (auto at = by_place_.lower_bound(begin); at != by_place_.end() && at->first < end; ++at) {
    const tensor::Tensor& matrix = *at->second;
    const size_t first = static_cast<size_t>(at->first - begin) / matrix.row_bytes();
    const size_t expert = first / of_base[1];
    const size_t within = first % of_base[1];
    if (matrix.n_cols != of_base[0] || within + matrix.n_rows > of_base[1]) continue;
    const auto [place, is_new] = targets_.emplace(matrix.data, plan_.products.size());
    if (is_new)
      plan_.products.push_back({matrix.data, matrix.type, matrix.n_cols, matrix.n_rows, false, {}});
    Piece own = piece;
    own.first_a = expert * piece.rank;
    own.first_b = expert * of_base[1] + within;
    plan_.products[place->second].pieces.push_back(own);
    found = true;
  }
  if (found) return;
  refuse(*piece.file,
         "the adapter changes tensor " + name +
             ", which is not a matrix that the model multiplies with; this is not supported",
         ErrorCode::kUnsupported);
}

Plan plan_of(const AdapterBase& base, std::span<const AdapterSource> sources) {
  Planner planner(base);
  for (const AdapterSource& source : sources) planner.add(source);
  return std::move(planner).take();
}

size_t a_bytes(const Target& target) {
  return nn::PackedWeights::bytes_of(target.a_type(), target.n_cols, target.rank());
}

AdapterNeed need_of(const Plan& plan) {
  AdapterNeed need;
  for (const Target& target : plan.products) {
    need.bytes += aligned(a_bytes(target)) + target.b_bytes();
    need.rank = std::max(need.rank, target.rank());
  }
  if (!plan.embedding.pieces.empty()) {
    need.bytes +=
        aligned(plan.embedding_row_bytes() * plan.embedding.n_cols) + plan.embedding.b_bytes();
    need.rank = std::max(need.rank, plan.embedding.rank());
  }
  return need;
}

// Returns rows [first, first + n) of a tensor as floats.
std::vector<float> decoded(const gguf::File& file, const gguf::TensorInfo& info, size_t first,
                           size_t n) {
  const quant::TypeRow& type = *quant::find_type(info.type);
  const size_t n_cols = info.shape[0];
  const size_t row_bytes = quant::row_bytes(type.type, n_cols);
  std::vector<float> values(n * n_cols);
  type.decode(info.data.data() + first * row_bytes, values.size(), values.data());
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    refuse(file, "tensor " + info.name + " holds values that are not finite numbers");
  return values;
}

void store(quant::Type type, const float* values, size_t n, std::byte* out) {
  for (size_t i = 0; i < n; ++i) {
    if (type == quant::Type::kF32) {
      std::memcpy(out + i * sizeof(float), values + i, sizeof(float));
    } else {
      const uint16_t bits = quant::f32_to_bf16(values[i]);
      std::memcpy(out + i * sizeof bits, &bits, sizeof bits);
    }
  }
}

// Returns the largest power of two that is at most the largest value. Halves are divided by it, so
// that small values keep their precision.
float power_of_two(const std::vector<float>& values) {
  float largest = 0.0f;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest > 0.0f ? std::exp2(std::floor(std::log2(largest))) : 1.0f;
}

// Writes 64 outputs of one row of a block as codes. Only the first `n` are used. Returns their
// scale.
float put_codes(const float* values, size_t stride, size_t n, std::byte* out) {
  constexpr float kLargest = 127.0f;
  float largest = 0.0f;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(values[i * stride]));
  const float scale = largest / kLargest;
  for (size_t i = 0; i < n && scale > 0.0f; ++i)
    out[i] = static_cast<std::byte>(std::lround(values[i * stride] / scale));
  return scale;
}

// Writes blocks of a pair's B. values is [n_rows][rank]; `out` must contain zeros.
void put_blocks(const std::vector<float>& values, size_t n_rows, size_t rank,
                const nn::LowRank& pair, std::byte* out) {
  constexpr size_t kBlock = kernels::kLowRankBlock;
  const size_t n_bytes = kernels::low_rank_bytes(kBlock, rank, pair.b_values);
  for (size_t first = 0; first < n_rows; first += kBlock, out += n_bytes) {
    const size_t n = std::min(kBlock, n_rows - first);
    for (size_t j = 0; j < rank; ++j) {
      const float* const own = values.data() + first * rank + j;
      if (pair.b_values == LowRankValues::kCodes) {
        const float scale = put_codes(own, rank, n, out + j * kBlock);
        std::memcpy(out + rank * kBlock + j * sizeof scale, &scale, sizeof scale);
        continue;
      }
      for (size_t i = 0; i < n; ++i) {
        const float value = own[i * rank] / pair.b_scale;
        const uint16_t half = quant::f32_to_f16(value);
        const size_t at = j * kBlock + i;
        if (pair.b_values == LowRankValues::kHalves)
          std::memcpy(out + at * sizeof half, &half, sizeof half);
        else
          std::memcpy(out + at * sizeof value, &value, sizeof value);
      }
    }
  }
}

class LoadedAdapter final : public nn::Adapter {
 public:
  LoadedAdapter(const Plan& plan, const kernels::KernelTable& kernels)
      : packed_(kernels, n_packed_bytes(plan), {}), space_(n_space_bytes(plan), "adapters") {
    if (!space_.hold(0, space_.size())) {
      throw Error(ErrorCode::kOutOfMemory, "the system has no memory for an adapter");
    }
    max_rank_ = need_of(plan).rank;
    std::vector<std::vector<std::byte>> sources;  // lora_a of each target, until packing ends
    for (const Target& target : plan.products) {
      nn::LowRank pair;
      sources.push_back(rows_of_a(target));
      pair.a = {sources.back().data(), target.a_type(), target.n_cols, target.rank()};
      packed_.add(pair.a);
      pair.a.data = pair.a.packed;
      put_b(target, pair);
      products_.emplace(target.data, pair);
    }
    packed_.pack();
    if (!plan.embedding.pieces.empty()) put_embedding(plan);
  }

 private:
  static size_t n_packed_bytes(const Plan& plan) {
    size_t sum = 0;
    for (const Target& target : plan.products) sum += aligned(a_bytes(target));
    return sum;
  }
  static size_t n_space_bytes(const Plan& plan) {
    return need_of(plan).bytes - n_packed_bytes(plan);
  }
  std::byte* take(size_t n_bytes) {
    std::byte* const at = space_.data() + used_;
    used_ += aligned(n_bytes);
    return at;
  }

  static std::vector<std::byte> rows_of_a(const Target& target) {
    const quant::Type type = target.a_type();
    const size_t row_bytes = quant::row_bytes(type, target.n_cols);
    std::vector<std::byte> bytes(target.rank() * row_bytes);
    size_t row = 0;
    for (const Piece& piece : target.pieces) {
      const std::vector<float> values =
          decoded(*piece.file, *piece.halves.a, piece.first_a, piece.rank);
      for (size_t i = 0; i < piece.rank; ++i)
        quant::row(type).encode(values.data() + i * target.n_cols, target.n_cols,
                                bytes.data() + (row + i) * row_bytes);
      row += piece.rank;
    }
    return bytes;
  }

  void put_b(const Target& target, nn::LowRank& pair) {
    const size_t rank = target.rank();
    std::vector<float> values(target.n_rows * rank);
    size_t first = 0;
    for (const Piece& piece : target.pieces) {
      const std::vector<float> own =
          decoded(*piece.file, *piece.halves.b, piece.first_b, target.n_rows);
      for (size_t row = 0; row < target.n_rows; ++row)
        for (size_t j = 0; j < piece.rank; ++j)
          values[row * rank + first + j] = own[row * piece.rank + j] * piece.factor;
      first += piece.rank;
    }
    pair.b_values = target.b_values();
    if (pair.b_values == LowRankValues::kHalves) pair.b_scale = power_of_two(values);
    const size_t n_bytes = kernels::low_rank_bytes(target.n_rows, rank, pair.b_values);
    std::byte* const out = take(n_bytes);
    std::memset(out, 0, n_bytes);
    put_blocks(values, target.n_rows, rank, pair, out);
    pair.b = out;
  }

  void put_embedding(const Plan& plan) {
    const Target& target = plan.embedding;
    const quant::Type type = nn::adapter_row_type(target.type);
    const size_t rank = target.rank();
    const size_t row_bytes = plan.embedding_row_bytes();
    std::byte* const rows = take(row_bytes * target.n_cols);
    size_t first = 0;
    for (const Piece& piece : target.pieces) {
      const std::vector<float> values = decoded(*piece.file, *piece.halves.a, 0, target.n_cols);
      for (size_t token = 0; token < target.n_cols; ++token) {
        store(type, values.data() + token * piece.rank, piece.rank,
              rows + token * row_bytes + quant::row_bytes(type, first));
      }
      first += piece.rank;
    }
    embedding_.a = {rows, type, rank, target.n_cols};
    put_b(target, embedding_);
  }

  nn::PackedWeights packed_;
  AddressSpace space_;
  size_t used_ = 0;
};

}  // namespace

bool is_adapter(const gguf::File& file) {
  return file.get_string("general.type").value_or("model") == "adapter";
}

AdapterNeed adapter_need(const AdapterBase& base, std::span<const AdapterSource> sources) {
  return need_of(plan_of(base, sources));
}

std::unique_ptr<const nn::Adapter> load_adapter(const AdapterBase& base,
                                                std::span<const AdapterSource> sources,
                                                const kernels::KernelTable& kernels) {
  return std::make_unique<const LoadedAdapter>(plan_of(base, sources), kernels);
}

}  // namespace billow::arch
