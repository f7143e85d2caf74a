#include "vision/family.h"

#include <array>

#include "vision/pieces.h"
#include "vision/views.h"

namespace billow::vision {
namespace {

constexpr auto kRows = PatchOrder::kRows;
constexpr auto kBlocks = PatchOrder::kMergeBlocks;
using enum Filter;
using enum Scaling;

// The columns are in the order of Family: projector, filter, scaling, order; merge, tile_size,
// tokens, tiles, has_square_tiles; placeholder, views, pieces, before, after.
constexpr std::array kFamilies{
    Family{"gemma3", kBilinear, kFused, kRows, 4, 0, 0, 0, 1, 1, true,  //
           "<start_of_image>", fixed_view, gemma3_pieces},
    Family{"gemma4v", kBicubic, kProduct, kRows, 3, 0, 0, 280, 1, 1, false,  //
           "<|image|>", budget_view, gemma4_pieces},
    Family{"idefics3", kLanczos, kFused, kRows, 2, 0, 0, 0, 1, 1, true,  //
           "<image>", idefics3_views, idefics3_pieces},
    Family{"qwen2vl_merger", kBicubic, kFused, kBlocks, 2, 0, 4, 4096, 1, 1, false,  //
           "<|image_pad|>", smart_view, qwen_pieces, "<|vision_start|>", "<|vision_end|>"},
    Family{"qwen2.5vl_merger", kBicubic, kFused, kBlocks, 2, 0, 4, 4096, 1, 1, false,  //
           "<|image_pad|>", smart_view, qwen_pieces, "<|vision_start|>", "<|vision_end|>"},
    Family{"qwen3vl_merger", kBicubic, kFused, kBlocks, 2, 0, 64, 4096, 1, 1, false,  //
           "<|image_pad|>", smart_view, qwen_pieces, "<|vision_start|>", "<|vision_end|>"},
    Family{"pixtral", kBicubic, kFused, kRows, 1, 0, 0, 0, 1, 1, false,  //
           "[IMG]", fitted_view, pixtral_pieces},
    Family{"lfm2", kBilinear, kFused, kRows, 2, 512, 64, 256, 2, 10, true,  //
           "<image>", lfm2_views, lfm2_pieces},
    Family{"internvl", kBicubic, kFused, kRows, 2, 0, 0, 0, 1, 12, true,  //
           "<IMG_CONTEXT>", internvl_views, internvl_pieces, "", "\n"},
    Family{"llama4", kBilinear, kBf16, kRows, 2, 0, 0, 0, 1, 16, true,  //
           "<|image|>", llama4_views, llama4_pieces},
};

}  // namespace

std::span<const Family> families() noexcept { return kFamilies; }

}  // namespace billow::vision
