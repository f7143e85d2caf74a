#include "arch/scratch.h"

#include <algorithm>
#include <vector>

#include "arch/hparams.h"
#include "nn/refine.h"
#include "quant/unpack.h"
#include "tensor/arena.h"

namespace billow::arch {
namespace {

using kernels::InputForm;
using kernels::kSpanPositions;

constexpr size_t rounded_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

// What the arena hands out for n_bytes.
constexpr size_t piece(size_t n_bytes) { return rounded_up(n_bytes, tensor::Arena::kAlignment); }
constexpr size_t floats(size_t n) { return float_bytes(n); }

// The weight formats of some matrices, each once.
using Types = std::vector<const quant::TypeRow*>;

void add_type(const gguf::TensorInfo& tensor, Types& types) {
  const quant::TypeRow* type = quant::find_type(tensor.type);
  if (type != nullptr && tensor.n_dims == 2 && std::ranges::count(types, type) == 0)
    types.push_back(type);
}

Types types_of_layers(const gguf::File& file) {
  Types types;
  for (const gguf::TensorInfo& tensor : file.tensors())
    if (tensor.name.starts_with("blk.")) add_type(tensor, types);
  return types;
}

Types types_of_output(const gguf::File& file) {
  Types types;
  const gguf::TensorInfo* output = file.find_tensor("output.weight");
  if (output == nullptr) output = file.find_tensor("token_embd.weight");
  if (output != nullptr) add_type(*output, types);
  return types;
}

class Scratch {
 public:
  Scratch(const gguf::File& file, const kernels::KernelTable& kernels, const PassLimits& limits)
      : h_(read_hparams(file)),
        layers_(types_of_layers(file)),
        output_(types_of_output(file)),
        kernels_(kernels),
        limits_(limits) {}

  // Two states of a row, what is wanted of it and, of up to two ropes, its rotations stay for the
  // whole pass; its largest part comes on top.
  size_t pass() const {
    const size_t n = limits_.n_rows;
    constexpr size_t kRopes = 2;
    const size_t rotations = 2 * kRopes * 2 * floats(n * (h_.k_len / 2));  // with gaps closed, too
    const size_t outputs =
        floats(limits_.n_logit_rows * h_.n_vocab) + floats(limits_.n_hidden_rows * h_.n_embd);
    return outputs + 2 * floats(n * h_.n_embd) + rotations +
           std::max({attention_block(), feed_forward_block(), output_block()});
  }

 private:
  size_t attention_block() const {
    const size_t n = limits_.n_rows;
    const size_t attended = h_.n_heads * h_.v_len;
    return 2 * floats(n * h_.n_heads * h_.k_len) + floats(n * h_.n_kv_heads * h_.k_len) +
           floats(n * h_.n_kv_heads * h_.v_len) + floats(n * attended) +
           std::max({linear(n, h_.n_embd, layers_), attention(), linear(n, attended, layers_)});
  }

  size_t feed_forward_block() const {
    const size_t n = limits_.n_rows;
    return 2 * floats(n * h_.n_ff) +
           std::max(linear(n, h_.n_embd, layers_), linear(n, h_.n_ff, layers_));
  }

  size_t output_block() const {
    const size_t n = limits_.n_logit_rows;
    return floats(n * h_.n_embd) + refinement();  // or the product before it, which takes less
  }

  // What rounding left over of each row, as floats and as an input, and the greatest of each run of
  // its logits.
  size_t refinement() const {
    const size_t n = limits_.n_logit_rows;
    const size_t n_runs = (h_.n_vocab + nn::kRunOfProducts - 1) / nn::kRunOfProducts;
    return floats(n * h_.n_embd) + floats(n * n_runs) + linear(n, h_.n_embd, output_);
  }

  size_t linear(size_t n, size_t k, const Types& types) const {
    return linear_scratch_bytes(kernels_, limits_, types, n, k);
  }

  // What each thread computes with, and the partial results of the tiles that are cut into pieces.
  size_t attention() const {
    const size_t own =
        kernels::attention_scratch_floats(kernels::kMaxAttentionRows, h_.k_len, h_.v_len);
    const size_t across_gap = kernels::kMaxAttentionRows * n_spans();
    return floats(limits_.n_threads * own) +
           floats((limits_.n_threads * across_gap + n_partials()) *
                  kernels::partial_floats(h_.v_len));
  }

  // nn/attention cuts a tile when its spans are more than what 4 pieces for each thread would have
  // of the work left, which is its own and that of the tiles behind it. So tiles that are cut all
  // lie in a tail with less work than 4 of the largest such tile for each thread; nor is there more
  // work than that of all rows.
  size_t n_partials() const {
    if (limits_.n_threads == 1) return 0;
    const size_t n_sharing = std::min(h_.n_heads / h_.n_kv_heads, kernels::kMaxAttentionRows);
    const size_t rows_of_tile = std::max(kernels_.attention_rows, n_sharing);
    constexpr size_t kPiecesPerThread = 4;
    const size_t n_rows =
        std::min(kPiecesPerThread * limits_.n_threads * rows_of_tile, limits_.n_rows * h_.n_heads);
    return n_rows * n_spans();
  }

  // That a row sees: a gap may begin and end within one.
  size_t n_spans() const { return limits_.n_positions / kSpanPositions + 3; }

  Hparams h_;
  Types layers_;
  Types output_;
  const kernels::KernelTable& kernels_;
  PassLimits limits_;
};

}  // namespace

size_t linear_scratch_bytes(const kernels::KernelTable& kernels, const PassLimits& limits,
                            std::span<const quant::TypeRow* const> types, size_t n, size_t k) {
  std::vector<const InputForm*> forms;
  size_t largest_strip = 0;
  for (const quant::TypeRow* type : types) {
    const InputForm* form = kernels.of(type->type).input;
    if (std::ranges::count(forms, form) == 0) forms.push_back(form);
    largest_strip = std::max(largest_strip, type->packing.strip_bytes(k));
  }
  size_t sum = 0;
  for (const InputForm* form : forms) sum += piece(form->bytes(n, k));
  if (limits.packed) return sum;
  const size_t scales = floats(quant::kStripRows * kernels::padded(k) / quant::kScaleGroup);
  return sum + limits.n_threads * (piece(2 * largest_strip) + 2 * scales);
}

size_t most_scratch_bytes(const gguf::File& file, const kernels::KernelTable& kernels,
                          const PassLimits& limits) {
  return rounded_up(Scratch(file, kernels, limits).pass(), tensor::Arena::kPage);
}

}  // namespace billow::arch
