#include <type_traits>
#include <utility>

#include "kernels/test_isa/test_isa.h"
#include "quant/type_list.h"

#include "kernels/body/vector_scalar.inl.h"

#include "kernels/body/pairs.inl.h"

#include "kernels/body/bf16_plain.inl.h"

#include "kernels/body/tile_shapes.inl.h"

#include "kernels/body/tiles_emulated.inl.h"

namespace billow::kernels {
namespace {

constexpr const KernelTable& kTileBase = kScalar;

}  // namespace
}  // namespace billow::kernels

#include "kernels/body/tiles.inl.h"

namespace billow::kernels {

constinit const Overlay kAmxEmulated = tile_overlay(quant::Formats{});
constinit const Overlay kAmxBf16Emulated = tile_bf16_overlay(quant::Formats{});

}  // namespace billow::kernels
