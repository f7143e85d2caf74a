#include "convert/weights.h"

#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "quant/type.h"

namespace billow::convert {
namespace {

std::string bare_name(std::string_view name) {
  for (const std::string_view prefix : {"bert.", "roberta."}) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    break;
  }
  if (name.find(".act_fn.") != std::string_view::npos) return std::string(name);  // not a norm
  constexpr std::pair<std::string_view, std::string_view> kOldParts[] = {{".gamma", ".weight"},
                                                                         {".beta", ".bias"}};
  for (const auto& [old_part, part] : kOldParts) {
    if (!name.ends_with(old_part)) continue;
    return std::string(name.substr(0, name.size() - old_part.size())) + std::string(part);
  }
  return std::string(name);
}

std::vector<std::byte> header_of(const RegularFile& file, const std::string& name) {
  std::vector<std::byte> bytes(sizeof(uint64_t));
  bytes.resize(file.read_at(0, bytes));
  bytes.resize(header_end(bytes, file.size_bytes(), name));
  bytes.resize(file.read_at(0, bytes));
  return bytes;
}

}  // namespace

Weights::Weights(const Sources& sources) {
  for (const SourceFile& file : sources.weights()) {
    const RegularFile& opened = files_.emplace_back(file.path);
    for (SafeTensor& tensor :
         parse_safetensors(header_of(opened, file.name), opened.size_bytes(), file.name)) {
      std::string name = bare_name(tensor.name);
      const auto [at, is_new] = tensors_.try_emplace(std::move(name), Entry{});
      if (!is_new) {
        throw Error(ErrorCode::kInvalidInput,
                    file.name + ": tensor '" + tensor.name + "' appears twice");
      }
      at->second.tensor = std::move(tensor);
      file_of_.emplace(&at->second.tensor, files_.size() - 1);
    }
  }
}

const SafeTensor* Weights::take(std::string_view name) {
  const auto at = tensors_.find(name);
  if (at == tensors_.end()) return nullptr;
  at->second.taken = true;
  return &at->second.tensor;
}

const SafeTensor* Weights::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second.tensor;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : tensors_) all.push_back(name);
  return all;
}

const SafeTensor* Weights::put(const std::string& name, SafeTensor tensor, Reader reader) {
  if (auto node = tensors_.extract(name)) replaced_.push_back(std::move(node));
  Entry& entry = tensors_[name];
  entry.tensor = std::move(tensor);
  readers_.emplace(&entry.tensor, std::move(reader));
  return &entry.tensor;
}

std::vector<std::string> Weights::left() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : tensors_) {
    if (!entry.taken) names.push_back(name);
  }
  return names;
}

float Weights::number(const std::string& name) const {
  const SafeTensor* tensor = find(name);
  const quant::TypeRow* type = tensor == nullptr ? nullptr : quant::find_type(tensor->dtype);
  const bool is_known = tensor != nullptr && (tensor->dtype == "F32" || tensor->dtype == "F16" ||
                                              tensor->dtype == "BF16");
  if (!is_known || type == nullptr || tensor->n_bytes != quant::row_bytes(type->type, 1)) {
    throw Error(ErrorCode::kInvalidInput,
                "tensor '" + name + "' is " + (tensor == nullptr ? "missing" : "not one number"));
  }
  std::vector<std::byte> bytes(tensor->n_bytes);
  read(*tensor, 0, bytes);
  float value = 0;
  type->decode(bytes.data(), 1, &value);
  return value;
}

void Weights::read(const SafeTensor& tensor, uint64_t offset, std::span<std::byte> bytes) const {
  BILLOW_CHECK(offset <= tensor.n_bytes && bytes.size() <= tensor.n_bytes - offset);
  const auto reader = readers_.find(&tensor);
  if (reader != readers_.end()) return reader->second(offset, bytes);
  const auto at = file_of_.find(&tensor);
  BILLOW_CHECK(at != file_of_.end());
  if (files_[at->second].read_at(tensor.begin + offset, bytes) == bytes.size()) return;
  throw Error(ErrorCode::kIo,
              "tensor '" + tensor.name + "': its file became shorter while it was read");
}

}  // namespace billow::convert
