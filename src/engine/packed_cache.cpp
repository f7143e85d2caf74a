#include "engine/packed_cache.h"

#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/address_space.h"
#include "base/build_id.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "base/log.h"
#include "cpu/numa.h"

namespace billow::engine {
namespace {

// A file has these parts: the packed form from the first byte on, so that pages of the file can be
// mapped as memory; a checksum of each piece of the packed form; the key; the Trailer.
struct Trailer {
  std::array<char, 8> magic{};
  uint64_t n_bytes = 0;  // of the packed form
  uint64_t n_key = 0;    // bytes of the key
  uint64_t sum = 0;      // of the checksums, the key and the fields above
};
constexpr std::array<char, 8> kMagic = {'b', 'l', 'w', 'p', 'a', 'c', 'k', '1'};

constexpr size_t kPiece = AddressSpace::kHugePage;
constexpr uint64_t kMaxKey = uint64_t{16} << 20;
// Answers go first. With the lowest priority, a busy machine would take minutes to write the file.
constexpr int kWriterNice = 10;

constexpr size_t n_pieces_of(uint64_t n_bytes) { return (n_bytes + kPiece - 1) / kPiece; }

uint64_t sum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::span<const std::byte> piece_of(std::span<const std::byte> bytes, size_t i) {
  return bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece));
}

// The data after the packed form.
struct Footer {
  std::vector<uint64_t> sums;
  std::string key;

  std::vector<std::byte> bytes(uint64_t n_bytes) const {
    std::vector<std::byte> out;
    const auto append = [&](const void* data, size_t n) {
      const auto* begin = static_cast<const std::byte*>(data);
      out.insert(out.end(), begin, begin + n);
    };
    append(sums.data(), sums.size() * sizeof(uint64_t));
    append(key.data(), key.size());
    Trailer trailer = {.magic = kMagic, .n_bytes = n_bytes, .n_key = key.size()};
    append(&trailer, offsetof(Trailer, sum));
    trailer.sum = sum_of(out);
    append(&trailer.sum, sizeof trailer.sum);
    return out;
  }
};

// Returns nullopt if the file is incomplete or has another format.
std::optional<std::pair<uint64_t, Footer>> read_footer(const RegularFile& file) {
  Trailer trailer;
  if (file.size_bytes() < sizeof trailer) return std::nullopt;
  file.read_at(file.size_bytes() - sizeof trailer,
               std::as_writable_bytes(std::span(&trailer, size_t{1})));
  const uint64_t n_left = file.size_bytes() - sizeof trailer;
  if (trailer.magic != kMagic || trailer.n_bytes > n_left || trailer.n_key > kMaxKey)
    return std::nullopt;
  const size_t n_sums = n_pieces_of(trailer.n_bytes);
  if (n_left - trailer.n_bytes != n_sums * sizeof(uint64_t) + trailer.n_key) return std::nullopt;
  Footer footer = {std::vector<uint64_t>(n_sums), std::string(trailer.n_key, '\0')};
  file.read_at(trailer.n_bytes, std::as_writable_bytes(std::span(footer.sums)));
  file.read_at(trailer.n_bytes + n_sums * sizeof(uint64_t),
               std::as_writable_bytes(std::span(footer.key)));
  std::vector<std::byte> again = footer.bytes(trailer.n_bytes);
  uint64_t sum = 0;
  std::memcpy(&sum, again.data() + again.size() - sizeof sum, sizeof sum);
  if (sum != trailer.sum) return std::nullopt;
  return std::pair(trailer.n_bytes, std::move(footer));
}

// Returns whether the model of a file no longer exists. The first line of a key is the path of the
// model's file.
bool model_is_gone(const std::string& path) {
  try {
    const auto footer = read_footer(RegularFile(path));
    if (!footer) return true;
    const std::string& key = footer->second.key;
    return !std::filesystem::exists(key.substr(0, key.find('\n')));
  } catch (const std::exception&) {
    return false;  // the file cannot be read now
  }
}

}  // namespace

PackedCache::PackedCache(const PackedCacheOptions& options)
    : folder_(options.folder),
      min_bytes_(options.min_bytes),
      is_enabled_(folder_.is_enabled() && !build_id().empty() && !cpu::has_several_nodes()) {}

PackedCache::~PackedCache() = default;  // requests a stop of the thread and joins it

bool PackedCache::keeps(const gguf::File& model, const nn::PackedWeights& weights) const {
  return is_enabled_ && weights.n_bytes() != 0 && weights.n_bytes() >= min_bytes_ &&
         !model.versions().empty();
}

PackedCache::Key PackedCache::key_of(const gguf::File& model, std::string_view kernels,
                                     const nn::PackedWeights& weights) const {
  const std::string path = std::filesystem::absolute(model.path()).string();
  const std::string of_one_file = path + "\n" + std::string(kernels);
  return {cache_name(of_one_file) + ".packed",
          of_one_file + "\n" + build_id() + "\n" + model.versions() + weights.contents()};
}

std::unique_ptr<PackedCache::Found> PackedCache::find(const gguf::File& model,
                                                      std::string_view kernels,
                                                      nn::PackedWeights& weights) const {
  if (!keeps(model, weights)) return nullptr;
  const Key key = key_of(model, kernels, weights);
  std::optional<RegularFile> file = folder_.open(key.name);
  if (!file) return nullptr;
  try {
    std::optional<std::pair<uint64_t, Footer>> footer = read_footer(*file);
    if (!footer || footer->first != weights.n_bytes() || footer->second.key != key.text)
      return nullptr;
    if (!weights.show_file(file->fd())) return nullptr;
    std::vector<uint64_t> sums = std::move(footer->second.sums);
    if (folder_.is_checked(key.name, *file)) sums.clear();
    return std::unique_ptr<Found>(new Found(std::move(*file), weights.bytes(), std::move(sums)));
  } catch (const Error& error) {
    log::warn(std::string("the packed weights cannot be used: ") + error.what());
    return nullptr;
  }
}

void PackedCache::Found::check(const nn::PackedWeights::Progress& progress) {
  while (is_good()) {
    const size_t i = next_.fetch_add(1, std::memory_order_relaxed);
    if (i >= sums_.size()) return;
    const std::span<const std::byte> piece = piece_of(bytes_, i);
    if (sum_of(piece) != sums_[i]) is_good_.store(false, std::memory_order_relaxed);
    const size_t n = n_checked_.fetch_add(piece.size(), std::memory_order_relaxed) + piece.size();
    if (progress) progress(n);
  }
}

bool PackedCache::accept(Found& found, nn::PackedWeights& weights) const {
  const std::string name = std::filesystem::path(found.file_.path()).filename().string();
  if (!found.is_good()) {
    log::warn(found.file_.path() + " is damaged; the weights are packed again");
    folder_.remove(name);
    weights.hide_file();
    return false;
  }
  if (!found.sums_.empty()) folder_.set_checked(name, found.file_);
  return true;
}

void PackedCache::save(const gguf::File& model, std::string_view kernels,
                       const nn::PackedWeights& weights) {
  if (!keeps(model, weights)) return;
  writer_ = std::jthread([this, key = key_of(model, kernels, weights),
                          bytes = weights.bytes()](const std::stop_token& stop) {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kWriterNice);
    try {
      folder_.clean(model_is_gone);
      write(key, bytes, stop);
    } catch (const Error& error) {
      log::warn(std::string("the packed weights are not kept: ") + error.what());
    }
  });
}

void PackedCache::write(const Key& key, std::span<const std::byte> bytes,
                        const std::stop_token& stop) const {
  Footer footer = {.sums = {}, .key = key.text};
  const size_t n_footer =
      n_pieces_of(bytes.size()) * sizeof(uint64_t) + key.text.size() + sizeof(Trailer);
  std::string why;
  const std::unique_ptr<CacheFolder::Writer> writer =
      folder_.write(key.name, bytes.size() + n_footer, &why);
  if (!writer) return log::info("the packed weights are not kept: " + why);
  for (size_t i = 0; i < n_pieces_of(bytes.size()); ++i) {
    if (stop.stop_requested()) {
      return log::info(
          "the packed weights are not kept: the model was unloaded while they were written");
    }
    const std::span<const std::byte> piece = piece_of(bytes, i);
    writer->write(piece);
    footer.sums.push_back(sum_of(piece));
  }
  writer->write(footer.bytes(bytes.size()));
  writer->commit();
  log::debug("packed weights of " + format_byte_size(bytes.size()) + " are kept in " + key.name);
}

void PackedCache::wait() {
  if (writer_.joinable()) writer_.join();
}

}  // namespace billow::engine
