// The tensors of a model in all its safetensors files, mapped and found by name. Names are those of
// the bare model: without the prefix of a task's class ("bert.", "roberta."), and with the old
// names of a norm's parts made new. Immutable after construction but for what was taken; one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
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
  // Those that nobody took, sorted.
  std::vector<std::string> left() const;
  // Gives the memory back that a tensor's bytes take up.
  void release(const SafeTensor& tensor) const noexcept;

 private:
  struct Entry {
    SafeTensor tensor;
    bool taken = false;
  };
  std::vector<MappedFile> files_;
  std::map<std::string, Entry, std::less<>> tensors_;
};

}  // namespace billow::convert
