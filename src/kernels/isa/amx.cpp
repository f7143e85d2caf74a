#include <immintrin.h>

#include <type_traits>
#include <utility>

#include "kernels/isa/isa.h"
#include "quant/type_list.h"

#include "kernels/body/vector_avx512.inl.h"

#include "kernels/body/pairs.inl.h"

#include "kernels/body/bf16_avx512.inl.h"

#include "kernels/body/tile_shapes.inl.h"

#include "kernels/body/tiles_amx.inl.h"

namespace billow::kernels {
namespace {

constexpr const KernelTable& kTileBase = kAvx512;

}  // namespace
}  // namespace billow::kernels

#include "kernels/body/tiles.inl.h"

namespace billow::kernels {

constinit const Overlay kAmx = tile_overlay(quant::Formats{});
constinit const Overlay kAmxBf16 = tile_bf16_overlay(quant::Formats{});

}  // namespace billow::kernels
