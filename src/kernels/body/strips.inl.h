// The places of vectors of packed weights and of outputs: vector i is outputs [i * kLanes, (i + 1)
// * kLanes).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/math.inl.h"
#include "kernels/kernel_table.h"
#include "quant/packing.h"

namespace billow::kernels {
namespace {

constexpr size_t kHalves = quant::kStripRows / Isa::kLanes;  // vectors of a strip
constexpr size_t kLaneBytes = Isa::kLanes * 4;
constexpr size_t kInputsOfBlock = quant::kPackedBlock / kActivationGroup;

// The sizes are constants, because a packing used as an object would leave a shared symbol.
template <quant::Packing P>
inline const uint8_t* strip_of(const GemmArgs& args, size_t vector) noexcept {
  constexpr size_t kFactorBytes = P.strip_bytes(0);
  constexpr size_t kRunLen = P.run_blocks() * quant::kPackedBlock;
  constexpr size_t kRunBytes = P.strip_bytes(kRunLen) - kFactorBytes;
  return reinterpret_cast<const uint8_t*>(args.weight) +
         vector / kHalves * (kFactorBytes + padded(args.k) / kRunLen * kRunBytes);
}

// Returns how many outputs of a vector are needed.
inline size_t lanes_of(const GemmArgs& args, size_t vector) noexcept {
  const size_t first = vector * Isa::kLanes;
  if (first >= args.n_end) return 0;
  return args.n_end - first < Isa::kLanes ? args.n_end - first : Isa::kLanes;
}

// Returns the bias of a vector of which `lanes` outputs are needed; 0 if there is no bias.
inline F bias_of(const GemmArgs& args, size_t vector, size_t lanes) noexcept {
  if (args.bias == nullptr || lanes == 0) return Isa::zero();
  return load_lanes(args.bias + vector * Isa::kLanes, lanes);
}

inline size_t end_vector(const GemmArgs& args) noexcept {
  return (args.n_end + quant::kStripRows - 1) / quant::kStripRows * kHalves;
}

}  // namespace
}  // namespace billow::kernels
