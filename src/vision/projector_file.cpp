#include "vision/projector_file.h"

#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "vision/embedded_projector.h"

namespace billow::vision {
namespace {

constexpr size_t kAlignment = 8;       // of tensors of the model's file: the least of GGUF
constexpr size_t kMadeAlignment = 64;  // of tensors that are made

size_t aligned(size_t n, size_t alignment) { return (n + alignment - 1) / alignment * alignment; }

// Appends the form that numbers and texts have in a GGUF file.
class Bytes {
 public:
  explicit Bytes(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  template <class Number>
  void add(Number number) {
    static_assert(std::is_integral_v<Number>);
    add(std::as_bytes(std::span(&number, 1)));
  }
  void add(const std::string& text) {
    add(uint64_t{text.size()});
    add(std::as_bytes(std::span(text)));
  }
  void add(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte>& bytes() noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// The head of a GGUF file is a sequence of: magic and version, the number of tensors, and so on.
constexpr size_t kTensorCountOffset = 8;

// Where the data of a tensor begins, in bytes from the beginning of the head.
struct Place {
  size_t offset = 0;
  size_t n_bytes = 0;
};

// Returns the head of a GGUF file with these tensors.
std::vector<std::byte> head_of(const EmbeddedProjector& projector, std::span<const Place> places,
                               size_t data_offset) {
  Bytes head(projector.keys.to_bytes());
  const uint64_t n_tensors = projector.tensors.size();
  std::memcpy(head.bytes().data() + kTensorCountOffset, &n_tensors, sizeof n_tensors);
  for (size_t i = 0; i < projector.tensors.size(); ++i) {
    const EmbeddedTensor& tensor = projector.tensors[i];
    head.add(tensor.name);
    head.add(static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t size : tensor.shape) head.add(size);
    head.add(tensor.type);
    head.add(uint64_t{places[i].offset - data_offset});
  }
  return std::move(head.bytes());
}

}  // namespace

ProjectorFile ProjectorFile::open(const std::string& path) {
  ProjectorFile result(gguf::File::open(path));
  const auto architecture = result.origin_.get_string("general.architecture");
  if (!has_embedded_projector(result.origin_) && architecture.value_or("clip") == "clip")
    return result;
  if (result.origin_.n_files() > 1)
    throw Error(ErrorCode::kUnsupported,
                path + ": a projector in a model of several files is not supported");
  EmbeddedProjector projector = embedded_projector(result.origin_);
  projector.keys.set_uint("general.alignment", kAlignment);
  // The length of the head does not depend on the places.
  std::vector<Place> places(projector.tensors.size());
  const size_t n_head = head_of(projector, places, 0).size();
  const size_t data_offset = aligned(n_head, kAlignment);
  size_t end = data_offset;
  for (size_t i = 0; i < places.size(); ++i) {
    const EmbeddedTensor& tensor = projector.tensors[i];
    if (!tensor.make) continue;
    places[i] = {aligned(end, kMadeAlignment), tensor.n_bytes()};
    end = places[i].offset + places[i].n_bytes;
  }
  const size_t file_offset = HeadedFile::file_offset(end);
  for (size_t i = 0; i < places.size(); ++i) {
    const EmbeddedTensor& tensor = projector.tensors[i];
    if (!tensor.make) places[i].offset = file_offset + tensor.source->offset;
  }
  HeadedFile& bytes = result.bytes_.emplace(end, path);
  const std::vector<std::byte> head = head_of(projector, places, data_offset);
  std::memcpy(bytes.head().data(), head.data(), head.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const EmbeddedTensor& tensor = projector.tensors[i];
    if (tensor.make) tensor.make(bytes.head().subspan(places[i].offset, places[i].n_bytes));
  }
  result.n_made_ = bytes.head().size();
  result.view_ = gguf::File::parse(bytes.bytes(), path);
  return result;
}

uint64_t ProjectorFile::n_own_bytes() const noexcept {
  return is_embedded() ? n_made_ : origin_.n_bytes();
}

void ProjectorFile::release(std::span<const std::byte> bytes) const noexcept {
  if (bytes_)
    bytes_->release(bytes);
  else
    origin_.release(bytes);
}

Rule rule_at(const std::string& path) {
  const gguf::File header = gguf::File::open_header(path, gguf::StringArrays::kSkipped);
  if (!has_embedded_projector(header)) return rule_of(header);
  const std::vector<std::byte> keys = embedded_projector(header).keys.to_bytes();
  return rule_of(gguf::File::parse(keys, path));
}

}  // namespace billow::vision
