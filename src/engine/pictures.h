// Pictures in the prompt of a sequence. A picture is one or more tiles. The tokens of a tile have
// embeddings of the model's picture encoder in place of ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "context/prompt_image.h"
#include "nn/rope.h"
#include "vision/plan.h"

namespace billow::engine {

// Stands for one token of a picture in a prompt that is given to Engine::start().
using context::kPictureToken;
// Within a sequence, a token of a picture has a negative id, computed from the picture's digest and
// the token's number. So equal pictures have equal ids, and the prefix index finds them.
inline constexpr bool is_picture_token(int32_t id) noexcept { return id < 0; }

// A picture for a model. Several sequences may share it. The caller of Engine::start() fills in all
// members but `embeddings`. From then on, only the engine may use the picture.
struct Picture {
  std::string digest;  // identifies the picture and how it is processed: equal embeddings
  std::vector<vision::Tile> tiles;
  std::vector<float> patches;  // as vision::Pixels::patches; not needed if it has embeddings
  // [n_tokens()][n_embd * (1 + n_deep)] of the model's arch::ModelInfo; null: not encoded yet
  std::shared_ptr<const std::vector<float>> embeddings;

  size_t n_tokens() const noexcept;
};

// What the engine must know about the tokens of a prompt with pictures. Immutable.
class PlacedPictures {
 public:
  PlacedPictures() = default;
  // Gives each kPictureToken of `tokens` its id. The tokens belong to the tiles of `pictures`, in
  // this order. `whole`: the tokens of a tile must be adjacent. Throws Error (kInvalidInput) if the
  // numbers differ, or if other tokens separate the tokens of a tile that must be whole.
  PlacedPictures(std::vector<int32_t>& tokens, std::span<const std::shared_ptr<Picture>> pictures,
                 bool whole);

  bool empty() const noexcept { return runs_.empty(); }
  // The following take the index of a token of the sequence.
  // Returns the index of the first token at or after `index` whose picture has no embeddings yet;
  // SIZE_MAX: there is none.
  size_t next_without_embeddings(size_t index) const noexcept;
  // Returns the pictures without embeddings that have tokens at or after `index`, in order.
  std::vector<std::shared_ptr<Picture>> without_embeddings(size_t index) const;
  // Returns the token's embedding, or null for a token of text. `n_floats`: of each token.
  // REQUIRES: the picture has embeddings.
  const float* embedding(size_t index, size_t n_floats) const noexcept;
  // Returns the positions for rotations. A tile takes as many positions as its longer side has
  // tokens, and text continues after them.
  nn::GridPosition grid(size_t index) const noexcept;
  // Returns the index of the last token of the tile that `index` is within; otherwise `index`.
  size_t last_of_tile(size_t index) const noexcept;
  // Returns how many tokens from `index` on a pass takes in place of n, if it must not separate the
  // tokens of a tile: those before the tile that the n tokens would cut, or that tile as a whole if
  // no token is before it.
  size_t whole_tiles(size_t index, size_t n) const noexcept;

 private:
  // Adjacent tokens of one tile.
  struct Run {
    size_t begin = 0;  // index of the first token
    size_t n = 0;
    size_t picture = 0;  // index
    size_t first = 0;    // number of the first token within the picture
    uint32_t n_cols = 0;
    uint32_t position = 0;  // of the first token
    uint32_t next = 0;      // position of the token after the run
    size_t end() const noexcept { return begin + n; }
  };
  // Returns the last run that begins at or before `index`; null: none.
  const Run* run_before(size_t index) const noexcept;
  bool lacks_embeddings(const Run& run, size_t index) const noexcept {
    return run.end() > index && pictures_[run.picture]->embeddings == nullptr;
  }

  std::vector<std::shared_ptr<Picture>> pictures_;
  std::vector<Run> runs_;  // in order
};

}  // namespace billow::engine
