#include "arch/encoders/projection.h"

#include <algorithm>

#include "nn/linear.h"

namespace billow::arch {

namespace {

struct Names {
  const char* first;
  const char* second;
};
constexpr Names kNames[] = {{"dense_2.weight", "dense_3.weight"},
                            {"dense.0.weight", "dense.1.weight"}};

}  // namespace

bool Projection::is_in(const gguf::File& file) {
  return std::ranges::any_of(kNames, [&](const Names& names) {
    return file.find_tensor(names.first) != nullptr || file.find_tensor(names.second) != nullptr;
  });
}

void Projection::load(const WeightLoader& load, size_t n_embd) {
  for (const Names& names : kNames) {
    const gguf::TensorInfo* info = load.file().find_tensor(names.first);
    if (info == nullptr && !load.has(names.second)) continue;
    const size_t n_inner = info == nullptr ? n_embd : info->shape[1];
    load.matrix(names.first, first_, n_embd, n_inner);
    load.matrix(names.second, second_, n_inner, n_embd);
    return;
  }
}

void Projection::apply(const nn::Compute& compute, tensor::Matrix x) const {
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix inner = compute.arena.matrix(x.n_rows, first_.n_rows);
  nn::linear(compute, x, {{first_, nullptr, inner}});
  nn::linear(compute, inner, {{second_, nullptr, x}});
}

}  // namespace billow::arch
