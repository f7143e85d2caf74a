// The tensors of all safetensors files of a model, found by name. Files are read, not mapped, so a
// file that another program truncates causes an Error. Names are those of the bare model: the
// prefix of a task's class ("bert.", "roberta.") is removed, and old names of norm parts are
// replaced by the new ones. After construction, only takes and puts change the object. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/regular_file.h"
#include "convert/safetensors.h"
#include "convert/sources.h"

namespace billow::convert {

class Weights {
 public:
  // Throws Error if a file cannot be read or if two files contain the same tensor.
  explicit Weights(const Sources& sources);

  // Marks the tensor as used and returns it. Returns null if there is no such tensor.
  const SafeTensor* take(std::string_view name);
  const SafeTensor* find(std::string_view name) const;
  std::vector<std::string> names() const;  // all, sorted
  // Produces the bytes of a computed tensor, from `offset` on.
  using Reader = std::function<void(uint64_t offset, std::span<std::byte> bytes)>;
  // Adds a tensor whose bytes `reader` makes, and returns it. A tensor that had this name counts as
  // used; earlier pointers to it remain readable.
  const SafeTensor* put(const std::string& name, SafeTensor tensor, Reader reader);
  // Returns the names of all unused tensors, sorted.
  std::vector<std::string> left() const;
  // Returns the number of a tensor that has exactly one. Throws Error if the tensor is missing or
  // has another size.
  float number(const std::string& name) const;
  // Fills `bytes` from byte `offset` of a tensor of this object. Throws Error if the file cannot be
  // read or has become shorter. Thread-safe.
  void read(const SafeTensor& tensor, uint64_t offset, std::span<std::byte> bytes) const;

 private:
  struct Entry {
    SafeTensor tensor;
    bool taken = false;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  std::vector<RegularFile> files_;
  Entries tensors_;
  std::vector<Entries::node_type> replaced_;
  std::unordered_map<const SafeTensor*, size_t> file_of_;  // elements of tensors_ stay in place
  std::unordered_map<const SafeTensor*, Reader> readers_;
};

}  // namespace billow::convert
