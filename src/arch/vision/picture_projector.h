// The projector of a picture encoder: merges the patches of each token and computes the embedding.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "arch/decoder/norm.h"
#include "arch/vision/dense.h"
#include "arch/vision/picture_rows.h"
#include "arch/vision/style.h"
#include "nn/compute.h"
#include "tensor/tensor.h"
#include "vision/plan.h"

namespace billow::arch {

class PictureProjector {
 public:
  // `patch_norms` loads norms of patches and must outlive the projector. `merge` is the patches per
  // token in each direction. Throws Error that names the tensor, as WeightLoader does.
  PictureProjector(const ProjectorStyle& style, const WeightLoader& load, const Norms& patch_norms,
                   size_t n_embd, size_t merge);

  size_t n_out() const noexcept { return n_out_; }  // values of a result
  // Memory that is neither in the file nor in the packed weights.
  size_t n_own_bytes() const noexcept { return transposed_.size() * sizeof(float); }

  // Writes the embeddings of all tokens into columns [first_col, first_col + n_out()) of `out`. x
  // has the rows of `rows`. In a sizing pass only the number of rows of `out` matters.
  void run(const nn::Compute& compute, std::span<const vision::Tile> tiles, const PictureRows& rows,
           tensor::Matrix x, tensor::Matrix out, size_t first_col) const;

 private:
  struct Product {
    Dense dense;
    bool activates = false;
  };
  struct Source {
    std::span<const vision::Tile> tiles;
    const PictureRows& rows;
    tensor::Matrix x;
  };
  void load_product(const ProjectorProduct& style, const WeightLoader& load, size_t n_in);
  void load_transposed(const WeightLoader& load, const std::string& name, size_t n_in,
                       Dense& dense);
  void merge_patches(const Source& source, const TokenPlace& token,
                     const kernels::KernelTable& kernels, float* scratch, float* out) const;
  void standardise(const nn::Compute& compute, tensor::Matrix merged) const;
  tensor::Matrix multiply_all(const nn::Compute& compute, tensor::Matrix merged) const;

  ProjectorStyle style_;
  size_t n_embd_ = 0;
  size_t merge_ = 1;
  size_t n_merged_ = 0;  // values of a merged row
  size_t n_out_ = 0;
  Norm norm_;
  std::optional<Norms> merged_norms_;
  Norm merged_norm_;
  const float* std_bias_ = nullptr;  // [n_merged_]
  const float* std_scale_ = nullptr;
  std::vector<Product> products_;
  std::vector<float> transposed_;
};

}  // namespace billow::arch
