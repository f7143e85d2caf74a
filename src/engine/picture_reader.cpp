#include "engine/picture_reader.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "engine/weights.h"

namespace billow::engine {
namespace {

// Throws Error if the encoder's embeddings have another shape than the text model takes.
void check_width(const gguf::File& file, const arch::PictureEncoderInfo& encoder,
                 const arch::ModelInfo& text_model) {
  if (encoder.n_embd == text_model.n_embd && encoder.n_deep == text_model.n_deep) return;
  const auto shape = [](size_t n_embd, size_t n_deep) {
    return std::to_string(1 + n_deep) + " x " + std::to_string(n_embd) + " values";
  };
  throw Error(ErrorCode::kInvalidInput, file.path() + ": the projector makes tokens of " +
                                            shape(encoder.n_embd, encoder.n_deep) +
                                            ", but the model takes " +
                                            shape(text_model.n_embd, text_model.n_deep));
}

arch::PictureLimits limits_of(std::span<const std::shared_ptr<Picture>> pictures,
                              size_t n_threads) {
  arch::PictureLimits limits = {.n_threads = n_threads};
  for (const std::shared_ptr<Picture>& picture : pictures) {
    for (const vision::Tile& tile : picture->tiles) {
      const size_t n_patches = size_t{tile.rows} * tile.cols;
      limits.n_patches += n_patches;
      limits.n_tile_patches = std::max(limits.n_tile_patches, n_patches);
      ++limits.n_tiles;
    }
  }
  return limits;
}

size_t tokens_of(std::span<const std::shared_ptr<Picture>> pictures) {
  size_t n = 0;
  for (const std::shared_ptr<Picture>& picture : pictures) n += picture->n_tokens();
  return n;
}

// The memory of a pass, except scratch.
struct PassMemory {
  std::span<float> patches;
  std::span<float> state;
  tensor::Matrix rows;

  PassMemory(tensor::Arena& arena, const arch::PictureEncoder& encoder,
             const arch::PictureLimits& limits, size_t n_tokens) {
    const size_t side = encoder.rule().patch_size;
    const auto array = [&](size_t n) { return std::span(arena.array<float>(n), n); };
    patches = array(limits.n_patches * 3 * side * side);
    state = array(encoder.state_floats(limits.n_patches, limits.n_tiles));
    rows = arena.matrix(n_tokens, encoder.row_floats());
  }
};

}  // namespace

PictureReader::PictureReader(const std::string& path, const arch::ModelInfo& text_model,
                             const kernels::KernelTable& kernels,
                             const PictureReaderOptions& options)
    : file_(vision::ProjectorFile::open(path)),
      kernels_(kernels),
      give_back_(std::make_shared<const GiveBack>(options.give_back)),
      packed_(kernels, options.pack_weights ? arch::max_packed_bytes(file()) : 0,
              [this](std::span<const std::byte> bytes) { file_.release(bytes); }),
      packed_cache_(options.packed_cache),
      encoder_(arch::load_picture_encoder(file(),
                                          {.packed = options.pack_weights ? &packed_ : nullptr})) {
  check_width(file(), encoder_->info(), text_model);
}

uint64_t PictureReader::weight_bytes() const {
  // An embedded projector's weights are counted with the text model's file. Packed weights do not
  // need their bytes in that file, so these bytes are subtracted here.
  const uint64_t n_bytes = file_bytes() + packed_.n_bytes() + encoder_->info().n_own_bytes;
  return n_bytes - std::min<uint64_t>(n_bytes, packed_.n_source_bytes());
}

void PictureReader::load_weights(cpu::ThreadTeam& team) {
  // The packed text model of the same file has another name in the cache.
  const std::string part = file_.is_embedded() ? " projector" : "";
  pack_weights(team, packed_, packed_cache_, file_.origin(), std::string(kernels_.name) + part);
}

bool PictureReader::find(Picture& picture) {
  if (picture.embeddings != nullptr) return true;
  const auto found = std::ranges::find(recent_, picture.digest, &Recent::digest);
  if (found == recent_.end()) return false;
  recent_.splice(recent_.begin(), recent_, found);
  picture.embeddings = found->embeddings;
  picture.patches = {};
  return true;
}

uint64_t PictureReader::embedding_bytes(const Picture& picture) const noexcept {
  return picture.n_tokens() * encoder_->row_floats() * sizeof(float);
}

uint64_t PictureReader::pass_bytes(std::span<const std::shared_ptr<Picture>> pictures,
                                   size_t n_threads) const {
  const arch::PictureLimits limits = limits_of(pictures, n_threads);
  tensor::Arena arena{tensor::Arena::Counting{}};
  const PassMemory memory(arena, *encoder_, limits, tokens_of(pictures));
  uint64_t bytes = arena.n_bytes() + encoder_->scratch_bytes(kernels_, limits);
  for (const std::shared_ptr<Picture>& picture : pictures) bytes += embedding_bytes(*picture);
  return bytes;
}

void PictureReader::begin(std::vector<std::shared_ptr<Picture>> pictures, size_t n_threads) {
  BILLOW_CHECK(!busy() && !pictures.empty());
  const arch::PictureLimits limits = limits_of(pictures, n_threads);
  granted_bytes_ = pass_bytes(pictures, n_threads);
  const PassMemory memory(arena_, *encoder_, limits, tokens_of(pictures));
  patches_ = memory.patches;
  state_ = memory.state;
  rows_ = memory.rows;
  stage_ = 0;
  size_t n_patches = 0;
  float* to = patches_.data();
  for (const std::shared_ptr<Picture>& picture : pictures) {
    for (vision::Tile tile : picture->tiles) {
      tile.first_patch = n_patches;
      n_patches += size_t{tile.rows} * tile.cols;
      tiles_.push_back(tile);
    }
    to = std::ranges::copy(picture->patches, to).out;
    picture->patches = {};
  }
  BILLOW_CHECK(to == patches_.data() + patches_.size());
  pictures_ = std::move(pictures);
}

bool PictureReader::run(cpu::ThreadTeam& team, std::chrono::steady_clock::time_point until) {
  const arch::PictureBatch batch = {.patches = patches_, .tiles = tiles_};
  do {
    const tensor::ArenaScope scope(arena_);
    encoder_->run_stage({kernels_, team, arena_}, batch, stage_, state_, rows_);
    ++stage_;
  } while (stage_ < encoder_->info().n_stages && std::chrono::steady_clock::now() < until);
  if (stage_ < encoder_->info().n_stages) return false;
  end();
  return true;
}

// Gives the pictures their embeddings and frees the memory of the pass.
void PictureReader::end() {
  const float* from = rows_.data;
  for (const std::shared_ptr<Picture>& picture : pictures_) {
    const size_t n = picture->n_tokens() * rows_.n_cols;
    const uint64_t bytes = n * sizeof(float);
    picture->embeddings = {
        new std::vector<float>(from, from + n),
        [give_back = std::weak_ptr(give_back_), bytes](const std::vector<float>* gone) {
          delete gone;
          if (const auto still_there = give_back.lock()) (*still_there)(bytes);
        }};
    granted_bytes_ -= bytes;
    from += n;
  }
  for (const std::shared_ptr<Picture>& picture : pictures_) keep(*picture);
  free_pass();
}

void PictureReader::cancel() {
  if (busy()) free_pass();
}

void PictureReader::free_pass() {
  pictures_.clear();
  tiles_.clear();
  arena_.trim();
  (*give_back_)(granted_bytes_);
  granted_bytes_ = 0;
}

// Keeps the embeddings for later pictures with the same digest.
void PictureReader::keep(const Picture& picture) {
  recent_.push_front({picture.digest, picture.embeddings});
  uint64_t n_bytes = 0;
  for (const Recent& recent : recent_) n_bytes += recent.n_bytes();
  while (n_bytes > kMaxRecentBytes) {
    n_bytes -= recent_.back().n_bytes();
    recent_.pop_back();
  }
}

bool PictureReader::drop_idle() {
  const auto last = std::ranges::find_if(recent_.rbegin(), recent_.rend(), &Recent::is_idle);
  if (last == recent_.rend()) return false;
  recent_.erase(std::next(last).base());
  return true;
}

uint64_t PictureReader::idle_bytes() const noexcept {
  uint64_t n_bytes = 0;
  for (const Recent& recent : recent_)
    if (recent.is_idle()) n_bytes += recent.n_bytes();
  return n_bytes;
}

size_t rows_of_batch(size_t wanted, const arch::ModelInfo& model, const PictureReader* pictures) {
  const size_t n = std::max<size_t>(1, wanted);
  if (!model.sees_whole_pictures || pictures == nullptr) return n;
  return std::max(n, vision::max_tile_tokens(pictures->encoder().rule()));
}

}  // namespace billow::engine
