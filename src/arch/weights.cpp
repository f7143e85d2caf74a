#include "arch/weights.h"

#include "base/error.h"
#include "gguf/tensor_type.h"

namespace billow::arch {
namespace {

std::string shape_text(size_t n_cols, size_t n_rows) {
  return "[" + std::to_string(n_cols) + (n_rows == 1 ? "" : ", " + std::to_string(n_rows)) + "]";
}

}  // namespace

const gguf::TensorInfo* WeightLoader::find(const std::string& name, size_t n_cols, size_t n_rows,
                                           Presence presence) const {
  const gguf::TensorInfo* info = file_.find_tensor(name);
  if (info == nullptr && presence == Presence::kRequired) {
    throw Error(ErrorCode::kInvalidInput,
                file_.path() + ": tensor " + name +
                    " is missing; the file is incomplete or of another architecture");
  }
  if (info != nullptr && (info->shape[0] != n_cols || info->shape[1] != n_rows ||
                          info->shape[2] * info->shape[3] != 1)) {
    std::string found;
    for (uint32_t i = 0; i < info->n_dims; ++i)
      found += (i == 0 ? "" : ", ") + std::to_string(info->shape[i]);
    throw Error(ErrorCode::kInvalidInput, file_.path() + ": tensor " + name + " has shape [" +
                                              found + "], but the metadata asks for " +
                                              shape_text(n_cols, n_rows));
  }
  return info;
}

void WeightLoader::plain_matrix(const std::string& name, tensor::Tensor& out, size_t n_cols,
                                size_t n_rows, Presence presence) const {
  const gguf::TensorInfo* info = find(name, n_cols, n_rows, presence);
  if (info == nullptr) return;
  const quant::TypeRow* type = quant::find_type(info->type);
  if (type == nullptr) {
    throw Error(ErrorCode::kUnsupported, file_.path() + ": tensor " + name + " has the format " +
                                             gguf::tensor_type_name(info->type) +
                                             ", which is not supported");
  }
  out = {info->data.data(), type->type, n_cols, n_rows, nullptr};
}

void WeightLoader::matrix(const std::string& name, tensor::Tensor& out, size_t n_cols,
                          size_t n_rows, Presence presence) const {
  plain_matrix(name, out, n_cols, n_rows, presence);
  if (out) pack(out);
}

void WeightLoader::pack(tensor::Tensor& matrix) const {
  if (packed_ != nullptr) packed_->add(matrix);
}

void WeightLoader::vector(const std::string& name, const float*& out, size_t n,
                          Presence presence) const {
  const gguf::TensorInfo* info = find(name, n, 1, presence);
  if (info == nullptr) return;
  if (info->type != static_cast<uint32_t>(quant::Type::kF32)) {
    throw Error(ErrorCode::kUnsupported, file_.path() + ": tensor " + name + " has the format " +
                                             gguf::tensor_type_name(info->type) +
                                             "; norms and biases should be F32");
  }
  if (reinterpret_cast<uintptr_t>(info->data.data()) % alignof(float) != 0) {
    throw Error(ErrorCode::kUnsupported, file_.path() + ": tensor " + name +
                                             " is not aligned to 4 bytes; convert the file again");
  }
  out = reinterpret_cast<const float*>(info->data.data());
}

}  // namespace billow::arch
