// The tensors of a model in all its safetensors files, found by name. Files are read and not
// mapped: one that another program shortens meanwhile is an Error. Names are those of the bare
// model: without the prefix of a task's class ("bert.", "roberta."), and with the old names of a
// norm's parts made new. Immutable after construction but for what was taken; one thread.
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
  // Throws Error for a file that cannot be read, and for one tensor in two files.
  explicit Weights(const Sources& sources);

  // Null where there is none; the tensor counts as used from now on.
  const SafeTensor* take(std::string_view name);
  const SafeTensor* find(std::string_view name) const;
  std::vector<std::string> names() const;  // all, sorted
  // Bytes of a tensor that is made of others, from `offset` on.
  using Reader = std::function<void(uint64_t offset, std::span<std::byte> bytes)>;
  // Puts a tensor under its name whose bytes `reader` makes, and returns it. What stood there can
  // still be read by who has it, and counts as used.
  const SafeTensor* put(const std::string& name, SafeTensor tensor, Reader reader);
  // Those that nobody took, sorted.
  std::vector<std::string> left() const;
  // The only number of a tensor that has one. Throws Error where it is missing or has others.
  float number(const std::string& name) const;
  // Fills `bytes` with those of a tensor of ours, from its byte `offset` on. Throws Error where the
  // file cannot be read or has become shorter. Any thread.
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
