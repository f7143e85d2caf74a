#include "quantize/encode.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "quant/type_list.h"
#include "quantize/fits/fits.h"
#include "quantize/grid_fit.h"

namespace billow::quantize {
namespace {

using quant::AffineGroup;
using quant::SymmetricGroup;
using quant::Type;

constexpr size_t kMaxGroupLen = 256;

// Returns the mean of x^2 of each row. The sums run in the order of the elements.
std::vector<float> mean_squares(const Rows& rows) {
  std::vector<float> means;
  for (size_t at = 0; at < rows.values.size(); at += rows.row_len) {
    float sum = 0.0f;
    for (const float x : rows.values.subspan(at, rows.row_len)) sum += x * x;
    means.push_back(sum / static_cast<float>(rows.row_len));
  }
  return means;
}

// Runs `fit` on one tile after the other, and `store` on each fitted group. A tile holds
// consecutive groups, which may belong to different rows.
template <class Format, class Group, class Fit, class Store>
void by_tiles(const Rows& rows, std::byte* out, const Fit& fit, const Store& store) {
  constexpr size_t kLen = Format::kGroupLen;
  auto* groups = reinterpret_cast<typename Format::Group*>(out);
  const size_t n_groups = rows.values.size() / kLen;
  const size_t groups_per_row = rows.row_len / kLen;
  const std::vector<float> means =
      kLen == 32 && rows.importance != nullptr ? mean_squares(rows) : std::vector<float>();
  std::array<float, kTileGroups * kLen> x;
  std::array<float, kTileGroups * kLen> importance = {};
  std::array<float, kTileGroups> tile_means = {};
  std::array<Group, kTileGroups> fitted;
  for (size_t first = 0; first < n_groups; first += kTileGroups) {
    const size_t n = std::min(kTileGroups, n_groups - first);
    const float* own = rows.values.data() + first * kLen;
    if (n < kTileGroups) {  // zeros fill the last tile
      std::fill(std::copy_n(own, n * kLen, x.begin()), x.end(), 0.0f);
      own = x.data();
    }
    for (size_t g = 0; g < n && rows.importance != nullptr; ++g) {
      const size_t column = (first + g) % groups_per_row * kLen;
      std::copy_n(rows.importance + column, kLen, importance.begin() + g * kLen);
      if (!means.empty()) tile_means[g] = means[(first + g) / groups_per_row];
    }
    fit({.x = own,
         .importance = rows.importance != nullptr ? importance.data() : nullptr,
         .row_mean_squares = tile_means.data()},
        fitted.data());
    for (size_t g = 0; g < n; ++g) store(fitted[g], groups[first + g]);
  }
}

// Encodes with the type's own encoder, without a search and without an importance.
template <class Format>
void plain(const Rows& rows, std::byte* out) {
  quant::row(Format::kType).encode(rows.values.data(), rows.values.size(), out);
}

template <class Format, int max_code, int max_part_scale, size_t part_len>
void affine(const Rows& rows, std::byte* out) {
  by_tiles<Format, AffineGroup>(
      rows, out,
      [](const Tile& tile, AffineGroup* to) {
        fits().affine(tile, {part_len, max_code, max_part_scale}, to);
      },
      Format::store);
}

void q3_k(const Rows& rows, std::byte* out) {
  by_tiles<quant::Q3_K, SymmetricGroup>(
      rows, out,
      [](const Tile& tile, SymmetricGroup* to) { fits().refined(tile, {16, 4, 32}, to); },
      quant::Q3_K::store);
}

void q6_k(const Rows& rows, std::byte* out) {
  by_tiles<quant::Q6_K, SymmetricGroup>(
      rows, out,
      [](const Tile& tile, SymmetricGroup* to) { fits().signed_parts(tile, {16, 32, 128}, to); },
      quant::Q6_K::store);
}

void iq4_xs(const Rows& rows, std::byte* out) {
  by_tiles<quant::IQ4_XS, SymmetricGroup>(
      rows, out,
      [](const Tile& tile, SymmetricGroup* to) {
        fits().codebook(tile, quant::kIq4Values.values, to);
      },
      quant::IQ4_XS::store);
}

void iq4_nl(const Rows& rows, std::byte* out) {
  by_tiles<quant::IQ4_NL, BlockFit>(
      rows, out,
      [](const Tile& tile, BlockFit* to) {
        fits().codebook_block(tile, quant::kIq4Values.values, to);
      },
      [](const BlockFit& fit, quant::IQ4_NL::Group& group) {
        quant::IQ4_NL::store(fit.scale, fit.codes, group);
      });
}

template <class Format, int n_steps>
void signed_blocks(const Rows& rows, std::byte* out) {
  if (rows.importance == nullptr) return plain<Format>(rows, out);
  by_tiles<Format, BlockFit>(
      rows, out, [](const Tile& tile, BlockFit* to) { fits().signed_block(tile, n_steps, to); },
      [](const BlockFit& fit, typename Format::Group& group) {
        Format::store(fit.scale, fit.codes, group);
      });
}

template <class Format, int max_code>
void affine_blocks(const Rows& rows, std::byte* out) {
  if (rows.importance == nullptr) return plain<Format>(rows, out);
  by_tiles<Format, BlockFit>(
      rows, out, [](const Tile& tile, BlockFit* to) { fits().affine_block(tile, max_code, to); },
      [](const BlockFit& fit, typename Format::Group& group) {
        Format::store(fit.scale, fit.min, fit.codes, group);
      });
}

template <class Format>
void grid(const Rows& rows, std::byte* out) {
  auto* groups = reinterpret_cast<typename Format::Group*>(out);
  const size_t groups_per_row = rows.row_len / kMaxGroupLen;
  for (size_t g = 0; g < rows.values.size() / kMaxGroupLen; ++g) {
    const float* importance =
        rows.importance == nullptr ? nullptr : rows.importance + g % groups_per_row * kMaxGroupLen;
    Format::store(fit_grid_group(Format::kType, rows.values.data() + g * kMaxGroupLen, importance),
                  groups[g]);
  }
}

struct Encoder {
  Type type;
  void (*encode)(const Rows& rows, std::byte* out);
  bool needs_importance = false;
};

constexpr Encoder kEncoders[] = {
    {Type::kF32, plain<quant::F32>},
    {Type::kF16, plain<quant::F16>},
    {Type::kBF16, plain<quant::BF16>},
    {Type::kQ8_0, plain<quant::Q8_0>},
    {Type::kQ4_0, signed_blocks<quant::Q4_0, 8>},
    {Type::kQ5_0, signed_blocks<quant::Q5_0, 16>},
    {Type::kQ4_1, affine_blocks<quant::Q4_1, 15>},
    {Type::kQ5_1, affine_blocks<quant::Q5_1, 31>},
    {Type::kQ2_K, affine<quant::Q2_K, 3, 15, 16>},
    {Type::kQ3_K, q3_k},
    {Type::kQ4_K, affine<quant::Q4_K, 15, 63, 32>},
    {Type::kQ5_K, affine<quant::Q5_K, 31, 63, 32>},
    {Type::kQ6_K, q6_k},
    {Type::kIQ4_NL, iq4_nl},
    {Type::kIQ4_XS, iq4_xs},
    {Type::kIQ3_S, grid<quant::IQ3_S>},
    {Type::kIQ3_XXS, grid<quant::IQ3_XXS>},
    {Type::kIQ2_S, grid<quant::IQ2_S>},
    {Type::kIQ2_XS, grid<quant::IQ2_XS>, true},
    {Type::kIQ2_XXS, grid<quant::IQ2_XXS>, true},
    {Type::kIQ1_M, grid<quant::IQ1_M>},
    {Type::kIQ1_S, grid<quant::IQ1_S>, true},
    {Type::kMXFP4, plain<quant::MXFP4>},
    {Type::kTQ1_0, plain<quant::TQ1_0>},
    {Type::kTQ2_0, plain<quant::TQ2_0>},
    {Type::kQ1_0, plain<quant::Q1_0>},
    {Type::kQ2_0, plain<quant::Q2_0>},
};

const Encoder* find_encoder(Type type) noexcept {
  const auto* found = std::ranges::find(kEncoders, type, &Encoder::type);
  return found == std::end(kEncoders) ? nullptr : found;
}

}  // namespace

bool can_encode(Type type) noexcept { return find_encoder(type) != nullptr; }

bool needs_importance(Type type) noexcept {
  const Encoder* encoder = find_encoder(type);
  return encoder != nullptr && encoder->needs_importance;
}

void encode_rows(Type type, const Rows& rows, std::byte* out) noexcept {
  const Encoder* encoder = find_encoder(type);
  BILLOW_CHECK(encoder != nullptr);
  BILLOW_CHECK(rows.row_len != 0 && rows.values.size() % rows.row_len == 0 &&
               rows.row_len % quant::row(type).group_len == 0);
  BILLOW_CHECK(rows.importance != nullptr || !encoder->needs_importance);
  encoder->encode(rows, out);
}

}  // namespace billow::quantize
