// The picture encoder of a model, with its weights, and the pass that it works on. A pass runs
// stage by stage, so that the engine can evaluate text between stages. One thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arch/model.h"
#include "arch/vision/picture_encoder.h"
#include "cpu/thread_team.h"
#include "engine/packed_cache.h"
#include "engine/pictures.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "nn/packed_weights.h"
#include "tensor/arena.h"
#include "vision/plan.h"
#include "vision/projector_file.h"

namespace billow::engine {

struct PictureReaderOptions {
  bool pack_weights = true;
  PackedCacheOptions packed_cache = {};
  // Frees granted bytes: of a pass at its end, and of embeddings when their last user is gone. Not
  // called after the reader's end. Any thread.
  std::function<void(uint64_t bytes)> give_back = [](uint64_t) {};
};

class PictureReader {
 public:
  // Max bytes of the embeddings of recent pictures.
  static constexpr uint64_t kMaxRecentBytes = uint64_t{64} << 20;

  // Loads the encoder of the GGUF file at `path` for a text model: a projector ("mmproj"), or a
  // model with a projector in its file. Throws Error that names the file and the problem, also if
  // the encoder is not for this text model.
  PictureReader(const std::string& path, const arch::ModelInfo& text_model,
                const kernels::KernelTable& kernels, const PictureReaderOptions& options);

  const gguf::File& file() const noexcept { return file_.file(); }
  const gguf::File& file_on_disk() const noexcept { return file_.origin(); }
  // Returns the mapped bytes, without those of the text model's file.
  uint64_t file_bytes() const noexcept { return file_.n_own_bytes(); }
  const arch::PictureEncoder& encoder() const noexcept { return *encoder_; }
  // Returns the bytes that the encoder always needs, without the file of the text model.
  uint64_t weight_bytes() const;
  size_t packed_bytes() const noexcept { return packed_.n_bytes(); }
  // Packs the weights, or maps them from the cache.
  void load_weights(cpu::ThreadTeam& team);

  // Frees the embeddings of the least recent picture that no sequence uses. Returns false if there
  // is none. idle_bytes() returns the bytes of all such embeddings.
  bool drop_idle();
  uint64_t idle_bytes() const noexcept;

  // Gives the picture its embeddings if a recent picture has the same digest. Returns whether it
  // has embeddings.
  bool find(Picture& picture);

  // Returns the bytes of a pass over these pictures, with their embeddings.
  uint64_t pass_bytes(std::span<const std::shared_ptr<Picture>> pictures, size_t n_threads) const;

  bool busy() const noexcept { return !pictures_.empty(); }
  // Begins a pass. REQUIRES: !busy(), and pass_bytes() are granted. When the pass ends, they are
  // given back, except those of the embeddings.
  void begin(std::vector<std::shared_ptr<Picture>> pictures, size_t n_threads);
  // Runs stages until the pass ends or `until` has come; at least one stage. After the last stage,
  // the pictures have embeddings. Returns whether the pass has ended. Throws Error if there is no
  // scratch memory. REQUIRES: busy().
  bool run(cpu::ThreadTeam& team, std::chrono::steady_clock::time_point until);
  // Ends the pass, if there is one, without results, and gives its bytes back. Its pictures cannot
  // be encoded again.
  void cancel();

 private:
  uint64_t embedding_bytes(const Picture& picture) const noexcept;
  void end();
  void free_pass();
  void keep(const Picture& picture);

  vision::ProjectorFile file_;
  const kernels::KernelTable& kernels_;
  using GiveBack = std::function<void(uint64_t)>;
  std::shared_ptr<const GiveBack> give_back_;  // embeddings may outlive this object
  nn::PackedWeights packed_;
  PackedCache packed_cache_;
  std::unique_ptr<arch::PictureEncoder> encoder_;

  // The pass. Its memory is in the arena, which is empty between passes.
  std::vector<std::shared_ptr<Picture>> pictures_;  // empty: no pass
  std::vector<vision::Tile> tiles_;
  std::span<float> patches_;
  std::span<float> state_;
  tensor::Matrix rows_;
  tensor::Arena arena_;
  size_t stage_ = 0;
  uint64_t granted_bytes_ = 0;

  struct Recent {
    std::string digest;
    std::shared_ptr<const std::vector<float>> embeddings;
    uint64_t n_bytes() const noexcept { return embeddings->size() * sizeof(float); }
    bool is_idle() const noexcept { return embeddings.use_count() == 1; }
  };
  std::list<Recent> recent_;  // the latest first
};

// Returns the max rows of a pass of a text model. If a pass must have all tokens of a picture, it
// has room for the largest picture. `pictures`: null: the model sees none.
size_t rows_of_batch(size_t wanted, const arch::ModelInfo& model, const PictureReader* pictures);

}  // namespace billow::engine
