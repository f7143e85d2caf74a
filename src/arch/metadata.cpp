#include "arch/metadata.h"

#include <cmath>

#include "base/error.h"

namespace billow::arch {
namespace {

bool is_number(const gguf::Array& array) {
  return array.element_type != gguf::ValueType::kString &&
         array.element_type != gguf::ValueType::kArray;
}

}  // namespace

Metadata::Metadata(const gguf::File& file)
    : file_(&file), architecture_(file.require_string("general.architecture")) {}

void Metadata::refuse(std::string_view name, const std::string& why) const {
  throw Error(ErrorCode::kInvalidInput, file_->path() + ": key " + key(name) + " " + why);
}

size_t Metadata::size(std::string_view name, size_t max) const {
  const size_t value = per_layer(name, 1, max)[0];
  if (value == 0) refuse(name, "is 0, not within 1.." + std::to_string(max));
  return value;
}

size_t Metadata::size_or(std::string_view name, size_t fallback, size_t max) const {
  return has(name) ? size(name, max) : fallback;
}

size_t Metadata::count(std::string_view name, size_t max) const {
  return per_layer(name, 1, max, 0)[0];
}

double Metadata::real_or(std::string_view name, double fallback) const {
  const double value = file_->get_float(key(name)).value_or(fallback);
  if (!std::isfinite(value)) refuse(name, "is not a finite number");
  return value;
}

double Metadata::positive_or(std::string_view name, double fallback) const {
  const double value = real_or(name, fallback);
  if (!(value > 0.0)) refuse(name, "is not a positive number");
  return value;
}

double Metadata::positive(std::string_view name) const {
  file_->require_float(key(name));
  return positive_or(name, 0.0);
}

bool Metadata::flag_or(std::string_view name, bool fallback) const {
  return file_->get_bool(key(name)).value_or(fallback);
}

std::vector<size_t> Metadata::per_layer(std::string_view name, size_t n, size_t max,
                                        std::optional<size_t> fallback) const {
  const gguf::Value* value = file_->find(key(name));
  const auto checked = [&](int64_t number) {
    if (number < 0 || static_cast<uint64_t>(number) > max) {
      refuse(name, "is " + std::to_string(number) + ", not within 0.." + std::to_string(max));
    }
    return static_cast<size_t>(number);
  };
  if (value == nullptr && fallback) return std::vector<size_t>(n, *fallback);
  if (value == nullptr || value->type != gguf::ValueType::kArray) {
    const uint64_t number = file_->require_uint(key(name));
    if (number > max) {
      refuse(name, "is " + std::to_string(number) + ", not within 0.." + std::to_string(max));
    }
    return std::vector<size_t>(n, static_cast<size_t>(number));
  }
  const gguf::Array& array = *file_->get_array(key(name));
  if (!is_number(array) || array.n < n)
    refuse(name, "should be a number, or one for each of " + std::to_string(n) + " layers");
  std::vector<size_t> numbers;
  for (size_t i = 0; i < n; ++i) numbers.push_back(checked(array.integer(i)));
  return numbers;
}

std::vector<double> Metadata::reals_per_layer(const std::string& whole_key, size_t n) const {
  const gguf::Value* value = file_->find(whole_key);
  if (value == nullptr || value->type != gguf::ValueType::kArray)
    return std::vector<double>(n, file_->require_float(whole_key));
  const gguf::Array& array = *file_->get_array(whole_key);
  if (!is_number(array) || array.n < n) {
    throw Error(ErrorCode::kInvalidInput, file_->path() + ": key " + whole_key +
                                              " should be a number, or one for each layer");
  }
  std::vector<double> numbers;
  for (size_t i = 0; i < n; ++i) numbers.push_back(array.number(i));
  return numbers;
}

std::vector<bool> Metadata::flags(std::string_view name, size_t n) const {
  const gguf::Value* value = file_->find(key(name));
  if (value == nullptr || value->type != gguf::ValueType::kArray) return {};
  const gguf::Array& array = *file_->get_array(key(name));
  if (!is_number(array) || array.n < n) refuse(name, "should have a flag for each layer");
  std::vector<bool> flags;
  for (size_t i = 0; i < n; ++i) flags.push_back(array.integer(i) != 0);
  return flags;
}

}  // namespace billow::arch
