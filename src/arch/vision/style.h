// The description of a family of picture encoders as plain data. A family's file fills it in from
// metadata; PictureTransformer loads and runs it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/decoder/style.h"
#include "arch/metadata.h"
#include "arch/weights.h"
#include "nn/activation.h"
#include "nn/plane_rope.h"

namespace billow::arch {

// A row that belongs to no patch. Patches see it; the projector does not read it.
enum class ClassRow : uint8_t { kNone, kFirst, kLast };  // where it is among the rows of a tile

// How v.position_embd gives the embedding of a place.
enum class PositionKind : uint8_t {
  kNone,
  kGrid,       // a row for each place of the only possible grid, and for the class row
  kResized,    // the grid is resized to the tile: bilinear with antialiasing, pixels are squares
  kStretched,  // the grid is resized to the tile: bilinear, corners on corners
  kAxes,       // a row for the column and a row for the row
};

// How the merge x merge patches of a token become one row.
enum class MergeKind : uint8_t {
  kMean,      // the mean of the patches
  kPatches,   // one patch after another
  kChannels,  // the values of all patches for one channel after another
};

struct ProjectorProduct {
  std::string name = {};    // of the tensors NAME.weight and NAME.bias
  bool has_bias = true;     // it must exist; otherwise it is optional
  bool activates = false;   // exact GELU follows
  bool transposed = false;  // the file has the inputs as rows
};

// From rows of patches to rows of the text model.
struct ProjectorStyle {
  std::string norm = {};  // of each patch, of the encoder's kind; empty: none
  Presence norm_presence = Presence::kRequired;
  MergeKind merge = MergeKind::kPatches;
  float scale = 1.0f;            // multiplies merged rows
  bool standardises = false;     // (row - v.std_bias) * v.std_scale, if the file has them
  std::string merged_norm = {};  // of a merged row; empty: none
  NormKind merged_norm_kind = NormKind::kMean;
  float merged_norm_epsilon = 1e-5f;
  Presence merged_norm_presence = Presence::kRequired;
  bool plain_rms = false;  // RMS without weights instead of merged_norm
  std::vector<ProjectorProduct> products = {};
};

struct PictureStyle {
  size_t n_embd = 0;
  size_t n_ff = 0;
  size_t n_layers = 0;
  size_t n_heads = 0;
  size_t head_len = 0;  // a multiple of 8
  NormKind norm = NormKind::kMean;
  float norm_epsilon = 0.0f;
  std::optional<nn::Activation> activation;  // none: quick GELU
  bool gated = false;                        // the feed-forward part
  bool biases = false;        // products of layers must have biases; otherwise optional
  bool qkv_biases = false;    // the same for query, key and value
  bool patch_bias = false;    // the same for the patch embedding
  bool two_frames = false;    // a second matrix embeds the second frame, which equals the first
  float pixel_scale = 1.0f;   // a pixel is multiplied by this,
  float pixel_offset = 0.0f;  // and this is added
  ClassRow class_row = ClassRow::kNone;
  PositionKind positions = PositionKind::kNone;
  std::optional<nn::PlaneRopeParams> rope;
  uint32_t first_angle = 0;      // row and column of the first patch, for `rope`
  bool pre_norm = false;         // v.pre_ln before the first layer
  std::string ffn_norm = "ln2";  // the norm before the feed-forward part
  bool result_norms = false;     // attn_post_norm and ffn_post_norm norm results of sub-layers
  bool qk_norm = false;          // attn_q_norm and attn_k_norm, for each head or the whole row
  bool v_norm = false;           // RMS without weights for each head
  bool layer_scales = false;     // ls1 and ls2 multiply results of sub-layers
  float attention_scale = 1.0f;  // multiplies the dot products
  size_t window = 0;             // patches of a window's side; 0: none
  std::vector<bool> windowed;    // [n_layers] which layers see only the window; empty: none
  ProjectorStyle projector;
  std::vector<size_t> deep_layers;              // the result of these layers is projected, too,
  std::vector<ProjectorStyle> deep_projectors;  // by these projectors
};

// Reads sizes and epsilon, and fills in the defaults of SigLIP: layer norms, biases, GELU without a
// gate. `gelu` is the kind of GELU that clip.use_gelu means. Throws Error naming a key that is
// missing or invalid.
PictureStyle read_picture_style(const Metadata& meta, nn::Activation gelu);

// Makes norms RMS norms and biases optional.
void set_plain(PictureStyle& style);

// Returns whether an encoder of this style uses a tensor of its file. Only names of the encoder's
// tensors ("v.") are known here; all others count as used.
bool uses_tensor(const PictureStyle& style, std::string_view name);

}  // namespace billow::arch
