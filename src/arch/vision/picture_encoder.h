// A loaded encoder of pictures: takes patches of pixels, and returns rows of embeddings for the
// text model. A pass is cut into stages, so that an engine can evaluate text between them. An
// encoder is immutable after loading. Concurrent passes need different Computes and states.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "arch/model.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "nn/compute.h"
#include "tensor/tensor.h"
#include "vision/plan.h"
#include "vision/rule.h"

namespace billow::arch {

struct PictureEncoderInfo {
  std::string projector;   // clip.projector_type
  size_t n_embd = 0;       // values of an embedding: the width of the text model
  size_t n_deep = 0;       // further embeddings per token, for the text model's first layers; or 0
  size_t n_stages = 0;     // stages of a pass
  size_t n_own_bytes = 0;  // memory of the encoder, without the file and the packed weights
};

// The tiles of one pass, of any number of pictures, one after another.
struct PictureBatch {
  // [n_patches][3 * patch_size * patch_size], in the order of vision::Pixels::patches
  std::span<const float> patches;
  // Tile::first_patch counts among all patches of the batch. No patch is between two tiles.
  std::span<const vision::Tile> tiles;
};

// The upper limits of a pass.
struct PictureLimits {
  size_t n_patches = 0;       // of all tiles
  size_t n_tile_patches = 0;  // of the largest tile
  size_t n_tiles = 0;
  size_t n_threads = 1;
};

class PictureEncoder {
 public:
  virtual ~PictureEncoder() = default;
  const PictureEncoderInfo& info() const noexcept { return info_; }
  // How pictures of this encoder are preprocessed.
  const vision::Rule& rule() const noexcept { return rule_; }
  // Values of a row of the result: n_embd * (1 + n_deep). The token's embedding comes first.
  size_t row_floats() const noexcept { return info_.n_embd * (1 + info_.n_deep); }

  // Throws Error (kTooLarge) if the encoder has no positions for a tile of this shape.
  virtual void check(std::span<const vision::Tile> tiles) const = 0;

  // Returns the floats that a pass keeps from stage to stage.
  virtual size_t state_floats(size_t n_patches, size_t n_tiles) const = 0;

  // Runs one stage; the caller runs all stages 0 .. n_stages - 1 of a batch in this order, with the
  // same state and rows. Stage 0 embeds the patches, each further stage is a layer, and the last
  // one is the projector. `rows` is [sum of Tile::n_tokens()][row_floats()], in the order of tiles,
  // then rows of tokens, then columns. It is complete after the last stage. A row depends only on
  // its tile, bit for bit. Throws Error only if there is no scratch memory.
  // REQUIRES: check() accepts the tiles. `state` has state_floats() floats, aligned to 64 bytes.
  virtual void run_stage(const nn::Compute& compute, const PictureBatch& batch, size_t stage,
                         std::span<float> state, tensor::Matrix rows) const = 0;

  // Returns the max bytes that the arena holds after any number of passes within `limits`. State
  // and rows are not included.
  virtual size_t scratch_bytes(const kernels::KernelTable& kernels,
                               const PictureLimits& limits) const = 0;

 protected:
  PictureEncoderInfo info_;
  vision::Rule rule_;
};

// Loads the encoder of `file` ("mmproj"), which must outlive it. Throws Error that names the file
// and the key or tensor: an unknown projector, a tensor that is missing or of the wrong shape.
std::unique_ptr<PictureEncoder> load_picture_encoder(const gguf::File& file,
                                                     const LoadOptions& options);

}  // namespace billow::arch
