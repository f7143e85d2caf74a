#include "store/split_files.h"

#include <algorithm>
#include <span>

namespace billow::store {
namespace {

constexpr std::string_view kSplitForm = "-#####-of-#####.gguf";

}  // namespace

bool is_part_of_split(std::string_view path) {
  if (path.size() < kSplitForm.size()) return false;
  return std::ranges::equal(
      path.substr(split_prefix(path).size()), kSplitForm,
      [](char c, char form) { return form == '#' ? c >= '0' && c <= '9' : c == form; });
}

std::string_view split_prefix(std::string_view path) {
  return path.substr(0, path.size() - kSplitForm.size());
}

gguf::Writer joined_split(const gguf::File& split) {
  gguf::Writer writer;
  for (const gguf::Entry& entry : split.metadata())
    if (!entry.key.starts_with("split.")) writer.set(entry.key, entry.value);
  for (const gguf::TensorInfo& tensor : split.tensors()) {
    writer.add_tensor(tensor.name, tensor.type, std::span(tensor.shape).first(tensor.n_dims),
                      [&](const gguf::Writer::Sink& sink) { split.read_tensor(tensor, sink); });
  }
  return writer;
}

}  // namespace billow::store
