#include "arch/weights.h"

#include <string_view>

#include "arch/metadata.h"
#include "base/error.h"
#include "gguf/tensor_type.h"

namespace billow::arch {
namespace {

std::string shape_text(std::initializer_list<size_t> shape) {
  std::string text;
  for (const size_t n : shape) text += (text.empty() ? "[" : ", ") + std::to_string(n);
  return text + "]";
}

constexpr std::string_view kWeight = ".weight";

// Returns "X.scale" for "X.weight".
std::string scale_name(const std::string& weight) {
  return weight.substr(0, weight.size() - kWeight.size()) + ".scale";
}

bool is_shape(const gguf::TensorInfo& info, size_t n_cols, size_t n_rows, size_t n) {
  return info.shape[0] == n_cols && info.shape[1] == n_rows && info.shape[2] == n &&
         info.shape[3] == 1;
}

}  // namespace

const gguf::TensorInfo* WeightLoader::find(const std::string& name, Presence presence) const {
  const gguf::TensorInfo* info = file_.find_tensor(name);
  if (info == nullptr && presence == Presence::kRequired) {
    throw Error(ErrorCode::kInvalidInput,
                file_.path() + ": tensor " + name +
                    " is missing; the file is incomplete or of another architecture");
  }
  return info;
}

void WeightLoader::refuse_shape(const gguf::TensorInfo& info, const std::string& wanted) const {
  std::string found;
  for (uint32_t i = 0; i < info.n_dims; ++i)
    found += (i == 0 ? "" : ", ") + std::to_string(info.shape[i]);
  throw Error(ErrorCode::kInvalidInput, file_.path() + ": tensor " + info.name + " has shape [" +
                                            found + "], but the metadata asks for " + wanted);
}

void WeightLoader::refuse_scale(const std::string& name) const {
  throw Error(ErrorCode::kUnsupported,
              file_.path() + ": tensor " + name + " has a scale, which is not supported");
}

quant::Type WeightLoader::type_of(const gguf::TensorInfo& info) const {
  const quant::TypeRow* type = quant::find_type(info.type);
  if (type != nullptr) return type->type;
  throw Error(ErrorCode::kUnsupported, file_.path() + ": tensor " + info.name + " has the format " +
                                           gguf::tensor_type_name(info.type) +
                                           ", which is not supported");
}

// Returns null if there are no scales. Tensors with another number of elements mean something else
// (Gemma 4's router has one for each input).
const float* WeightLoader::scales_of(const std::string& name, size_t n) const {
  if (!name.ends_with(kWeight)) return nullptr;
  const std::string scale = scale_name(name);
  const gguf::TensorInfo* info = file_.find_tensor(scale);
  if (info == nullptr || info->n_elements() != n) return nullptr;
  const float* values = nullptr;
  vector(scale, values, n);
  return values;
}

void WeightLoader::plain_matrix(const std::string& name, tensor::Tensor& out, size_t n_cols,
                                size_t n_rows, Presence presence) const {
  const gguf::TensorInfo* info = find(name, presence);
  if (info == nullptr) return;
  if (!is_shape(*info, n_cols, n_rows, 1))
    refuse_shape(*info, n_rows == 1 ? shape_text({n_cols}) : shape_text({n_cols, n_rows}));
  out = {info->data.data(), type_of(*info), n_cols, n_rows, nullptr};
  if (const float* scale = scales_of(name, 1)) out.scale = *scale;
}

void WeightLoader::table(const std::string& name, tensor::Tensor& out, size_t n_cols,
                         size_t n_rows) const {
  plain_matrix(name, out, n_cols, n_rows);
  if (out.scale != 1.0f) refuse_scale(name);
}

void WeightLoader::matrix(const std::string& name, tensor::Tensor& out, size_t n_cols,
                          size_t n_rows, Presence presence) const {
  plain_matrix(name, out, n_cols, n_rows, presence);
  if (out) pack(out);
}

void WeightLoader::plain_matrices(const std::string& name, std::vector<tensor::Tensor>& out,
                                  size_t n_cols, size_t n_rows, size_t n, Presence presence) const {
  const gguf::TensorInfo* info = find(name, presence);
  if (info == nullptr) return;
  if (!is_shape(*info, n_cols, n_rows, n)) refuse_shape(*info, shape_text({n_cols, n_rows, n}));
  tensor::Tensor all = {info->data.data(), type_of(*info), n_cols, n_rows * n, nullptr};
  out.clear();
  const float* scales = scales_of(name, n);
  for (size_t i = 0; i < n; ++i) {
    out.push_back(rows_of(all, i * n_rows, n_rows));
    if (scales != nullptr) out.back().scale = scales[i];
  }
}

void WeightLoader::matrices(const std::string& name, std::vector<tensor::Tensor>& out,
                            size_t n_cols, size_t n_rows, size_t n, Presence presence) const {
  plain_matrices(name, out, n_cols, n_rows, n, presence);
  for (tensor::Tensor& matrix : out) pack(matrix, true);
}

void WeightLoader::pack(tensor::Tensor& matrix, bool is_expert) const {
  if (matrices_ != nullptr) matrices_->push_back(matrix);
  if (packed_ != nullptr) packed_->add(matrix, is_expert);
}

void WeightLoader::vector(const std::string& name, const float*& out, size_t n,
                          Presence presence) const {
  const gguf::TensorInfo* info = find(name, presence);
  if (info == nullptr) return;
  if (info->n_elements() != n) refuse_shape(*info, shape_text({n}));
  if (info->type != static_cast<uint32_t>(quant::Type::kF32)) {
    throw Error(ErrorCode::kUnsupported, file_.path() + ": tensor " + name + " has the format " +
                                             gguf::tensor_type_name(info->type) +
                                             "; norms and biases should be F32");
  }
  if (reinterpret_cast<uintptr_t>(info->data.data()) % alignof(float) != 0) {
    throw Error(ErrorCode::kUnsupported, file_.path() + ": tensor " + name +
                                             " is not aligned to 4 bytes; convert the file again");
  }
  if (name.ends_with(kWeight) && has(scale_name(name))) refuse_scale(name);
  out = reinterpret_cast<const float*>(info->data.data());
}

tensor::Tensor rows_of(const tensor::Tensor& whole, size_t begin, size_t n) {
  return {whole.row(begin), whole.type, whole.n_cols, n, nullptr, whole.scale};
}

size_t vocabulary_rows(const gguf::File& file) {
  const gguf::TensorInfo* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) {
    throw Error(ErrorCode::kInvalidInput,
                file.path() + ": tensor token_embd.weight is missing; the file holds no model");
  }
  if (embedding->shape[1] == 0 || embedding->shape[1] > kMaxWidth) {
    throw Error(ErrorCode::kInvalidInput, file.path() + ": tensor token_embd.weight has " +
                                              std::to_string(embedding->shape[1]) + " rows");
  }
  return embedding->shape[1];
}

}  // namespace billow::arch
